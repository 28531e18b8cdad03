#include "launch/cluster/cluster.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "launch/cluster/cluster_internal.h"
#include "launch/commands.h"
#include "proto/net/edge.h"

#define ENDING_LOOKS 100 // 10 ms apart, for a child that closed the ready pipe to end
#define READY_FILE "verifier-of-%d.ready"
#define WORD "-abcdefghijklmnopqrstuvwxyz" // what options consist of
#define PAUSE_MIN_NS OR_NS_PER_S
#define PAUSE_MAX_NS (30 * OR_NS_PER_S)
#define PAUSE_FORGOTTEN_NS (10 * OR_NS_PER_S) // of life: it did start
#define FAILED_STARTS_MAX 3                   // of the verifier or the coordinator, in a row
#define MPIRUN_PATIENCE_NS (3 * OR_NS_PER_S)  // for it to end its ranks and remove what they shared
#define UNDO_PATIENCE_NS (500 * OR_NS_PER_MS) // for the others to end when one cannot be started

// ---- what children say ----

static int exit_code(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
}

// Did the child end for a reason that no new start mends: refused, or its options are wrong?
static bool is_hopeless(int wait_status)
{
    int code = exit_code(wait_status);
    return code == OR_EXIT_REFUSED || code == OR_EXIT_USAGE;
}

// Copy what a child says, with options named as in our command line, where the draft model's end in "-draft".
static void put_in_our_words(const or_process_t *child, const char *said, char *text,
                             size_t capacity)
{
    static const char *const options[] = {"--device", "--gpu-layers", "--arith"};
    bool drafter = strcmp(child->name, "outrider-drafter") == 0;
    size_t used = 0;
    text[0] = '\0';
    while (*said != '\0' && used < capacity) {
        size_t length = strspn(said, WORD);
        bool is_draft = false;
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            bool same = strlen(options[i]) == length && strncmp(said, options[i], length) == 0;
            is_draft = is_draft || (drafter && same);
        }
        length = length > 0 ? length : strcspn(said, WORD);
        used += (size_t)snprintf(text + used, capacity - used, "%.*s%s", (int)length, said,
                                 is_draft ? "-draft" : "");
        said += length;
    }
}

// Record the sentence for a child that ended although it must not.
static or_status_t fail_ended(const or_process_t *child, int wait_status)
{
    char sentence[SENTENCE_BYTES];
    char ours[SENTENCE_BYTES];
    if (is_hopeless(wait_status)) {
        or_process_last_words(child, sentence, sizeof sentence);
        if (sentence[0] == '\0') {
            snprintf(sentence, sizeof sentence,
                     "it cannot serve as it was started; its log says why");
        }
        put_in_our_words(child, sentence, ours, sizeof ours);
        return or_fail(exit_code(wait_status) == OR_EXIT_USAGE ? OR_ERR_INVALID : OR_ERR_MISMATCH,
                       "%s: %s", child->name, ours);
    }
    or_process_describe_end(child, wait_status, sentence, sizeof sentence);
    return or_fail(OR_ERR_UNREACHABLE, "%s", sentence);
}

// ---- starting ----

static or_status_t start_coordinator(or_cluster_t *cluster)
{
    int wait_status;
    const struct timespec pause = {0, 10 * OR_NS_PER_MS};
    or_process_t *child = &cluster->children[COORDINATOR];
    or_status_t status = or_cluster_start_child(cluster, COORDINATOR);
    // A closed pipe mostly means that it ended or is about to: its own words are better then.
    for (int i = 0; status == OR_ERR_UNREACHABLE && i < ENDING_LOOKS; i++) {
        if (or_process_ended(child, &wait_status)) {
            return fail_ended(child, wait_status);
        }
        nanosleep(&pause, NULL);
    }
    return status;
}

// The pause grows while starts follow each other closely.
static void plan_restart(worker_t *worker)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    int64_t longer = 2 * worker->pause_ns < PAUSE_MAX_NS ? 2 * worker->pause_ns : PAUSE_MAX_NS;
    bool anew = worker->pause_ns == 0 || now - worker->started_ns > PAUSE_FORGOTTEN_NS;
    worker->pause_ns = anew ? PAUSE_MIN_NS : longer;
    worker->restart_at_ns = now + worker->pause_ns;
}

