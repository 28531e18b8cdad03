#include "launch/cluster/cluster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "launch/cluster/mpirun.h"
#include "launch/cluster/paths.h"
#include "launch/cluster/process.h"
#include "launch/commands.h"
#include "proto/net/edge.h"

#define ARGS_MAX (52 + OR_HTTP_WORDS_MAX + 2 * OR_CLUSTER_MODELS_MAX + 2 * OR_CLUSTER_OUTER_MAX)
#define READY_MS 30000   // for a coordinator to read its vocabulary and listen
#define ENDING_LOOKS 100 // 10 ms apart, for a child that closed the ready pipe to end
#define ENDPOINT_BYTES 256
#define SENTENCE_BYTES 2048
#define PAUSE_MIN_NS OR_NS_PER_S
#define PAUSE_MAX_NS (30 * OR_NS_PER_S)
#define PAUSE_FORGOTTEN_NS (10 * OR_NS_PER_S) // of life: it did start
#define FAILED_STARTS_MAX 3                   // of the verifier or the coordinator, in a row
#define FOLDER_BYTES 512
#define READY_FILE "verifier-of-%d.ready"
#define MPIRUN_PATIENCE_NS (3 * OR_NS_PER_S)  // for it to end its ranks and remove what they shared
#define UNDO_PATIENCE_NS (500 * OR_NS_PER_MS) // for the others to end when one cannot be started

enum { COORDINATOR, VERIFIER, DRAFTER, CHILD_COUNT };

// When a child is to be started again.
typedef struct {
    int64_t started_ns;
    int64_t restart_at_ns;  // OR_TIME_NEVER if none is due
    int64_t pause_ns;       // before the next restart
    bool joined;            // of the verifier, if it may be restarted: since it was started last
    bool served;            // of the drafter: it lived longer than one that is refused ever does
    unsigned failed_starts; // in a row that ended without joining
    bool placed;            // since its last start: its log has said what it runs on
} worker_t;

struct or_cluster {
    or_cluster_config_t config;
    or_process_t children[CHILD_COUNT];
    worker_t workers[CHILD_COUNT];
    char endpoint[ENDPOINT_BYTES];
    char http[ENDPOINT_BYTES];          // "": nowhere
    char ready_file[FOLDER_BYTES + 32]; // with `restart`: there while the verifier serves
};

// ---- starting ----

// Where the coordinator is, from the ready pipe: its endpoint, and a line more with its HTTP address if it has one; or
// why there is none.
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

// Did the child end for a reason that no new start mends: refused, or its options are wrong?
static bool is_hopeless(int wait_status)
{
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    return code == OR_EXIT_REFUSED || code == OR_EXIT_USAGE;
}

// The length of the option at the beginning of `text`, if the draft model's has another name in our command
// line; else 0.
static size_t length_of_option(const char *text)
{
    static const char *const options[] = {"--device", "--gpu-layers", "--arith"};
    size_t length = strspn(text, "-abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strlen(options[i]) == length && strncmp(text, options[i], length) == 0) {
            return length;
        }
    }
    return 0;
}

// What a child says, with options as they are called in our command line.
static void put_in_our_words(const or_process_t *child, const char *said, char *text,
                             size_t capacity)
{
    bool drafter = strcmp(child->name, "outrider-drafter") == 0;
    size_t used = 0;
    text[0] = '\0';
    while (*said != '\0' && used < capacity) {
        size_t option = drafter ? length_of_option(said) : 0;
        size_t length = option > 0 ? option : 1 + strcspn(said + 1, "-");
        used += (size_t)snprintf(text + used, capacity - used, "%.*s%s", (int)length, said,
                                 option > 0 ? "-draft" : "");
        said += length;
    }
}

// The sentence for a child that ended although it must not.
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
        return or_fail(OR_ERR_MISMATCH, "%s: %s", child->name, ours);
    }
    or_process_describe_end(child, wait_status, sentence, sizeof sentence);
    return or_fail(OR_ERR_UNREACHABLE, "%s", sentence);
}

