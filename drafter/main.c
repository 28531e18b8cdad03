// outrider-drafter: a draft model as a process.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cpus.h"
#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "common/base/options/options.h"
#include "common/base/options/program.h"
#include "common/decode/token_tree.h"
#include "common/gguf/packed.h"
#include "common/model/cpu/workers.h"
#include "drafter/drafter.h"
#include "drafter/session.h"
#include "proto/net/edge.h"
#include "proto/net/endpoint.h"

#define EXIT_WRONG_OPTIONS 2
#define MODELS_BYTES (17 * (OR_DRAFT_MODELS_MAX + 1)) // hexadecimal, and a space each

typedef struct {
    char *model;
    or_option_list_t multi_models;
    char *connect;
    or_key_options_t keys;
    bool padding;
    char *owner;
    char *acceptance_file;
    char *log_level, *log_format;
    uint32_t threads;
    or_cpu_options_t cpus;
    or_gpu_options_t gpu;
    bool list_devices;
    uint32_t context;
    uint32_t nodes_max;
    uint32_t sessions_max;
    uint32_t step_delay_us;
    char *packed;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE", "draft model (GGUF)"},
    {"multi-model", "md", OR_OPTION_LIST, offsetof(config_t, multi_models), "FILE",
     "a further draft model, of the first one's vocabulary, for --draft-method multi"},
    {"connect", NULL, OR_OPTION_STRING, offsetof(config_t, connect), "ENDPOINT",
     "the coordinator, e.g. tcp://127.0.0.1:5577"},
    OR_KEY_OPTIONS(config_t, keys),
    {"padding", NULL, OR_OPTION_FLAG, offsetof(config_t, padding), NULL,
     "messages of an encrypted connection have one of a few sizes, so that sizes tell nothing"},
    {"owner", NULL, OR_OPTION_STRING, offsetof(config_t, owner), "NAME",
     "serve this owner's sessions only; not given: everybody's"},
    {"threads", "t", OR_OPTION_UINT32, offsetof(config_t, threads), "N",
     "threads; 0: one a CPU it may use", .bounds = OR_THREADS_BOUNDS},
    OR_CPU_OPTIONS(config_t, cpus),
    OR_GPU_OPTIONS(config_t, gpu),
    OR_GPU_LIST_OPTION(config_t, list_devices),
    {"ctx-size", "c", OR_OPTION_UINT32, offsetof(config_t, context), "N",
     "context in tokens; 0: what the model was made for, or there is memory for",
     .bounds = OR_CONTEXT_BOUNDS},
    {"draft-nodes-max", NULL, OR_OPTION_UINT32, offsetof(config_t, nodes_max), "N",
     "largest tree built"},
    {"sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, sessions_max), "N",
     "sessions whose cache is kept"},
    OR_PACKED_OPTION(config_t, packed, "", ""),
    {"acceptance-file", NULL, OR_OPTION_STRING, offsetof(config_t, acceptance_file), "FILE",
     "remember here how often guesses are accepted, for sequoia and calibrated dyspec"},
    {"step-delay-us", NULL, OR_OPTION_UINT32, offsetof(config_t, step_delay_us), "N",
     "every pass of a draft model takes so much longer; for laboratories"},
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {"log-format", NULL, OR_OPTION_STRING, offsetof(config_t, log_format), "FORMAT",
     "text, or json: one object a line, with session and request"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider-drafter",
    .summary = "Build trees of guessed tokens with a draft model, for a coordinator.",
    .usage = "-m FILE --connect ENDPOINT [options]",
    .table = table,
    .examples = "  outrider-drafter -m draft.gguf --connect tcp://127.0.0.1:5577\n"
                "  outrider-drafter -m one.gguf -md two.gguf --connect tcp://127.0.0.1:5577\n",
};

static int64_t turn(void *role)
{
    return or_drafter_turn(role);
}

static const char *refused(const void *role)
{
    return or_drafter_refused(role);
}

// The models besides the first.
typedef struct {
    or_gguf_t *ggufs[OR_DRAFT_MODELS_MAX];
    or_model_t *models[OR_DRAFT_MODELS_MAX];
    uint32_t count; // open or half open
} more_models_t;

static or_status_t same_vocabulary(const char *path, const or_gguf_t *gguf, const or_vocab_t *first)
{
    or_vocab_t *vocab;
    or_status_t status = or_vocab_load(gguf, &vocab);
    if (status != OR_OK) {
        return status;
    }
    bool same = or_vocab_hash(vocab) == or_vocab_hash(first);
    or_vocab_destroy(&vocab);
    return same ? OR_OK
                : or_fail(OR_ERR_INVALID,
                          "%s has another vocabulary than the first model: models that draft "
                          "together must share one",
                          path);
}

static or_status_t open_more(const char *path, const or_model_options_t *options,
                             const or_gpu_place_t *place, const or_edge_process_t *first,
                             more_models_t *more)
{
    uint32_t at = more->count++;
    uint32_t context = or_model_context(first->model);
    or_model_options_t as_first = *options;
    as_first.context_max = context;
    or_status_t status = or_gguf_open(path, &more->ggufs[at]);
    if (status == OR_OK) {
        status = same_vocabulary(path, more->ggufs[at], first->vocab);
    }
    if (status == OR_OK) {
        status = or_gpu_place_load(place, more->ggufs[at], &as_first, &more->models[at]);
    }
    if (status == OR_OK && or_model_context(more->models[at]) < context) {
        status = or_fail(OR_ERR_INVALID,
                         "%s holds %" PRIu32 " tokens, the first model %" PRIu32
                         ": set -c to the smaller number",
                         path, or_model_context(more->models[at]), context);
    }
    return status;
}

// Prepare the models before there are sessions: while a large embedding is copied to a GPU no heartbeat would go out.
static or_status_t prepare(const or_edge_process_t *first, const more_models_t *more)
{
    or_status_t status = or_builder_prepare(first->model, first->vocab);
    for (uint32_t i = 0; status == OR_OK && i < more->count; i++) {
        status = or_builder_prepare(more->models[i], first->vocab);
    }
    return status;
}

static void close_more(more_models_t *more)
{
    for (uint32_t i = more->count; i-- > 0;) {
        or_model_destroy(&more->models[i]);
        or_gguf_close(&more->ggufs[i]);
    }
}

// Name the vocabulary and the models that acceptance is measured with, for its file.
static void name_models(const or_edge_process_t *process, const more_models_t *more,
                        char text[MODELS_BYTES])
{
    int used = snprintf(text, MODELS_BYTES, "%016" PRIx64 " %016" PRIx64,
                        or_vocab_hash(process->vocab), or_gguf_fingerprint(process->gguf));
    for (uint32_t i = 0; i < more->count; i++) {
        used += snprintf(text + used, MODELS_BYTES - (size_t)used, " %016" PRIx64,
                         or_gguf_fingerprint(more->ggufs[i]));
    }
}

// Run everything from the file to the loop; clean up in reverse. *wrong_options: a new start cannot mend it.
static or_status_t serve(const config_t *config, const or_gpu_place_t *place, bool *wrong_options)
{
    char models[MODELS_BYTES] = "";
    or_edge_process_t process;
    more_models_t more = {0};
    or_drafter_t *drafter = NULL;
    const or_cpus_t cpus = or_cpus_allowed();
    const or_model_options_t options = {.threads = config->threads,
                                        .pins = config->cpus.strict ? &cpus : NULL,
                                        .poll = or_cpu_options_poll(&config->cpus),
                                        .context_max = config->context,
                                        .cache_type_k = OR_KV_BY_MODEL,
                                        .cache_type_v = OR_KV_BY_MODEL,
                                        .packed = config->packed,
                                        .sequences_max = config->sessions_max};
    or_status_t status = or_edge_process_open(config->model, &options, place, config->connect,
                                              &config->keys, &process);
    for (size_t i = 0; status == OR_OK && i < config->multi_models.count; i++) {
        status = open_more(config->multi_models.items[i], &options, place, &process, &more);
    }
    status = status != OR_OK ? status : prepare(&process, &more);
    const or_drafter_config_t shape = {.nodes_max = config->nodes_max,
                                       .sessions_max = config->sessions_max,
                                       .owner = config->owner,
                                       .gguf = process.gguf,
                                       .acceptance_file = config->acceptance_file,
                                       .models = models,
                                       .more_models = more.models,
                                       .more_count = more.count,
                                       .step_delay_us = config->step_delay_us,
                                       .stats_ms = OR_LINK_HEARTBEAT_MS};
    if (status == OR_OK) {
        name_models(&process, &more, models);
        or_hello_t hello = or_drafter_hello(&shape, process.gguf, process.model, process.vocab);
        status = or_edge_process_greet(&process, &hello);
    }
    if (status == OR_OK) {
        or_link_set_padding(process.link, config->padding);
        status = or_drafter_create(&shape, process.model, process.vocab, process.link,
                                   or_clock_monotonic(), &drafter);
        *wrong_options = status == OR_ERR_FORMAT || status == OR_ERR_IO; // the acceptance file
    }
    if (status == OR_OK) {
        status = or_edge_process_run(&process, turn, refused, drafter);
    }
    or_drafter_destroy(&drafter);
    close_more(&more);
    or_edge_process_close(&process);
    return status;
}

static or_status_t check(const config_t *config)
{
    if (config->model == NULL || config->connect == NULL) {
        return or_fail(OR_ERR_INVALID, "-m FILE and --connect ENDPOINT are needed; see --help");
    }
    if (config->nodes_max == 0 || config->nodes_max > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "--draft-nodes-max: %" PRIu32 " is not between 1 and %u",
                       config->nodes_max, OR_TREE_NODES_MAX);
    }
    if (config->multi_models.count >= OR_DRAFT_MODELS_MAX) {
        return or_fail(OR_ERR_INVALID, "at most %u models can draft together", OR_DRAFT_MODELS_MAX);
    }
    if (config->sessions_max == 0) {
        return or_fail(OR_ERR_INVALID, "--sessions-max is at least 1");
    }
    or_status_t status = or_endpoint_check(config->connect, false);
    status = status != OR_OK ? status : or_packed_check_wish(config->packed, 0);
    status = status != OR_OK ? status : or_cpu_options_check(&config->cpus, "");
    return status != OR_OK ? status : or_gpu_options_check(&config->gpu, "");
}

