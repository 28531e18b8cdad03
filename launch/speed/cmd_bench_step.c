// outrider bench step - what a step of a model costs: trees of guesses against a single token, batches of
// many texts, prefill.
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/cpus.h"
#include "common/base/options/options.h"
#include "common/model/cpu/workers.h"
#include "common/model/gpu/gpu_choice.h"
#include "launch/bench/bench_list.h"
#include "launch/commands.h"
#include "launch/model/models.h"
#include "launch/speed/step_run.h"

typedef struct {
    char *model;
    char *rows, *sessions, *prefill; // lists; NULL: none
    uint32_t context, threads, repeats;
    or_cpu_options_t cpus;
    or_gpu_options_t gpu;
    bool list_devices, json;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, AT(model), "FILE",
     "model (GGUF); the demonstration target if not given"},
    {"rows", NULL, OR_OPTION_STRING, AT(rows), "LIST",
     "time trees of so many nodes, with the logits of all; 1,16,64 if not given"},
    {"sessions", NULL, OR_OPTION_STRING, AT(sessions), "LIST",
     "time batches of one step each of so many texts"},
    {"prefill", NULL, OR_OPTION_STRING, AT(prefill), "LIST",
     "time the first so many tokens of a text, 512 a pass, with the logits of the last"},
    {"context", NULL, OR_OPTION_UINT32, AT(context), "N", "tokens before a tree or a step"},
    {"repeat", NULL, OR_OPTION_UINT32, AT(repeats), "N",
     "passes of each kind, by turns; times are medians"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    OR_CPU_OPTIONS(config_t, cpus),
    OR_GPU_OPTIONS(config_t, gpu),
    OR_GPU_LIST_OPTION(config_t, list_devices),
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL,
     "one line, an array of an object a kind of pass, instead of the table"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider bench step",
    .summary = "time forward passes: trees of guesses, batches of texts, prefill",
    .usage = "[-m FILE] [options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider bench step -m model.gguf --rows 1,16,64 --json\n"
                "  outrider bench step -m model.gguf --prefill 512 --sessions 16 -t 2\n\n"
                "bytes_per_s is what the weights, read once a pass, come to.\n",
};

// ---- what was asked for ----

static or_status_t add_steps(const char *option, const char *list, or_step_kind_t kind,
                             uint32_t most, or_step_plan_t *plan)
{
    char word[OR_BENCH_WORD_BYTES];
    or_status_t status = OR_OK;
    while (list != NULL && (status = or_bench_list_next(option, &list, word)) == OR_OK) {
        char *end;
        errno = 0;
        unsigned long rows = strtoul(word, &end, 10);
        if (word[0] < '0' || word[0] > '9' || *end != '\0' || errno != 0 || rows < 1 ||
            rows > most) {
            return or_fail(OR_ERR_INVALID, "%s: '%s' is no number from 1 to %" PRIu32, option, word,
                           most);
        }
        if (plan->count == OR_STEPS_MAX) {
            return or_fail(OR_ERR_INVALID, "%s: more than %u kinds of passes; time them in parts",
                           option, OR_STEPS_MAX);
        }
        plan->steps[plan->count++] = (or_step_t){.kind = kind, .rows = (uint32_t)rows};
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

static or_status_t check_places(const config_t *config)
{
    or_status_t status = or_command_check_threads("-t/--threads", config->threads);
    status = status != OR_OK ? status : or_cpu_options_check(&config->cpus, "");
    return status != OR_OK ? status : or_gpu_options_check(&config->gpu, "");
}

static or_status_t make_plan(const config_t *config, or_step_plan_t *plan)
{
    *plan = (or_step_plan_t){.context = config->context, .repeats = config->repeats};
    if (config->context < 1) {
        return or_fail(OR_ERR_INVALID, "--context: at least one token");
    }
    if (config->repeats < 1 || config->repeats > OR_STEP_REPEATS_MAX) {
        return or_fail(OR_ERR_INVALID, "--repeat: 1 to %u", OR_STEP_REPEATS_MAX);
    }
    or_status_t status = check_places(config);
    if (status == OR_OK) {
        status = add_steps("--rows", config->rows != NULL ? config->rows : "1,16,64", OR_STEP_TREE,
                           OR_STEP_TREE_MAX, plan);
    }
    if (status == OR_OK) {
        status =
            add_steps("--sessions", config->sessions, OR_STEP_SESSIONS, OR_STEP_SESSIONS_MAX, plan);
    }
    if (status == OR_OK) {
        status =
            add_steps("--prefill", config->prefill, OR_STEP_PREFILL, OR_STEP_PREFILL_MAX, plan);
    }
    return status;
}

// ---- output ----

// A pass in steps of a single token; NAN if none was timed.
static double plain_steps(const or_step_plan_t *plan, const or_step_t *step)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].kind == OR_STEP_TREE && plan->steps[i].rows == 1) {
            return step->median_ms / plan->steps[i].median_ms;
        }
    }
    return (double)NAN;
}

