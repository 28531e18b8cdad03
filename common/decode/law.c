#include "common/decode/law.h"

#include <assert.h>

#include "common/base/math.h"

typedef struct {
    double score;
    uint32_t token;
    uint32_t weight;
    double remainder; // of the exact share, lost in rounding down
} entry_t;

static bool is_better(double score, uint32_t token, const entry_t *than)
{
    return score > than->score || (score == than->score && token < than->token);
}

// The best tokens, best first.
static uint32_t take_best(const or_law_t *law, uint32_t entries, entry_t *best)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < law->count; i++) {
        uint32_t token = (uint32_t)law->ids[i];
        if (count == entries && !is_better(law->scores[i], token, &best[count - 1])) {
            continue;
        }
        uint32_t at = count < entries ? count++ : count - 1;
        for (; at > 0 && is_better(law->scores[i], token, &best[at - 1]); at--) {
            best[at] = best[at - 1];
        }
        best[at] = (entry_t){.score = law->scores[i], .token = token};
    }
    return count;
}

// Shares of OR_LAW_TOTAL, rounded down; what is left over goes to the largest remainders, one each.
static void apportion(entry_t *entries, uint32_t count)
{
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += or_exp(entries[i].score - entries[0].score);
    }
    uint32_t left = OR_LAW_TOTAL;
    for (uint32_t i = 0; i < count; i++) {
        double share = or_exp(entries[i].score - entries[0].score) / total * OR_LAW_TOTAL;
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

uint32_t or_law_reduce(const or_law_t *law, uint32_t entries, uint32_t *tokens, uint32_t *weights)
{
    assert(entries >= 1 && entries <= OR_LAW_ENTRIES_MAX && law->count >= 1);
    entry_t best[OR_LAW_ENTRIES_MAX];
    uint32_t count = take_best(law, entries, best);
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

or_status_t or_law_check(const or_reduced_law_t *law, uint32_t vocab_size)
{
    if (law->count == 0 || law->count > OR_LAW_ENTRIES_MAX) {
        return or_fail(OR_ERR_INVALID, "a law of %u tokens: between 1 and %u are possible",
                       law->count, OR_LAW_ENTRIES_MAX);
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < law->count; i++) {
        if (law->tokens[i] >= vocab_size) {
            return or_fail(OR_ERR_INVALID, "a law has token %u outside the vocabulary of %u",
                           law->tokens[i], vocab_size);
        }
        if (i > 0 && law->tokens[i] <= law->tokens[i - 1]) {
            return or_fail(OR_ERR_INVALID, "a law's tokens must ascend: %u follows %u",
                           law->tokens[i], law->tokens[i - 1]);
        }
        if (law->weights[i] == 0) {
            return or_fail(OR_ERR_INVALID, "a law gives token %u no weight", law->tokens[i]);
        }
        total += law->weights[i];
    }
    if (total != OR_LAW_TOTAL) {
        return or_fail(OR_ERR_INVALID, "a law's weights add up to %llu instead of %u",
                       (unsigned long long)total, OR_LAW_TOTAL);
    }
    return OR_OK;
}

uint32_t or_law_find(const or_reduced_law_t *law, uint32_t token)
{
    uint32_t low = 0;
    uint32_t high = law->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (law->tokens[middle] < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < law->count && law->tokens[low] == token ? low : law->count;
}

void or_law_left_init(or_law_left_t *left, const or_reduced_law_t *law)
{
    left->law = *law;
    left->total = 0;
    for (uint32_t i = 0; i < law->count; i++) {
        left->weights[i] = law->weights[i];
        left->total += law->weights[i];
    }
}

void or_law_left_remove(or_law_left_t *left, uint32_t index)
{
    left->total -= left->weights[index];
    left->weights[index] = 0;
}
