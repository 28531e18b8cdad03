// question - a judgement of slrs that waits for the drafter's probabilities that its text begins with the target's tokens.
//
//     NONE ── a guess is rejected ──▶ ASKED ── PsiReply ──▶ ANSWERED ── verdict ──▶ NONE
//               (PsiRequest)            └─── the round is given up ───▶ NONE
//
// The target's distribution at that node is kept, so that its pass need not run again, whatever becomes of the pages
// meanwhile. One thread.
#pragma once

#include "common/decode/sampling/sampler.h"
#include "proto/wire/message.h"

typedef enum { OR_QUESTION_NONE, OR_QUESTION_ASKED, OR_QUESTION_ANSWERED } or_question_state_t;

typedef struct {
    or_question_state_t state;
    uint32_t node; // the node of the waiting tree after which the guess was rejected
    uint32_t vocab_size;
    uint32_t count;  // number of tokens of the distribution
    int32_t *ids;    // [vocab_size] ascending
    double *weights; // [vocab_size]
    double *psi;     // [vocab_size] by token; scratch until the answer is here
} or_question_t;

// Allocate room for a distribution of the whole vocabulary. OR_ERR_NO_MEMORY.
or_status_t or_question_init(or_question_t *question, uint32_t vocab_size);
// Free it; it may be zeroed.
void or_question_fini(or_question_t *question);

// Keep the distribution at `node`, which has weights: the question is ASKED.
void or_question_ask(or_question_t *question, uint32_t node, const or_distribution_t *dist);
// Return the kept distribution, valid until the next question.
or_distribution_t or_question_distribution(const or_question_t *question);
// Return the question's node and tokens; the caller fills the rest. Borrows.
or_psi_request_t or_question_request(const or_question_t *question);

// Take a peer's answer to the question, which becomes ANSWERED. `token` is the rejected guess, which travelled with
// `psi`. OR_ERR_INVALID, and the question is still ASKED: the answer is not for this node, or has a token that was
// not asked for or is out of order. The same holds if it has no probabilities, or not the one that the guess
// travelled with.
or_status_t or_question_answer(or_question_t *question, const or_psi_reply_t *reply, uint32_t token,
                               double psi);
