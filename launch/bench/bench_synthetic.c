#include "launch/bench/bench_synthetic.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/version.h"
#include "launch/bench/bench_list.h"
#include "launch/cluster/process.h"
#include "proto/zmq/channel_zmq.h"

#define LOOK_NS (100 * OR_NS_PER_MS) // between looks at whether it is over
#define CONTEXT (1u << 20)
#define ENDPOINT_BYTES 256
#define SENTENCE_BYTES 2048

// A thread with a link of its own.
typedef struct {
    pthread_t thread;
    bool runs;
    or_channel_t *channel;
    or_link_t *link;
    int64_t (*turn)(void *role);
    void *role;
    atomic_bool *over;
} worker_t;

struct or_synthetic {
    or_process_t coordinator;
    char endpoint[ENDPOINT_BYTES];
    or_synthetic_drafter_t drafter;
    or_synthetic_verifier_t verifier;
    worker_t workers[2];
    atomic_bool over;
};

or_status_t or_synthetic_parse(const char *list, or_synthetic_distribution_t *dist)
{
    char word[OR_BENCH_WORD_BYTES];
    double total = 0;
    or_status_t status;
    while ((status = or_bench_list_next("--synthetic-acceptance", &list, word)) == OR_OK) {
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

// Its first line is the endpoint; an early end closes the pipe.
static or_status_t read_endpoint(or_synthetic_t *synthetic, int fd)
{
    char sentence[SENTENCE_BYTES];
    FILE *ready = fdopen(fd, "r");
    if (ready == NULL) {
        close(fd);
        return or_fail(OR_ERR_IO, "cannot read from a pipe: %s", strerror(errno));
    }
    bool got = fgets(synthetic->endpoint, ENDPOINT_BYTES, ready) != NULL;
    fclose(ready);
    if (!got) {
        or_process_last_words(&synthetic->coordinator, sentence, sizeof sentence);
        return or_fail(OR_ERR_UNREACHABLE, "outrider-coordinator gave no endpoint: %s", sentence);
    }
    synthetic->endpoint[strcspn(synthetic->endpoint, "\n")] = '\0';
    return OR_OK;
}

static or_status_t start_coordinator(or_synthetic_t *synthetic, const char *model,
                                     const char *log_level, bool show_logs)
{
    int ready[2];
    char ready_fd[16];
    if (pipe2(ready, O_CLOEXEC) != 0) {
        return or_fail(OR_ERR_IO, "cannot create a pipe: %s", strerror(errno));
    }
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    // Also what is usual is said, lest a variable of the user's, meant for another service, says otherwise.
    const char *args[] = {"-m",         model,    "--listen",         "tcp://127.0.0.1:*",
                          "--encrypt",  "auto",   "--journal",        "none",
                          "--ready-fd", ready_fd, "--expect-drafter", "--log-level",
                          log_level,    NULL};
    or_status_t status = or_process_start(&synthetic->coordinator, "outrider-coordinator", args,
                                          show_logs, ready[1]);
    close(ready[1]);
    if (status != OR_OK) {
        close(ready[0]);
        return status;
    }
    return read_endpoint(synthetic, ready[0]);
}

static void *work(void *argument)
{
    const worker_t *worker = argument;
    while (!atomic_load(worker->over)) {
        int64_t due = worker->turn(worker->role);
        int64_t look = or_clock_now(or_clock_monotonic()) + LOOK_NS;
        or_link_wait(worker->link, due < look ? due : look);
    }
    return NULL;
}

static or_status_t open_link(const or_synthetic_t *synthetic, worker_t *worker,
                             const or_hello_t *hello)
{
    or_status_t status = or_channel_zmq_connect(synthetic->endpoint, NULL, &worker->channel);
    return status == OR_OK ? or_link_create(worker->channel, or_clock_monotonic(), hello,
                                            OR_LINK_HEARTBEAT_MS, &worker->link)
                           : status;
}

static or_status_t start_thread(or_synthetic_t *synthetic, worker_t *worker,
                                int64_t (*turn)(void *role), void *role)
{
    worker->turn = turn;
    worker->role = role;
    worker->over = &synthetic->over;
    int code = pthread_create(&worker->thread, NULL, work, worker);
    if (code != 0) {
        return or_fail(OR_ERR_IO, "cannot start a thread: %s", strerror(code));
    }
    worker->runs = true;
    return OR_OK;
}

static or_status_t start_roles(or_synthetic_t *synthetic, const or_synthetic_distribution_t *dist,
                               or_hello_t *hello)
{
    worker_t *drafting = &synthetic->workers[0];
    worker_t *verifying = &synthetic->workers[1];
    hello->role = OR_ROLE_DRAFTER;
    or_status_t status = open_link(synthetic, drafting, hello);
    if (status == OR_OK) {
        hello->role = OR_ROLE_VERIFIER;
        status = open_link(synthetic, verifying, hello);
    }
    if (status == OR_OK) {
        or_synthetic_drafter_init(&synthetic->drafter, dist, drafting->link);
        or_synthetic_verifier_init(&synthetic->verifier, dist, verifying->link);
        status = start_thread(synthetic, drafting, or_synthetic_drafter_turn, &synthetic->drafter);
    }
    if (status == OR_OK) {
        status =
            start_thread(synthetic, verifying, or_synthetic_verifier_turn, &synthetic->verifier);
    }
    return status;
}

// What a real drafter or verifier with this model would say of itself.
static or_status_t make_hello(const char *model, or_hello_t *hello)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_status_t status = or_gguf_open(model, &gguf);
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &vocab);
    }
    if (status == OR_OK) {
        *hello = (or_hello_t){.software = "outrider " OR_VERSION,
                              .arith_id = OR_ARITH_ID,
                              .vocab_hash = or_vocab_hash(vocab),
                              .vocab_size = or_vocab_size(vocab),
                              .model = basename(model),
                              .model_hash = or_gguf_fingerprint(gguf),
                              .owner = "",
                              .context_max = CONTEXT,
                              .nodes_max = OR_TREE_NODES_MAX,
                              .sessions_max = 1};
    }
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status;
}

