// The ends of the in-memory network and their channels.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "tests/support/memory_network_internal.h"

// Hold a frame that the edge sends while its line is cut, until the line is mended.
static or_status_t hold(node_t *edge, const uint8_t *data, size_t bytes)
{
    if (edge->to_hub.waiting >= OR_NETWORK_QUEUE) {
        return or_fail(OR_ERR_FULL, "%d frames wait already", OR_NETWORK_QUEUE);
    }
    frame_t **place = &edge->held;
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = or_frame_copy(edge, data, bytes);
    if (*place == NULL) {
        return OR_ERR_NO_MEMORY;
    }
    edge->to_hub.waiting++;
    return OR_OK;
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
    if (edge == NULL || edge->cut) {
        return or_fail(OR_ERR_UNREACHABLE, "peer %" PRIu64 " is gone", to.value);
    }
    return or_frame_send(edge, edge, data, bytes);
}

static or_status_t edge_send(or_channel_t *channel, or_peer_t to, const uint8_t *data, size_t bytes)
{
    node_t *edge = (node_t *)channel;
    if (to.value != OR_PEER_HUB.value) {
        return or_fail(OR_ERR_UNREACHABLE, "an edge knows the hub only");
    }
    if (edge->cut) {
        return hold(edge, data, bytes);
    }
    if (edge->network->hub == NULL) {
        return OR_OK; // lost: nobody is there
    }
    return or_frame_send(edge->network->hub, edge, data, bytes);
}

static or_status_t node_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **data,
                                size_t *bytes)
{
    node_t *node = (node_t *)channel;
    free(node->current);
    node->current = NULL;
    node->listened_ns = or_network_now(node->network);
    frame_t *frame = node->inbox;
    if (frame == NULL || frame->lands_ns > node->listened_ns) {
        return OR_ERR_AGAIN;
    }
    node->inbox = frame->next;
    node->current = frame;
    node->network->traffic++;
    or_way_of(node, frame->edge)->waiting--;
    *from = node == frame->edge ? OR_PEER_HUB : frame->edge->peer;
    *data = frame->data;
    *bytes = frame->bytes;
    return OR_OK;
}

static or_status_t node_wait(or_channel_t *channel, int64_t timeout_ns)
{
    (void)timeout_ns;
    const node_t *node = (const node_t *)channel;
    bool landed = node->inbox != NULL && node->inbox->lands_ns <= or_network_now(node->network);
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
        or_way_of(node, frame->edge)->waiting--;
        free(frame);
    }
}

static void free_held(node_t *edge)
{
    while (edge->held != NULL) {
        frame_t *frame = edge->held;
        edge->held = frame->next;
        free(frame);
    }
}

static void free_node(node_t *node)
{
    free(node->current);
    free(node);
}

// Lose the frames on the way to and from the edge.
static void purge_line(node_t *edge)
{
    purge(edge, NULL);
    if (edge->network->hub != NULL) {
        purge(edge->network->hub, edge);
    }
}

// Begin a new connection over an empty line.
static void renew(node_t *edge)
{
    edge->peer = next_peer(edge->network);
    edge->to_hub.idle_ns = edge->to_hub.last_ns = 0;
    edge->to_edge.idle_ns = edge->to_edge.last_ns = 0;
}

static void hub_destroy(or_channel_t *channel)
{
    node_t *hub = (node_t *)channel;
    purge(hub, NULL);
    for (node_t *edge = hub->network->edges; edge != NULL; edge = edge->next) {
        purge(edge, NULL);
        renew(edge);
    }
    hub->network->hub = NULL;
    free_node(hub);
}

static void edge_destroy(or_channel_t *channel)
{
    node_t *edge = (node_t *)channel;
    purge_line(edge);
    free_held(edge);
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

static bool hub_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    const node_t *edge = find_edge(((const node_t *)channel)->network, peer);
    return edge != NULL && edge->inside;
}

static const char *hub_key_of(const or_channel_t *channel, or_peer_t peer)
{
    const node_t *hub = (const node_t *)channel;
    const node_t *edge = find_edge(hub->network, peer);
    return edge != NULL ? edge->key : "";
}

static uint64_t edge_connection(const or_channel_t *channel)
{
    const node_t *edge = (const node_t *)channel;
    return edge->cut ? 0 : edge->connection;
}

static const or_channel_ops_t hub_ops = {.send = hub_send,
                                         .receive = node_receive,
                                         .wait = node_wait,
                                         .forget = hub_forget,
                                         .is_local = node_is_local,
                                         .is_inside = hub_is_inside,
                                         .key_of = hub_key_of,
                                         .destroy = hub_destroy};
static const or_channel_ops_t edge_ops = {.send = edge_send,
                                          .receive = node_receive,
                                          .wait = node_wait,
                                          .is_local = node_is_local,
                                          .connection = edge_connection,
                                          .destroy = edge_destroy};

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
    edge->connection = 1;
    edge->next = network->edges;
    network->edges = edge;
    *channel_p = &edge->channel;
    return OR_OK;
}

// ---- faults, lines and names ----

void or_network_set_faults(or_network_t *network, const or_network_faults_t *faults)
{
    network->faults = *faults;
}

void or_network_set_line(or_channel_t *channel, const or_network_line_t *line)
{
    node_t *edge = (node_t *)channel;
    edge->line = *line;
    edge->has_line = true;
}

void or_network_cut(or_channel_t *channel)
{
    node_t *edge = (node_t *)channel;
    if (!edge->cut) {
        edge->cut = true;
        purge_line(edge);
        renew(edge);
    }
}

void or_network_mend(or_channel_t *channel)
{
    node_t *edge = (node_t *)channel;
    node_t *hub = edge->network->hub;
    edge->connection += edge->cut;
    edge->cut = false;
    while (edge->held != NULL) {
        frame_t *frame = edge->held;
        edge->held = frame->next;
        edge->to_hub.waiting--;
        if (hub != NULL && or_frame_send(hub, edge, frame->data, frame->bytes) != OR_OK) {
            or_log(OR_LOG_DEBUG, "a frame was lost: %s", or_error_text());
        }
        free(frame);
    }
}

void or_network_set_inside(or_channel_t *channel, bool inside)
{
    ((node_t *)channel)->inside = inside;
}

void or_network_set_key(or_channel_t *channel, const char *public_key)
{
    node_t *edge = (node_t *)channel;
    snprintf(edge->key, sizeof edge->key, "%s", public_key != NULL ? public_key : "");
}
