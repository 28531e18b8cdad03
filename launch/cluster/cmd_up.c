// outrider up - a local cluster in the foreground, for `outrider generate --connect` and drafters
// elsewhere.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "common/text/chat/chat.h"
#include "launch/cluster/choose.h"
#include "launch/cluster/cluster.h"
#include "launch/commands.h"
#include "launch/generate/output.h"
#include "proto/keys/keys.h"
#include "proto/net/endpoint.h"

#define LOOK_NS (200 * OR_NS_PER_MS)
#define END_PATIENCE_NS (3 * OR_NS_PER_S) // for the children to end in order

typedef struct {
    char *log_level, *log_format, *journal;
    char *encrypt, *keys;
    or_option_list_t listen;
    uint32_t sessions_max, owner_sessions_max, queue_max;
    uint64_t memory_max, journal_max;
    or_cluster_models_t models;
    or_http_options_t http;
    bool plain;
} config_t;

static const or_option_t table[] = {
    {"listen", NULL, OR_OPTION_LIST, offsetof(config_t, listen), "ENDPOINT",
     "where the coordinator listens, once for each place; a port of * takes any free one; "
     "tcp://127.0.0.1:5577 if not given. On other addresses than loopback connections are "
     "encrypted "
     "and need a key that is authorised (outrider keys)"},
    {"encrypt", NULL, OR_OPTION_STRING, offsetof(config_t, encrypt), "WHERE",
     "auto: everywhere but on loopback; off: nowhere, for networks that nobody else is on"},
    {"keys", NULL, OR_OPTION_STRING, offsetof(config_t, keys), "DIR",
     "the key folder; ~/.config/outrider if not given"},
    {.type = OR_OPTION_PART,
     .offset = offsetof(config_t, models),
     .part = or_cluster_model_options},
    {"plain", NULL, OR_OPTION_FLAG, offsetof(config_t, plain), NULL,
     "start no drafter; those of other machines may connect"},
    {"sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, sessions_max), "N",
     "requests served at a time, at most; others wait, the owner with the fewest at work first"},
    {"owner-sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, owner_sessions_max), "N",
     "of these, one owner's at most; 0: as many as there are"},
    {"queue-max", NULL, OR_OPTION_UINT32, offsetof(config_t, queue_max), "N",
     "requests that wait for a place, at most; others are told when to try again"},
    {"journal", NULL, OR_OPTION_STRING, offsetof(config_t, journal), "DIR",
     "keep texts in progress in this folder: a coordinator that is started again, or the next "
     "`outrider up` with it, goes on with them"},
    {"memory-max", NULL, OR_OPTION_SIZE, offsetof(config_t, memory_max), "BYTES",
     "what requests, answers and slow readers make the coordinator keep in memory, all together; "
     "no owner may have more of it than is free; 0: 128M"},
    {"journal-max", NULL, OR_OPTION_SIZE, offsetof(config_t, journal_max), "BYTES",
     "the same in the journal; 0: 64M"},
    {.type = OR_OPTION_PART, .offset = offsetof(config_t, models), .part = or_cluster_run_options},
    OR_HTTP_OPTIONS(config_t, http),
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug or trace"},
    {"log-format", NULL, OR_OPTION_STRING, offsetof(config_t, log_format), "FORMAT",
     "text, or json: one object a line, with session and request"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider up",
    .summary = "run a local cluster in the foreground until Ctrl-C",
    .usage = "[options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider up\n"
                "  outrider up --listen tcp://127.0.0.1:6000 -m target.gguf -md draft.gguf\n"
                "  outrider up --listen tcp://0.0.0.0:5577\n"
                "  outrider up -m target.gguf\n"
                "  outrider up --http 127.0.0.1:9000",
};

static or_status_t check(const config_t *config)
{
    if (config->sessions_max < 1 || config->sessions_max > OR_CLUSTER_PLACES_MAX) {
        return or_fail(OR_ERR_INVALID, "--sessions-max: %" PRIu32 " is not between 1 and %u",
                       config->sessions_max, OR_CLUSTER_PLACES_MAX);
    }
    if (config->queue_max > OR_CLUSTER_PLACES_MAX) {
        return or_fail(OR_ERR_INVALID, "--queue-max: %" PRIu32 " is above %u", config->queue_max,
                       OR_CLUSTER_PLACES_MAX);
    }
    if (strcmp(config->encrypt, "auto") != 0 && strcmp(config->encrypt, "off") != 0) {
        return or_fail(OR_ERR_INVALID, "--encrypt is auto or off, not '%s'", config->encrypt);
    }
    for (size_t i = 0; i < config->listen.count; i++) {
        or_status_t status = or_endpoint_check(config->listen.items[i], true);
        if (status != OR_OK) {
            return status;
        }
    }
    const char *template = config->http.chat_template;
    const or_chat_t *chat;
    or_status_t status = template != NULL ? or_chat_by_name(template, &chat) : OR_OK;
    return status == OR_OK ? or_cluster_models_check(&config->models, NULL) : status;
}

// The coordinator listens on loopback for our own processes, and on other addresses. A list may have either kind first.
typedef struct {
    const char *inner;
    char *outer[OR_CLUSTER_OUTER_MAX];
    size_t outer_count;
} places_t;

static or_status_t choose_places(const config_t *config, places_t *places)
{
    *places = (places_t){.inner = config->listen.count > 0 ? NULL : "tcp://127.0.0.1:5577"};
    for (size_t i = 0; i < config->listen.count; i++) {
        char *endpoint = config->listen.items[i];
        if (places->inner == NULL && or_endpoint_is_loopback(endpoint)) {
            places->inner = endpoint;
        } else if (places->outer_count < OR_CLUSTER_OUTER_MAX) {
            places->outer[places->outer_count++] = endpoint;
        } else {
            return or_fail(OR_ERR_INVALID, "--listen: at most %u other addresses",
                           OR_CLUSTER_OUTER_MAX);
        }
    }
    if (places->inner == NULL) {
        places->inner = "tcp://127.0.0.1:*";
    }
    return OR_OK;
}

// Print what other machines need to know to connect.
static void print_edges(const config_t *config, const places_t *places)
{
    char path[1024];
    or_key_pair_t pair;
    if (places->outer_count == 0 || strcmp(config->encrypt, "off") == 0 ||
        or_keys_path("coordinator.key", path, sizeof path) != OR_OK ||
        or_key_file_read(path, &pair) != OR_OK) {
        return;
    }
    printf("  also at   %s%s, encrypted; our key is\n            %s\n\n"
           "  another machine    outrider keys trust tcp://HOST:PORT '%s'\n"
           "                     outrider keys new\n"
           "  here               outrider keys authorize 'ITS KEY' --name ITS-NAME\n"
           "  another machine    outrider generate --connect tcp://HOST:PORT -p \"Once upon a "
           "time\"\n\n",
           places->outer[0], places->outer_count > 1 ? " and others" : "", pair.public_key,
           pair.public_key);
    or_key_pair_wipe(&pair);
}

static const char *drafter_of(const config_t *config)
{
    return config->models.draft_model != NULL ? basename(config->models.draft_model)
                                              : "none here; those of other machines may connect";
}

static or_status_t print_status(const config_t *config, const places_t *places,
                                const or_cluster_t *cluster)
{
    printf("outrider is up; Ctrl-C ends it\n\n"
           "  endpoint  %s\n"
           "  target    %s\n"
           "  drafter   %s\n\n"
           "  write     outrider generate --connect %s -p \"Once upon a time\"\n\n",
           or_cluster_endpoint(cluster), basename(config->models.model), drafter_of(config),
           or_cluster_endpoint(cluster));
    if (or_cluster_http(cluster)[0] != '\0') {
        const char *scheme = config->http.cert_file != NULL ? "https" : "http";
        printf("  web       %s://%s/        dashboard and playground; /metrics, /health\n"
               "  API       %s://%s/v1      for OpenAI's clients\n\n",
               scheme, or_cluster_http(cluster), scheme, or_cluster_http(cluster));
    }
    print_edges(config, places);
    return or_output_flush();
}

static or_status_t serve(const config_t *config)
{
    const struct timespec pause = {0, LOOK_NS};
    places_t places;
    or_status_t status = choose_places(config, &places);
    if (status != OR_OK) {
        return status;
    }
    const or_cluster_config_t local = {.listen = places.inner,
                                       .outer = places.outer,
                                       .outer_count = places.outer_count,
                                       .encrypt = config->encrypt,
                                       .models = &config->models,
                                       .sessions_max = config->sessions_max,
                                       .owner_sessions_max = config->owner_sessions_max,
                                       .queue_max = config->queue_max,
                                       .memory_max = config->memory_max,
                                       .journal_max = config->journal_max,
                                       .journal = config->journal,
                                       .http = &config->http,
                                       .log_level = config->log_level,
                                       .log_format = config->log_format,
                                       .show_logs = true,
                                       .restart = true};
    or_cluster_t *cluster = NULL;
    or_interrupt_watch();
    status = or_cluster_start(&local, &cluster);
    if (status != OR_OK) {
        return or_interrupt_count() > 0 ? OR_OK : status;
    }
    status = print_status(config, &places, cluster);
    while (status == OR_OK && or_interrupt_count() == 0) {
        nanosleep(&pause, NULL);
        status = or_cluster_check(cluster, true);
    }
    or_cluster_stop(&cluster, END_PATIENCE_NS);
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {.encrypt = (char *)"auto",
                       .sessions_max = OR_CLUSTER_SESSIONS,
                       .queue_max = OR_CLUSTER_QUEUE,
                       .models = or_cluster_models_default(),
                       .log_level = (char *)"info",
                       .log_format = (char *)"text"};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_status_t status = or_command_open_log("up", config.log_level);
    if (status == OR_OK) {
        status = or_log_set_format(config.log_format);
    }
    if (status == OR_OK) {
        status = check(&config);
    }
    if (status == OR_OK) {
        status = or_models_choose_all(&config.models,
                                      config.plain ? OR_DRAFT_MODEL_NONE : OR_DRAFT_MODEL_OPTIONAL);
    }
    if (config.keys != NULL) {
        setenv("OUTRIDER_KEYS", config.keys, 1); // our children's, too
    }
    if (status == OR_OK) {
        status = serve(&config);
    }
    return or_command_end(&program, &config, NULL, status, or_command_code(status));
}

const or_command_t or_up_command = {"up", run, "run a local cluster in the foreground"};
