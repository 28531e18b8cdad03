#include "common/decode/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/math.h"

typedef struct {
    double score;
    int32_t id;
} candidate_t;

struct or_sampler {
    uint32_t vocab_size;
    double *logits;    // [vocab_size] with bias and penalties; what is not finite is -INFINITY
    uint32_t *seen;    // [vocab_size] times in the penalty window; all 0 between calls
    candidate_t *heap; // [vocab_size] best candidate on top
    int32_t *ids;      // [vocab_size] the law being made, and the one given out
    double *scores;
    double *weights;
    uint32_t count;
    bool sorted; // best first
};

or_sampling_t or_sampling_default(void)
{
    return (or_sampling_t){
        .temperature = 0.8f, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64};
}

static or_status_t check_bias(const or_sampling_t *sampling, uint32_t vocab_size)
{
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        const or_logit_bias_t *bias = &sampling->bias[i];
        if (bias->id < 0 || (uint32_t)bias->id >= vocab_size) {
            return or_fail(OR_ERR_INVALID, "logit bias for token %d: ids go from 0 to %u", bias->id,
                           vocab_size - 1);
        }
        if (isnan(bias->bias) || bias->bias == INFINITY) {
            return or_fail(OR_ERR_INVALID, "logit bias for token %d must be a number or -infinity",
                           bias->id);
        }
    }
    return OR_OK;
}

or_status_t or_sampling_check(const or_sampling_t *sampling, uint32_t vocab_size)
{
    if (!isfinite(sampling->temperature) || sampling->temperature < 0) {
        return or_fail(OR_ERR_INVALID, "temperature must be 0 or more");
    }
    if (!(sampling->top_p >= 0 && sampling->top_p <= 1)) {
        return or_fail(OR_ERR_INVALID, "top-p must be between 0 and 1");
    }
    if (!(sampling->min_p >= 0 && sampling->min_p <= 1)) {
        return or_fail(OR_ERR_INVALID, "min-p must be between 0 and 1");
    }
    if (!isfinite(sampling->repeat_penalty) || sampling->repeat_penalty <= 0) {
        return or_fail(OR_ERR_INVALID, "repeat penalty must be above 0 (1 is off)");
    }
    if (!isfinite(sampling->presence_penalty) || !isfinite(sampling->frequency_penalty)) {
        return or_fail(OR_ERR_INVALID, "presence and frequency penalty must be finite (0 is off)");
    }
    if (sampling->repeat_last_n < -1) {
        return or_fail(OR_ERR_INVALID,
                       "repeat-last-n must be -1 (everything), 0 (off) or a number of tokens");
    }
    return check_bias(sampling, vocab_size);
}

or_status_t or_sampler_create(uint32_t vocab_size, or_sampler_t **sampler_p)
{
    or_sampler_t *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a sampler");
    }
    sampler->vocab_size = vocab_size;
    sampler->logits = calloc(vocab_size, sizeof *sampler->logits);
    sampler->seen = calloc(vocab_size, sizeof *sampler->seen);
    sampler->heap = calloc(vocab_size, sizeof *sampler->heap);
    sampler->ids = calloc(vocab_size, sizeof *sampler->ids);
    sampler->scores = calloc(vocab_size, sizeof *sampler->scores);
    sampler->weights = calloc(vocab_size, sizeof *sampler->weights);
    if (sampler->logits == NULL || sampler->seen == NULL || sampler->heap == NULL ||
        sampler->ids == NULL || sampler->scores == NULL || sampler->weights == NULL) {
        or_sampler_destroy(&sampler);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a sampler of %u tokens", vocab_size);
    }
    *sampler_p = sampler;
    return OR_OK;
}

void or_sampler_destroy(or_sampler_t **sampler_p)
{
    or_sampler_t *sampler = *sampler_p;
    if (sampler == NULL) {
        return;
    }
    free(sampler->logits);
    free(sampler->seen);
    free(sampler->heap);
    free(sampler->ids);
    free(sampler->scores);
    free(sampler->weights);
    free(sampler);
    *sampler_p = NULL;
}

static bool in_vocabulary(const or_sampler_t *sampler, int32_t id)
{
    return id >= 0 && (uint32_t)id < sampler->vocab_size;
}

static void load_logits(or_sampler_t *sampler, const or_sampling_t *sampling, const float *logits)
{
    for (uint32_t i = 0; i < sampler->vocab_size; i++) {
        sampler->logits[i] = isfinite(logits[i]) ? (double)logits[i] : -INFINITY;
    }
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        if (in_vocabulary(sampler, sampling->bias[i].id)) {
            sampler->logits[sampling->bias[i].id] += (double)sampling->bias[i].bias;
        }
    }
}

static double penalised(const or_sampling_t *sampling, double logit, uint32_t times)
{
    double penalty = (double)sampling->repeat_penalty;
    logit = logit > 0 ? logit / penalty : logit * penalty;
    return logit - (double)sampling->presence_penalty -
           (double)times * (double)sampling->frequency_penalty;
}

