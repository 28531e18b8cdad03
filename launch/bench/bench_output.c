// This file prints the results as a table or a line of JSON, and writes the CSV file.
#include "launch/bench/bench_output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/generate/output.h"

#define PATH_BYTES 4096u
#define CELL_BYTES 48u
#define DEPTHS 6u // of the table; JSON has all

// ---- the table ----

static void name_case(FILE *out, const or_bench_case_t *c)
{
    fprintf(out, "  %-23s %-15s", c->name, c->tree);
}

static void spread(FILE *out, const or_bench_figures_t *figures, bool many)
{
    char range[CELL_BYTES] = "";
    or_output_cell(out, 8, 2, figures->speedup_median);
    if (many && !isnan(figures->speedup_min)) {
        snprintf(range, sizeof range, "(%.2f-%.2f)", figures->speedup_min, figures->speedup_max);
    }
    fprintf(out, " %-13s", range);
}

static void speed_row(const or_bench_output_t *output, uint32_t c, FILE *out)
{
    const or_bench_figures_t figures =
        or_bench_figures(output->results, c, OR_BENCH_ALL, output->size_ratio);
    or_output_cell(out, 6, 2, figures.block_efficiency);
    or_output_cell(out, 6, 2, figures.mbsu);
    or_output_cell(out, 8, 0, figures.rate);
    spread(out, &figures, output->results->repeats > 1);
    for (uint32_t k = 0; k < OR_BENCH_ALPHAS; k++) {
        or_output_cell(out, 5, 2, figures.alpha[k]);
    }
    or_output_cell(out, 7, 1, figures.wire_bytes);
}

static void round_row(const or_bench_output_t *output, uint32_t c, FILE *out)
{
    const or_bench_figures_t figures =
        or_bench_figures(output->results, c, OR_BENCH_ALL, output->size_ratio);
    or_output_cell(out, 8, 0, figures.draft_us);
    or_output_cell(out, 8, 0, figures.elsewhere_us);
    or_output_cell(out, 8, 0, figures.verify_us);
    or_output_cell(out, 8, 0, figures.accept_us);
    fputs("  ", out);
    for (uint32_t d = 0; d < DEPTHS; d++) {
        or_output_cell(out, 5, 2, figures.by_depth[d]);
    }
}

// The row of a case has its speed-up by task and over all tasks, then its tokens per target call.
static void task_row(const or_bench_output_t *output, uint32_t c, FILE *out)
{
    for (uint32_t i = 0; i <= output->prompts->category_count; i++) {
        bool all = i == output->prompts->category_count;
        const or_bench_figures_t figures =
            or_bench_figures(output->results, c, all ? OR_BENCH_ALL : i, output->size_ratio);
        or_output_cell(out, 8, 2, figures.speedup_median);
        if (all) {
            or_output_cell(out, 8, 2, figures.block_efficiency);
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

static void print_table(const or_bench_output_t *output, FILE *out)
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

// ---- JSON ----

// The rates go up to the last level that was ever offered.
static json_t *levels(const double *rates, const uint64_t *offered)
{
    json_t *array = json_array();
    uint32_t count = OR_STATS_LEVELS;
    while (count > 0 && offered[count - 1] == 0) {
        count--;
    }
    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(array, or_output_json_number(rates[i]));
    }
    return array;
}

static json_t *alphas(const or_bench_figures_t *figures)
{
    json_t *array = json_array();
    for (uint32_t k = 0; k < OR_BENCH_ALPHAS; k++) {
        json_array_append_new(array, or_output_json_number(figures->alpha[k]));
    }
    return array;
}

static json_t *figures_object(const or_bench_figures_t *f)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:{s:o, s:o, s:o, s:o}, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:I, s:I}",
        "runs", (json_int_t)f->runs, "tokens", (json_int_t)f->tokens,           //
        "target_calls", (json_int_t)f->target_calls,                            //
        "drafted", (json_int_t)f->drafted, "accepted", (json_int_t)f->accepted, //
        "plain_rounds", (json_int_t)f->plain_rounds,                            //
        "draft_passes", (json_int_t)f->draft_passes,                            //
        "block_efficiency", or_output_json_number(f->block_efficiency), "mbsu",
        or_output_json_number(f->mbsu),                               //
        "tokens_per_second", or_output_json_number(f->rate),          //
        "acceptance_by_depth", levels(f->by_depth, f->depth_offered), //
        "acceptance_by_rank", levels(f->by_rank, f->rank_offered),    //
        "alpha_at", alphas(f),                                        //
        "round_us", "draft", or_output_json_number(f->draft_us), "elsewhere",
        or_output_json_number(f->elsewhere_us), "verify", or_output_json_number(f->verify_us),
        "accept", or_output_json_number(f->accept_us),                //
        "wire_bytes_per_token", or_output_json_number(f->wire_bytes), //
        "speedup", "median", or_output_json_number(f->speedup_median), "min",
        or_output_json_number(f->speedup_min), "max", or_output_json_number(f->speedup_max), //
        "wire_bytes_per_accepted", or_output_json_number(f->wire_accepted),                  //
        "ahead_hit_rate", or_output_json_number(f->ahead_hit),                               //
        "bridged_rounds", (json_int_t)f->bridged_rounds,                                     //
        "lookup_rounds", (json_int_t)f->lookup_rounds);
}