// Start a coordinator after one that ended. The pause grows while none can start, and several failures in a row are too many.
static or_status_t start_coordinator_again(or_cluster_t *cluster)
{
    worker_t *worker = &cluster->workers[COORDINATOR];
    worker->started_ns = or_clock_now(or_clock_monotonic());
    worker->restart_at_ns = OR_TIME_NEVER;
    or_status_t status = start_coordinator(cluster);
    if (status == OR_OK) {
        worker->failed_starts = 0;
        or_log(OR_LOG_INFO, "outrider-coordinator is on %s again", cluster->endpoint);
        return OR_OK;
    }
    worker->failed_starts++;
    if (status != OR_ERR_UNREACHABLE || worker->failed_starts == FAILED_STARTS_MAX) {
        return status;
    }
    char why[SENTENCE_BYTES];
    snprintf(why, sizeof why, "%s", or_error_text());
    or_process_stop_all(&cluster->children[COORDINATOR], 1, 0); // one that does not say where it is
    plan_restart(worker);
    or_log(OR_LOG_WARN, "%s; starting it again in %" PRId64 " s", why,
           worker->pause_ns / OR_NS_PER_S);
    return OR_OK;
}

static or_status_t start_worker(or_cluster_t *cluster, or_cluster_child_t which)
{
    if (which == COORDINATOR) {
        return start_coordinator_again(cluster);
    }
    worker_t *worker = &cluster->workers[which];
    worker->joined = false;
    worker->placed = false;
    worker->started_ns = or_clock_now(or_clock_monotonic());
    worker->restart_at_ns = OR_TIME_NEVER;
    return or_cluster_start_child(cluster, which);
}

