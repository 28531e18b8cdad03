#include "launch/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "launch/commands.h"
#include "launch/process.h"
#include "proto/edge.h"

#define ARGS_MAX (16 + 2 * OR_CLUSTER_MODELS_MAX)
#define READY_MS 30000   // for a coordinator to read its vocabulary and listen
#define ENDING_LOOKS 100 // 10 ms apart, for a child that closed the ready pipe to end
#define ENDPOINT_BYTES 256
#define SENTENCE_BYTES 2048
#define PAUSE_MIN_NS OR_NS_PER_S
#define PAUSE_MAX_NS (30 * OR_NS_PER_S)
#define FAILED_STARTS_MAX 3                   // of the verifier in a row
#define UNDO_PATIENCE_NS (500 * OR_NS_PER_MS) // for the others to end when one cannot be started

enum { COORDINATOR, VERIFIER, DRAFTER, CHILD_COUNT };

// When a verifier or drafter is to be started again.
typedef struct {
    int64_t started_ns;
    int64_t restart_at_ns;  // OR_TIME_NEVER if none is due
    int64_t pause_ns;       // before the next restart
    int joined_fd;          // of the verifier: a byte comes once it has joined; -1 if nobody asks
    unsigned failed_starts; // in a row that ended without one
} worker_t;