static json_t *categories_object(const or_bench_output_t *output, uint32_t c)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < output->prompts->category_count; i++) {
        const or_bench_figures_t figures =
            or_bench_figures(output->results, c, i, output->size_ratio);
        json_object_set_new(object, output->prompts->categories[i], figures_object(&figures));
    }
    return object;
}

static json_t *case_object(const or_bench_output_t *output, uint32_t c)
{
    const or_bench_case_t *it = &output->results->plan->cases[c];
    bool plain = it->method == OR_DRAFT_NONE;
    bool dists = !plain && or_accept_rule_uses_distributions(it->rule);
    const or_bench_figures_t figures =
        or_bench_figures(output->results, c, OR_BENCH_ALL, output->size_ratio);
    json_t *object = json_pack(
        "{s:s, s:b, s:s, s:s?, s:f, s:s, s:I, s:I, s:I, s:s?, s:o}", "name", it->name, "lossy",
        !plain && or_accept_rule_is_lossy(it->rule),                                  //
        "draft_method", or_draft_method_name(it->method),                             //
        "accept", plain ? NULL : or_accept_rule_name(it->rule),                       //
        "temperature", (double)it->temperature, "tree", it->tree,                     //
        "group", (json_int_t)it->group, "nodes", (json_int_t)(plain ? 0 : it->nodes), //
        "texts_differing", (json_int_t)output->results->differing[c],                 //
        "reason", it->reason[0] != '\0' ? it->reason : NULL,                          //
        "distribution_entries",
        dists ? json_integer((json_int_t)it->distribution_entries) : json_null());
    json_object_update_missing_new(object, figures_object(&figures));
    if (output->prompts->category_count > 1) {
        json_object_set_new(object, "categories", categories_object(output, c));
    }
    return object;
}

static or_status_t print_json(const or_bench_output_t *output)
{
    json_t *cases = json_array();
    for (uint32_t c = 0; c < output->results->plan->count; c++) {
        json_array_append_new(cases, case_object(output, c));
    }
    json_t *line = json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:b, s:o}", "target",
        output->target,                                                                  //
        "draft", output->draft, "size_ratio", or_output_json_number(output->size_ratio), //
        "prompts", (json_int_t)(output->prompts->count - output->outcome->skipped),      //
        "prompts_skipped", (json_int_t)output->outcome->skipped,                         //
        "predict", (json_int_t)output->config->predict,                                  //
        "repeats", (json_int_t)output->config->repeats,                                  //
        "runs", (json_int_t)output->outcome->runs,                                       //
        "runs_planned", (json_int_t)output->outcome->runs_all,                           //
        "draft_policy", output->config->parameters.policy,                               //
        "draft_ahead", (json_int_t)output->config->parameters.ahead,                     //
        "interrupted", output->outcome->interrupted, "cases", cases);
    return or_output_json(line, OR_OUTPUT_DIGITS);
}

// ---- CSV (RFC 4180) ----

static void csv_number(FILE *out, double value)
{
    if (isnan(value)) {
        fputc(',', out);
    } else {
        fprintf(out, ",%.6g", value);
    }
}

