#include "proto/channel_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

typedef struct node node_t;

// A copy of a frame on its way, or landed and not yet received.
typedef struct frame {
    struct frame *next;
    node_t *edge; // the end that is not the hub
    int64_t lands_ns;
    size_t bytes;
    uint8_t data[];
} frame_t;

// One end of the network: the hub or an edge.
struct node {
    or_channel_t channel; // first
    or_network_t *network;
    node_t *next;     // edges only
    or_peer_t peer;   // edges only: the number the hub knows it by
    uint32_t to_hub;  // edges only: frames that wait in the hub's inbox
    uint32_t to_edge; // edges only: frames that wait in its own inbox
    frame_t *inbox;   // by landing time, then by order of sending
    frame_t *current; // what the last receive gave
};

struct or_network {
    or_virtual_clock_t *clock;
    or_rng_key_t key;
    uint64_t sent; // frames; the counter of the random draws
    or_network_faults_t faults;
    uint64_t next_peer;
    node_t *hub;
    node_t *edges;
};

// The draws that decide a frame's fate.
enum { DRAW_LOSE, DRAW_REPEAT, DRAW_DELAY, DRAW_DELAY_COPY };

static int64_t now_of(const or_network_t *network)
{
    return or_clock_now(&network->clock->clock);
}

static double draw(const or_network_t *network, uint32_t what)
{
    return or_rng_uniform(or_rng_draw(network->key, OR_RNG_NETWORK, (uint32_t)network->sent,
                                      (uint32_t)(network->sent >> 32), what));
}

static uint32_t *count_of(node_t *to, node_t *edge)
{
    return to == edge ? &edge->to_edge : &edge->to_hub;
}

static or_status_t fly(node_t *to, node_t *edge, uint32_t delay_draw, const uint8_t *data,
                       size_t bytes)
{
    const or_network_t *network = to->network;
    frame_t *frame = malloc(sizeof *frame + bytes);
    if (frame == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
    }
    const or_network_faults_t *faults = &network->faults;
    double span = (double)(faults->delay_max_ns - faults->delay_min_ns);
    frame->edge = edge;
    frame->lands_ns =
        now_of(network) + faults->delay_min_ns + (int64_t)(span * draw(network, delay_draw));
    frame->bytes = bytes;
    if (bytes > 0) {
        memcpy(frame->data, data, bytes);
    }
    frame_t **place = &to->inbox;
    while (*place != NULL && (*place)->lands_ns <= frame->lands_ns) {
        place = &(*place)->next;
    }
    frame->next = *place;
    *place = frame;
    *count_of(to, edge) += 1;
    return OR_OK;
}

// Draw the fate of one frame between the hub and `edge` and put its copies into the inbox of `to`.
static or_status_t dispatch(node_t *to, node_t *edge, const uint8_t *data, size_t bytes)
{
    or_network_t *network = to->network;
    if (*count_of(to, edge) >= OR_NETWORK_QUEUE) {
        return or_fail(OR_ERR_FULL, "%d frames wait already", OR_NETWORK_QUEUE);
    }
    network->sent++;
    if (draw(network, DRAW_LOSE) < network->faults.lose) {
        return OR_OK;
    }
    or_status_t status = fly(to, edge, DRAW_DELAY, data, bytes);
    if (status == OR_OK && draw(network, DRAW_REPEAT) < network->faults.repeat) {
        status = fly(to, edge, DRAW_DELAY_COPY, data, bytes);
    }
    return status;
}

static node_t *find_edge(const or_network_t *network, or_peer_t peer)
{
    for (node_t *edge = network->edges; edge != NULL; edge = edge->next) {
        if (edge->peer.value == peer.value) {
            return edge;
        }
    }
    return NULL;
}

static or_status_t hub_send(or_channel_t *channel, or_peer_t to, const uint8_t *data, size_t bytes)
{
    node_t *hub = (node_t *)channel;
    node_t *edge = find_edge(hub->network, to);
    if (edge == NULL) {
        return or_fail(OR_ERR_UNREACHABLE, "peer %" PRIu64 " is gone", to.value);
    }
    return dispatch(edge, edge, data, bytes);
}

static or_status_t edge_send(or_channel_t *channel, or_peer_t to, const uint8_t *data, size_t bytes)
{
    node_t *edge = (node_t *)channel;
    if (to.value != OR_PEER_HUB.value) {
        return or_fail(OR_ERR_UNREACHABLE, "an edge knows the hub only");
    }
    if (edge->network->hub == NULL) {
        return OR_OK; // lost: nobody is there
    }
    return dispatch(edge->network->hub, edge, data, bytes);
}

