#include "launch/bench/bench_output.h"

#include <inttypes.h>
#include <math.h>

#define CELL_BYTES 48u
#define DEPTHS 6u // of the table; JSON has all

// A number in `width` columns; "-" where there is none.
static void number(FILE *out, int width, int decimals, double value)
{
    if (isnan(value)) {
        fprintf(out, " %*s", width, "-");
    } else {
        fprintf(out, " %*.*f", width, decimals, value);
    }
}

static void name_case(FILE *out, const or_bench_case_t *c)
{
    fprintf(out, "  %-23s %-15s", c->name, c->tree);
}

static void spread(FILE *out, const or_bench_figures_t *figures, bool many)
{
    char range[CELL_BYTES] = "";
    number(out, 8, 2, figures->speedup_median);
    if (many && !isnan(figures->speedup_min)) {
        snprintf(range, sizeof range, "(%.2f-%.2f)", figures->speedup_min, figures->speedup_max);
    }
    fprintf(out, " %-13s", range);
}

static void speed_row(const or_bench_output_t *output, uint32_t c, FILE *out)
{
    const or_bench_figures_t figures =
        or_bench_figures(output->results, c, OR_BENCH_ALL, output->size_ratio);
    number(out, 6, 2, figures.block_efficiency);
    number(out, 6, 2, figures.mbsu);
    number(out, 8, 0, figures.rate);
    spread(out, &figures, output->results->repeats > 1);
    for (uint32_t k = 0; k < OR_BENCH_ALPHAS; k++) {
        number(out, 5, 2, figures.alpha[k]);
    }
    number(out, 7, 1, figures.wire_bytes);
}

static void round_row(const or_bench_output_t *output, uint32_t c, FILE *out)
{
    const or_bench_figures_t figures =
        or_bench_figures(output->results, c, OR_BENCH_ALL, output->size_ratio);
    number(out, 8, 0, figures.draft_us);
    number(out, 8, 0, figures.elsewhere_us);
    number(out, 8, 0, figures.verify_us);
    number(out, 8, 0, figures.accept_us);
    fputs("  ", out);
    for (uint32_t d = 0; d < DEPTHS; d++) {
        number(out, 5, 2, figures.by_depth[d]);
    }
}

// Speed-up by task, and over all; then tokens per target call.
static void task_row(const or_bench_output_t *output, uint32_t c, FILE *out)
{
    for (uint32_t i = 0; i <= output->prompts->category_count; i++) {
        bool all = i == output->prompts->category_count;
        const or_bench_figures_t figures =
            or_bench_figures(output->results, c, all ? OR_BENCH_ALL : i, output->size_ratio);
        number(out, 8, 2, figures.speedup_median);
        if (all) {
            number(out, 8, 2, figures.block_efficiency);
        }
    }
}

static void task_heading(const or_bench_output_t *output, FILE *out)
{
    for (uint32_t i = 0; i < output->prompts->category_count; i++) {
        fprintf(out, " %8.8s", output->prompts->categories[i]);
    }
    fprintf(out, " %8s %8s", "overall", "accepted");
}

typedef void (*row_t)(const or_bench_output_t *output, uint32_t c, FILE *out);

static void heading_of(const or_bench_plan_t *plan, const or_bench_case_t *c, FILE *out)
{
    if (c->method == OR_DRAFT_NONE) {
        fprintf(out, "temperature %g\n", (double)c->temperature);
    } else {
        fprintf(out, "  %s %" PRIu32 "\n", plan->group_name, c->group);
    }
}

static void rows(const or_bench_output_t *output, row_t row, FILE *out)
{
    const or_bench_plan_t *plan = output->results->plan;
    for (uint32_t c = 0; c < plan->count; c++) {
        const or_bench_case_t *it = &plan->cases[c];
        if (c == 0 || it->group != it[-1].group || it->method == OR_DRAFT_NONE) {
            heading_of(plan, it, out);
        }
        name_case(out, it);
        uint32_t runs = or_bench_results_runs(output->results, c);
        if (it->reason[0] != '\0' && runs == 0) {
            fprintf(out, " not measured: %s", it->reason);
        } else {
            row(output, c, out);
        }
        if (output->results->differing[c] > 0) {
            fprintf(out, "  TEXT DIFFERS %" PRIu32 " times", output->results->differing[c]);
        }
        fputc('\n', out);
        if (it->reason[0] != '\0' && runs > 0) {
            fprintf(out, "    not measured to the end, %" PRIu32 " run%s: %s\n", runs,
                    runs == 1 ? "" : "s", it->reason);
        }
    }
}

void or_bench_print_table(const or_bench_output_t *output, FILE *out)
{
    const or_bench_outcome_t *outcome = output->outcome;
    if (output->config->spec_bench) {
        fprintf(out, "speed-up over plain decoding by task, and tokens per target call\n%-41s", "");
        task_heading(output, out);
        fputc('\n', out);
        rows(output, task_row, out);
        fputc('\n', out);
    }
    fprintf(out, "  %-23s %-15s %6s %6s %8s %8s %-13s %23s %7s\n", "", "", "tokens", "", "tokens",
            "", "", "accepted among the first", "bytes");
    fprintf(out, "  %-23s %-15s %6s %6s %8s %8s %-13s %5s %5s %5s %5s %7s\n", "", "tree", "/call",
            "MBSU", "/s", "speed-up", "(range)", "1", "2", "3", "4", "/token");
    rows(output, speed_row, out);
    fprintf(out, "\n  %-39s %35s    %s\n", "", "microseconds of a round",
            "accepted at depth, where offered");
    fprintf(out, "  %-23s %-15s %8s %8s %8s %8s   %5s %5s %5s %5s %5s %5s\n", "", "tree", "draft",
            "between", "verify", "accept", "1", "2", "3", "4", "5", "6");
    rows(output, round_row, out);
    uint32_t prompts = output->prompts->count - outcome->skipped;
    fprintf(out, "\n%" PRIu64 " of %" PRIu64 " runs, %" PRIu32 " prompt%s", outcome->runs,
            outcome->runs_all, prompts, prompts == 1 ? "" : "s");
    if (outcome->skipped > 0) {
        fprintf(out, " (%" PRIu32 " too long for the context)", outcome->skipped);
    }
    if (!isnan(output->size_ratio)) {
        fprintf(out, ", draft model %.3f of the target's size", output->size_ratio);
    }
    fprintf(out, "%s\n", outcome->interrupted ? "; interrupted" : "");
    if (outcome->compared > 0) {
        fprintf(out, "texts at temperature 0 unlike plain decoding's: %" PRIu32 " of %" PRIu32 "\n",
                outcome->differing, outcome->compared);
    }
    if (output->config->parameters.request.draft_calibrated) {
        fputs("* grown by measured acceptance (--draft-calibrated)\n", out);
    }
}
