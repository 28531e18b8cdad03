// bench_figures - what was counted, and the figures made of it.
//
// Sums are kept by case, repeat and category; figures are of sums of sums, so that a token weighs
// the same in whatever run it was written. What cannot be said, because nothing was counted for it,
// is NAN.
#pragma once

#include "launch/bench/bench_plan.h"
#include "proto/wire/message.h"

#define OR_BENCH_ALL UINT32_MAX // as a category: all of them
#define OR_BENCH_ALPHAS 4u
#define OR_BENCH_REPEATS_MAX 1000u

typedef struct {
    uint32_t runs;
    or_generate_stats_t stats; // totals
    uint64_t rounds;           // timed: all but the first of each run, which holds the prompt
    double timed_tokens;       // what those rounds wrote
} or_bench_sum_t;

typedef struct {
    const or_bench_plan_t *plan; // borrowed
    or_bench_sum_t *sums;        // owned: [case][repeat][category]
    uint32_t *differing;         // owned, by case: texts unlike plain decoding's
    uint32_t repeats, categories;
} or_bench_results_t;

// Make room for the results of a plan, which the caller frees with or_bench_results_fini. OR_ERR_NO_MEMORY.
or_status_t or_bench_results_init(const or_bench_plan_t *plan, uint32_t repeats,
                                  uint32_t categories, or_bench_results_t *results);
void or_bench_results_fini(or_bench_results_t *results);
// Count a text that a case wrote.
void or_bench_results_add(const or_bench_results_t *results, uint32_t c, uint32_t repeat,
                          uint32_t category, const or_generate_stats_t *stats);

// Return how many texts a case has written.
uint32_t or_bench_results_runs(const or_bench_results_t *results, uint32_t c);

typedef struct {
    uint32_t runs;
    uint64_t tokens, target_calls, drafted, accepted, plain_rounds, draft_passes;
    double block_efficiency; // tokens per target call
    // The memory-bound speed-up is block efficiency / (L r + 1). L is the number of draft model calls a target call, as
    // counted; r is what one of them costs in target calls (Goel et al. 2024, arXiv 2403.00858).
    double mbsu;
    double rate;                                                // tokens a second
    double by_depth[OR_STATS_LEVELS], by_rank[OR_STATS_LEVELS]; // accepted / offered
    uint64_t depth_offered[OR_STATS_LEVELS], rank_offered[OR_STATS_LEVELS];
    // alpha[k - 1] is the probability that one of the first k candidates is accepted: the sum of the first k acceptances
    // by rank. It is exact where all nodes have as many candidates.
    double alpha[OR_BENCH_ALPHAS];
    double draft_us, elsewhere_us, verify_us, accept_us; // of a round
    double wire_bytes;                                   // per token
    double wire_accepted;                                // the same per accepted guess
    double ahead_hit;                                    // rounds whose guesses were there at once
    uint64_t bridged_rounds, lookup_rounds;
    // The speed-ups are over plain decoding's rate in the same repeat.
    double speedup_median, speedup_min, speedup_max;
} or_bench_figures_t;

// The figures of one benchmark case in one prompt category, or in OR_BENCH_ALL; `size_ratio` is r, NAN if not known.
or_bench_figures_t or_bench_figures(const or_bench_results_t *results, uint32_t c,
                                    uint32_t category, double size_ratio);
