#include "common/decode/sampling/distribution.h"

#include <assert.h>

#include "common/base/math/math.h"

typedef struct {
    double score;
    uint32_t token;
    uint32_t weight;
    double remainder; // the part of the exact share that was lost in rounding down
} entry_t;

static bool is_better(double score, uint32_t token, const entry_t *than)
{
    return score > than->score || (score == than->score && token < than->token);
}

// Take the best tokens, best first.
static uint32_t take_best(const or_distribution_t *dist, uint32_t entries, entry_t *best)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dist->count; i++) {
        uint32_t token = (uint32_t)dist->ids[i];
        if (count == entries && !is_better(dist->scores[i], token, &best[count - 1])) {
            continue;
        }
        uint32_t at = count < entries ? count++ : count - 1;
        for (; at > 0 && is_better(dist->scores[i], token, &best[at - 1]); at--) {
            best[at] = best[at - 1];
        }
        best[at] = (entry_t){.score = dist->scores[i], .token = token};
    }
    return count;
}

// Compute the shares of OR_DISTRIBUTION_TOTAL, rounded down. The units left over go to the largest
// remainders, one each.
static void apportion(entry_t *entries, uint32_t count)
{
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += or_exp(entries[i].score - entries[0].score);
    }
    uint32_t left = OR_DISTRIBUTION_TOTAL;
    for (uint32_t i = 0; i < count; i++) {
        double share = or_exp(entries[i].score - entries[0].score) / total * OR_DISTRIBUTION_TOTAL;
        entries[i].weight = share < left ? (uint32_t)share : left; // rounding could pass the total
        entries[i].remainder = share - entries[i].weight;
        left -= entries[i].weight;
    }
    for (; left > 0; left--) {
        entry_t *largest = &entries[0];
        for (uint32_t i = 1; i < count; i++) {
            largest = entries[i].remainder > largest->remainder ? &entries[i] : largest;
        }
        largest->weight++;
        largest->remainder -= 1;
    }
}

static void sort_by_token(entry_t *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        entry_t moved = entries[i];
        uint32_t at = i;
        for (; at > 0 && entries[at - 1].token > moved.token; at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = moved;
    }
}

uint32_t or_distribution_reduce(const or_distribution_t *dist, uint32_t entries, uint32_t *tokens,
                                uint32_t *weights)
{
    assert(entries >= 1 && entries <= OR_DISTRIBUTION_ENTRIES_MAX && dist->count >= 1);
    entry_t best[OR_DISTRIBUTION_ENTRIES_MAX];
    uint32_t count = take_best(dist, entries, best);
    uint32_t kept = 0;
    apportion(best, count);
    sort_by_token(best, count);
    for (uint32_t i = 0; i < count; i++) {
        if (best[i].weight > 0) {
            tokens[kept] = best[i].token;
            weights[kept] = best[i].weight;
            kept++;
        }
    }
    return kept;
}

or_status_t or_distribution_check(const or_reduced_distribution_t *dist, uint32_t vocab_size)
{
    if (dist->count == 0 || dist->count > OR_DISTRIBUTION_ENTRIES_MAX) {
        return or_fail(OR_ERR_INVALID, "a distribution of %u tokens: between 1 and %u are possible",
                       dist->count, OR_DISTRIBUTION_ENTRIES_MAX);
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < dist->count; i++) {
        if (dist->tokens[i] >= vocab_size) {
            return or_fail(OR_ERR_INVALID,
                           "a distribution has token %u outside the vocabulary of %u",
                           dist->tokens[i], vocab_size);
        }
        if (i > 0 && dist->tokens[i] <= dist->tokens[i - 1]) {
            return or_fail(OR_ERR_INVALID, "a distribution's tokens must ascend: %u follows %u",
                           dist->tokens[i], dist->tokens[i - 1]);
        }
        if (dist->weights[i] == 0) {
            return or_fail(OR_ERR_INVALID, "a distribution gives token %u no weight",
                           dist->tokens[i]);
        }
        total += dist->weights[i];
    }
    if (total != OR_DISTRIBUTION_TOTAL) {
        return or_fail(OR_ERR_INVALID, "a distribution's weights add up to %llu instead of %u",
                       (unsigned long long)total, OR_DISTRIBUTION_TOTAL);
    }
    return OR_OK;
}

uint32_t or_distribution_find(const or_reduced_distribution_t *dist, uint32_t token)
{
    uint32_t low = 0;
    uint32_t high = dist->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (dist->tokens[middle] < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < dist->count && dist->tokens[low] == token ? low : dist->count;
}

void or_distribution_left_init(or_distribution_left_t *left, const or_reduced_distribution_t *dist)
{
    left->dist = *dist;
    left->total = 0;
    for (uint32_t i = 0; i < dist->count; i++) {
        left->weights[i] = dist->weights[i];
        left->total += dist->weights[i];
    }
}

void or_distribution_left_remove(or_distribution_left_t *left, uint32_t index)
{
    left->total -= left->weights[index];
    left->weights[index] = 0;
}