// Remove the ready files of commands that were killed.
static void remove_stale(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        int pid, end = 0;
        bool ours = sscanf(entry->d_name, READY_FILE "%n", &pid, &end) == 1 && end > 0 &&
                    entry->d_name[end] == '\0';
        if (ours && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) {
            unlinkat(dirfd(entries), entry->d_name, 0);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

// Choose the file by which the verifier says that it has joined: a file, since mpirun passes no descriptors on, in a folder
// that is the user's own and stays. What a killed command leaves there the next one removes.
static or_status_t choose_ready_file(or_cluster_t *cluster)
{
    char folder[FOLDER_BYTES];
    struct stat found;
    const char *temporary = getenv("TMPDIR");
    temporary = temporary != NULL && *temporary != '\0' ? temporary : "/tmp";
    int length = snprintf(folder, sizeof folder, "%s/outrider-%u", temporary, (unsigned)geteuid());
    if (length >= (int)sizeof folder) {
        return or_fail(OR_ERR_INVALID, "TMPDIR: %s is too long", temporary);
    }
    if (mkdir(folder, S_IRWXU) != 0 && errno != EEXIST) {
        return or_fail(OR_ERR_IO, "cannot make the folder %s: %s; set TMPDIR to another place",
                       folder, strerror(errno));
    }
    if (lstat(folder, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return or_fail(OR_ERR_IO,
                       "%s is not a folder that only you can write to; set TMPDIR to another place",
                       folder);
    }
    remove_stale(folder);
    snprintf(cluster->ready_file, sizeof cluster->ready_file, "%s/" READY_FILE, folder,
             (int)getpid());
    return OR_OK;
}

// Print "coordinator (pid 7) on tcp://..., verifier (pid 8) with ..., drafter (pid 9) with ...".
static void announce(const or_cluster_t *cluster, FILE *out)
{
    const or_process_t *children = cluster->children;
    fprintf(out, "coordinator (pid %d) on %s, verifier (pid %d", (int)children[COORDINATOR].pid,
            cluster->endpoint, (int)children[VERIFIER].pid);
    if (cluster->config.models->ranks > 1) {
        fprintf(out, ", %" PRIu32 " ranks", cluster->config.models->ranks);
    }
    fprintf(out, ") with %s", basename(cluster->config.models->model));
    if (cluster->config.models->draft_model != NULL) {
        fprintf(out, ", drafter (pid %d) with %s", (int)children[DRAFTER].pid,
                basename(cluster->config.models->draft_model));
    }
    fputc('\n', out);
}

or_status_t or_cluster_start(const or_cluster_config_t *config, or_cluster_t **cluster_p)
{
    if (config->models->multi_models.count > OR_CLUSTER_MODELS_MAX) {
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
        cluster->workers[i] = (worker_t){.restart_at_ns = OR_TIME_NEVER};
    }
    // A child that inherited this would read a file of which it knows none of the keys.
    unsetenv("OUTRIDER_CONFIG");
    or_status_t status = config->restart ? choose_ready_file(cluster) : OR_OK;
    if (status == OR_OK) {
        status = start_coordinator(cluster);
    }
    if (status == OR_OK) {
        status = start_worker(cluster, VERIFIER);
    }
    if (status == OR_OK && config->models->draft_model != NULL) {
        status = start_worker(cluster, DRAFTER);
    }
    if (status != OR_OK) {
        or_cluster_stop(&cluster, UNDO_PATIENCE_NS);
        return status;
    }
    if (config->announce != NULL) {
        announce(cluster, config->announce);
    }
    *cluster_p = cluster;
    return OR_OK;
}

// A user who wants a GPU and gets the CPU should read so, although logs are kept. A worker says it before it is ready.
static void pass_on_warning(const or_process_t *child, worker_t *worker)
{
    char ready[SENTENCE_BYTES];
    char warning[SENTENCE_BYTES];
    char ours[SENTENCE_BYTES];
    or_process_line(child, OR_EDGE_READY, ready, sizeof ready);
    or_process_line(child, OR_GPU_WARNING, warning, sizeof warning);
    if (warning[0] != '\0') {
        put_in_our_words(child, warning, ours, sizeof ours);
        or_log(OR_LOG_WARN, "%s: %s", child->name, ours);
    }
    worker->placed = ready[0] != '\0' || warning[0] != '\0';
}

static void pass_on_warnings(or_cluster_t *cluster)
{
    for (int which = VERIFIER; which <= DRAFTER; which++) {
        if (!cluster->workers[which].placed) {
            pass_on_warning(&cluster->children[which], &cluster->workers[which]);
        }
    }
}

void or_cluster_stop(or_cluster_t **cluster_p, int64_t patience_ns)
{
    or_cluster_t *cluster = *cluster_p;
    if (cluster == NULL) {
        return;
    }
    pass_on_warnings(cluster);
    if (cluster->config.models->ranks > 1 && patience_ns < MPIRUN_PATIENCE_NS) {
        patience_ns = MPIRUN_PATIENCE_NS;
    }
    or_process_stop_all(cluster->children, CHILD_COUNT, patience_ns);
    if (cluster->config.restart) {
        unlink(cluster->ready_file); // if the verifier had to be killed
    }
    free(cluster);
    *cluster_p = NULL;
}

const char *or_cluster_endpoint(const or_cluster_t *cluster)
{
    return cluster->endpoint;
}

const char *or_cluster_http(const or_cluster_t *cluster)
{
    return cluster->http;
}

// ---- watching ----

// Is there no point in starting the verifier that ended again?
static bool verifier_is_lost(or_cluster_t *cluster)
{
    worker_t *worker = &cluster->workers[VERIFIER];
    if (!cluster->config.restart) {
        return true;
    }
    worker->failed_starts = worker->joined ? 0 : worker->failed_starts + 1;
    return worker->failed_starts == FAILED_STARTS_MAX;
}

// Is there no point in going on without the drafter that ended? One that was refused after it had served
// costs speed only, as any other; one that never did has the wrong file or options.
static bool drafter_is_lost(or_cluster_t *cluster, bool hopeless, bool useful)
{
    worker_t *worker = &cluster->workers[DRAFTER];
    int64_t lived_ns = or_clock_now(or_clock_monotonic()) - worker->started_ns;
    worker->served = worker->served || lived_ns > PAUSE_FORGOTTEN_NS;
    return !useful || (hopeless && !worker->served);
}

// Is there no point in going on, or in starting the child again?
static bool is_lost(or_cluster_t *cluster, int which, bool hopeless, bool useful)
{
    switch (which) {
    case COORDINATOR:
        return hopeless || !cluster->config.restart;
    case VERIFIER:
        return hopeless || verifier_is_lost(cluster);
    default:
        return drafter_is_lost(cluster, hopeless, useful);
    }
}

// A child ended: plan its restart, go on without it, or fail.
static or_status_t on_worker_end(or_cluster_t *cluster, int which, int wait_status, bool useful)
{
    or_process_t *child = &cluster->children[which];
    worker_t *worker = &cluster->workers[which];
    if (is_lost(cluster, which, is_hopeless(wait_status), useful)) {
        return fail_ended(child, wait_status);
    }
    char sentence[SENTENCE_BYTES];
    or_process_describe_end(child, wait_status, sentence, sizeof sentence);
    if (child->log_fd >= 0) {
        close(child->log_fd);
        child->log_fd = -1;
    }
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
    worker_t *verifier = &cluster->workers[VERIFIER];
    pass_on_warnings(cluster);
    verifier->joined =
        verifier->joined || (cluster->config.restart && access(cluster->ready_file, F_OK) == 0);
    // The verifier is looked at before the coordinator, which may have ended because the verifier did.
    if (or_process_ended(&cluster->children[VERIFIER], &wait_status)) {
        status = on_worker_end(cluster, VERIFIER, wait_status, useful);
    }
    if (status == OR_OK && or_process_ended(&cluster->children[COORDINATOR], &wait_status)) {
        status = on_worker_end(cluster, COORDINATOR, wait_status, useful);
    }
    if (status == OR_OK && or_process_ended(&cluster->children[DRAFTER], &wait_status)) {
        status = on_worker_end(cluster, DRAFTER, wait_status, useful);
    }
    for (int which = COORDINATOR; which <= DRAFTER && status == OR_OK; which++) {
        if (or_clock_now(or_clock_monotonic()) >= cluster->workers[which].restart_at_ns) {
            status = start_worker(cluster, which);
        }
    }
    return status;
}
