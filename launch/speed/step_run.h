// step_run - how long forward passes take: trees of guesses, prefixes, and many sessions' single steps.
//
//     tree 16        a best-first tree of 16 nodes after a prefix, with the logits of all: one round
//     sessions 16    one node each of 16 texts, likewise: a batch of plain steps
//     prefill 512    the first 512 tokens of a text, with the logits of the last
//
// Passes are timed by turns (tree 1, tree 16, prefill 512, tree 1, ...), so that whatever disturbs the
// machine disturbs them all. A first turn of each is not counted. One thread calls.
#pragma once

#include "common/base/clock.h"
#include "common/model/model.h"

#define OR_STEPS_MAX 32u          // kinds of passes in a run
#define OR_STEP_REPEATS_MAX 1000u // of each
#define OR_STEP_TREE_MAX 1024u    // nodes
#define OR_STEP_SESSIONS_MAX 256u
#define OR_STEP_PREFILL_MAX 65536u
#define OR_STEP_PREFILL_ROWS 512u // in a pass; a longer prefix takes several

typedef enum { OR_STEP_TREE, OR_STEP_SESSIONS, OR_STEP_PREFILL } or_step_kind_t;

typedef struct {
    or_step_kind_t kind;
    uint32_t rows;
    // What came of it:
    double median_ms, best_ms;
    double bytes_per_s; // of packed weights, each of which is read once a pass
} or_step_t;

typedef struct {
    uint32_t context; // tokens before a tree or a session's step
    uint32_t repeats; // 1 to OR_STEP_REPEATS_MAX
    or_step_t steps[OR_STEPS_MAX];
    uint32_t count;
} or_step_plan_t;

// "tree", "sessions", "prefill".
const char *or_step_kind_name(or_step_kind_t kind);

// Fill in what a model must have room for: options' context_max, rows_max and sequences_max.
// OR_ERR_NO_MEMORY.
or_status_t or_step_room(const or_step_plan_t *plan, or_model_options_t *options);

// Run them all and fill in what came of them; the model was loaded with that room. OR_ERR_NO_MEMORY, or what the
// model says.
or_status_t or_step_run(or_model_t *model, const or_clock_t *clock, or_step_plan_t *plan);
