// This file has the command lines of a local cluster's children.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "launch/cluster/cluster_internal.h"
#include "launch/cluster/paths.h"

#define ARGS_MAX (64 + 2 * OR_CLUSTER_MODELS_MAX + 2 * OR_CLUSTER_OUTER_MAX)
// For a coordinator to hash its model's file, read its vocabulary and listen: a file of 17 GB that is not in memory takes
// a minute. One that ends closes its pipe, so that nobody waits for it.
#define READY_MS 600000

// Read from the ready pipe where the coordinator is: a line with its endpoint, and another one with its HTTP address if it
// has one.
static or_status_t read_places(or_cluster_t *cluster, int ready_fd)
{
    char text[2 * ENDPOINT_BYTES] = "";
    size_t used = 0;
    struct pollfd waiting = {ready_fd, POLLIN, 0};
    ssize_t length = 1;
    while (length > 0 && used < sizeof text - 1) {
        int ready = poll(&waiting, 1, READY_MS);
        if (ready < 0 && errno == EINTR) {
            return or_fail(OR_ERR_CANCELLED, "interrupted");
        }
        length = ready > 0 ? read(ready_fd, text + used, sizeof text - 1 - used) : 0;
        used += length > 0 ? (size_t)length : 0;
    }
    text[used] = '\0';
    const char *newline = strchr(text, '\n');
    if (newline == NULL) {
        return or_fail(OR_ERR_UNREACHABLE, "outrider-coordinator gave no endpoint within %d s",
                       READY_MS / 1000);
    }
    snprintf(cluster->endpoint, sizeof cluster->endpoint, "%.*s", (int)(newline - text), text);
    (void)sscanf(newline + 1, "http %255s", cluster->http);
    return OR_OK;
}

// A command line grows word by word; the text of its numbers is kept beside it.
typedef struct {
    const char *words[ARGS_MAX + 1]; // ends with NULL
    size_t count;
    char numbers[12][24];
    size_t number_count;
} args_t;

static void add(args_t *args, const char *option, const char *value)
{
    args->words[args->count++] = option;
    if (value != NULL) {
        args->words[args->count++] = value;
    }
}

static void add_number(args_t *args, const char *option, uint64_t number)
{
    char *text = args->numbers[args->number_count++];
    snprintf(text, sizeof args->numbers[0], "%" PRIu64, number);
    add(args, option, text);
}

// Add the options of the HTTP service. `options` may be NULL: no HTTP.
static void add_http_options(args_t *args, const or_http_options_t *options)
{
    if (options == NULL) {
        add(args, "--http", "none");
        return;
    }
    add(args, "--http", options->address != NULL ? options->address : "auto");
    const struct {
        const char *name, *value;
    } rows[] = {
        {"--api-key-file", options->api_key_file},   {"--http-cert", options->cert_file},
        {"--http-key", options->key_file},           {"--http-cors", options->cors_origin},
        {"--chat-template", options->chat_template},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value != NULL) {
            add(args, rows[i].name, rows[i].value);
        }
    }
}

// The format is given, so that a variable meant for services cannot make JSON of what a user reads.
static const char *log_format(const or_cluster_config_t *config)
{
    return config->log_format != NULL ? config->log_format : "text";
}

static or_status_t start_coordinator(or_cluster_t *cluster)
{
    int ready[2];
    char ready_fd[16];
    const or_cluster_config_t *config = &cluster->config;
    or_process_t *child = &cluster->children[COORDINATOR];
    args_t args = {0};
    if (pipe2(ready, O_CLOEXEC) != 0) {
        return or_fail(OR_ERR_IO, "cannot create a pipe: %s", strerror(errno));
    }
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    add(&args, "-m", config->models->model);
    // A coordinator that is started again listens where the last one did: clients and workers look for it there.
    const char *listen = config->listen != NULL ? config->listen : "tcp://127.0.0.1:*";
    add(&args, "--listen", cluster->endpoint[0] != '\0' ? cluster->endpoint : listen);
    for (size_t i = 0; i < config->outer_count; i++) {
        add(&args, "--listen", config->outer[i]);
    }
    // This is given, so that a variable of the user's, meant for connecting elsewhere, cannot change it.
    add(&args, "--encrypt", config->encrypt != NULL ? config->encrypt : "auto");
    add(&args, "--ready-fd", ready_fd);
    add(&args, "--log-level", config->log_level);
    add(&args, "--log-format", log_format(config));
    add_number(&args, "--sessions-max", config->sessions_max);
    add_number(&args, "--owner-sessions-max", config->owner_sessions_max);
    add_number(&args, "--queue-max", config->queue_max);
    add(&args, "--journal", config->journal != NULL ? config->journal : "none");
    if (config->memory_max > 0) {
        add_number(&args, "--memory-max", config->memory_max);
    }
    if (config->journal_max > 0) {
        add_number(&args, "--journal-max", config->journal_max);
    }
    add_http_options(&args, config->http);
    if (cluster->http[0] != '\0') {
        add(&args, "--http", cluster->http);
    }
    // The first rounds of a text wait for a drafter that is still loading its model.
    if (config->models->draft_model != NULL && !config->restart) {
        add(&args, "--expect-drafter", NULL);
    }
    or_status_t status =
        or_process_start(child, "outrider-coordinator", args.words, config->show_logs, ready[1]);
    close(ready[1]);
    if (status == OR_OK) {
        status = read_places(cluster, ready[0]);
    }
    close(ready[0]);
    return status;
}

