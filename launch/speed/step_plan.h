// step_plan - which passes `outrider bench step` times, and what comes of them. Internal to this folder.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_STEPS_MAX 32u          // kinds of passes in a run
#define OR_STEP_REPEATS_MAX 1000u // of each
#define OR_STEP_SESSIONS_MAX 256u
#define OR_STEP_PREFILL_MAX 65536u
#define OR_STEP_PREFILL_ROWS 512u // in a pass; a longer prefix takes several

typedef enum { OR_STEP_TREE, OR_STEP_SESSIONS, OR_STEP_PREFILL } or_step_kind_t;
extern const char *const or_step_kind_names[]; // "tree", "sessions", "prefill"

// Passes of a kind, and what they cost.
typedef struct {
    or_step_kind_t kind;
    uint32_t rows;
    // The results:
    double median_ms, best_ms;
    double read_bytes, bytes_per_s; // of packed weights, each of which is read once a pass
    double
        read_share; // the share of the memory's speed that this was, turn by turn; NAN: not measured
    double experts; // that a pass read in a layer, on average; 0 of a model without
    // Of all turns, where not all experts have room in memory: the share that was found there, and those that a pass read from disk.
    double found, from_disk;
} or_step_t;

typedef struct {
    uint32_t context; // tokens before a tree or a session's step
    uint32_t repeats; // 1 to OR_STEP_REPEATS_MAX
    or_step_t steps[OR_STEPS_MAX];
    uint32_t count;
    double
        memory_bytes_per_s; // at which as many threads read memory between the passes, the median; NAN: not measured
} or_step_plan_t;

// Add a kind of pass for each number of a list, as "1,16,64"; NULL: none. `option` is named where a number is not from 1 to `most`, or
// where there are too many of them: OR_ERR_INVALID.
or_status_t or_step_plan_add(const char *option, const char *list, or_step_kind_t kind,
                             uint32_t most, or_step_plan_t *plan);
