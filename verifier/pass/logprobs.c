#include "verifier/pass/logprobs.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/math/lanes.h"
#include "common/base/math/math.h"

struct or_logprobs {
    uint32_t best, vocab_size;
    or_token_logprob_t *entries; // [tokens_max]
    uint32_t *top_tokens;        // [tokens_max][best]
    float *top_logprobs;         // the same
    double *wide, *weights;      // scratch, [vocab_size]
};

or_status_t or_logprobs_create(uint32_t tokens_max, uint32_t best, uint32_t vocab_size,
                               or_logprobs_t **logprobs_p)
{
    or_logprobs_t *logprobs = calloc(1, sizeof *logprobs);
    if (logprobs == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for log-probabilities");
    }
    size_t tops = (size_t)tokens_max * (best > 0 ? best : 1);
    *logprobs = (or_logprobs_t){.best = best < vocab_size ? best : vocab_size,
                                .vocab_size = vocab_size,
                                .entries = calloc(tokens_max, sizeof *logprobs->entries),
                                .top_tokens = calloc(tops, sizeof *logprobs->top_tokens),
                                .top_logprobs = calloc(tops, sizeof *logprobs->top_logprobs),
                                .wide = calloc(vocab_size, sizeof *logprobs->wide),
                                .weights = calloc(vocab_size, sizeof *logprobs->weights)};
    if (logprobs->entries == NULL || logprobs->top_tokens == NULL ||
        logprobs->top_logprobs == NULL || logprobs->wide == NULL || logprobs->weights == NULL) {
        or_logprobs_destroy(&logprobs);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for log-probabilities");
    }
    *logprobs_p = logprobs;
    return OR_OK;
}

void or_logprobs_destroy(or_logprobs_t **logprobs_p)
{
    or_logprobs_t *logprobs = *logprobs_p;
    if (logprobs != NULL) {
        free(logprobs->entries);
        free(logprobs->top_tokens);
        free(logprobs->top_logprobs);
        free(logprobs->wide);
        free(logprobs->weights);
        free(logprobs);
        *logprobs_p = NULL;
    }
}

// Return the log of the sum of exp(wide[i]).
static double log_sum(or_logprobs_t *logprobs)
{
    const or_lanes_t *lanes = or_lanes();
    double largest = lanes->largest(logprobs->wide, logprobs->vocab_size);
    if (largest == -INFINITY) {
        return 0; // nothing is possible
    }
    lanes->exp_from(logprobs->wide, logprobs->vocab_size, largest, logprobs->weights);
    double sum = 0;
    for (uint32_t i = 0; i < logprobs->vocab_size; i++) {
        sum += logprobs->weights[i];
    }
    return largest + or_ln(sum);
}

// Find the best tokens, best first: each token is put in its place among the few that are kept.
static uint32_t find_best(const or_logprobs_t *logprobs, uint32_t *tokens)
{
    uint32_t count = 0;
    for (uint32_t id = 0; logprobs->best > 0 && id < logprobs->vocab_size; id++) {
        double value = logprobs->wide[id];
        if (count == logprobs->best && !(value > logprobs->wide[tokens[count - 1]])) {
            continue;
        }
        uint32_t place = count < logprobs->best ? count++ : count - 1;
        for (; place > 0 && value > logprobs->wide[tokens[place - 1]]; place--) {
            tokens[place] = tokens[place - 1];
        }
        tokens[place] = id;
    }
    return count;
}

void or_logprobs_set(or_logprobs_t *logprobs, uint32_t index, uint32_t token, const float *logits)
{
    uint32_t *tokens = logprobs->top_tokens + (size_t)index * logprobs->best;
    float *values = logprobs->top_logprobs + (size_t)index * logprobs->best;
    or_lanes()->widen(logits, logprobs->vocab_size, logprobs->wide);
    double origin = log_sum(logprobs);
    uint32_t count = find_best(logprobs, tokens);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = (float)(logprobs->wide[tokens[i]] - origin);
    }
    logprobs->entries[index] =
        (or_token_logprob_t){.token = token,
                             .logprob = (float)(logprobs->wide[token] - origin),
                             .top_tokens = tokens,
                             .top_logprobs = values,
                             .top_count = count};
}

const or_token_logprob_t *or_logprobs_entries(const or_logprobs_t *logprobs)
{
    return logprobs->entries;
}
