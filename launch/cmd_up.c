// outrider up - a local cluster in the foreground, for `outrider generate --connect` and drafters
// elsewhere.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "launch/cluster.h"
#include "launch/commands.h"
#include "launch/models.h"
#include "launch/target_options.h"

#define LOOK_NS (200 * OR_NS_PER_MS)
#define END_PATIENCE_NS (3 * OR_NS_PER_S) // for the children to end in order

typedef struct {
    char *listen, *model, *draft_model, *acceptance_file, *log_level;
    or_option_list_t multi_models;
    uint32_t threads, draft_threads, context;
    uint32_t sessions_max, owner_sessions_max, queue_max;
    or_target_options_t target;
    bool plain;
} config_t;

static const or_option_t table[] = {
    {"listen", NULL, OR_OPTION_STRING, offsetof(config_t, listen), "ENDPOINT",
     "where the coordinator listens; a port of * takes any free one"},
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "target model (GGUF); the demonstration pair if not given"},
    {"model-draft", "md", OR_OPTION_STRING, offsetof(config_t, draft_model), "FILE",
     "draft model; any vocabulary will do"},
    {"multi-model", NULL, OR_OPTION_LIST, offsetof(config_t, multi_models), "FILE",
     "a further draft model, of the first one's vocabulary, for --draft-method multi"},
    {"acceptance-file", NULL, OR_OPTION_STRING, offsetof(config_t, acceptance_file), "FILE",
     "where the drafter remembers how often guesses are accepted (sequoia, calibrated dyspec)"},
    {"plain", NULL, OR_OPTION_FLAG, offsetof(config_t, plain), NULL, "no drafter"},
    {"ctx-size", "c", OR_OPTION_UINT32, offsetof(config_t, context), "N",
     "context in tokens; 0: what the models were made for"},
    {"threads", "t", OR_OPTION_UINT32, offsetof(config_t, threads), "N",
     "threads of the target; 0: one a core"},
    {"threads-draft", "td", OR_OPTION_UINT32, offsetof(config_t, draft_threads), "N",
     "threads of the draft model; 0: one a core"},
    {"sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, sessions_max), "N",
     "requests served at a time, at most; others wait, the owner with the fewest at work first"},
    {"owner-sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, owner_sessions_max), "N",
     "of these, one owner's at most; 0: as many as there are"},
    {"queue-max", NULL, OR_OPTION_UINT32, offsetof(config_t, queue_max), "N",
     "requests that wait for a place, at most; others are told when to try again"},
    OR_TARGET_OPTIONS(config_t, target),
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug or trace"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider up",
    .summary = "run a local cluster in the foreground until Ctrl-C",
    .usage = "[options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider up\n"
                "  outrider up --listen tcp://127.0.0.1:6000 -m target.gguf -md draft.gguf",
};

static or_status_t check(const config_t *config)
{
    if (config->context == 1) {
        return or_fail(OR_ERR_INVALID, "-c/--ctx-size: 1 is below 2");
    }
    if (config->sessions_max < 1 || config->sessions_max > OR_CLUSTER_PLACES_MAX) {
        return or_fail(OR_ERR_INVALID, "--sessions-max: %" PRIu32 " is not between 1 and %u",
                       config->sessions_max, OR_CLUSTER_PLACES_MAX);
    }
    if (config->queue_max > OR_CLUSTER_PLACES_MAX) {
        return or_fail(OR_ERR_INVALID, "--queue-max: %" PRIu32 " is above %u", config->queue_max,
                       OR_CLUSTER_PLACES_MAX);
    }
    return or_target_options_check(&config->target, NULL);
}

static or_status_t print_status(const config_t *config, const or_cluster_t *cluster)
{
    printf("outrider is up; Ctrl-C ends it\n\n"
           "  endpoint  %s\n"
           "  target    %s\n"
           "  drafter   %s\n\n"
           "  write     outrider generate --connect %s -p \"Once upon a time\"\n\n",
           or_cluster_endpoint(cluster), basename(config->model),
           config->draft_model != NULL ? basename(config->draft_model) : "none (plain decoding)",
           or_cluster_endpoint(cluster));
    return fflush(stdout) == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "cannot write to standard output: %s", strerror(errno));
}

static or_status_t serve(const config_t *config)
{
    const struct timespec pause = {0, LOOK_NS};
    const or_cluster_config_t local = {.listen = config->listen,
                                       .model = config->model,
                                       .draft_model = config->draft_model,
                                       .multi_models = config->multi_models.items,
                                       .multi_model_count = config->multi_models.count,
                                       .acceptance_file = config->acceptance_file,
                                       .threads = config->threads,
                                       .draft_threads = config->draft_threads,
                                       .context = config->context,
                                       .sessions_max = config->sessions_max,
                                       .owner_sessions_max = config->owner_sessions_max,
                                       .queue_max = config->queue_max,
                                       .target = &config->target,
                                       .log_level = config->log_level,
                                       .show_logs = true,
                                       .restart = true};
    or_cluster_t *cluster = NULL;
    or_interrupt_watch();
    or_status_t status = or_cluster_start(&local, &cluster);
    if (status != OR_OK) {
        return or_interrupt_count() > 0 ? OR_OK : status;
    }
    status = print_status(config, cluster);
    while (status == OR_OK && or_interrupt_count() == 0) {
        nanosleep(&pause, NULL);
        status = or_cluster_check(cluster, true);
    }
    or_cluster_stop(&cluster, END_PATIENCE_NS);
    return status;
}

int or_command_up(int argc, char **argv)
{
    config_t config = {.listen = (char *)"tcp://127.0.0.1:5577",
                       .sessions_max = OR_CLUSTER_SESSIONS,
                       .queue_max = OR_CLUSTER_QUEUE,
                       .target = or_target_options_default(),
                       .log_level = (char *)"info"};
    or_options_next_t next;
    or_log_level_t level;
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("up", OR_EXIT_USAGE);
    }
    int code = OR_EXIT_USAGE;
    status = or_log_parse_level(config.log_level, &level);
    if (status == OR_OK) {
        or_log_init("up", level);
        status = check(&config);
    }
    if (status == OR_OK) {
        status = or_models_choose(&config.model, &config.draft_model, config.plain);
    }
    if (status == OR_OK) {
        status = serve(&config);
        code = OR_EXIT_FAILURE;
    }
    if (status != OR_OK) {
        or_command_fail("up", code);
    }
    or_options_free(&program, &config, NULL);
    return status == OR_OK ? OR_EXIT_OK : code;
}
