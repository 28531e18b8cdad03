#include "launch/bench/bench_synthetic.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/math/rng.h"
#include "common/base/version.h"
#include "common/decode/token_tree.h"
#include "launch/cluster/process.h"
#include "proto/net/edge.h"
#include "proto/zmq/channel_zmq.h"

#define LOOK_NS (100 * OR_NS_PER_MS) // between looks at whether it is over
#define CONTEXT (1u << 20)
#define ENDPOINT_BYTES 256
#define SENTENCE_BYTES 2048
#define TOKEN 300u // the child of rank i is token TOKEN + i, which is text in any vocabulary of use

typedef struct {
    const or_synthetic_distribution_t *dist; // borrowed
    or_edge_t edge;
    or_session_id_t id; // the session it serves
    uint32_t nodes_max, depth_max;
    uint32_t parents[OR_TREE_NODES_MAX], ranks[OR_TREE_NODES_MAX]; // in order of probability
    uint32_t tokens[OR_TREE_NODES_MAX], back[OR_TREE_NODES_MAX];   // as they travel
    uint32_t count;
} drafter_t;

typedef struct {
    const or_synthetic_distribution_t *dist; // borrowed
    or_edge_t edge;
    or_session_id_t id;
    uint32_t sessions; // so far: each draws other numbers
    uint64_t round;    // judged last
    uint32_t accepted[OR_TREE_NODES_MAX];
    or_verdict_t verdict; // of that round
} verifier_t;

