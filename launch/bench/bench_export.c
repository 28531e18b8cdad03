// The results for programs: a line of JSON and a CSV file.
#include "launch/bench/bench_output.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- JSON ----

static json_t *number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

// Up to the last level that was ever offered.
static json_t *levels(const double *rates, const uint64_t *offered)
{
    json_t *array = json_array();
    uint32_t count = OR_STATS_LEVELS;
    while (count > 0 && offered[count - 1] == 0) {
        count--;
    }
    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(array, number(rates[i]));
    }
    return array;
}

static json_t *alphas(const or_bench_figures_t *figures)
{
    json_t *array = json_array();
    for (uint32_t k = 0; k < OR_BENCH_ALPHAS; k++) {
        json_array_append_new(array, number(figures->alpha[k]));
    }
    return array;
}

static json_t *figures_object(const or_bench_figures_t *f)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
                     "s:{s:o, s:o, s:o, s:o}, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:I, s:I}",
                     "runs", (json_int_t)f->runs, "tokens", (json_int_t)f->tokens,             //
                     "target_calls", (json_int_t)f->target_calls,                              //
                     "drafted", (json_int_t)f->drafted, "accepted", (json_int_t)f->accepted,   //
                     "plain_rounds", (json_int_t)f->plain_rounds,                              //
                     "draft_passes", (json_int_t)f->draft_passes,                              //
                     "block_efficiency", number(f->block_efficiency), "mbsu", number(f->mbsu), //
                     "tokens_per_second", number(f->rate),                                     //
                     "acceptance_by_depth", levels(f->by_depth, f->depth_offered),             //
                     "acceptance_by_rank", levels(f->by_rank, f->rank_offered),                //
                     "alpha_at", alphas(f),                                                    //
                     "round_us", "draft", number(f->draft_us), "elsewhere", number(f->elsewhere_us),
                     "verify", number(f->verify_us), "accept", number(f->accept_us), //
                     "wire_bytes_per_token", number(f->wire_bytes),                  //
                     "speedup", "median", number(f->speedup_median), "min", number(f->speedup_min),
                     "max", number(f->speedup_max),                       //
                     "wire_bytes_per_accepted", number(f->wire_accepted), //
                     "ahead_hit_rate", number(f->ahead_hit),              //
                     "bridged_rounds", (json_int_t)f->bridged_rounds,     //
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

or_status_t or_bench_print_json(const or_bench_output_t *output, FILE *out)
{
    json_t *cases = json_array();
    for (uint32_t c = 0; c < output->results->plan->count; c++) {
        json_array_append_new(cases, case_object(output, c));
    }
    json_t *line =
        json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:b, s:o}", "target",
                  output->target,                                                             //
                  "draft", output->draft, "size_ratio", number(output->size_ratio),           //
                  "prompts", (json_int_t)(output->prompts->count - output->outcome->skipped), //
                  "prompts_skipped", (json_int_t)output->outcome->skipped,                    //
                  "predict", (json_int_t)output->config->predict,                             //
                  "repeats", (json_int_t)output->config->repeats,                             //
                  "runs", (json_int_t)output->outcome->runs,                                  //
                  "runs_planned", (json_int_t)output->outcome->runs_all,                      //
                  "draft_policy", output->config->parameters.policy,                          //
                  "draft_ahead", (json_int_t)output->config->parameters.ahead,                //
                  "interrupted", output->outcome->interrupted, "cases", cases);
    char *dump = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(line);
    if (dump == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
    }
    fprintf(out, "%s\n", dump);
    free(dump);
    return OR_OK;
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

or_status_t or_bench_write_csv(const or_bench_output_t *output, const char *path)
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
