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
#include "launch/process.h"
#include "proto/edge.h"

#define READY_MS 30000   // for a coordinator to read its vocabulary and listen
#define ENDING_LOOKS 100 // 10 ms apart, for a child that closed the ready pipe to end
#define ENDPOINT_BYTES 256
#define SENTENCE_BYTES 2048
#define PAUSE_MIN_NS OR_NS_PER_S
#define PAUSE_MAX_NS (30 * OR_NS_PER_S)

enum { COORDINATOR, VERIFIER, DRAFTER, CHILD_COUNT };

struct or_cluster {
    or_cluster_config_t config;
    or_process_t children[CHILD_COUNT];
    char endpoint[ENDPOINT_BYTES];
    int64_t restart_at_ns; // of the drafter; OR_TIME_NEVER if none is due
    int64_t pause_ns;      // before the next restart
};

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

// The sentence for a child that ended although it must not.
static or_status_t fail_ended(const or_process_t *child, int wait_status)
{
    char sentence[SENTENCE_BYTES];
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == OR_EXIT_REFUSED) {
        or_process_last_words(child, sentence, sizeof sentence);
        return or_fail(OR_ERR_MISMATCH, "%s: %s", child->name,
                       sentence[0] != '\0' ? sentence : "the coordinator refused it");
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
    // Without this the first rounds of a text would not wait for a drafter that is still loading its model.
    bool expect = cluster->config.draft_model != NULL && !cluster->config.restart_drafter;
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

static or_status_t start_worker(or_cluster_t *cluster, int which)
{
    const or_cluster_config_t *config = &cluster->config;
    char threads[16], context[16];
    snprintf(threads, sizeof threads, "%" PRIu32,
             which == VERIFIER ? config->threads : config->draft_threads);
    snprintf(context, sizeof context, "%" PRIu32, config->context);
    const char *args[] = {"-m",          which == VERIFIER ? config->model : config->draft_model,
                          "--connect",   cluster->endpoint,
                          "-t",          threads,
                          "-c",          context,
                          "--log-level", config->log_level,
                          NULL};
    return or_process_start(&cluster->children[which],
                            which == VERIFIER ? "outrider-verifier" : "outrider-drafter", args,
                            config->show_logs, -1);
}

or_status_t or_cluster_start(const or_cluster_config_t *config, or_cluster_t **cluster_p)
{
    or_cluster_t *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a cluster");
    }
    cluster->config = *config;
    cluster->restart_at_ns = OR_TIME_NEVER;
    cluster->pause_ns = PAUSE_MIN_NS;
    for (int i = 0; i < CHILD_COUNT; i++) {
        cluster->children[i] = OR_PROCESS_NONE;
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
        or_cluster_stop(&cluster);
        return status;
    }
    *cluster_p = cluster;
    return OR_OK;
}

void or_cluster_stop(or_cluster_t **cluster_p)
{
    if (*cluster_p != NULL) {
        or_process_stop_all((*cluster_p)->children, CHILD_COUNT);
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

static or_status_t on_drafter_end(or_cluster_t *cluster, int wait_status, bool useful)
{
    or_process_t *child = &cluster->children[DRAFTER];
    bool refused = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == OR_EXIT_REFUSED;
    if (refused || !useful) {
        return fail_ended(child, wait_status);
    }
    char sentence[SENTENCE_BYTES];
    or_process_describe_end(child, wait_status, sentence, sizeof sentence);
    if (child->log_fd >= 0) {
        close(child->log_fd);
        child->log_fd = -1;
    }
    if (!cluster->config.restart_drafter) {
        or_log(OR_LOG_WARN, "%s; the text goes on by plain decoding", sentence);
        return OR_OK;
    }
    or_log(OR_LOG_WARN, "%s; starting it again in %" PRId64 " s", sentence,
           cluster->pause_ns / OR_NS_PER_S);
    cluster->restart_at_ns = or_clock_now(or_clock_monotonic()) + cluster->pause_ns;
    cluster->pause_ns = 2 * cluster->pause_ns < PAUSE_MAX_NS ? 2 * cluster->pause_ns : PAUSE_MAX_NS;
    return OR_OK;
}

or_status_t or_cluster_check(or_cluster_t *cluster, bool useful)
{
    int wait_status;
    // The verifier first: a coordinator that ends because of it is the consequence, not the cause.
    for (int which = VERIFIER; which >= COORDINATOR; which--) {
        if (or_process_ended(&cluster->children[which], &wait_status)) {
            return fail_ended(&cluster->children[which], wait_status);
        }
    }
    if (or_process_ended(&cluster->children[DRAFTER], &wait_status)) {
        return on_drafter_end(cluster, wait_status, useful);
    }
    if (or_clock_now(or_clock_monotonic()) >= cluster->restart_at_ns) {
        cluster->restart_at_ns = OR_TIME_NEVER;
        return start_worker(cluster, DRAFTER);
    }
    return OR_OK;
}