static void spend(uint32_t us)
{
    const struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

// ---- drafter ----

static void drafter_init(drafter_t *drafter, const or_synthetic_distribution_t *dist,
                         or_link_t *link)
{
    *drafter = (drafter_t){.dist = dist};
    or_edge_init(&drafter->edge, link);
}

// Choose the likeliest nodes, in order of probability; node 0 is the root. They are as many as are asked for, or as have any
// probability.
static uint32_t choose_nodes(drafter_t *drafter)
{
    const or_synthetic_distribution_t *dist = drafter->dist;
    double product[OR_TREE_NODES_MAX + 1] = {1};
    uint32_t depth[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t children[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t count = 0;
    while (count < drafter->nodes_max) {
        double best = 0;
        uint32_t parent = 0;
        for (uint32_t i = 0; i <= count; i++) {
            bool full = children[i] == dist->ranks || depth[i] == drafter->depth_max;
            double one = full ? 0 : product[i] * dist->acceptance[children[i]];
            if (one > best) {
                best = one;
                parent = i;
            }
        }
        if (best == 0) {
            break;
        }
        drafter->parents[count] = parent;
        drafter->ranks[count] = children[parent]++;
        count++;
        product[count] = best;
        depth[count] = depth[parent] + 1;
        children[count] = 0;
    }
    return count;
}

// Append the subtree below node `at`, depth first; `sent` is the number under which that node travels.
static void put_below(drafter_t *drafter, uint32_t count, uint32_t at, uint32_t sent)
{
    for (uint32_t i = 0; i < count; i++) {
        if (drafter->parents[i] == at) {
            drafter->tokens[drafter->count] = TOKEN + drafter->ranks[i];
            drafter->back[drafter->count] = drafter->count + 1 - sent;
            drafter->count++;
            put_below(drafter, count, i + 1, drafter->count);
        }
    }
}

static void send_tree(drafter_t *drafter, uint64_t round, uint32_t length, uint64_t hash)
{
    spend(drafter->dist->draft_us);
    const or_message_t message = {
        .type = OR_MSG_DRAFT_TREE,
        .session = drafter->id,
        .body.draft_tree = {.round = round,
                            .base_length = length,
                            .base_hash = hash,
                            .tokens = drafter->tokens,
                            .back = drafter->back,
                            .count = drafter->count,
                            .draft_us = drafter->dist->draft_us,
                            .passes = 1}, // of a model whose size nobody knows
    };
    or_edge_send(&drafter->edge, &message);
}

static void drafter_take(void *role, const or_message_t *message)
{
    drafter_t *drafter = role;
    const or_prefix_t *prefix = &message->body.prefix;
    const or_verdict_t *verdict = &message->body.verdict;
    if (message->type == OR_MSG_OPEN_SESSION) {
        const or_open_session_t *open = &message->body.open_session;
        bool small = open->draft_nodes < OR_TREE_NODES_MAX;
        drafter->id = message->session;
        drafter->nodes_max = small ? open->draft_nodes : OR_TREE_NODES_MAX;
        drafter->depth_max = open->draft_depth;
        drafter->count = 0;
        put_below(drafter, choose_nodes(drafter), 0, 0);
    } else if (message->session.value != drafter->id.value) {
        return; // of a session that is over
    } else if (message->type == OR_MSG_PREFIX) {
        send_tree(drafter, prefix->round, prefix->start + prefix->count, prefix->hash);
    } else if (message->type == OR_MSG_VERDICT && verdict->finish == OR_FINISH_NONE) {
        send_tree(drafter, verdict->round + 1, verdict->base_length + verdict->accepted_count + 1,
                  verdict->hash);
    }
}

// Handle what waits. Returns the time of the next turn, of the link's clock.
static int64_t drafter_turn(void *role)
{
    drafter_t *drafter = role;
    or_edge_drain(&drafter->edge, drafter_take, drafter);
    return or_link_tick(drafter->edge.link);
}

// ---- verifier ----

static void verifier_init(verifier_t *verifier, const or_synthetic_distribution_t *dist,
                          or_link_t *link)
{
    *verifier = (verifier_t){.dist = dist};
    or_edge_init(&verifier->edge, link);
}

// Draw which child of node `at` is accepted; 0 if none is.
static uint32_t accept_child(const verifier_t *verifier, const or_draft_tree_t *tree, uint32_t at,
                             uint32_t depth)
{
    or_rng_key_t key = or_rng_key(verifier->dist->seed, verifier->sessions);
    double left = or_rng_uniform(or_rng_draw(key, OR_RNG_ACCEPT, (uint32_t)tree->round, depth, 0));
    uint32_t rank = 0;
    for (uint32_t node = 1; node <= tree->count && rank < verifier->dist->ranks; node++) {
        if (node - tree->back[node - 1] == at) {
            left -= verifier->dist->acceptance[rank++];
            if (left < 0) {
                return node;
            }
        }
    }
    return 0;
}

static void judge(verifier_t *verifier, const or_draft_tree_t *tree)
{
    uint32_t count = 0;
    uint32_t at = 0;
    uint64_t hash = tree->base_hash;
    uint32_t next = TOKEN + OR_SYNTHETIC_RANKS_MAX; // no child's
    spend(verifier->dist->step_us);
    while ((at = accept_child(verifier, tree, at, count)) != 0) {
        hash = or_prefix_hash(hash, &tree->tokens[at - 1], 1);
        verifier->accepted[count++] = at;
    }
    verifier->round = tree->round;
    verifier->verdict = (or_verdict_t){.round = tree->round,
                                       .base_length = tree->base_length,
                                       .accepted = verifier->accepted,
                                       .accepted_count = count,
                                       .next = next,
                                       .forward_us = verifier->dist->step_us,
                                       .hash = or_prefix_hash(hash, &next, 1)};
}

static void verifier_take(void *role, const or_message_t *message)
{
    verifier_t *verifier = role;
    if (message->type == OR_MSG_OPEN_SESSION && message->session.value != verifier->id.value) {
        verifier->id = message->session;
        verifier->sessions++;
        verifier->round = 0;
    } else if (message->type == OR_MSG_DRAFT_TREE && message->session.value == verifier->id.value) {
        if (message->body.draft_tree.round != verifier->round) { // else it is repeated
            judge(verifier, &message->body.draft_tree);
        }
        const or_message_t verdict = {
            .type = OR_MSG_VERDICT, .session = verifier->id, .body.verdict = verifier->verdict};
        or_edge_send(&verifier->edge, &verdict);
    }
}

static int64_t verifier_turn(void *role)
{
    verifier_t *verifier = role;
    or_edge_drain(&verifier->edge, verifier_take, verifier);
    return or_link_tick(verifier->edge.link);
}

// ---- the cluster ----

// Each role has a thread with a link of its own.
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
    drafter_t drafter;
    verifier_t verifier;
    worker_t workers[2];
    atomic_bool over;
};

// The coordinator's first line is its endpoint; an early end closes the pipe.
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
    // Usual values are given too, so that a variable of the user's, meant for another service, cannot change them.
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
        drafter_init(&synthetic->drafter, dist, drafting->link);
        verifier_init(&synthetic->verifier, dist, verifying->link);
        status = start_thread(synthetic, drafting, drafter_turn, &synthetic->drafter);
    }
    if (status == OR_OK) {
        status = start_thread(synthetic, verifying, verifier_turn, &synthetic->verifier);
    }
    return status;
}

// Make the Hello that a real drafter or verifier with this model would send.
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
                               const char *log_level, bool show_logs, or_synthetic_t **synthetic_p,
                               const char **endpoint)
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
    *endpoint = synthetic->endpoint;
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
