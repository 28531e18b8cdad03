// together - the work of several sessions side by side, whose passes of a draft model become one.
//
//     work 1   asks for a pass of its rows ──┐             ┌──▶ reads its logits, goes on to its next pass
//     work 2   asks for a pass of its rows ──┼── a pass ───┼──▶ reads its logits, is done
//     work 3   asks for a pass of its rows ──┘             └──▶ ...
//
// A pass of a few rows takes about as long as one of a single row: it reads all weights, and wakes all threads, once.
// Work is plain code, such as the building of a tree, that calls or_together_forward where it needs a pass. There it
// pauses (coroutine.h) until that pass has run, while others come as far as theirs. So no drafting method has to know
// of other sessions.
//
//     or_together_begin(...) for each work
//     while (or_together_count(together) > 0) { or_together_pass(together); or_together_read(together); }
//
// One thread: the caller's runs all of it.
#pragma once

#include "common/model/model_growth.h"

#define OR_TOGETHER_MAX 64u // works at once

typedef struct or_together or_together_t;
typedef void or_together_work_t(void *context);

// Create an empty set of works. OR_ERR_NO_MEMORY.
or_status_t or_together_create(or_together_t **together_p);
// Works that are not done are given up: they never return.
void or_together_destroy(or_together_t **together_p);

// Begin a work: it runs until it asks for its first pass, or is done. OR_ERR_FULL (OR_TOGETHER_MAX are not done),
// OR_ERR_NO_MEMORY. A work may not begin others.
or_status_t or_together_begin(or_together_t *together, or_together_work_t *work, void *context);
// Return the number of works that are not done.
uint32_t or_together_count(const or_together_t *together);

// Run a pass, of the model and rows of the work that has waited longest and of all others that fit in with it. If it
// fails, each of them gets a pass of its own and goes on at once, so that only those fail that must.
void or_together_pass(or_together_t *together);
// Let the works of the last pass go on, to their next one or to their end.
void or_together_read(or_together_t *together);
// Return the passes so far, of all models, with those that grew trees on a GPU.
uint64_t or_together_passes(const or_together_t *together);

// ---- called by a work, or by code that is part of none and has the model for itself ----

// Run these rows, with those of others. They are rows *first and the following of the model's last pass, until the
// caller asks for another pass. Errors are or_model_forward's.
or_status_t or_together_forward(or_model_t *model, const or_model_row_t *rows, uint32_t count,
                                uint32_t *first);
// Call or_model_grow, once no work has logits of the last pass to read.
or_status_t or_together_grow(or_model_t *model, const or_growth_t *growth, or_grown_t *grown);
