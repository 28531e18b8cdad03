// session - one text at the verifier: the committed prefix, its KV cache, the tree that waits and
// the last verdict.
//
//     log     [ prompt ........ completion .... root ]
//     kv      [ <= length - 1 positions ]             the root's row runs with its tree
//     round   the last one judged; its verdict is kept and repeated, never recomputed
//
// It knows no peers and sends nothing: verifier.c does. One thread.
#pragma once

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/wire/terms.h"
#include "proto/wire/token_log.h"
#include "verifier/accept/accept.h"
#include "verifier/accept/question.h"
#include "verifier/pass/logprobs.h"

typedef struct or_judge or_judge_t;
#define OR_ROW_NONE UINT32_MAX // a token that the target does not have

typedef struct {
    or_session_id_t id; // 0: this place is free
    or_terms_t terms;
    or_token_log_t log;
    or_kv_sequence_t *kv;
    or_noise_place_t place; // where the next token begins; meaningful once the prompt is here
    int64_t used_ns;        // last heard of
    uint64_t opened;        // order in which sessions came: who is older

    uint64_t round;       // last round judged, 0 before the first
    uint64_t tree_digest; // of that round's tree
    or_verdict_t verdict; // of that round; `accepted` points to accepted[]
    uint32_t accepted[OR_TREE_NODES_MAX];
    or_logprobs_t *logprobs; // of its tokens; NULL where they were not asked for
    uint32_t reused;         // positions taken from other texts since the last verdict

    bool parked;   // its pages were taken for others: not cached again before a tree asks for it
    bool hungry;   // the last pass went without it for want of pages
    uint64_t pass; // the last one that it had rows in
    bool waiting;  // a tree is queued
    uint64_t waiting_round;
    uint64_t waiting_digest;
    or_token_tree_t *tree;       // the queued one
    uint32_t *row_of;            // of node i in a pass, counted from the root's; OR_ROW_NONE
    uint32_t tree_rows;          // rows of root and nodes
    uint32_t tree_depth;         // levels below the root
    or_draws_store_t draws;      // how its nodes were drawn, where the rule wants to know
    double *psi;                 // slrs: what its nodes travelled with
    or_question_t question;      // slrs: what its judgement waits for
    int64_t model_ns, accept_ns; // what its judgement took so far
} or_vsession_t;

// Everything sessions share: the model, the vocabulary and scratch for one judgement at a time.
// Borrows model, vocab and clock. OR_ERR_NO_MEMORY; OR_ERR_IO (a GPU).
or_status_t or_judge_create(or_model_t *model, const or_vocab_t *vocab, const or_clock_t *clock,
                            uint32_t nodes_max, or_judge_t **judge_p);
void or_judge_destroy(or_judge_t **judge_p);

// Fill a free place. OR_ERR_UNSUPPORTED (constraint, rule), OR_ERR_INVALID (sampling),
// OR_ERR_NO_MEMORY.
or_status_t or_vsession_open(or_vsession_t *session, or_judge_t *judge, or_session_id_t id,
                             const or_open_session_t *open);
// Free the place. Safe on a free one.
void or_vsession_close(or_vsession_t *session);

// Take committed tokens; the cache keeps what stayed the same. A Prefix for a round already judged
// is old news and ignored. OR_ERR_MISMATCH (replay from 0, please), OR_ERR_INVALID, OR_ERR_FULL
// (context).
or_status_t or_vsession_prefix(or_vsession_t *session, or_judge_t *judge,
                               const or_prefix_t *prefix);

typedef enum {
    OR_TREE_QUEUED,
    OR_TREE_REPEAT, // judged already: send session->verdict again
    OR_TREE_ASKS,   // its judgement waits for psi: send or_vsession_psi_request again
    OR_TREE_STALE,  // an older round, or this one again while it waits: nothing to do
} or_tree_fate_t;

// Queue a tree; one of an earlier round that still waits is given up. OR_ERR_MISMATCH: base length or hash are not ours (ask for the prefix).
// OR_ERR_INVALID: malformed, too large, or a second, different tree for a round.
or_status_t or_vsession_tree(or_vsession_t *session, or_judge_t *judge,
                             const or_draft_tree_t *message, or_tree_fate_t *fate);

// What the judgement waits for: PsiRequest, and PsiReply, after which or_vsession_judge goes on. An
// answer to another round or to nothing is ignored. OR_ERR_INVALID: or_question_answer; it still waits.
or_psi_request_t or_vsession_psi_request(const or_vsession_t *session);
or_status_t or_vsession_psi(or_vsession_t *session, const or_psi_reply_t *reply);

// Prefix positions to compute before a tree can be judged; the root's row runs with its tree.
uint32_t or_vsession_prefill_left(const or_vsession_t *session);
// Is there anything to put into a pass?
bool or_vsession_has_work(const or_vsession_t *session);
// Its pages are wanted: keep the first `length` positions at most. Returns how many are kept.
uint32_t or_vsession_evict(or_vsession_t *session, uint32_t length);

// The prefix rows of a pass, count <= or_vsession_prefill_left; and those of root and tree
// (session->tree_rows), once nothing is left to compute.
void or_vsession_put_prefix(const or_vsession_t *session, uint32_t count, or_model_row_t *rows);
void or_vsession_put_tree(const or_vsession_t *session, or_model_row_t *rows);

// After a pass in which the queued tree's rows were `first_row` and on, and after or_judge_renew: what the judgement
// will ask of them. Not necessary; with it rows of several sessions are asked for at once.
void or_vsession_put_contests(const or_vsession_t *session, or_judge_t *judge, uint32_t first_row);

// The acceptance rule, after a pass in which the queued tree's rows were `first_row` and on and which
// took model_ns: session->verdict is the answer. OR_ERR_AGAIN (slrs): it waits for psi
// (or_vsession_psi_request), and goes on without another pass, whatever became of its pages meanwhile.
or_status_t or_vsession_judge(or_vsession_t *session, or_judge_t *judge, uint32_t first_row,
                              int64_t model_ns);
// The same where psi is here.
or_status_t or_vsession_resume(or_vsession_t *session, or_judge_t *judge);

// The model has run a pass of `rows` rows; time spent in the head so far.
void or_judge_renew(or_judge_t *judge, uint32_t rows);
int64_t or_judge_head_ns(const or_judge_t *judge);