struct or_cluster {
    or_cluster_config_t config;
    or_process_t children[CHILD_COUNT];
    worker_t workers[CHILD_COUNT]; // the coordinator's is not used
    char endpoint[ENDPOINT_BYTES];
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

// ---- starting ----

// The coordinator's endpoint from the ready pipe, or why there is none.
static or_status_t read_endpoint(or_cluster_t *cluster, int ready_fd)
{
    size_t used = 0;
    struct pollfd waiting = {ready_fd, POLLIN, 0};
    while (used < ENDPOINT_BYTES - 1) {
        int ready = poll(&waiting, 1, READY_MS);
        if (ready < 0 && errno == EINTR) {
            return or_fail(OR_ERR_CANCELLED, "interrupted");
        }
        ssize_t length =
            ready > 0 ? read(ready_fd, cluster->endpoint + used, ENDPOINT_BYTES - 1 - used) : 0;
        if (length <= 0) {
            break;
        }
        used += (size_t)length;
        cluster->endpoint[used] = '\0';
        char *newline = strchr(cluster->endpoint, '\n');
        if (newline != NULL) {
            *newline = '\0';
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_UNREACHABLE, "outrider-coordinator gave no endpoint within %d s",
                   READY_MS / 1000);
}

// Did the child end for a reason that no new start mends: refused, or its options are wrong?
static bool is_hopeless(int wait_status)
{
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    return code == OR_EXIT_REFUSED || code == OR_EXIT_USAGE;
}

// The sentence for a child that ended although it must not.
static or_status_t fail_ended(const or_process_t *child, int wait_status)
{
    char sentence[SENTENCE_BYTES];
    if (is_hopeless(wait_status)) {
        or_process_last_words(child, sentence, sizeof sentence);
        return or_fail(OR_ERR_MISMATCH, "%s: %s", child->name,
                       sentence[0] != '\0' ? sentence
                                           : "it cannot serve as it was started; its log says why");
    }
    or_process_describe_end(child, wait_status, sentence, sizeof sentence);
    return or_fail(OR_ERR_UNREACHABLE, "%s", sentence);
}

static or_status_t start_coordinator(or_cluster_t *cluster)
{
    int ready[2];
    char ready_fd[16];
    int wait_status;
    const struct timespec pause = {0, 10 * OR_NS_PER_MS};
    or_process_t *child = &cluster->children[COORDINATOR];
    if (pipe2(ready, O_CLOEXEC) != 0) {
        return or_fail(OR_ERR_IO, "cannot create a pipe: %s", strerror(errno));
    }
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    // Without this the first rounds of a text would not wait for a drafter that is still loading
    // its model.
    bool expect = cluster->config.draft_model != NULL && !cluster->config.restart;
    const char *args[] = {"-m",
                          cluster->config.model,
                          "--listen",
                          cluster->config.listen,
                          "--ready-fd",
                          ready_fd,
                          "--log-level",
                          cluster->config.log_level,
                          expect ? "--expect-drafter" : NULL,
                          NULL};
    or_status_t status =
        or_process_start(child, "outrider-coordinator", args, cluster->config.show_logs, ready[1]);
    close(ready[1]);
    if (status == OR_OK) {
        status = read_endpoint(cluster, ready[0]);
        // A closed pipe mostly means that it ended or is about to: its own words are better then.
        for (int i = 0; status == OR_ERR_UNREACHABLE && i < ENDING_LOOKS; i++) {
            if (or_process_ended(child, &wait_status)) {
                status = fail_ended(child, wait_status);
                break;
            }
            nanosleep(&pause, NULL);
        }
    }
    close(ready[0]);
    return status;
}

// What only a drafter takes.
static void add_drafters_own(const or_cluster_config_t *config, const char **args, size_t count)
{
    for (size_t i = 0; i < config->multi_model_count && i < OR_CLUSTER_MODELS_MAX; i++) {
        args[count++] = "--multi-model";
        args[count++] = config->multi_models[i];
    }
    if (config->acceptance_file != NULL) {
        args[count++] = "--acceptance-file";
        args[count++] = config->acceptance_file;
    }
}

static or_status_t start_worker(or_cluster_t *cluster, int which)
{
    const or_cluster_config_t *config = &cluster->config;
    worker_t *worker = &cluster->workers[which];
    int joined[2] = {-1, -1};
    char threads[16], context[16], ready_fd[16];
    if (which == VERIFIER && config->restart && pipe2(joined, O_CLOEXEC | O_NONBLOCK) != 0) {
        return or_fail(OR_ERR_IO, "cannot create a pipe: %s", strerror(errno));
    }
    snprintf(ready_fd, sizeof ready_fd, "%d", joined[1]);
    snprintf(threads, sizeof threads, "%" PRIu32,
             which == VERIFIER ? config->threads : config->draft_threads);
    snprintf(context, sizeof context, "%" PRIu32, config->context);
    const char *args[ARGS_MAX] = {
        "-m",          which == VERIFIER ? config->model : config->draft_model,
        "--connect",   cluster->endpoint,
        "-t",          threads,
        "-c",          context,
        "--log-level", config->log_level};
    size_t count = 10;
    if (joined[1] >= 0) {
        args[count++] = "--ready-fd";
        args[count++] = ready_fd;
    }
    if (which == DRAFTER) {
        add_drafters_own(config, args, count);
    }
    or_status_t status = or_process_start(
        &cluster->children[which], which == VERIFIER ? "outrider-verifier" : "outrider-drafter",
        args, config->show_logs, joined[1]);
    close_fd(&joined[1]);
    close_fd(&worker->joined_fd);
    worker->joined_fd = joined[0];
    worker->started_ns = or_clock_now(or_clock_monotonic());
    worker->restart_at_ns = OR_TIME_NEVER;
    return status;
}

or_status_t or_cluster_start(const or_cluster_config_t *config, or_cluster_t **cluster_p)
{
    if (config->multi_model_count > OR_CLUSTER_MODELS_MAX) {
        return or_fail(OR_ERR_INVALID, "--multi-model: at most %u further models are possible",
                       OR_CLUSTER_MODELS_MAX);
    }
    or_cluster_t *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a cluster");
    }
    cluster->config = *config;
    for (int i = 0; i < CHILD_COUNT; i++) {
        cluster->children[i] = OR_PROCESS_NONE;
        cluster->workers[i] = (worker_t){.restart_at_ns = OR_TIME_NEVER, .joined_fd = -1};
    }
    // Inherited, it would be read by programs that know none of its keys.
    unsetenv("OUTRIDER_CONFIG");
    or_status_t status = start_coordinator(cluster);
    if (status == OR_OK) {
        status = start_worker(cluster, VERIFIER);
    }
    if (status == OR_OK && config->draft_model != NULL) {
        status = start_worker(cluster, DRAFTER);
    }
    if (status != OR_OK) {
        or_cluster_stop(&cluster, UNDO_PATIENCE_NS);
        return status;
    }
    *cluster_p = cluster;
    return OR_OK;
}

void or_cluster_stop(or_cluster_t **cluster_p, int64_t patience_ns)
{
    if (*cluster_p != NULL) {
        or_process_stop_all((*cluster_p)->children, CHILD_COUNT, patience_ns);
        close_fd(&(*cluster_p)->workers[VERIFIER].joined_fd);
        free(*cluster_p);
        *cluster_p = NULL;
    }
}

const char *or_cluster_endpoint(const or_cluster_t *cluster)
{
    return cluster->endpoint;
}

void or_cluster_describe(const or_cluster_t *cluster, char *text, size_t capacity)
{
    int used = snprintf(text, capacity, "coordinator (pid %d) on %s, verifier (pid %d) with %s",
                        (int)cluster->children[COORDINATOR].pid, cluster->endpoint,
                        (int)cluster->children[VERIFIER].pid, basename(cluster->config.model));
    if (cluster->config.draft_model != NULL && used > 0 && (size_t)used < capacity) {
        snprintf(text + used, capacity - (size_t)used, ", drafter (pid %d) with %s",
                 (int)cluster->children[DRAFTER].pid, basename(cluster->config.draft_model));
    }
}

// ---- watching ----

// Is there no point in starting the verifier that ended again?
static bool verifier_is_lost(or_cluster_t *cluster)
{
    worker_t *worker = &cluster->workers[VERIFIER];
    char byte;
    if (!cluster->config.restart) {
        return true;
    }
    bool joined = read(worker->joined_fd, &byte, 1) == 1;
    worker->failed_starts = joined ? 0 : worker->failed_starts + 1;
    return worker->failed_starts == FAILED_STARTS_MAX;
}

// The pause grows while starts follow each other closely.
static void plan_restart(worker_t *worker)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    int64_t longer = 2 * worker->pause_ns < PAUSE_MAX_NS ? 2 * worker->pause_ns : PAUSE_MAX_NS;
    bool anew = worker->pause_ns == 0 || now - worker->started_ns > PAUSE_MAX_NS;
    worker->pause_ns = anew ? PAUSE_MIN_NS : longer;
    worker->restart_at_ns = now + worker->pause_ns;
}

