// hostile - a drafter that means harm, over a real socket, for test_hostile.py.
//
//     hostile ENDPOINT MODEL KIND FRAMES_PER_SECOND
//
// It greets as a drafter with the target's own vocabulary, so it is let in and asked for trees. Turned
// away, it comes back under a new connection a second later, as an attacker would. Until SIGTERM; then
// it prints what it sent and how it was answered, as a line of JSON.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "common/text/vocab/vocab.h"
#include "proto/net/link.h"
#include "proto/zmq/channel_zmq.h"

#define NODES_MAX 4096u // several times what any tree may have
#define ASKED 16u       // nodes of its trees where their number is not what is wrong with them
#define AGAIN_NS OR_NS_PER_S
#define WAIT_NS (5 * OR_NS_PER_MS)
#define TOKEN 300u

typedef enum {
    WRONG_HASH, // trees on a text that nobody has
    GIANT,      // trees of thousands of nodes
    REPEAT,     // every tree twenty times, and then another one for the same round
    FLOOD,      // trees for sessions that never were, as fast as it is told to
} kind_t;
static const char *const kinds[] = {"wrong-hash", "giant", "repeat", "flood"};

typedef struct {
    const char *endpoint;
    or_hello_t hello;
    kind_t kind;
    double rate; // frames a second at most
    or_channel_t *channel;
    or_link_t *link; // NULL: turned away
    uint32_t tokens[NODES_MAX], back[NODES_MAX];
    double allowance; // frames that may be sent now
    int64_t at_ns;
    uint64_t frames, bytes, asked, refused, errors;
} hostile_t;

static int64_t now_ns(void)
{
    return or_clock_now(or_clock_monotonic());
}

static or_status_t join(hostile_t *hostile)
{
    or_connect_keys_t keys = {0};
    or_status_t status = or_keys_for_connecting(hostile->endpoint, NULL, &keys);
    if (status == OR_OK) {
        status = or_channel_zmq_connect(hostile->endpoint, &keys, &hostile->channel);
    }
    or_key_pair_wipe(&keys.own);
    if (status == OR_OK) {
        status = or_link_create(hostile->channel, or_clock_monotonic(), &hostile->hello,
                                OR_LINK_HEARTBEAT_MS, &hostile->link);
    }
    return status;
}

static void leave(hostile_t *hostile)
{
    if (hostile->link != NULL) {
        hostile->bytes += or_link_bytes(hostile->link, OR_PEER_HUB);
    }
    or_link_destroy(&hostile->link);
    or_channel_destroy(&hostile->channel);
}

static void refill(hostile_t *hostile)
{
    int64_t now = now_ns();
    hostile->allowance += hostile->rate * (double)(now - hostile->at_ns) / (double)OR_NS_PER_S;
    hostile->at_ns = now;
    if (hostile->allowance > hostile->rate / 10) { // bursts of a tenth of a second at most
        hostile->allowance = hostile->rate / 10;
    }
}

static void send(hostile_t *hostile, or_session_id_t session, const or_draft_tree_t *tree)
{
    const or_message_t message = {
        .type = OR_MSG_DRAFT_TREE, .session = session, .body.draft_tree = *tree};
    if (hostile->allowance < 1) {
        return;
    }
    if (or_link_send(hostile->link, OR_PEER_HUB, &message) == OR_OK) {
        hostile->allowance -= 1;
        hostile->frames++;
    }
}

// Answer a round as this peer does.
static void answer(hostile_t *hostile, or_session_id_t session, uint64_t round, uint32_t length,
                   uint64_t hash)
{
    or_draft_tree_t tree = {.round = round,
                            .base_length = length,
                            .base_hash = hash,
                            .tokens = hostile->tokens,
                            .back = hostile->back,
                            .count = ASKED,
                            .passes = 1};
    hostile->asked++;
    if (hostile->kind == GIANT) {
        tree.count = NODES_MAX;
    } else if (hostile->kind == WRONG_HASH) {
        tree.base_hash ^= 0x5555;
    }
    int times = hostile->kind == REPEAT ? 20 : 1;
    for (int i = 0; i < times; i++) {
        send(hostile, session, &tree);
    }
    if (hostile->kind == REPEAT) {
        tree.count--;
        send(hostile, session, &tree);
    }
}