static void print_table(const or_model_t *model, const or_step_plan_t *plan, const char *path,
                        uint32_t threads)
{
    printf("%s on %s: %.1f M parameters, %.1f MB of weights, kernels %s, %" PRIu32 " thread%s, "
           "medians of %" PRIu32 "\n\n",
           path, or_gpu_where(model).text, 1e-6 * (double)or_model_shape(model)->parameters,
           1e-6 * (double)or_model_memory(model).weights, or_model_kernels(model), threads,
           threads == 1 ? "" : "s", plan->repeats);
    printf("%-9s %6s %11s %11s %8s %12s\n", "pass", "rows", "ms", "best ms", "GB/s", "plain steps");
    for (uint32_t i = 0; i < plan->count; i++) {
        const or_step_t *step = &plan->steps[i];
        double steps = plain_steps(plan, step);
        printf("%-9s %6" PRIu32 " %11.3f %11.3f %8.2f", or_step_kind_name(step->kind), step->rows,
               step->median_ms, step->best_ms, 1e-9 * step->bytes_per_s);
        if (isnan(steps)) {
            printf(" %12s\n", "-");
        } else {
            printf(" %12.2f\n", steps);
        }
    }
}

static or_status_t print_json(const or_model_t *model, const or_step_plan_t *plan)
{
    const or_gpu_where_t where = or_gpu_where(model);
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->count; i++) {
        const or_step_t *step = &plan->steps[i];
        double steps = plain_steps(plan, step);
        json_array_append_new(array, json_pack("{s:s, s:I, s:s, s:s, s:f, s:f, s:f, s:o}", "pass",
                                               or_step_kind_name(step->kind), "rows",
                                               (json_int_t)step->rows, "device", where.name,
                                               "kernels", or_model_kernels(model), "ms",
                                               step->median_ms, "best_ms", step->best_ms,
                                               "bytes_per_s", step->bytes_per_s, "plain_steps",
                                               isnan(steps) ? json_null() : json_real(steps)));
    }
    if (array == NULL || json_array_size(array) != plan->count) {
        json_decref(array);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
    }
    json_dumpf(array, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(array);
    return OR_OK;
}

// ---- the command ----

// Where the threads run: the range confines them all, a strict one pins each.
static or_status_t place_threads(const config_t *config, or_cpus_t *cpus,
                                 or_model_options_t *options)
{
    or_status_t status = or_cpu_options_confine(&config->cpus);
    *cpus = or_cpus_allowed();
    uint32_t usable = or_cpus_count(cpus);
    uint32_t most = usable < OR_THREADS_MAX ? usable : OR_THREADS_MAX;
    options->threads = config->threads > 0 ? config->threads : most;
    options->pins = config->cpus.strict != 0 ? cpus : NULL;
    options->poll = or_cpu_options_poll(&config->cpus);
    return status;
}

static or_status_t run(const config_t *config, or_step_plan_t *plan)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_model_options_t options = {0};
    or_gpu_place_t place;
    or_cpus_t cpus;
    or_status_t status = place_threads(config, &cpus, &options);
    if (status == OR_OK) {
        status = or_gpu_place_choose(&config->gpu, or_gpu_functions(), &place);
    }
    if (status == OR_OK) {
        status = or_step_room(plan, &options);
    }
    if (status == OR_OK) {
        status = or_gguf_open(config->model, &gguf);
    }
    if (status == OR_OK) {
        status = or_gpu_place_load(&place, gguf, &options, &model);
    }
    if (status == OR_OK) {
        status = or_step_run(model, or_clock_monotonic(), plan);
    }
    if (status == OR_OK && config->json) {
        status = print_json(model, plan);
    } else if (status == OR_OK) {
        print_table(model, plan, config->model, options.threads);
    }
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

int or_command_bench_step(int argc, char **argv)
{
    config_t config = {.context = 128,
                       .repeats = 11,
                       .cpus = or_cpu_options_default(),
                       .gpu = or_gpu_options_default()};
    or_step_plan_t plan;
    or_options_next_t next;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("bench step", OR_EXIT_USAGE);
    }
    if (config.list_devices) {
        return or_command_list_devices(&program, &config);
    }
    int code = OR_EXIT_USAGE;
    status = make_plan(&config, &plan);
    if (status == OR_OK) {
        code = OR_EXIT_FAILURE;
        status = or_models_choose_target(&config.model);
    }
    if (status == OR_OK) {
        status = run(&config, &plan);
    }
    or_options_free(&program, &config, NULL);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("bench step", code);
}