// Verifier or drafter ended: plan its restart, go on without it, or fail.
static or_status_t on_worker_end(or_cluster_t *cluster, int which, int wait_status, bool useful)
{
    or_process_t *child = &cluster->children[which];
    worker_t *worker = &cluster->workers[which];
    if (is_hopeless(wait_status) || (which == VERIFIER ? verifier_is_lost(cluster) : !useful)) {
        return fail_ended(child, wait_status);
    }
    char sentence[SENTENCE_BYTES];
    or_process_describe_end(child, wait_status, sentence, sizeof sentence);
    close_fd(&child->log_fd);
    if (!cluster->config.restart) {
        or_log(OR_LOG_WARN, "%s; the text goes on by plain decoding", sentence);
        return OR_OK;
    }
    plan_restart(worker);
    or_log(OR_LOG_WARN, "%s; starting it again in %" PRId64 " s", sentence,
           worker->pause_ns / OR_NS_PER_S);
    return OR_OK;
}

or_status_t or_cluster_check(or_cluster_t *cluster, bool useful)
{
    int wait_status;
    or_status_t status = OR_OK;
    // The verifier before the coordinator, which may have ended because of it: the consequence, not
    // the cause.
    if (or_process_ended(&cluster->children[VERIFIER], &wait_status)) {
        status = on_worker_end(cluster, VERIFIER, wait_status, useful);
    }
    if (status == OR_OK && or_process_ended(&cluster->children[COORDINATOR], &wait_status)) {
        status = fail_ended(&cluster->children[COORDINATOR], wait_status);
    }
    if (status == OR_OK && or_process_ended(&cluster->children[DRAFTER], &wait_status)) {
        status = on_worker_end(cluster, DRAFTER, wait_status, useful);
    }
    for (int which = VERIFIER; which <= DRAFTER && status == OR_OK; which++) {
        if (or_clock_now(or_clock_monotonic()) >= cluster->workers[which].restart_at_ns) {
            status = start_worker(cluster, which);
        }
    }
    return status;
}
