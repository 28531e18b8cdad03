// message_codec - what the parts of the codec share. For message_*.c only: generated types stay there.
//
// Put: plain structs to generated ones, which borrow every array and string; memory is taken for what protobuf-c
// wants as arrays of pointers. Get: the other way round, from a tree that lives in the message's arena; what the
// plain structs need beyond it is taken there, too, and nothing trusts a count or a length. Gets leave alone what
// is absent (the message is zero before). Both fail with OR_ERR_NO_MEMORY and OR_ERR_FORMAT only.
#pragma once

#include "outrider.pb-c.h"
#include "proto/wire/message.h"
#include "proto/wire/message_arena.h"

// The sub-messages a body may point to, and memory for more.
typedef struct {
    or_message_arena_t arena;
    Outrider__Sampling sampling;
    Outrider__GenerateStats stats;
    Outrider__DraftTree tree;
} or_message_scratch_t;

// ---- putting ----

or_status_t or_message_fail_memory(void);
// protobuf-c's structs have no const although packing only reads them.
ProtobufCBinaryData or_message_borrow_bytes(const uint8_t *bytes, uint32_t length);
// `count` generated structs, all but initialised, and the array of pointers to them that protobuf-c wants.
// NULL: no memory.
void *or_message_take_structs(or_message_scratch_t *scratch, uint32_t count, size_t bytes,
                              void ***pointers);

// ---- getting ----

or_status_t or_message_check_count(const char *what, size_t count);
or_status_t or_message_check_equal(const char *what, size_t a, size_t b);
// None, or as many as there should be.
or_status_t or_message_check_optional(const char *what, size_t count, size_t expected);
// Room for `count` (at least 1) of our structs. NULL after recording why the frame is refused: always
// OR_ERR_FORMAT.
void *or_message_take_array(or_message_arena_t *arena, const char *what, size_t count,
                            size_t bytes);

// ---- message_session.c ----

or_status_t or_message_put_sampling(const or_sampling_t *from, or_message_scratch_t *scratch);
or_status_t or_message_get_sampling(const Outrider__Sampling *from, or_message_arena_t *arena,
                                    or_sampling_t *to);
or_status_t or_message_put_open_session(const or_open_session_t *from, Outrider__OpenSession *to,
                                        or_message_scratch_t *scratch);
or_status_t or_message_get_open_session(const Outrider__OpenSession *from,
                                        or_message_arena_t *arena, or_open_session_t *to);
void or_message_put_prefix(const or_prefix_t *from, Outrider__Prefix *to);
or_status_t or_message_get_prefix(const Outrider__Prefix *from, or_prefix_t *to);
or_status_t or_message_put_vocab_map(const or_vocab_map_t *from, Outrider__VocabMap *to,
                                     or_message_scratch_t *scratch);
or_status_t or_message_get_vocab_map(const Outrider__VocabMap *from, or_vocab_map_t *to);
void or_message_put_vocabulary(const or_vocabulary_t *from, Outrider__Vocabulary *to);
void or_message_get_vocabulary(const Outrider__Vocabulary *from, or_vocabulary_t *to);

// ---- message_round.c ----

or_status_t or_message_put_draft_tree(const or_draft_tree_t *from, Outrider__DraftTree *to,
                                      or_message_scratch_t *scratch);
or_status_t or_message_get_draft_tree(const Outrider__DraftTree *from, or_message_arena_t *arena,
                                      or_draft_tree_t *to);
or_status_t or_message_put_logprobs(const or_token_logprob_t *from, uint32_t count,
                                    or_message_scratch_t *scratch, Outrider__TokenLogprob ***to,
                                    size_t *to_count);
or_status_t or_message_get_logprobs(Outrider__TokenLogprob *const *from, size_t count,
                                    or_message_arena_t *arena, const or_token_logprob_t **to,
                                    uint32_t *to_count);
or_status_t or_message_put_verdict(const or_verdict_t *from, Outrider__Verdict *to,
                                   or_message_scratch_t *scratch);
or_status_t or_message_get_verdict(const Outrider__Verdict *from, or_message_arena_t *arena,
                                   or_verdict_t *to);
void or_message_put_psi_request(const or_psi_request_t *from, Outrider__PsiRequest *to);
or_status_t or_message_get_psi_request(const Outrider__PsiRequest *from, or_psi_request_t *to);
void or_message_put_psi_reply(const or_psi_reply_t *from, Outrider__PsiReply *to);
or_status_t or_message_get_psi_reply(const Outrider__PsiReply *from, or_psi_reply_t *to);

// ---- message_generate.c ----

or_status_t or_message_put_generate_request(const or_generate_request_t *from,
                                            Outrider__GenerateRequest *to,
                                            or_message_scratch_t *scratch);
or_status_t or_message_get_generate_request(const Outrider__GenerateRequest *from,
                                            or_message_arena_t *arena, or_generate_request_t *to);
or_status_t or_message_put_generate_delta(const or_generate_delta_t *from,
                                          Outrider__GenerateDelta *to,
                                          or_message_scratch_t *scratch);
or_status_t or_message_get_generate_delta(const Outrider__GenerateDelta *from,
                                          or_message_arena_t *arena, or_generate_delta_t *to);
void or_message_put_resume(const or_resume_t *from, Outrider__Resume *to);
void or_message_get_resume(const Outrider__Resume *from, or_resume_t *to);

// ---- message_stats.c ----

or_status_t or_message_put_stats(const or_stats_t *from, Outrider__Stats *to,
                                 or_message_scratch_t *scratch);
or_status_t or_message_get_stats(const Outrider__Stats *from, or_message_arena_t *arena,
                                 or_stats_t *to);
