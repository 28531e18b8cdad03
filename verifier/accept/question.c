#include "verifier/accept/question.h"

#include <stdlib.h>

#define SUM_SLACK 1e-9 // what rounding may add to a sum of probabilities

or_status_t or_question_init(or_question_t *question, uint32_t vocab_size)
{
    or_question_t fresh = {.vocab_size = vocab_size};
    fresh.ids = calloc(vocab_size, sizeof *fresh.ids);
    fresh.weights = calloc(vocab_size, sizeof *fresh.weights);
    fresh.psi = calloc(vocab_size, sizeof *fresh.psi);
    if (fresh.ids == NULL || fresh.weights == NULL || fresh.psi == NULL) {
        or_question_fini(&fresh);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to keep a distribution of %u tokens",
                       vocab_size);
    }
    *question = fresh;
    return OR_OK;
}

void or_question_fini(or_question_t *question)
{
    free(question->psi);
    free(question->weights);
    free(question->ids);
    *question = (or_question_t){0};
}

void or_question_ask(or_question_t *question, uint32_t node, const or_distribution_t *dist)
{
    double *by_id = question->psi; // weights, negative where the distribution has no such token
    for (uint32_t id = 0; id < question->vocab_size; id++) {
        by_id[id] = -1;
    }
    for (uint32_t i = 0; i < dist->count; i++) {
        by_id[dist->ids[i]] = dist->weights[i];
    }
    question->count = 0;
    for (uint32_t id = 0; id < question->vocab_size; id++) {
        if (by_id[id] >= 0) {
            question->ids[question->count] = (int32_t)id;
            question->weights[question->count++] = by_id[id];
        }
    }
    question->node = node;
    question->state = OR_QUESTION_ASKED;
}

or_distribution_t or_question_distribution(const or_question_t *question)
{
    return (or_distribution_t){
        .ids = question->ids, .weights = question->weights, .count = question->count};
}

or_psi_request_t or_question_request(const or_question_t *question)
{
    bool any = question->count == question->vocab_size;
    return (or_psi_request_t){.node = question->node,
                              .tokens = any ? NULL : (const uint32_t *)question->ids,
                              .count = any ? 0 : question->count};
}

static or_status_t check_probabilities(const or_psi_reply_t *reply)
{
    double sum = 0;
    for (uint32_t i = 0; i < reply->count; i++) {
        if (i > 0 && reply->tokens[i] <= reply->tokens[i - 1]) {
            return or_fail(OR_ERR_INVALID, "the tokens of psi must ascend: %u follows %u",
                           reply->tokens[i], reply->tokens[i - 1]);
        }
        if (!(reply->psi[i] >= 0 && reply->psi[i] <= 1)) {
            return or_fail(OR_ERR_INVALID, "psi of token %u is %g, which is no probability",
                           reply->tokens[i], reply->psi[i]);
        }
        sum += reply->psi[i];
    }
    if (sum > 1 + SUM_SLACK) {
        return or_fail(OR_ERR_INVALID, "psi adds up to %.12g", sum);
    }
    return OR_OK;
}

// psi of every token of the distribution: what the reply leaves out is 0.
static or_status_t spread(or_question_t *question, const or_psi_reply_t *reply)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < question->count; i++) {
        bool here = taken < reply->count && reply->tokens[taken] == (uint32_t)question->ids[i];
        question->psi[i] = here ? reply->psi[taken] : 0;
        taken += here;
    }
    if (taken < reply->count) {
        return or_fail(OR_ERR_INVALID, "psi of token %u was not asked for", reply->tokens[taken]);
    }
    return OR_OK;
}

static or_status_t check_guess(const or_question_t *question, uint32_t token, double psi)
{
    for (uint32_t i = 0; i < question->count; i++) {
        if ((uint32_t)question->ids[i] == token && question->psi[i] != psi) {
            return or_fail(OR_ERR_INVALID,
                           "psi of token %u is %.17g, but it was guessed with %.17g", token,
                           question->psi[i], psi);
        }
    }
    return OR_OK;
}

or_status_t or_question_answer(or_question_t *question, const or_psi_reply_t *reply, uint32_t token,
                               double psi)
{
    if (reply->node != question->node) {
        return or_fail(OR_ERR_INVALID, "psi at node %u, node %u was asked for", reply->node,
                       question->node);
    }
    or_status_t status = check_probabilities(reply);
    if (status == OR_OK) {
        status = spread(question, reply);
    }
    if (status == OR_OK) {
        status = check_guess(question, token, psi);
    }
    if (status == OR_OK) {
        question->state = OR_QUESTION_ANSWERED;
    }
    return status;
}
