// outrider bench - drafting methods and acceptance rules side by side, with plain decoding as the
// measure.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/gguf/gguf.h"
#include "launch/bench/bench_output.h"
#include "launch/bench/bench_synthetic.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"

#define END_PATIENCE_NS (500 * OR_NS_PER_MS) // for the children, which have nothing to save

typedef struct {
    or_bench_config_t *config;
    or_bench_prompts_t prompts;
    or_bench_plan_t plan;
    or_bench_results_t results;
    or_bench_outcome_t outcome;
    or_cluster_t *cluster; // NULL with --connect and without models
    or_synthetic_distribution_t dist;
    or_synthetic_t *synthetic; // NULL with models
    const char *endpoint;      // of the coordinator
} bench_t;

static or_status_t count_parameters(const char *path, double *parameters)
{
    or_gguf_t *gguf = NULL;
    or_status_t status = or_gguf_open(path, &gguf);
    if (status != OR_OK) {
        return status;
    }
    double sum = 0;
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        sum += (double)or_gguf_tensor(gguf, i)->elements;
    }
    or_gguf_close(&gguf);
    *parameters = sum;
    return OR_OK;
}

// Set *ratio to draft parameters over target parameters; to NAN where only the coordinator knows the models.
static or_status_t measure_models(const or_bench_config_t *config, double *ratio)
{
    double target;
    double draft;
    *ratio = (double)NAN;
    if (config->models.model == NULL || config->models.draft_model == NULL) {
        return OR_OK;
    }
    or_status_t status = count_parameters(config->models.model, &target);
    if (status == OR_OK) {
        status = count_parameters(config->models.draft_model, &draft);
    }
    if (status == OR_OK && target > 0) {
        *ratio = draft / target;
    }
    return status;
}

static or_status_t start_cluster(bench_t *bench)
{
    const or_bench_config_t *config = bench->config;
    if (config->synthetic != NULL) {
        return or_synthetic_start(&bench->dist, config->models.model, config->log_level,
                                  config->verbose, &bench->synthetic, &bench->endpoint);
    }
    const or_cluster_config_t local = {.announce = stderr,
                                       .models = &config->models,
                                       .sessions_max = OR_CLUSTER_SESSIONS_OWN,
                                       .queue_max = OR_CLUSTER_QUEUE,
                                       .log_level = config->log_level,
                                       .show_logs = config->verbose};
    or_status_t status = or_cluster_start(&local, &bench->cluster);
    if (status == OR_OK) {
        bench->endpoint = or_cluster_endpoint(bench->cluster);
    }
    return status;
}

