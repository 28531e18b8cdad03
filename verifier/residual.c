#include "verifier/residual.h"

#include <math.h>
#include <stdlib.h>

#define NOT_TOUCHED 0u

// A token that some law had.
typedef struct {
    uint32_t id;
    double weight;
    double original; // in q, where the factor was 1
} touched_t;

struct or_residual {
    uint32_t vocab_size;
    int32_t *ids; // [vocab_size] q's tokens
    uint32_t count;
    double *untouched;  // [vocab_size] q's weights, without the factor; 0 for touched tokens
    uint32_t *place;    // [vocab_size] 1 + index in `touched`, or NOT_TOUCHED
    touched_t *touched; // [vocab_size]
    double *list;       // [vocab_size] weights to draw from
    uint32_t touched_count;
    double untouched_sum; // without the factor
    double factor;
    double total; // |m|
};

or_status_t or_residual_create(uint32_t vocab_size, or_residual_t **residual_p)
{
    or_residual_t *residual = calloc(1, sizeof *residual);
    if (residual == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for residual laws");
    }
    residual->vocab_size = vocab_size;
    residual->ids = calloc(vocab_size, sizeof *residual->ids);
    residual->untouched = calloc(vocab_size, sizeof *residual->untouched);
    residual->place = calloc(vocab_size, sizeof *residual->place);
    residual->touched = calloc(vocab_size, sizeof *residual->touched);
    residual->list = calloc((size_t)vocab_size + 1, sizeof *residual->list);
    if (residual->ids == NULL || residual->untouched == NULL || residual->place == NULL ||
        residual->touched == NULL || residual->list == NULL) {
        or_residual_destroy(&residual);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for residual laws of %u tokens", vocab_size);
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
    free(residual->ids);
    free(residual->untouched);
    free(residual->place);
    free(residual->touched);
    free(residual->list);
    free(residual);
    *residual_p = NULL;
}

static void sum_untouched(or_residual_t *residual)
{
    residual->untouched_sum = 0;
    for (uint32_t i = 0; i < residual->count; i++) {
        residual->untouched_sum += residual->untouched[residual->ids[i]];
    }
}

// |m|, and everything scaled by a power of two so that it lies in [1/2, 1).
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

void or_residual_open(or_residual_t *residual, const or_law_t *q)
{
    for (uint32_t i = 0; i < residual->count; i++) {
        residual->untouched[residual->ids[i]] = 0;
    }
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        residual->place[residual->touched[i].id] = NOT_TOUCHED;
    }
    residual->count = q->count;
    residual->touched_count = 0;
    residual->factor = 1;
    for (uint32_t i = 0; i < q->count; i++) {
        residual->ids[i] = q->ids[i];
        residual->untouched[q->ids[i]] = q->weights[i];
    }
    sum_untouched(residual);
    sum_and_scale(residual);
}

// Keep the law's tokens one by one from now on.
static void touch(or_residual_t *residual, const or_reduced_law_t *law)
{
    uint32_t before = residual->touched_count;
    for (uint32_t i = 0; i < law->count; i++) {
        uint32_t id = law->tokens[i];
        if (residual->place[id] == NOT_TOUCHED) {
            double weight = residual->untouched[id];
            residual->touched[residual->touched_count++] =
                (touched_t){id, weight * residual->factor, weight};
            residual->place[id] = residual->touched_count;
            residual->untouched[id] = 0;
        }
    }
    if (residual->touched_count > before) {
        sum_untouched(residual);
    }
}

static touched_t *touched_of(or_residual_t *residual, uint32_t id)
{
    return &residual->touched[residual->place[id] - 1];
}

void or_residual_ratio(or_residual_t *residual, const or_law_left_t *s, uint32_t index,
                       double *numerator, double *denominator)
{
    touch(residual, &s->law);
    *numerator = touched_of(residual, s->law.tokens[index])->weight * s->total;
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

void or_residual_subtract(or_residual_t *residual, const or_law_left_t *s)
{
    touch(residual, &s->law);
    double total = residual->total;
    for (uint32_t i = 0; i < residual->touched_count; i++) {
        residual->touched[i].weight *= s->total;
    }
    for (uint32_t i = 0; i < s->law.count; i++) {
        touched_t *token = touched_of(residual, s->law.tokens[i]);
        double left = token->weight - s->weights[i] * total;
        token->weight = left > 0 ? left : 0;
    }
    residual->factor *= s->total;
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
    residual->list[count] = residual->untouched_sum * residual->factor;
    uint32_t group = chooser->draw(chooser, at, residual->list, count + 1);
    if (group < count) {
        return (int32_t)residual->touched[group].id;
    }
    for (uint32_t i = 0; i < residual->count; i++) {
        residual->list[i] = residual->untouched[residual->ids[i]];
    }
    at.draw++;
    return residual->ids[chooser->draw(chooser, at, residual->list, residual->count)];
}