// A command line that grows; numbers are kept beside it.
typedef struct {
    const char *words[ARGS_MAX + 1]; // ends with NULL
    size_t count;
    char numbers[8][24];
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

// Said, lest a variable meant for services makes JSON of what a user reads.
static const char *log_format(const or_cluster_config_t *config)
{
    return config->log_format != NULL ? config->log_format : "text";
}

static or_status_t start_coordinator(or_cluster_t *cluster)
{
    int ready[2];
    char ready_fd[16];
    int wait_status;
    const struct timespec pause = {0, 10 * OR_NS_PER_MS};
    const or_cluster_config_t *config = &cluster->config;
    or_process_t *child = &cluster->children[COORDINATOR];
    args_t args = {0};
    if (pipe2(ready, O_CLOEXEC) != 0) {
        return or_fail(OR_ERR_IO, "cannot create a pipe: %s", strerror(errno));
    }
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    add(&args, "-m", config->model);
    // The next one is where this one was found: clients and workers look for it there.
    add(&args, "--listen", cluster->endpoint[0] != '\0' ? cluster->endpoint : config->listen);
    for (size_t i = 0; i < config->outer_count; i++) {
        add(&args, "--listen", config->outer[i]);
    }
    // Said, lest a variable of the user's, meant for connecting elsewhere, says otherwise.
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
    or_http_options_words(config->http, &args.words[args.count]);
    while (args.words[args.count] != NULL) {
        args.count++;
    }
    if (cluster->http[0] != '\0') {
        add(&args, "--http", cluster->http);
    }
    // Without this the first rounds of a text would not wait for a drafter that is still loading
    // its model.
    if (config->draft_model != NULL && !config->restart) {
        add(&args, "--expect-drafter", NULL);
    }
    or_status_t status =
        or_process_start(child, "outrider-coordinator", args.words, config->show_logs, ready[1]);
    close(ready[1]);
    if (status == OR_OK) {
        status = read_places(cluster, ready[0]);
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

// The pause grows while starts follow each other closely.
static void plan_restart(worker_t *worker)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    int64_t longer = 2 * worker->pause_ns < PAUSE_MAX_NS ? 2 * worker->pause_ns : PAUSE_MAX_NS;
    bool anew = worker->pause_ns == 0 || now - worker->started_ns > PAUSE_FORGOTTEN_NS;
    worker->pause_ns = anew ? PAUSE_MIN_NS : longer;
    worker->restart_at_ns = now + worker->pause_ns;
}

// After one that ended. The pause grows while it cannot start, and some failures in a row are too many.
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

// Said where they say nothing too, as is the endpoint's encryption.
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

static void add_common(or_cluster_t *cluster, args_t *args, const char *model, uint32_t threads)
{
    add(args, "-m", model);
    add(args, "--connect", cluster->endpoint);
    add(args, "--encrypt", "auto");
    add(args, "--log-level", cluster->config.log_level);
    add(args, "--log-format", log_format(&cluster->config));
    add_number(args, "-t", threads);
    add_number(args, "-c", cluster->config.context);
    add_number(args, "--sessions-max", cluster->config.sessions_max);
}

static or_status_t start_drafter(or_cluster_t *cluster)
{
    const or_cluster_config_t *config = &cluster->config;
    args_t args = {0};
    add_common(cluster, &args, config->draft_model, config->draft_threads);
    add_cpus(&args, &config->target->draft_cpus);
    add_gpu(&args, &config->target->draft_gpu);
    for (size_t i = 0; i < config->multi_model_count; i++) {
        add(&args, "--multi-model", config->multi_models[i]);
    }
    if (config->acceptance_file != NULL) {
        add(&args, "--acceptance-file", config->acceptance_file);
    }
    return or_process_start(&cluster->children[DRAFTER], "outrider-drafter", args.words,
                            config->show_logs, -1);
}

// mpirun and its own options. It ends its ranks at once: they have nothing to save.
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
    const or_target_options_t *target = config->target;
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
    uint32_t share = config->threads / target->ranks;
    add_common(cluster, &args, config->model, config->threads > 0 && share == 0 ? 1 : share);
    add_cpus(&args, &target->cpus);
    add_gpu(&args, &target->gpu);
    add_number(&args, "--pp", target->stages);
    add_number(&args, "--kv-cache-size", target->cache_bytes);
    add(&args, "--cache-type-k", target->cache_type_k != NULL ? target->cache_type_k : "f32");
    add(&args, "--cache-type-v", target->cache_type_v != NULL ? target->cache_type_v : "f32");
    if (config->restart) {
        unlink(cluster->ready_file); // of one that was killed
        add(&args, "--ready-file", cluster->ready_file);
    }
    or_process_t *child = &cluster->children[VERIFIER];
    return several ? or_process_start_kept(child, name, mpirun, args.words, config->show_logs)
                   : or_process_start_at(child, name, program, args.words, config->show_logs, -1);
}

static or_status_t start_worker(or_cluster_t *cluster, int which)
{
    if (which == COORDINATOR) {
        return start_coordinator_again(cluster);
    }
    worker_t *worker = &cluster->workers[which];
    worker->joined = false;
    worker->placed = false;
    worker->started_ns = or_clock_now(or_clock_monotonic());
    worker->restart_at_ns = OR_TIME_NEVER;
    return which == VERIFIER ? start_verifier(cluster) : start_drafter(cluster);
}

// The ready files of commands that were killed.
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

// Where the verifier says that it has joined: a file, since mpirun passes no descriptors on, in a folder
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
        cluster->workers[i] = (worker_t){.restart_at_ns = OR_TIME_NEVER};
    }
    // Inherited, it would be read by programs that know none of its keys.
    unsetenv("OUTRIDER_CONFIG");
    or_status_t status = config->restart ? choose_ready_file(cluster) : OR_OK;
    if (status == OR_OK) {
        status = start_coordinator(cluster);
    }
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

// Who wants a GPU and gets the CPU should read so, though logs are kept. A worker says it before it is ready.
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
    if (cluster->config.target->ranks > 1 && patience_ns < MPIRUN_PATIENCE_NS) {
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

void or_cluster_describe(const or_cluster_t *cluster, char *text, size_t capacity)
{
    char ranks[32] = "";
    if (cluster->config.target->ranks > 1) {
        snprintf(ranks, sizeof ranks, ", %" PRIu32 " ranks", cluster->config.target->ranks);
    }
    int used =
        snprintf(text, capacity, "coordinator (pid %d) on %s, verifier (pid %d%s) with %s",
                 (int)cluster->children[COORDINATOR].pid, cluster->endpoint,
                 (int)cluster->children[VERIFIER].pid, ranks, basename(cluster->config.model));
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
    // The verifier before the coordinator, which may have ended because of it: the consequence, not
    // the cause.
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
