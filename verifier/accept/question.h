// question - a judgement of slrs that waits for the drafter: with what probabilities would its text
// have begun with the target's tokens?
//
//     NONE ── a guess is rejected ──▶ ASKED ── PsiReply ──▶ ANSWERED ── verdict ──▶ NONE
//               (PsiRequest)            └─── the round is given up ───▶ NONE
//
// The target's distribution at that node is kept, so that its pass need not be run again, whatever becomes of
// the pages meanwhile. One thread.
#pragma once

#include "common/decode/sampling/sampler.h"
#include "proto/wire/message.h"

typedef enum { OR_QUESTION_NONE, OR_QUESTION_ASKED, OR_QUESTION_ANSWERED } or_question_state_t;

typedef struct {
    or_question_state_t state;
    uint32_t node; // of the waiting tree; the guess after it was rejected
    uint32_t vocab_size;
    uint32_t count;  // tokens of the distribution
    int32_t *ids;    // [vocab_size] ascending
    double *weights; // [vocab_size]
    double *psi;     // [vocab_size] of each; scratch until the answer is here
} or_question_t;

// Room for a distribution of the whole vocabulary. OR_ERR_NO_MEMORY.
or_status_t or_question_init(or_question_t *question, uint32_t vocab_size);
// Safe on a zeroed one.
void or_question_fini(or_question_t *question);

// Keep the distribution at `node`, which has weights: the question is ASKED.
void or_question_ask(or_question_t *question, uint32_t node, const or_distribution_t *dist);
// The distribution that is kept; valid until the next question.
or_distribution_t or_question_distribution(const or_question_t *question);
// Its node and tokens; the rest is the caller's. Borrows.
or_psi_request_t or_question_request(const or_question_t *question);

// Take a peer's answer to what is ASKED: it is ANSWERED. `token` is the rejected guess, which travelled
// with `psi`. OR_ERR_INVALID, and still ASKED: not for this node, a token that was not asked for or out
// of order, no probabilities, or not what the guess travelled with.
or_status_t or_question_answer(or_question_t *question, const or_psi_reply_t *reply, uint32_t token,
                               double psi);
