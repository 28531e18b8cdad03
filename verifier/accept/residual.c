#include "verifier/accept/residual.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/sums.h"
#include "common/base/parts.h"

#define BLOCK OR_SUM_BLOCK // tokens of q that share a sum

// A token that some distribution had.
typedef struct {
    uint32_t id;
    double weight;
    double original; // in q, where the factor was 1
} touched_t;

// `row` and `place` say where an id may be; the id found there says whether it is. This is a sparse set (Briggs and
// Torczon 1993), so nothing need be cleared.
struct or_residual {
    uint32_t vocab_size;
    int32_t *ids; // [vocab_size] q's tokens, a row each
    uint32_t count;
    double *untouched;  // [vocab_size] q's weights by row, without the factor; 0 for touched tokens
    double *sums;       // [vocab_size / BLOCK + 1] of blocks of rows
    uint32_t *row;      // [vocab_size] of an id
    uint32_t *place;    // [vocab_size] of an id in `touched`
    touched_t *touched; // [vocab_size]
    double *list;       // [vocab_size + vocab_size / BLOCK + 1] weights to draw from
    uint32_t touched_count;
    double untouched_sum; // without the factor
    double factor;
    double total; // |m|
};

static bool each_array(or_residual_t *residual, or_parts_t *each)
{
    const size_t size = residual->vocab_size;
    const or_part_t parts[] = {
        OR_PART(residual->ids, size),
        OR_PART(residual->untouched, size),
        OR_PART(residual->sums, size / BLOCK + 1),
        OR_PART(residual->row, size),
        OR_PART(residual->place, size),
        OR_PART(residual->touched, size),
        OR_PART(residual->list, size + size / BLOCK + 1),
    };
    return each(parts, sizeof parts / sizeof *parts);
}

or_status_t or_residual_create(uint32_t vocab_size, or_residual_t **residual_p)
{
    or_residual_t *residual = calloc(1, sizeof *residual);
    if (residual == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for residual distributions");
    }
    residual->vocab_size = vocab_size;
    if (!each_array(residual, or_parts_take)) {
        or_residual_destroy(&residual);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for residual distributions of %u tokens",
                       vocab_size);
    }
    *residual_p = residual;
    return OR_OK;
}

void or_residual_destroy(or_residual_t **residual_p)
{
    or_residual_t *residual = *residual_p;
    if (residual == NULL) {
        return;
    }
    each_array(residual, or_parts_free);
    free(residual);
    *residual_p = NULL;
}

static uint32_t blocks(const or_residual_t *residual)
{
    return (residual->count + BLOCK - 1) / BLOCK;
}

static uint32_t block_size(const or_residual_t *residual, uint32_t block)
{
    return or_sum_block_size(residual->count, block);
}

static void sum_block(or_residual_t *residual, uint32_t block)
{
    residual->sums[block] =
        or_sum(residual->untouched + (size_t)block * BLOCK, block_size(residual, block));
}

static void sum_untouched(or_residual_t *residual)
{
    residual->untouched_sum = or_sum(residual->sums, blocks(residual));
}

// Sum |m|, and scale everything by a power of two so that it lies in [1/2, 1).
static void sum_and_scale(or_residual_t *residual)
{
    int exponent;
    residual->total = residual->untouched_sum * residual->factor;
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        residual->total += residual->touched[i].weight;
    }
    residual->total = frexp(residual->total, &exponent);
    double scale = ldexp(1, -exponent);
    residual->factor *= scale;
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        residual->touched[i].weight *= scale;
    }
}

static void sum_blocks(or_residual_t *residual)
{
    for (uint32_t block = 0; block < blocks(residual); block++) {
        sum_block(residual, block);
    }
    sum_untouched(residual);
    sum_and_scale(residual);
}

void or_residual_open(or_residual_t *residual, const or_distribution_t *q)
{
    residual->count = q->count;
    residual->touched_count = 0;
    residual->factor = 1;
    memcpy(residual->ids, q->ids, q->count * sizeof *q->ids);
    memcpy(residual->untouched, q->weights, q->count * sizeof *q->weights);
    for (uint32_t i = 0; i < q->count; i++) {
        residual->row[q->ids[i]] = i;
    }
    sum_blocks(residual);
}

// Return true if q has the token.
static bool has(const or_residual_t *residual, uint32_t id)
{
    uint32_t row = id < residual->vocab_size ? residual->row[id] : residual->count;
    return row < residual->count && residual->ids[row] == (int32_t)id;
}

void or_residual_share(const or_residual_t *residual, uint32_t token, double *numerator,
                       double *denominator)
{
    *numerator =
        has(residual, token) ? residual->untouched[residual->row[token]] * residual->factor : 0;
    *denominator = residual->total;
}

