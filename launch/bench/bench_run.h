// bench_run - do all runs of a plan, one after the other.
//
// For each repeat and prompt every case writes once, in turn: what disturbs the machine for a while
// disturbs all of them. At temperature 0 each text is compared with plain decoding's.
#pragma once

#include "launch/bench/bench_figures.h"
#include "launch/bench/bench_options.h"
#include "launch/bench/bench_prompts.h"
#include "launch/cluster/cluster.h"

typedef struct {
    const or_bench_config_t *config; // all borrowed
    const or_bench_prompts_t *prompts;
    or_cluster_t *cluster; // NULL with --connect and without models
    const char *endpoint;
} or_bench_place_t;

typedef struct {
    uint64_t runs, runs_all;      // done, and planned
    uint32_t skipped;             // prompts that are longer than the context
    uint32_t compared, differing; // texts at temperature 0 beside plain decoding's, and unlike it
    bool interrupted;
} or_bench_outcome_t;

// Fill `results`, which is of the same plan; a case that is refused gets its reason in the plan and
// is left out from then on. *outcome is set in any case. Progress, prompts skipped and texts that
// differ are said on standard error. An error means that nothing more could be done: the cluster
// ended, the coordinator is gone.
or_status_t or_bench_run(const or_bench_place_t *place, or_bench_plan_t *plan,
                         or_bench_results_t *results, or_bench_outcome_t *outcome);