static void take(hostile_t *hostile, const or_message_t *message)
{
    const or_prefix_t *prefix = &message->body.prefix;
    const or_verdict_t *verdict = &message->body.verdict;
    switch (message->type) {
    case OR_MSG_PREFIX:
        answer(hostile, message->session, prefix->round, prefix->start + prefix->count,
               prefix->hash);
        break;
    case OR_MSG_VERDICT:
        if (verdict->finish == OR_FINISH_NONE) {
            answer(hostile, message->session, verdict->round + 1,
                   verdict->base_length + verdict->accepted_count + 1, verdict->hash);
        }
        break;
    case OR_MSG_ERROR:
        hostile->errors++;
        if (message->body.error.code == OR_WIRE_REFUSED) {
            or_log(OR_LOG_INFO, "turned away: %s", message->body.error.text);
            hostile->refused++;
        }
        break;
    default:
        break;
    }
}

// One turn; true if the coordinator has turned it away.
static bool turn(hostile_t *hostile)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    uint64_t refused = hostile->refused;
    refill(hostile);
    while (hostile->refused == refused &&
           or_link_receive(hostile->link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            take(hostile, &message);
            or_message_fini(&message);
        }
    }
    if (hostile->kind == FLOOD && or_link_welcomed(hostile->link)) {
        const or_draft_tree_t tree = {.round = 1,
                                      .base_length = 10,
                                      .tokens = hostile->tokens,
                                      .back = hostile->back,
                                      .count = ASKED};
        while (hostile->allowance >= 1) {
            uint64_t frames = hostile->frames;
            send(hostile, (or_session_id_t){0x123456789abcdefULL + hostile->frames}, &tree);
            if (hostile->frames == frames) {
                break; // the network does not take more
            }
        }
    }
    or_link_tick(hostile->link);
    or_link_wait(hostile->link, now_ns() + WAIT_NS);
    return hostile->refused != refused;
}

static or_status_t attack(hostile_t *hostile)
{
    int64_t again_ns = 0;
    or_status_t status = OR_OK;
    while (status == OR_OK && or_interrupt_count() == 0) {
        if (hostile->link == NULL && now_ns() >= again_ns) {
            status = join(hostile);
        } else if (hostile->link == NULL) {
            const struct timespec pause = {0, 10 * OR_NS_PER_MS};
            nanosleep(&pause, NULL);
        } else if (turn(hostile)) {
            leave(hostile);
            again_ns = now_ns() + AGAIN_NS;
        }
    }
    leave(hostile);
    printf("{\"frames\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"rounds\": %" PRIu64
           ", \"turned_away\": %" PRIu64 ", \"errors\": %" PRIu64 "}\n",
           hostile->frames, hostile->bytes, hostile->asked, hostile->refused, hostile->errors);
    return status;
}

static or_status_t read_kind(const char *name, kind_t *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i], name) == 0) {
            *kind = (kind_t)i;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "no kind of harm: %s", name);
}

int main(int argc, char **argv)
{
    static hostile_t hostile;
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    if (argc != 5) {
        fprintf(stderr, "usage: hostile ENDPOINT MODEL KIND FRAMES_PER_SECOND\n");
        return 2;
    }
    or_log_init("hostile", OR_LOG_INFO);
    or_interrupt_watch();
    hostile.endpoint = argv[1];
    hostile.rate = strtod(argv[4], NULL);
    hostile.at_ns = now_ns();
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        hostile.tokens[i] = TOKEN + i % 50;
        hostile.back[i] =
            i % 50 + 1; // fifty children of one node, and again below the last of them
    }
    or_status_t status = read_kind(argv[3], &hostile.kind);
    if (status == OR_OK) {
        status = or_gguf_open(argv[2], &gguf);
    }
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &vocab);
    }
    if (status == OR_OK) {
        hostile.hello = (or_hello_t){.role = OR_ROLE_DRAFTER,
                                     .software = "hostile",
                                     .arith_id = "",
                                     .vocab_hash = or_vocab_hash(vocab),
                                     .vocab_size = or_vocab_size(vocab),
                                     .model = "hostile",
                                     .owner = "",
                                     .context_max = 512,
                                     .nodes_max = 1024,
                                     .sessions_max = 64};
        status = attack(&hostile);
    }
    if (status != OR_OK) {
        fprintf(stderr, "hostile: %s\n", or_error_text());
    }
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status == OR_OK ? 0 : 1;
}