void or_residual_open_beyond(or_residual_t *residual, const or_distribution_t *q, const double *psi)
{
    or_residual_open(residual, q);
    for (uint32_t i = 0; i < q->count; i++) {
        double left = q->weights[i] * residual->factor - psi[i] * residual->total;
        residual->untouched[i] = left > 0 ? left : 0;
    }
    residual->factor = 1;
    sum_blocks(residual);
    if (!(residual->total > 0)) {
        or_residual_open(residual, q);
    }
}

static bool is_touched(const or_residual_t *residual, uint32_t id)
{
    uint32_t place = residual->place[id];
    return place < residual->touched_count && residual->touched[place].id == id;
}

// Take a token's weight out of its block, if q has it; returns what it was.
static double take_out(or_residual_t *residual, uint32_t id)
{
    if (!has(residual, id)) {
        return 0;
    }
    uint32_t row = residual->row[id];
    double weight = residual->untouched[row];
    residual->untouched[row] = 0;
    sum_block(residual, row / BLOCK);
    return weight;
}

// Tokens of the vocabulary come first in a distribution.
static uint32_t count_inside(const or_residual_t *residual, const or_reduced_distribution_t *dist)
{
    uint32_t count = dist->count;
    while (count > 0 && dist->tokens[count - 1] >= residual->vocab_size) {
        count--;
    }
    return count;
}

// From now on keep one by one those tokens of the distribution that the target has.
static void touch(or_residual_t *residual, const or_reduced_distribution_t *dist)
{
    uint32_t before = residual->touched_count;
    uint32_t inside = count_inside(residual, dist);
    for (uint32_t i = 0; i < inside; i++) {
        uint32_t id = dist->tokens[i];
        if (!is_touched(residual, id)) {
            double weight = take_out(residual, id);
            residual->place[id] = residual->touched_count;
            residual->touched[residual->touched_count++] =
                (touched_t){id, weight * residual->factor, weight};
        }
    }
    if (residual->touched_count > before) {
        sum_untouched(residual);
    }
}

static touched_t *touched_of(or_residual_t *residual, uint32_t id)
{
    return &residual->touched[residual->place[id]];
}

void or_residual_ratio(or_residual_t *residual, const or_distribution_left_t *s, uint32_t index,
                       double *numerator, double *denominator)
{
    uint32_t token = s->dist.tokens[index];
    touch(residual, &s->dist);
    *numerator = token < residual->vocab_size ? touched_of(residual, token)->weight * s->total : 0;
    *denominator = residual->total * s->weights[index];
}

static void restore(or_residual_t *residual)
{
    residual->factor = 1;
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        residual->touched[i].weight = residual->touched[i].original;
    }
    sum_and_scale(residual);
}

void or_residual_subtract(or_residual_t *residual, const or_distribution_left_t *s)
{
    touch(residual, &s->dist);
    double total = residual->total;
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        residual->touched[i].weight *= s->total;
    }
    for (uint32_t i = 0; i < count_inside(residual, &s->dist); i++) {
        touched_t *token = touched_of(residual, s->dist.tokens[i]);
        double left = token->weight - s->weights[i] * total;
        token->weight = left > 0 ? left : 0;
    }
    residual->factor *= s->total;
    sum_and_scale(residual);
    if (!(residual->total > 0)) {
        restore(residual);
    }
}

double or_residual_split(or_residual_t *residual, const or_reduced_distribution_t *dist,
                         double *weights)
{
    touch(residual, dist);
    for (uint32_t i = count_inside(residual, dist); i < dist->count; i++) {
        weights[i] = 0;
    }
    double others = residual->untouched_sum * residual->factor;
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        const touched_t *token = &residual->touched[i];
        uint32_t index = or_distribution_find(dist, token->id);
        if (index < dist->count) {
            weights[index] = token->weight;
        } else {
            others += token->weight;
        }
    }
    return others;
}

void or_residual_join(or_residual_t *residual, const or_reduced_distribution_t *dist,
                      const double *weights, double factor)
{
    touch(residual, dist);
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        touched_t *token = &residual->touched[i];
        uint32_t index = or_distribution_find(dist, token->id);
        token->weight = index < dist->count ? weights[index] : token->weight * factor;
    }
    residual->factor *= factor;
    sum_and_scale(residual);
    if (!(residual->total > 0)) {
        restore(residual);
    }
}

int32_t or_residual_draw(or_residual_t *residual, or_chooser_t *chooser, or_choice_t at)
{
    uint32_t count = residual->touched_count;
    for (uint32_t i = 0; i < count; i++) {
        residual->list[i] = residual->touched[i].weight;
    }
    for (uint32_t i = 0; i < blocks(residual); i++) {
        residual->list[count + i] = residual->sums[i] * residual->factor;
    }
    uint32_t group = chooser->draw(chooser, at, residual->list, count + blocks(residual));
    if (group < count) {
        return (int32_t)residual->touched[group].id;
    }
    uint32_t block = group - count;
    uint32_t first = block * BLOCK;
    at.draw++;
    return residual->ids[first + chooser->draw(chooser, at, residual->untouched + first,
                                               block_size(residual, block))];
}