static or_status_t node_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **data,
                                size_t *bytes)
{
    node_t *node = (node_t *)channel;
    free(node->current);
    node->current = NULL;
    frame_t *frame = node->inbox;
    if (frame == NULL || frame->lands_ns > now_of(node->network)) {
        return OR_ERR_AGAIN;
    }
    node->inbox = frame->next;
    node->current = frame;
    *count_of(node, frame->edge) -= 1;
    *from = node == frame->edge ? OR_PEER_HUB : frame->edge->peer;
    *data = frame->data;
    *bytes = frame->bytes;
    return OR_OK;
}

static or_status_t node_wait(or_channel_t *channel, int64_t timeout_ns)
{
    (void)timeout_ns;
    const node_t *node = (const node_t *)channel;
    bool landed = node->inbox != NULL && node->inbox->lands_ns <= now_of(node->network);
    return landed ? OR_OK : OR_ERR_TIMEOUT;
}

static or_peer_t next_peer(or_network_t *network)
{
    return (or_peer_t){++network->next_peer};
}

static void hub_forget(or_channel_t *channel, or_peer_t peer)
{
    node_t *hub = (node_t *)channel;
    node_t *edge = find_edge(hub->network, peer);
    if (edge != NULL) {
        edge->peer = next_peer(hub->network);
    }
}

static void edge_forget(or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
}

// Take the frames that go to or come from `edge` (NULL: all) out of the node's inbox.
static void purge(node_t *node, const node_t *edge)
{
    frame_t **place = &node->inbox;
    while (*place != NULL) {
        frame_t *frame = *place;
        if (edge != NULL && frame->edge != edge) {
            place = &frame->next;
            continue;
        }
        *place = frame->next;
        *count_of(node, frame->edge) -= 1;
        free(frame);
    }
}

static void free_node(node_t *node)
{
    free(node->current);
    free(node);
}

static void hub_destroy(or_channel_t *channel)
{
    node_t *hub = (node_t *)channel;
    purge(hub, NULL);
    for (node_t *edge = hub->network->edges; edge != NULL; edge = edge->next) {
        purge(edge, NULL);
        edge->peer = next_peer(hub->network); // its next connection
    }
    hub->network->hub = NULL;
    free_node(hub);
}

static void edge_destroy(or_channel_t *channel)
{
    node_t *edge = (node_t *)channel;
    purge(edge, NULL);
    if (edge->network->hub != NULL) {
        purge(edge->network->hub, edge);
    }
    node_t **place = &edge->network->edges;
    while (*place != edge) {
        place = &(*place)->next;
    }
    *place = edge->next;
    free_node(edge);
}

static bool node_is_local(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return true;
}

static const or_channel_ops_t hub_ops = {hub_send,   node_receive,  node_wait,
                                         hub_forget, node_is_local, hub_destroy};
static const or_channel_ops_t edge_ops = {edge_send,   node_receive,  node_wait,
                                          edge_forget, node_is_local, edge_destroy};

static node_t *create_node(or_network_t *network, const or_channel_ops_t *ops)
{
    node_t *node = calloc(1, sizeof *node);
    if (node != NULL) {
        node->channel.ops = ops;
        node->network = network;
    }
    return node;
}

or_status_t or_network_create(or_virtual_clock_t *clock, uint64_t seed,
                              const or_network_faults_t *faults, or_network_t **network_p)
{
    or_network_t *network = calloc(1, sizeof *network);
    if (network == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a simulated network");
    }
    network->clock = clock;
    network->key = or_rng_key(seed, OR_RNG_NETWORK);
    network->faults = *faults;
    network->next_peer = OR_PEER_HUB.value;
    *network_p = network;
    return OR_OK;
}

void or_network_destroy(or_network_t **network_p)
{
    free(*network_p);
    *network_p = NULL;
}

or_status_t or_network_hub(or_network_t *network, or_channel_t **channel_p)
{
    if (network->hub != NULL) {
        return or_fail(OR_ERR_INVALID, "the simulated network has a hub already");
    }
    node_t *hub = create_node(network, &hub_ops);
    if (hub == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a simulated channel");
    }
    network->hub = hub;
    *channel_p = &hub->channel;
    return OR_OK;
}

or_status_t or_network_edge(or_network_t *network, or_channel_t **channel_p)
{
    node_t *edge = create_node(network, &edge_ops);
    if (edge == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a simulated channel");
    }
    edge->peer = next_peer(network);
    edge->next = network->edges;
    network->edges = edge;
    *channel_p = &edge->channel;
    return OR_OK;
}

int64_t or_network_next_ns(const or_network_t *network)
{
    int64_t next = OR_TIME_NEVER;
    if (network->hub != NULL && network->hub->inbox != NULL) {
        next = network->hub->inbox->lands_ns;
    }
    for (const node_t *edge = network->edges; edge != NULL; edge = edge->next) {
        if (edge->inbox != NULL && edge->inbox->lands_ns < next) {
            next = edge->inbox->lands_ns;
        }
    }
    return next;
}

void or_network_set_faults(or_network_t *network, const or_network_faults_t *faults)
{
    network->faults = *faults;
}