static void csv_text(FILE *out, const char *text)
{
    fputs(",\"", out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void csv_heading(FILE *out)
{
    fputs(
        "name,temperature,tree,group,category,reason,texts_differing,runs,tokens,target_calls,"
        "drafted,accepted,plain_rounds,draft_passes,block_efficiency,mbsu,tokens_per_second,"
        "speedup,speedup_min,speedup_max,draft_us,elsewhere_us,verify_us,accept_us,"
        "wire_bytes_per_token,wire_bytes_per_accepted,ahead_hit_rate,bridged_rounds,lookup_rounds",
        out);
    for (uint32_t k = 1; k <= OR_BENCH_ALPHAS; k++) {
        fprintf(out, ",alpha_at_%" PRIu32, k);
    }
    for (uint32_t i = 1; i <= OR_STATS_LEVELS; i++) {
        fprintf(out, ",depth_%" PRIu32, i);
    }
    for (uint32_t i = 1; i <= OR_STATS_LEVELS; i++) {
        fprintf(out, ",rank_%" PRIu32, i);
    }
    fputs("\r\n", out);
}

static void csv_row(const or_bench_output_t *output, uint32_t c, uint32_t category, FILE *out)
{
    const or_bench_case_t *it = &output->results->plan->cases[c];
    const or_bench_figures_t f = or_bench_figures(output->results, c, category, output->size_ratio);
    const uint64_t counts[] = {f.tokens,   f.target_calls, f.drafted,
                               f.accepted, f.plain_rounds, f.draft_passes};
    const double numbers[] = {f.block_efficiency,
                              f.mbsu,
                              f.rate,
                              f.speedup_median,
                              f.speedup_min,
                              f.speedup_max,
                              f.draft_us,
                              f.elsewhere_us,
                              f.verify_us,
                              f.accept_us,
                              f.wire_bytes,
                              f.wire_accepted,
                              f.ahead_hit,
                              (double)f.bridged_rounds,
                              (double)f.lookup_rounds};
    fprintf(out, "%s,%g,%s,%" PRIu32, it->name, (double)it->temperature, it->tree, it->group);
    csv_text(out, category == OR_BENCH_ALL ? "all" : output->prompts->categories[category]);
    csv_text(out, it->reason);
    fprintf(out, ",%" PRIu32 ",%" PRIu32, output->results->differing[c], f.runs);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        fprintf(out, ",%" PRIu64, counts[i]);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        csv_number(out, numbers[i]);
    }
    for (uint32_t k = 0; k < OR_BENCH_ALPHAS; k++) {
        csv_number(out, f.alpha[k]);
    }
    for (uint32_t i = 0; i < OR_STATS_LEVELS; i++) {
        csv_number(out, f.by_depth[i]);
    }
    for (uint32_t i = 0; i < OR_STATS_LEVELS; i++) {
        csv_number(out, f.by_rank[i]);
    }
    fputs("\r\n", out);
}

static or_status_t write_csv(const or_bench_output_t *output, const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    uint32_t categories = output->config->spec_bench ? output->prompts->category_count : 0;
    csv_heading(out);
    for (uint32_t c = 0; c < output->results->plan->count; c++) {
        csv_row(output, c, OR_BENCH_ALL, out);
        for (uint32_t i = 0; i < categories; i++) {
            csv_row(output, c, i, out);
        }
    }
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        return or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    return OR_OK;
}

// ---- all ----

static or_status_t check_plots(const char *folder)
{
    char inside[PATH_BYTES];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return or_fail(OR_ERR_IO, "--plots: cannot make %s: %s", folder, strerror(errno));
    }
    snprintf(inside, sizeof inside, "%s/.", folder); // so that a file is none
    return access(inside, W_OK) == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "--plots: cannot write to %s: %s", folder, strerror(errno));
}

or_status_t or_bench_output_check(const or_bench_config_t *config)
{
    FILE *csv = config->csv != NULL ? fopen(config->csv, "a") : NULL;
    if (config->csv != NULL && csv == NULL) {
        return or_fail(OR_ERR_IO, "--csv: cannot write %s: %s", config->csv, strerror(errno));
    }
    if (csv != NULL) {
        fclose(csv); // nothing was written
    }
    return config->plots != NULL ? check_plots(config->plots) : OR_OK;
}

or_status_t or_bench_output(const or_bench_output_t *output)
{
    const or_bench_config_t *config = output->config;
    or_status_t status = OR_OK;
    if (config->json) {
        status = print_json(output);
    } else {
        print_table(output, stdout);
    }
    status = status != OR_OK ? status : or_output_flush();
    if (status == OR_OK && config->csv != NULL) {
        status = write_csv(output, config->csv);
    }
    if (status == OR_OK && config->plots != NULL) {
        status = or_bench_write_plots(output, config->plots);
    }
    return status;
}