or_status_t or_synthetic_start(const or_synthetic_distribution_t *dist, const char *model,
                               const char *log_level, bool show_logs, or_synthetic_t **synthetic_p)
{
    or_hello_t hello;
    or_synthetic_t *synthetic = calloc(1, sizeof *synthetic);
    if (synthetic == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a synthetic cluster");
    }
    synthetic->coordinator = OR_PROCESS_NONE;
    or_status_t status = make_hello(model, &hello);
    if (status == OR_OK) {
        status = start_coordinator(synthetic, model, log_level, show_logs);
    }
    if (status == OR_OK) {
        status = start_roles(synthetic, dist, &hello);
    }
    if (status != OR_OK) {
        or_synthetic_stop(&synthetic, 0);
        return status;
    }
    *synthetic_p = synthetic;
    return OR_OK;
}

void or_synthetic_stop(or_synthetic_t **synthetic_p, int64_t patience_ns)
{
    or_synthetic_t *synthetic = *synthetic_p;
    if (synthetic == NULL) {
        return;
    }
    atomic_store(&synthetic->over, true);
    for (int i = 0; i < 2; i++) {
        worker_t *worker = &synthetic->workers[i];
        if (worker->runs) {
            pthread_join(worker->thread, NULL);
        }
        or_link_destroy(&worker->link);
        or_channel_destroy(&worker->channel);
    }
    or_process_stop_all(&synthetic->coordinator, 1, patience_ns);
    free(synthetic);
    *synthetic_p = NULL;
}

const char *or_synthetic_endpoint(const or_synthetic_t *synthetic)
{
    return synthetic->endpoint;
}
