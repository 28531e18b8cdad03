// session - one text at the verifier: the committed prefix, its KV cache, the tree that waits and the last verdict.
//
//     log     [ prompt ........ completion .... root ]
//     kv      [ <= length - 1 positions ]             the root's row runs with its tree
//     round   the last one judged; its verdict is kept and repeated, never recomputed
//
// It knows no peers and sends nothing; verifier.c does. One thread.
#pragma once

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/session/terms.h"
#include "proto/session/token_log.h"
#include "verifier/accept/accept.h"
#include "verifier/accept/question.h"
#include "verifier/pass/linger.h"
#include "verifier/pass/logprobs.h"

typedef struct or_judge or_judge_t;
#define OR_ROW_NONE UINT32_MAX // the row of a token that the target does not have

typedef struct {
    or_session_id_t id; // 0: this place is free
    or_terms_t terms;
    or_token_log_t log;
    or_kv_sequence_t *kv;
    or_noise_place_t place; // place where the next token begins; meaningful once the prompt is here
    int64_t used_ns;        // when a message about it came last
    uint64_t opened; // its number in the order in which sessions came: the lower one is older

    uint64_t round;       // last round judged, 0 before the first
    uint64_t tree_digest; // digest of that round's tree
    or_verdict_t verdict; // the verdict of that round; `accepted` points to accepted[]
    uint32_t accepted[OR_TREE_NODES_MAX];
    or_logprobs_t *logprobs; // log-probabilities of its tokens; NULL if they were not asked for
    or_linger_way_t way;     // from its verdict to its next tree
    uint32_t reused;         // positions taken from other texts since the last verdict

    bool
        parked; // its pages were taken for others; it is not cached again before a tree asks for it
    bool hungry;   // it did not take part in the last pass for want of pages
    uint64_t pass; // the last pass in which it had rows
    bool waiting;  // a tree is queued
    uint64_t waiting_round;
    uint64_t waiting_digest;
    or_token_tree_t *tree;  // the queued one
    uint32_t *row_of;       // the row of node i in a pass, counted from the root's; OR_ROW_NONE
    uint32_t tree_rows;     // rows of root and nodes
    uint32_t tree_depth;    // levels below the root
    or_draws_store_t draws; // how its nodes were drawn, if the rule uses that
    double *psi;            // slrs: the probabilities that its nodes travelled with
    or_question_t question; // slrs: the question that its judgement waits for
    int64_t model_ns, accept_ns; // time spent on its judgement so far
} or_vsession_t;

// Create what sessions share: the model, the vocabulary and scratch for one judgement at a time. Borrows model, vocab
// and clock. OR_ERR_NO_MEMORY; OR_ERR_IO (a GPU).
or_status_t or_judge_create(or_model_t *model, const or_vocab_t *vocab, const or_clock_t *clock,
                            uint32_t nodes_max, or_judge_t **judge_p);
void or_judge_destroy(or_judge_t **judge_p);

// Fill a free place. OR_ERR_UNSUPPORTED (constraint, rule), OR_ERR_INVALID (sampling), OR_ERR_FULL
// (or_model_sequences_max are open), OR_ERR_NO_MEMORY.
or_status_t or_vsession_open(or_vsession_t *session, or_judge_t *judge, or_session_id_t id,
                             const or_open_session_t *open);
// Free the place. Safe on a free one.
void or_vsession_close(or_vsession_t *session);

// Take committed tokens; the cache keeps the positions that stayed the same. A Prefix for a round already judged is
// ignored. OR_ERR_MISMATCH (the caller asks for all tokens from 0), OR_ERR_INVALID, OR_ERR_FULL (context).
or_status_t or_vsession_prefix(or_vsession_t *session, or_judge_t *judge,
                               const or_prefix_t *prefix);

typedef enum {
    OR_TREE_QUEUED,
    OR_TREE_REPEAT, // judged already: send session->verdict again
    OR_TREE_ASKS,   // its judgement waits for psi: send or_vsession_psi_request again
    OR_TREE_STALE,  // an older round, or this one again while it waits: nothing to do
} or_tree_fate_t;

// Queue a tree, in place of a waiting one of an earlier round. OR_ERR_MISMATCH: base length or hash are not ours (the
// caller asks for the prefix). OR_ERR_INVALID: malformed, too large, or a second, different tree for a round.
// OR_ERR_NO_MEMORY.
or_status_t or_vsession_tree(or_vsession_t *session, or_judge_t *judge,
                             const or_draft_tree_t *message, or_tree_fate_t *fate);

// The request that the judgement waits for, and its answer, after which or_vsession_judge goes on. An answer to
// another round or to no question is ignored. OR_ERR_INVALID as or_question_answer; the judgement still waits.
or_psi_request_t or_vsession_psi_request(const or_vsession_t *session);
or_status_t or_vsession_psi(or_vsession_t *session, const or_psi_reply_t *reply);

// Return the prefix positions to compute before a tree can be judged. The root's row runs with its tree.
uint32_t or_vsession_prefill_left(const or_vsession_t *session);
// Return true if the session has rows for a pass.
bool or_vsession_has_work(const or_vsession_t *session);
// Give pages up: keep the first `length` positions at most. Returns how many are kept.
uint32_t or_vsession_evict(or_vsession_t *session, uint32_t length);

// Write the prefix rows of a pass, count <= or_vsession_prefill_left; and the rows of root and tree
// (session->tree_rows), once no prefix is left to compute.
void or_vsession_put_prefix(const or_vsession_t *session, uint32_t count, or_model_row_t *rows);
void or_vsession_put_tree(const or_vsession_t *session, or_model_row_t *rows);

// Say what the judgement will ask of the tree's rows, after a pass in which these were `first_row` and on, and after
// or_judge_renew. It is optional; with it the rows of several sessions are asked for at once.
void or_vsession_put_contests(const or_vsession_t *session, or_judge_t *judge, uint32_t first_row);

// Judge the queued tree by its acceptance rule, after a pass in which its rows were `first_row` and on and which took
// model_ns; session->verdict is the answer. OR_ERR_AGAIN (slrs): the judgement waits for psi
// (or_vsession_psi_request) and goes on without another pass, whatever became of its pages meanwhile. Other errors are
// the model's.
or_status_t or_vsession_judge(or_vsession_t *session, or_judge_t *judge, uint32_t first_row,
                              int64_t model_ns);
// Go on with the judgement when psi is here. Errors as before.
or_status_t or_vsession_resume(or_vsession_t *session, or_judge_t *judge);

// Note that the model has run a pass of `rows` rows; return the time spent in the head so far.
void or_judge_renew(or_judge_t *judge, uint32_t rows);
int64_t or_judge_head_ns(const or_judge_t *judge);
