// The state of a place:
//
//     free ──▶ runs ──▶ asks for a pass ──(or_together_pass)──▶ reads ──(or_together_read)──▶ runs
//                   └─▶ asks to be alone ──(the end of or_together_read)──▶ runs ──▶ free
#include "drafter/together.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/coroutine.h"

typedef enum { IS_FREE, RUNS, ASKS_FOR_PASS, READS, ASKS_TO_BE_ALONE } state_t;

// A place for a work.
typedef struct {
    state_t state;
    or_coroutine_t *coroutine; // NULL: none was needed here yet
    uint64_t ticket;           // grows with each question
    // The pass it asks for, and what came of it.
    or_model_t *model;
    const or_model_row_t *rows;
    uint32_t count, first;
    or_status_t status;
} place_t;

struct or_together {
    place_t places[OR_TOGETHER_MAX];
    place_t *running; // NULL: no work runs
    uint64_t tickets, passes;
    or_model_row_t *rows; // of a pass
    size_t rows_room;
};

// The set whose work runs on this thread; NULL: what runs is no work.
static _Thread_local or_together_t *current;

or_status_t or_together_create(or_together_t **together_p)
{
    *together_p = calloc(1, sizeof **together_p);
    return *together_p != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for drafting");
}

void or_together_destroy(or_together_t **together_p)
{
    or_together_t *together = *together_p;
    if (together == NULL) {
        return;
    }
    for (uint32_t i = 0; i < OR_TOGETHER_MAX; i++) {
        or_coroutine_destroy(&together->places[i].coroutine);
    }
    free(together->rows);
    free(together);
    *together_p = NULL;
}

uint32_t or_together_count(const or_together_t *together)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OR_TOGETHER_MAX; i++) {
        count += together->places[i].state != IS_FREE;
    }
    return count;
}

uint64_t or_together_passes(const or_together_t *together)
{
    return together->passes;
}

// ---- works ----

// Let the work run until it asks for something or is done.
static void go_on(or_together_t *together, place_t *place)
{
    current = together;
    together->running = place;
    place->state = RUNS;
    if (!or_coroutine_resume(place->coroutine)) {
        place->state = IS_FREE;
    }
    together->running = NULL;
    current = NULL;
}

// Pause the running work in this state.
static void pause_in(or_together_t *together, state_t state)
{
    place_t *place = together->running;
    place->state = state;
    place->ticket = ++together->tickets;
    or_coroutine_pause(place->coroutine);
}

or_status_t or_together_begin(or_together_t *together, or_together_work_t *work, void *context)
{
    place_t *place = together->places;
    while (place->state != IS_FREE) {
        if (++place == together->places + OR_TOGETHER_MAX) {
            return or_fail(OR_ERR_FULL, "%u works are under way", OR_TOGETHER_MAX);
        }
    }
    or_status_t status = place->coroutine == NULL ? or_coroutine_create(&place->coroutine) : OR_OK;
    if (status == OR_OK) {
        or_coroutine_set(place->coroutine, work, context);
        go_on(together, place);
    }
    return status;
}

or_status_t or_together_forward(or_model_t *model, const or_model_row_t *rows, uint32_t count,
                                uint32_t *first)
{
    or_together_t *together = current;
    if (together == NULL) {
        *first = 0;
        return or_model_forward(model, rows, count);
    }
    place_t *place = together->running;
    place->model = model;
    place->rows = rows;
    place->count = count;
    pause_in(together, ASKS_FOR_PASS);
    *first = place->first;
    return place->status;
}

// Return the place in this state that has waited longest; NULL if none is.
static place_t *longest_in(or_together_t *together, state_t state)
{
    place_t *longest = NULL;
    for (place_t *at = together->places; at < together->places + OR_TOGETHER_MAX; at++) {
        if (at->state == state && (longest == NULL || at->ticket < longest->ticket)) {
            longest = at;
        }
    }
    return longest;
}

or_status_t or_together_grow(or_model_t *model, const or_growth_t *growth, or_grown_t *grown)
{
    or_together_t *together = current;
    if (together != NULL && longest_in(together, READS) != NULL) {
        pause_in(together, ASKS_TO_BE_ALONE);
    }
    or_status_t status = or_model_grow(model, growth, grown);
    if (together != NULL && status == OR_OK) {
        together->passes += grown->passes;
    }
    return status;
}

// ---- passes ----

// Collect the rows of `first` and of all that ask for a pass of the same model and find room beside it.
static uint32_t collect(or_together_t *together, place_t *first)
{
    uint32_t rows_max = or_model_rows_max(first->model);
    uint32_t count = 0;
    for (place_t *at = first; at != NULL;) {
        memcpy(together->rows + count, at->rows, at->count * sizeof *at->rows);
        at->first = count;
        at->state = READS;
        count += at->count;
        at = NULL;
        for (place_t *more = together->places; more < together->places + OR_TOGETHER_MAX; more++) {
            bool fits = more->state == ASKS_FOR_PASS && more->model == first->model &&
                        more->count <= rows_max - count;
            if (fits && (at == NULL || more->ticket < at->ticket)) {
                at = more;
            }
        }
    }
    return count;
}

// Run the rows of each place that would have read by themselves.
static void pass_alone(or_together_t *together)
{
    for (place_t *at = longest_in(together, READS); at != NULL; at = longest_in(together, READS)) {
        at->first = 0;
        at->status = or_model_forward(at->model, at->rows, at->count);
        together->passes += at->status == OR_OK;
        go_on(together, at);
    }
}

void or_together_pass(or_together_t *together)
{
    place_t *first = longest_in(together, ASKS_FOR_PASS);
    if (first == NULL) {
        return;
    }
    if (!or_array_reserve(&together->rows, &together->rows_room, 0, or_model_rows_max(first->model),
                          sizeof *together->rows)) {
        first->state = READS;
        pass_alone(together);
        return;
    }
    uint32_t count = collect(together, first);
    if (or_model_forward(first->model, together->rows, count) != OR_OK) {
        pass_alone(together);
        return;
    }
    together->passes++;
    for (place_t *at = together->places; at < together->places + OR_TOGETHER_MAX; at++) {
        at->status = at->state == READS ? OR_OK : at->status;
    }
}

void or_together_read(or_together_t *together)
{
    for (place_t *at = longest_in(together, READS); at != NULL; at = longest_in(together, READS)) {
        go_on(together, at);
    }
    place_t *alone = longest_in(together, ASKS_TO_BE_ALONE);
    for (; alone != NULL; alone = longest_in(together, ASKS_TO_BE_ALONE)) {
        go_on(together, alone);
    }
}
