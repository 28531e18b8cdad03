#include "common/decode/sampling/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/math/lanes.h"
#include "common/base/math/math.h"
#include "common/base/math/sums.h"
#include "common/base/parts.h"
#include "common/decode/sampling/ranking.h"

#define TOP_P_WANTED 64u // tokens that top-p is expected to keep

struct or_sampler {
    uint32_t vocab_size;
    uint32_t *seen; // [vocab_size] times in the penalty window; all 0 between calls
    or_ranking_t *ranking;
    int32_t *ids;        // [vocab_size] what is listed, ids ascending
    double *scores;      // [vocab_size] logits at first; in place
    double *weights;     // [vocab_size]
    int32_t *ranked_ids; // [vocab_size] what a filter kept, best first
    double *ranked_scores;
    or_distribution_t dist; // the distribution being made, and the one given out
    bool sorted;            // it is the ranked one
};

or_sampling_t or_sampling_default(void)
{
    return (or_sampling_t){
        .temperature = 0.8f, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64};
}

static or_status_t check_bias(const or_sampling_t *sampling, uint32_t vocab_size)
{
    if (sampling->bias_count > OR_BIASES_MAX) {
        return or_fail(OR_ERR_INVALID, "%u logit biases are over %u", sampling->bias_count,
                       OR_BIASES_MAX);
    }
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

bool or_sampling_is_plain(const or_sampling_t *sampling)
{
    bool neutral = sampling->repeat_penalty == 1 && sampling->presence_penalty == 0 &&
                   sampling->frequency_penalty == 0;
    return sampling->bias_count == 0 && (neutral || sampling->repeat_last_n == 0);
}

static bool each_array(or_sampler_t *sampler, or_parts_t *each)
{
    const size_t size = sampler->vocab_size;
    const or_part_t parts[] = {
        OR_PART(sampler->seen, size),       OR_PART(sampler->ids, size),
        OR_PART(sampler->scores, size),     OR_PART(sampler->weights, size),
        OR_PART(sampler->ranked_ids, size), OR_PART(sampler->ranked_scores, size),
    };
    return each(parts, sizeof parts / sizeof *parts);
}

or_status_t or_sampler_create(uint32_t vocab_size, or_sampler_t **sampler_p)
{
    or_sampler_t *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a sampler");
    }
    sampler->vocab_size = vocab_size;
    if (!each_array(sampler, or_parts_take) ||
        or_ranking_create(vocab_size, &sampler->ranking) != OR_OK) {
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
    or_ranking_destroy(&sampler->ranking);
    each_array(sampler, or_parts_free);
    free(sampler);
    *sampler_p = NULL;
}

static bool in_vocabulary(const or_sampler_t *sampler, int32_t id)
{
    return id >= 0 && (uint32_t)id < sampler->vocab_size;
}

static void load_logits(or_sampler_t *sampler, const or_sampling_t *sampling, const float *logits)
{
    or_lanes()->widen(logits, sampler->vocab_size, sampler->scores);
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        if (in_vocabulary(sampler, sampling->bias[i].id)) {
            sampler->scores[sampling->bias[i].id] += (double)sampling->bias[i].bias;
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
            sampler->scores[id] = penalised(sampling, sampler->scores[id], sampler->seen[id]);
            sampler->seen[id] = 0; // once a token, and clean for the next call
        }
    }
}

// Make the distribution of one token.
static void keep_only(or_sampler_t *sampler, int32_t id)
{
    sampler->ids[0] = id;
    sampler->scores[0] = 0;
    sampler->dist.count = 1;
}

static int32_t best_token(const or_sampler_t *sampler)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < sampler->vocab_size; i++) {
        if (sampler->scores[i] > sampler->scores[best]) {
            best = i;
        }
    }
    return (int32_t)best;
}

static double best_score(const or_sampler_t *sampler)
{
    const or_distribution_t *dist = &sampler->dist;
    return sampler->sorted ? dist->scores[0] : or_lanes()->largest(dist->scores, dist->count);
}

