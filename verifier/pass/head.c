#include "verifier/pass/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ROWS 8u // computed at once

struct or_head {
    or_model_t *model;
    const or_clock_t *clock;
    uint32_t vocab_size;
    float *logits;              // [RUN_ROWS][vocab_size]
    uint32_t rows;              // of the pass
    uint32_t first, count, top; // what `logits` holds
    or_contest_t *contests;     // [rows_max of the model] by row; without sampling: none
    or_distribution_t dists[OR_CONTESTS_MAX];
    uint32_t first_dist, dist_count; // the rows whose contenders `dists` holds
    int64_t *row_ns;                 // [rows_max of the model] spent for each row of the pass
    int64_t spent_ns;
};

or_status_t or_head_create(or_model_t *model, const or_clock_t *clock, or_head_t **head_p)
{
    or_head_t *head = calloc(1, sizeof *head);
    if (head == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for logits");
    }
    *head = (or_head_t){
        .model = model, .clock = clock, .vocab_size = or_model_shape(model)->vocab_size};
    head->logits = calloc((size_t)RUN_ROWS * head->vocab_size, sizeof *head->logits);
    head->contests = calloc(or_model_rows_max(model), sizeof *head->contests);
    head->row_ns = calloc(or_model_rows_max(model), sizeof *head->row_ns);
    if (head->logits == NULL || head->contests == NULL || head->row_ns == NULL) {
        or_head_destroy(&head);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the logits of %u rows", RUN_ROWS);
    }
    *head_p = head;
    return OR_OK;
}

void or_head_destroy(or_head_t **head_p)
{
    or_head_t *head = *head_p;
    if (head == NULL) {
        return;
    }
    free(head->row_ns);
    free(head->contests);
    free(head->logits);
    free(head);
    *head_p = NULL;
}

// Without biases and penalties scores are logits, divided by the temperature in double: floats that
// differ still differ then, so order and ties are those of the logits. Temperature 0 keeps the greatest,
// the lowest id among equals. top-k keeps the first k in that order; one more makes sure that the sampler
// still sees more than k tokens and ranks them, as it would all of them.
uint32_t or_head_top(const or_sampling_t *sampling, uint32_t vocab_size)
{
    if (!or_sampling_is_plain(sampling)) {
        return vocab_size;
    }
    if (sampling->temperature == 0) {
        return 1;
    }
    return sampling->top_k > 0 && sampling->top_k < vocab_size ? sampling->top_k + 1 : vocab_size;
}

void or_head_renew(or_head_t *head, uint32_t rows)
{
    head->rows = rows;
    head->count = 0;
    head->dist_count = 0;
    memset(head->contests, 0, rows * sizeof *head->contests);
    memset(head->row_ns, 0, rows * sizeof *head->row_ns);
}

// ---- time ----

// Book the time since `started` to these rows, the same to each.
static void book(or_head_t *head, uint32_t row, uint32_t count, int64_t started)
{
    int64_t spent_ns = or_clock_now(head->clock) - started;
    head->spent_ns += spent_ns;
    for (uint32_t i = 0; i < count; i++) {
        head->row_ns[row + i] += spent_ns / count;
    }
}

int64_t or_head_spent_ns(const or_head_t *head)
{
    return head->spent_ns;
}

int64_t or_head_rows_ns(const or_head_t *head, uint32_t first, uint32_t count)
{
    int64_t rows_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        rows_ns += head->row_ns[first + i];
    }
    return rows_ns;
}

// ---- contenders ----

void or_head_set_contest(or_head_t *head, uint32_t row, const or_contest_t *contest)
{
    head->contests[row] = *contest;
}

// Return how many rows from this one on have a contest, at most as many as the model takes at once.
static uint32_t contests_from(const or_head_t *head, uint32_t row)
{
    uint32_t end = row;
    while (end < head->rows && end - row < OR_CONTESTS_MAX &&
           head->contests[end].sampling != NULL) {
        end++;
    }
    return end - row;
}

static or_status_t find_contenders(or_head_t *head, uint32_t row)
{
    uint32_t count = contests_from(head, row);
    int64_t started = or_clock_now(head->clock);
    or_status_t status =
        or_model_contenders(head->model, row, count, &head->contests[row], head->dists);
    book(head, row, count, started);
    head->first_dist = row;
    head->dist_count = status == OR_OK ? count : 0;
    return status;
}

or_status_t or_head_contenders(or_head_t *head, uint32_t row, or_distribution_t *dist)
{
    or_status_t status = OR_OK;
    *dist = (or_distribution_t){.count = 0};
    if (head->contests[row].sampling == NULL) {
        return OR_OK;
    }
    if (row < head->first_dist || row - head->first_dist >= head->dist_count) {
        status = find_contenders(head, row);
    }
    if (status == OR_OK) {
        *dist = head->dists[row - head->first_dist];
    }
    return status;
}

// ---- whole rows ----

// Return true if the greatest logits are complete. The sampler does not count a logit that is no number, but it may
// have been taken for one of the greatest: then some that matter are missing.
static bool has_top(const or_head_t *head, const float *logits, uint32_t top)
{
    uint32_t numbers = 0;
    for (uint32_t i = 0; i < head->vocab_size; i++) {
        if (!(logits[i] < INFINITY)) {
            return false;
        }
        numbers += logits[i] > -INFINITY;
    }
    return numbers >= top;
}

static bool all_have_top(const or_head_t *head, uint32_t count, uint32_t top)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!has_top(head, head->logits + (size_t)i * head->vocab_size, top)) {
            return false;
        }
    }
    return true;
}

static or_status_t compute(or_head_t *head, uint32_t first, uint32_t count, uint32_t *top)
{
    or_status_t status = OR_OK;
    if (*top < head->vocab_size) {
        status = or_model_logits_top(head->model, first, count, *top, head->logits);
        if (status != OR_OK || all_have_top(head, count, *top)) {
            return status;
        }
    }
    *top = head->vocab_size;
    return or_model_logits(head->model, first, count, head->logits);
}

static bool has_a_number(const float *logits, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && !isfinite(logits[i])) {
        i++;
    }
    return i < count;
}

or_status_t or_head_row(or_head_t *head, uint32_t row, uint32_t top, const float **logits)
{
    bool here = row >= head->first && row - head->first < head->count && top <= head->top;
    if (!here) {
        uint32_t count = head->rows - row < RUN_ROWS ? head->rows - row : RUN_ROWS;
        int64_t started = or_clock_now(head->clock);
        or_status_t status = compute(head, row, count, &top);
        book(head, row, 1, started); // nobody else may ask for its neighbours
        head->count = 0;
        if (status != OR_OK) {
            return status;
        }
        head->first = row;
        head->count = count;
        head->top = top;
    }
    const float *found = head->logits + (size_t)(row - head->first) * head->vocab_size;
    if (!has_a_number(found, head->vocab_size)) {
        return or_fail(OR_ERR_INVALID,
                       "the model computes no numbers here: its weights, or scales in its "
                       "metadata, are damaged");
    }
    *logits = found;
    return OR_OK;
}