static void apply_penalties(or_sampler_t *sampler, const or_sampling_t *sampling,
                            const int32_t *history, uint32_t history_count)
{
    bool active = sampling->repeat_penalty != 1 || sampling->presence_penalty != 0 ||
                  sampling->frequency_penalty != 0;
    if (!active) {
        return;
    }
    uint32_t first = 0;
    if (sampling->repeat_last_n >= 0 && (uint32_t)sampling->repeat_last_n < history_count) {
        first = history_count - (uint32_t)sampling->repeat_last_n;
    }
    for (uint32_t i = first; i < history_count; i++) {
        if (in_vocabulary(sampler, history[i])) {
            sampler->seen[history[i]]++;
        }
    }
    for (uint32_t i = first; i < history_count; i++) {
        int32_t id = history[i];
        if (in_vocabulary(sampler, id) && sampler->seen[id] > 0) {
            sampler->logits[id] = penalised(sampling, sampler->logits[id], sampler->seen[id]);
            sampler->seen[id] = 0; // once a token, and clean for the next call
        }
    }
}

// The law of one token.
static void keep_only(or_sampler_t *sampler, int32_t id)
{
    sampler->ids[0] = id;
    sampler->scores[0] = 0;
    sampler->count = 1;
}

static int32_t best_token(const or_sampler_t *sampler)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < sampler->vocab_size; i++) {
        if (sampler->logits[i] > sampler->logits[best]) {
            best = i;
        }
    }
    return (int32_t)best;
}

static void list_survivors(or_sampler_t *sampler, double temperature)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sampler->vocab_size; i++) {
        if (sampler->logits[i] > -INFINITY) {
            sampler->ids[count] = (int32_t)i;
            sampler->scores[count] = sampler->logits[i] / temperature;
            count++;
        }
    }
    sampler->count = count;
    sampler->sorted = false;
}

static bool better(const candidate_t *a, const candidate_t *b)
{
    return a->score > b->score || (a->score == b->score && a->id < b->id);
}

static void sift_down(candidate_t *heap, uint32_t count, uint32_t hole)
{
    candidate_t moved = heap[hole];
    for (uint32_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && better(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!better(&heap[child], &moved)) {
            break;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

static void build_heap(or_sampler_t *sampler)
{
    for (uint32_t i = 0; i < sampler->count; i++) {
        sampler->heap[i] = (candidate_t){sampler->scores[i], sampler->ids[i]};
    }
    for (uint32_t i = sampler->count / 2; i-- > 0;) {
        sift_down(sampler->heap, sampler->count, i);
    }
}

// Move the best of the heap's `left` candidates to place `rank` of the law.
static void pop_best(or_sampler_t *sampler, uint32_t left, uint32_t rank)
{
    sampler->ids[rank] = sampler->heap[0].id;
    sampler->scores[rank] = sampler->heap[0].score;
    sampler->heap[0] = sampler->heap[left - 1];
    sift_down(sampler->heap, left - 1, 0);
}

static void keep_top_k(or_sampler_t *sampler, uint32_t top_k)
{
    if (top_k == 0 || top_k >= sampler->count) {
        return;
    }
    build_heap(sampler);
    for (uint32_t rank = 0; rank < top_k; rank++) {
        pop_best(sampler, sampler->count - rank, rank);
    }
    sampler->count = top_k;
    sampler->sorted = true;
}

static double best_score(const or_sampler_t *sampler)
{
    double best = sampler->scores[0];
    for (uint32_t i = 1; i < sampler->count && !sampler->sorted; i++) {
        best = sampler->scores[i] > best ? sampler->scores[i] : best;
    }
    return best;
}

// Sorts no further than the mass asked for.
static void keep_top_p(or_sampler_t *sampler, double top_p)
{
    if (top_p >= 1) {
        return;
    }
    double best = best_score(sampler);
    double total = 0;
    for (uint32_t i = 0; i < sampler->count; i++) {
        total += or_exp(sampler->scores[i] - best);
    }
    if (!sampler->sorted) {
        build_heap(sampler);
    }
    double mass = 0;
    uint32_t kept = 0;
    do {
        if (!sampler->sorted) {
            pop_best(sampler, sampler->count - kept, kept);
        }
        mass += or_exp(sampler->scores[kept] - best);
        kept++;
    } while (kept < sampler->count && mass < top_p * total);
    sampler->count = kept;
    sampler->sorted = true;
}

static void keep_min_p(or_sampler_t *sampler, double min_p)
{
    if (min_p <= 0) {
        return;
    }
    double floor = best_score(sampler) + or_ln(min_p);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sampler->count; i++) {
        if (sampler->scores[i] >= floor) {
            sampler->ids[kept] = sampler->ids[i];
            sampler->scores[kept] = sampler->scores[i];
            kept++;
        }
    }
    sampler->count = kept;
}

or_law_t or_sampler_law(or_sampler_t *sampler, const or_sampling_t *sampling, const float *logits,
                        const int32_t *history, uint32_t history_count)
{
    load_logits(sampler, sampling, logits);
    apply_penalties(sampler, sampling, history, history_count);
    if (sampling->temperature == 0) {
        keep_only(sampler, best_token(sampler));
    } else {
        list_survivors(sampler, (double)sampling->temperature);
        if (sampler->count == 0) {
            keep_only(sampler, 0);
        }
        keep_top_k(sampler, sampling->top_k);
        keep_top_p(sampler, (double)sampling->top_p);
        keep_min_p(sampler, (double)sampling->min_p);
    }
    return (or_law_t){.ids = sampler->ids, .scores = sampler->scores, .count = sampler->count};
}

void or_sampler_weigh(or_sampler_t *sampler, or_law_t *law)
{
    double best = best_score(sampler);
    for (uint32_t i = 0; i < law->count; i++) {
        sampler->weights[i] = or_exp(law->scores[i] - best);
    }
    law->weights = sampler->weights;
}