// Prepare to move the distribution's tokens to the ranked ones, best first.
static void open_ranking(or_sampler_t *sampler, uint32_t wanted)
{
    const or_distribution_t *dist = &sampler->dist;
    or_ranking_open(sampler->ranking, dist->scores, dist->count, best_score(sampler), wanted);
}

// Move the next best token to place `rank`; returns where it was.
static uint32_t rank_next(or_sampler_t *sampler, uint32_t rank)
{
    uint32_t at = or_ranking_next(sampler->ranking);
    sampler->ranked_ids[rank] = sampler->dist.ids[at];
    sampler->ranked_scores[rank] = sampler->dist.scores[at];
    return at;
}

static void use_ranked(or_sampler_t *sampler, uint32_t count)
{
    sampler->dist = (or_distribution_t){
        .ids = sampler->ranked_ids, .scores = sampler->ranked_scores, .count = count};
    sampler->sorted = true;
}

static void keep_top_k(or_sampler_t *sampler, uint32_t top_k)
{
    if (top_k == 0 || top_k >= sampler->dist.count) {
        return;
    }
    open_ranking(sampler, top_k);
    for (uint32_t rank = 0; rank < top_k; rank++) {
        rank_next(sampler, rank);
    }
    use_ranked(sampler, top_k);
}

// Sorts no further than the mass asked for. kernels/cuda/sampling/filters.cu adds up the same weights in the same order.
static void keep_top_p(or_sampler_t *sampler, double top_p)
{
    if (top_p >= 1) {
        return;
    }
    uint32_t count = sampler->dist.count;
    or_sampler_weigh(sampler, &sampler->dist);
    double total = or_sum_of_blocks(sampler->weights, count);
    if (!sampler->sorted) {
        open_ranking(sampler, TOP_P_WANTED);
    }
    double mass = 0;
    uint32_t kept = 0;
    do {
        mass += sampler->weights[sampler->sorted ? kept : rank_next(sampler, kept)];
        kept++;
    } while (kept < count && mass < top_p * total);
    use_ranked(sampler, kept);
}

static void keep_min_p(or_sampler_t *sampler, double min_p)
{
    if (min_p <= 0) {
        return;
    }
    double floor = best_score(sampler) + or_ln(min_p);
    int32_t *ids = sampler->sorted ? sampler->ranked_ids : sampler->ids;
    double *scores = sampler->sorted ? sampler->ranked_scores : sampler->scores;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sampler->dist.count; i++) {
        if (scores[i] >= floor) {
            ids[kept] = ids[i];
            scores[kept] = scores[i];
            kept++;
        }
    }
    sampler->dist.count = kept;
}

or_distribution_t or_sampler_distribution(or_sampler_t *sampler, const or_sampling_t *sampling,
                                          const float *logits, const int32_t *history,
                                          uint32_t history_count)
{
    sampler->dist = (or_distribution_t){.ids = sampler->ids, .scores = sampler->scores};
    sampler->sorted = false;
    load_logits(sampler, sampling, logits);
    apply_penalties(sampler, sampling, history, history_count);
    if (sampling->temperature == 0) {
        keep_only(sampler, best_token(sampler));
    } else {
        sampler->dist.count = or_lanes()->divide(sampler->scores, sampler->vocab_size,
                                                 (double)sampling->temperature, sampler->ids);
        if (sampler->dist.count == 0) {
            keep_only(sampler, 0);
        }
        keep_top_k(sampler, sampling->top_k);
        keep_top_p(sampler, (double)sampling->top_p);
        keep_min_p(sampler, (double)sampling->min_p);
    }
    sampler->dist.weights = NULL;
    return sampler->dist;
}

void or_sampler_weigh(or_sampler_t *sampler, or_distribution_t *dist)
{
    or_lanes()->exp_from(dist->scores, dist->count, best_score(sampler), sampler->weights);
    dist->weights = sampler->weights;
}