// Parse acceptances by rank, as "0.6,0.2".
static or_status_t parse_acceptances(const char *list, or_synthetic_distribution_t *dist)
{
    char word[OR_INPUT_WORD_BYTES];
    double total = 0;
    or_status_t status;
    while ((status = or_input_word("--synthetic-acceptance", &list, word)) == OR_OK) {
        char *end;
        double one = strtod(word, &end);
        total += one;
        if (*end != '\0' || !(one >= 0) || !(total <= 1 + 1e-9)) {
            return or_fail(OR_ERR_INVALID,
                           "--synthetic-acceptance: '%s' is not a probability, or all together "
                           "are more than 1",
                           word);
        }
        if (dist->ranks == OR_SYNTHETIC_RANKS_MAX) {
            return or_fail(OR_ERR_INVALID, "--synthetic-acceptance: more than %u ranks",
                           OR_SYNTHETIC_RANKS_MAX);
        }
        dist->acceptance[dist->ranks++] = one;
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

// Check and prepare all that was asked for. Nothing is started yet.
static or_status_t prepare(bench_t *bench)
{
    const or_bench_config_t *config = bench->config;
    const or_bench_prompts_choice_t prompts = {.path = config->prompts,
                                               .only = config->categories,
                                               .limit = config->prompt_limit,
                                               .survey_tasks = config->spec_bench};
    // A bench without models has no texts to compare, and no temperature.
    bool synthetic = config->synthetic != NULL;
    or_bench_plan_choice_t plan = {.kind = or_bench_config_kind(config),
                                   .methods = synthetic ? "coupled" : config->methods,
                                   .nodes = config->nodes,
                                   .depth = config->parameters.request.draft_depth,
                                   .distribution_entries = config->distribution_entries,
                                   .temperatures = synthetic ? "1" : config->temperatures,
                                   .multi = config->models.multi_models.count > 0,
                                   .calibrated = config->parameters.request.draft_calibrated,
                                   .allow_lossy = config->parameters.request.allow_lossy};
    bench->dist = (or_synthetic_distribution_t){
        .step_us = config->step_us, .draft_us = config->draft_us, .seed = config->seed};
    or_status_t status = or_bench_config_check(config);
    if (status == OR_OK) {
        status = or_vocab_method_parse(config->parameters.vocab_map, &plan.vocab_method);
    }
    if (status == OR_OK && synthetic) {
        status = parse_acceptances(config->synthetic, &bench->dist);
    }
    if (status == OR_OK) {
        status = or_bench_plan_make(&plan, &bench->plan);
    }
    if (status == OR_OK) {
        status = or_bench_prompts_read(&prompts, &bench->prompts);
    }
    if (status == OR_OK) {
        status = or_bench_results_init(&bench->plan, config->repeats, bench->prompts.category_count,
                                       &bench->results);
    }
    if (status == OR_OK && config->connect == NULL) {
        status = or_models_choose_all(&bench->config->models,
                                      synthetic ? OR_DRAFT_MODEL_NONE : OR_DRAFT_MODEL_NEEDED);
    }
    if (status == OR_OK) {
        status = or_bench_output_check(config);
    }
    if (status == OR_OK && config->prompts == NULL) {
        fprintf(stderr, "%" PRIu32 " prompt%s of our own; --prompts FILE.jsonl takes yours\n",
                bench->prompts.count, bench->prompts.count == 1 ? "" : "s");
    }
    return status;
}

static or_status_t print(const bench_t *bench, double size_ratio)
{
    const or_bench_config_t *config = bench->config;
    const or_bench_output_t output = {
        .results = &bench->results,
        .prompts = &bench->prompts,
        .config = config,
        .outcome = &bench->outcome,
        .target = config->models.model != NULL ? config->models.model : "",
        .draft = config->models.draft_model != NULL ? config->models.draft_model : "",
        .size_ratio = size_ratio};
    return or_bench_output(&output);
}

// Was everything measured that was asked for, plain decoding to the end, and did every text agree
// with it?
static bool is_sound(const bench_t *bench)
{
    for (uint32_t c = 0; c < bench->plan.count; c++) {
        const or_bench_case_t *it = &bench->plan.cases[c];
        bool measured = or_bench_results_runs(&bench->results, c) > 0;
        bool failed = it->method == OR_DRAFT_NONE || (it->legal && !measured);
        if (failed && it->reason[0] != '\0') {
            return false;
        }
    }
    return bench->outcome.runs > 0 && bench->outcome.differing == 0;
}

// Run and print. What was measured is printed even if something goes wrong behind it.
static int run_and_print(bench_t *bench, double size_ratio)
{
    const or_bench_place_t place = {.config = bench->config,
                                    .prompts = &bench->prompts,
                                    .cluster = bench->cluster,
                                    .endpoint = bench->endpoint};
    int code = OR_EXIT_OK;
    if (or_bench_run(&place, &bench->plan, &bench->results, &bench->outcome) != OR_OK) {
        code = or_command_fail("bench", OR_EXIT_FAILURE);
    }
    if (code == OR_EXIT_OK || bench->outcome.runs > 0) {
        if (print(bench, size_ratio) != OR_OK) {
            code = or_command_fail("bench", OR_EXIT_FAILURE);
        }
    }
    if (bench->outcome.interrupted) {
        return OR_EXIT_INTERRUPTED;
    }
    return is_sound(bench) ? code : OR_EXIT_FAILURE;
}

static int measure(bench_t *bench)
{
    double size_ratio;
    or_interrupt_watch();
    or_status_t status = measure_models(bench->config, &size_ratio);
    bench->endpoint = bench->config->connect;
    if (status == OR_OK && bench->endpoint == NULL) {
        status = start_cluster(bench);
    }
    int code = OR_EXIT_INTERRUPTED;
    if (status == OR_OK) {
        code = run_and_print(bench, size_ratio);
    } else if (or_interrupt_count() == 0) {
        code = or_command_fail("bench", OR_EXIT_FAILURE);
    }
    or_synthetic_stop(&bench->synthetic, END_PATIENCE_NS);
    or_cluster_stop(&bench->cluster, END_PATIENCE_NS);
    return code;
}

static int run(int argc, char **argv)
{
    static const or_command_t *const others[] = {&or_bench_load_command, &or_bench_step_command,
                                                 &or_bench_kernels_command, NULL};
    const or_command_t *other = argc >= 2 ? or_command_find(others, argv[1]) : NULL;
    if (other != NULL) {
        return other->run(argc - 1, argv + 1);
    }
    or_bench_config_t config = or_bench_config_default();
    bench_t bench = {.config = &config};
    int code;
    if (!or_command_begin(&or_bench_program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_status_t status = or_command_open_log("bench", config.log_level);
    if (status == OR_OK) {
        status = prepare(&bench);
    }
    code = status == OR_OK ? measure(&bench) : or_command_fail("bench", or_command_code(status));
    or_bench_results_fini(&bench.results);
    or_bench_prompts_fini(&bench.prompts);
    or_bench_plan_fini(&bench.plan);
    or_options_free(&or_bench_program, &config, NULL);
    return code;
}

const or_command_t or_bench_command = {
    "bench", run, "compare drafting methods and acceptance rules with plain decoding"};
