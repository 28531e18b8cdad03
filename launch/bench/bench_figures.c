#include "launch/bench/bench_figures.h"

#include <math.h>
#include <stdlib.h>

#include "launch/generate/output.h"

// ---- sums ----

static void add_levels(uint64_t *sum, const uint64_t *more)
{
    for (uint32_t i = 0; i < OR_STATS_LEVELS; i++) {
        sum[i] += more[i];
    }
}

static void add_stats(or_generate_stats_t *sum, const or_generate_stats_t *more)
{
    sum->prompt_tokens += more->prompt_tokens;
    sum->completion_tokens += more->completion_tokens;
    sum->target_calls += more->target_calls;
    sum->drafted += more->drafted;
    sum->accepted += more->accepted;
    sum->wire_bytes += more->wire_bytes;
    sum->elapsed_us += more->elapsed_us;
    sum->draft_us += more->draft_us;
    sum->verify_us += more->verify_us;
    sum->round_us += more->round_us;
    sum->plain_rounds += more->plain_rounds;
    sum->draft_passes += more->draft_passes;
    sum->resyncs += more->resyncs;
    sum->first_token_us += more->first_token_us;
    sum->accept_us += more->accept_us;
    sum->ahead_rounds += more->ahead_rounds;
    sum->ahead_hits += more->ahead_hits;
    sum->bridged_rounds += more->bridged_rounds;
    sum->lookup_rounds += more->lookup_rounds;
    add_levels(sum->depth_offered, more->depth_offered);
    add_levels(sum->depth_accepted, more->depth_accepted);
    add_levels(sum->rank_offered, more->rank_offered);
    add_levels(sum->rank_accepted, more->rank_accepted);
}

or_status_t or_bench_results_init(const or_bench_plan_t *plan, uint32_t repeats,
                                  uint32_t categories, or_bench_results_t *results)
{
    or_bench_results_t made = {.plan = plan, .repeats = repeats, .categories = categories};
    made.sums = calloc((size_t)plan->count * repeats * categories, sizeof *made.sums);
    made.differing = calloc(plan->count, sizeof *made.differing);
    if (made.sums == NULL || made.differing == NULL) {
        or_bench_results_fini(&made);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the results");
    }
    *results = made;
    return OR_OK;
}

void or_bench_results_fini(or_bench_results_t *results)
{
    free(results->sums);
    free(results->differing);
    *results = (or_bench_results_t){0};
}

static or_bench_sum_t *find_sum(const or_bench_results_t *results, uint32_t c, uint32_t repeat,
                                uint32_t category)
{
    return &results->sums[((size_t)c * results->repeats + repeat) * results->categories + category];
}

void or_bench_results_add(const or_bench_results_t *results, uint32_t c, uint32_t repeat,
                          uint32_t category, const or_generate_stats_t *stats)
{
    or_bench_sum_t *sum = find_sum(results, c, repeat, category);
    add_stats(&sum->stats, stats);
    sum->runs++;
    if (stats->target_calls > 1) {
        double calls = (double)stats->target_calls;
        sum->rounds += stats->target_calls - 1;
        sum->timed_tokens += stats->completion_tokens * (calls - 1) / calls;
    }
}

// Add what a case did in one repeat.
static void add_repeat(const or_bench_results_t *results, uint32_t c, uint32_t repeat,
                       uint32_t category, or_bench_sum_t *sum)
{
    for (uint32_t i = 0; i < results->categories; i++) {
        if (category == OR_BENCH_ALL || category == i) {
            const or_bench_sum_t *more = find_sum(results, c, repeat, i);
            add_stats(&sum->stats, &more->stats);
            sum->runs += more->runs;
            sum->rounds += more->rounds;
            sum->timed_tokens += more->timed_tokens;
        }
    }
}

uint32_t or_bench_results_runs(const or_bench_results_t *results, uint32_t c)
{
    or_bench_sum_t sum = {0};
    for (uint32_t repeat = 0; repeat < results->repeats; repeat++) {
        add_repeat(results, c, repeat, OR_BENCH_ALL, &sum);
    }
    return sum.runs;
}

// ---- figures ----

static double ratio(double a, double b)
{
    return b > 0 ? a / b : (double)NAN;
}