// These are given although they are the usual values, for the same reason.
static void add_cpus(args_t *args, const or_cpu_options_t *cpus)
{
    add(args, "--cpu-range", cpus->range != NULL ? cpus->range : "");
    add_number(args, "--cpu-strict", cpus->strict);
    add_number(args, "--poll", cpus->poll);
}

static void add_gpu(args_t *args, const or_gpu_options_t *gpu)
{
    add(args, "--device", gpu->device);
    add(args, "--gpu-layers", gpu->layers);
    add(args, "--arith", gpu->arith);
}

static void add_packed(args_t *args, const char *packed)
{
    add(args, "--packed", packed != NULL ? packed : "auto");
}

static void add_common(or_cluster_t *cluster, args_t *args, const char *model, uint32_t threads)
{
    add(args, "-m", model);
    add(args, "--connect", cluster->endpoint);
    add(args, "--encrypt", "auto");
    add(args, "--log-level", cluster->config.log_level);
    add(args, "--log-format", log_format(&cluster->config));
    add_number(args, "-t", threads);
    add_number(args, "-c", cluster->config.models->context);
    add_number(args, "--sessions-max", cluster->config.sessions_max);
}

static or_status_t start_drafter(or_cluster_t *cluster)
{
    const or_cluster_models_t *models = cluster->config.models;
    args_t args = {0};
    add_common(cluster, &args, models->draft_model, models->draft_threads);
    add_cpus(&args, &models->draft_cpus);
    add_gpu(&args, &models->draft_gpu);
    add_packed(&args, models->draft_packed);
    for (size_t i = 0; i < models->multi_models.count; i++) {
        add(&args, "--multi-model", models->multi_models.items[i]);
    }
    if (models->acceptance_file != NULL) {
        add(&args, "--acceptance-file", models->acceptance_file);
    }
    return or_process_start(&cluster->children[DRAFTER], "outrider-drafter", args.words,
                            cluster->config.show_logs, -1);
}

// Add mpirun's own options. It ends its ranks at once: they have nothing to save.
static or_status_t add_mpirun(args_t *args, uint32_t ranks, char mpirun[OR_PATH_BYTES])
{
    if (or_mpirun_find(mpirun) != OR_OK) {
        return or_fail(OR_ERR_NOT_FOUND, "--np: %s", or_error_text());
    }
    add_number(args, "-np", ranks);
    add(args, "--oversubscribe", NULL);
    add(args, "--bind-to", "none");
    add(args, "--mca", "odls_base_sigkill_timeout");
    add(args, "0", NULL);
    return OR_OK;
}

static or_status_t start_verifier(or_cluster_t *cluster)
{
    static const char name[] = "outrider-verifier";
    const or_cluster_config_t *config = &cluster->config;
    const or_cluster_models_t *target = config->models;
    char program[OR_PATH_BYTES], mpirun[OR_PATH_BYTES];
    args_t args = {0};
    bool several = target->ranks > 1;
    or_status_t status = or_paths_program(name, program);
    if (status == OR_OK && several) {
        status = add_mpirun(&args, target->ranks, mpirun);
        add(&args, program, NULL);
    }
    if (status != OR_OK) {
        return status;
    }
    uint32_t share = target->threads / target->ranks;
    add_common(cluster, &args, target->model, target->threads > 0 && share == 0 ? 1 : share);
    add_cpus(&args, &target->cpus);
    add_gpu(&args, &target->gpu);
    add_packed(&args, target->packed);
    add_number(&args, "--weights-memory", target->weights_memory);
    add_number(&args, "--pp", target->stages);
    add_number(&args, "--kv-cache-size", target->cache_bytes);
    add_number(&args, "--window-slack", target->window_slack);
    add(&args, "--cache-type-k", target->cache_type_k != NULL ? target->cache_type_k : "auto");
    add(&args, "--cache-type-v", target->cache_type_v != NULL ? target->cache_type_v : "auto");
    if (config->restart) {
        unlink(cluster->ready_file); // of one that was killed
        add(&args, "--ready-file", cluster->ready_file);
    }
    or_process_t *child = &cluster->children[VERIFIER];
    return or_process_start_at(child, name, several ? mpirun : program, args.words,
                               config->show_logs, several);
}

or_status_t or_cluster_start_child(or_cluster_t *cluster, or_cluster_child_t which)
{
    switch (which) {
    case COORDINATOR:
        return start_coordinator(cluster);
    case VERIFIER:
        return start_verifier(cluster);
    default:
        return start_drafter(cluster);
    }
}