static int run(int argc, char **argv)
{
    config_t config = {.padding = true,
                       .packed = (char *)"auto",
                       .cpus = or_cpu_options_default(),
                       .gpu = or_gpu_options_default(),
                       .nodes_max = OR_TREE_NODES_MAX,
                       .sessions_max = 64};
    or_gpu_place_t place = {0};
    or_options_next_t next;
    or_log_level_t level = OR_LOG_INFO;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status == OR_OK && next == OR_OPTIONS_EXIT) {
        return 0;
    }
    if (status == OR_OK && config.list_devices) {
        or_gpu_list(or_gpu_functions(), stdout);
        or_options_free(&program, &config, NULL);
        return 0;
    }
    if (status == OR_OK && config.log_level != NULL) {
        status = or_log_parse_level(config.log_level, &level);
    }
    if (status == OR_OK && config.log_format != NULL) {
        status = or_log_set_format(config.log_format);
    }
    if (status == OR_OK) {
        status = check(&config);
    }
    if (status == OR_OK) {
        status = or_cpu_options_confine(&config.cpus); // before there is any other thread
    }
    if (status == OR_OK) {
        status = or_gpu_place_choose(&config.gpu, or_gpu_functions(), &place);
    }
    or_log_init("drafter", level);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        or_options_free(&program, &config, NULL);
        return EXIT_WRONG_OPTIONS;
    }
    or_interrupt_watch();
    bool wrong_options = false;
    status = serve(&config, &place, &wrong_options);
    if (status != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    or_options_free(&program, &config, NULL);
    if (wrong_options) {
        return EXIT_WRONG_OPTIONS;
    }
    return status == OR_ERR_MISMATCH ? OR_EXIT_REFUSED : status == OR_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    or_program_begin();
    return or_program_end(run(argc, argv));
}