static double rate(const or_bench_sum_t *sum)
{
    return ratio(1e6 * sum->timed_tokens, (double)sum->stats.round_us);
}

static void set_speedup(const or_bench_results_t *results, uint32_t c, uint32_t category,
                        or_bench_figures_t *figures)
{
    double ratios[OR_BENCH_REPEATS_MAX];
    uint32_t count = 0;
    for (uint32_t repeat = 0; repeat < results->repeats; repeat++) {
        or_bench_sum_t own = {0};
        or_bench_sum_t plain = {0};
        add_repeat(results, c, repeat, category, &own);
        add_repeat(results, results->plan->cases[c].baseline, repeat, category, &plain);
        double one = ratio(rate(&own), rate(&plain));
        if (!isnan(one)) {
            ratios[count++] = one;
        }
    }
    figures->speedup_median = figures->speedup_min = figures->speedup_max = (double)NAN;
    if (count > 0) {
        figures->speedup_median = or_output_median(ratios, count);
        figures->speedup_min = ratios[0]; // they are sorted now
        figures->speedup_max = ratios[count - 1];
    }
}

static void set_acceptance(const or_generate_stats_t *stats, or_bench_figures_t *figures)
{
    double reached = 0;
    for (uint32_t i = 0; i < OR_STATS_LEVELS; i++) {
        figures->depth_offered[i] = stats->depth_offered[i];
        figures->rank_offered[i] = stats->rank_offered[i];
        figures->by_depth[i] =
            ratio((double)stats->depth_accepted[i], (double)stats->depth_offered[i]);
        figures->by_rank[i] =
            ratio((double)stats->rank_accepted[i], (double)stats->rank_offered[i]);
    }
    for (uint32_t k = 0; k < OR_BENCH_ALPHAS; k++) {
        // Rates over different nodes may add up to more than one.
        reached += figures->by_rank[k];
        figures->alpha[k] = reached > 1 ? 1 : reached;
    }
}

static void set_times(const or_bench_sum_t *sum, or_bench_figures_t *figures)
{
    const or_generate_stats_t *stats = &sum->stats;
    double rounds = (double)sum->rounds;
    double known = (double)stats->draft_us + (double)stats->verify_us + (double)stats->accept_us;
    figures->draft_us = ratio((double)stats->draft_us, rounds);
    figures->verify_us = ratio((double)stats->verify_us, rounds);
    figures->accept_us = ratio((double)stats->accept_us, rounds);
    figures->elsewhere_us = ratio((double)stats->round_us - known, rounds);
}

or_bench_figures_t or_bench_figures(const or_bench_results_t *results, uint32_t c,
                                    uint32_t category, double size_ratio)
{
    or_bench_sum_t sum = {0};
    for (uint32_t repeat = 0; repeat < results->repeats; repeat++) {
        add_repeat(results, c, repeat, category, &sum);
    }
    const or_generate_stats_t *stats = &sum.stats;
    double passes = ratio((double)stats->draft_passes, (double)stats->target_calls);
    or_bench_figures_t figures = {
        .runs = sum.runs,
        .tokens = stats->completion_tokens,
        .target_calls = stats->target_calls,
        .drafted = stats->drafted,
        .accepted = stats->accepted,
        .plain_rounds = stats->plain_rounds,
        .draft_passes = stats->draft_passes,
        .block_efficiency = ratio(stats->completion_tokens, (double)stats->target_calls),
        .rate = rate(&sum),
        .wire_bytes = ratio((double)stats->wire_bytes, stats->completion_tokens),
        .wire_accepted = ratio((double)stats->wire_bytes, (double)stats->accepted),
        .ahead_hit = ratio((double)stats->ahead_hits, (double)stats->ahead_rounds),
        .bridged_rounds = stats->bridged_rounds,
        .lookup_rounds = stats->lookup_rounds,
    };
    // Without a draft model its size does not matter.
    figures.mbsu = stats->draft_passes == 0 ? figures.block_efficiency
                                            : figures.block_efficiency / (passes * size_ratio + 1);
    set_acceptance(stats, &figures);
    set_times(&sum, &figures);
    set_speedup(results, c, category, &figures);
    return figures;
}
