#include "proto/net/channel_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/keys/keys.h"

typedef struct node node_t;

// A copy of a frame on its way, landed and not yet received, or held up by a cut.
typedef struct frame {
    struct frame *next;
    node_t *edge; // the end that is not the hub
    int64_t lands_ns;
    size_t bytes;
    uint8_t data[];
} frame_t;

// One direction of an edge.
typedef struct {
    uint32_t waiting; // frames that were sent and not yet received
    int64_t idle_ns;  // a line's: when the last bit will have been put on it
    int64_t last_ns;  // a line's: when the last frame lands
} way_t;

// One end of the network: the hub or an edge.
struct node {
    or_channel_t channel; // first
    or_network_t *network;
    frame_t *inbox;      // by landing time, then by order of sending
    frame_t *current;    // what the last receive gave
    int64_t listened_ns; // when it last asked for a frame
    // Edges only.
    node_t *next;
    or_peer_t peer; // the number the hub knows it by
    way_t to_hub, to_edge;
    or_network_line_t line;
    bool has_line; // else the network's faults are its fate
    bool cut;
    uint64_t connection; // 1, and one more each time that it was mended
    frame_t *held;       // sent while it was cut, in order
    int64_t stalled_until_ns;
    char key[OR_KEY_BYTES];
    bool inside;
};

struct or_network {
    or_virtual_clock_t *clock;
    or_rng_key_t key;
    uint64_t sent;    // frames; the counter of the random draws
    uint64_t traffic; // frames put into inboxes or taken out
    or_network_faults_t faults;
    uint64_t next_peer;
    node_t *hub;
    node_t *edges;
};

// The draws that decide a frame's fate.
enum { DRAW_LOSE, DRAW_REPEAT, DRAW_DELAY, DRAW_DELAY_COPY, DRAW_JITTER };

static int64_t now_of(const or_network_t *network)
{
    return or_clock_now(&network->clock->clock);
}

static double draw(const or_network_t *network, uint32_t what)
{
    return or_rng_uniform(or_rng_draw(network->key, OR_RNG_NETWORK, (uint32_t)network->sent,
                                      (uint32_t)(network->sent >> 32), what));
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static way_t *way_of(const node_t *to, node_t *edge)
{
    return to == edge ? &edge->to_edge : &edge->to_hub;
}

static int64_t landing_by_faults(const or_network_t *network, uint32_t delay_draw)
{
    const or_network_faults_t *faults = &network->faults;
    double span = (double)(faults->delay_max_ns - faults->delay_min_ns);
    return now_of(network) + faults->delay_min_ns + (int64_t)(span * draw(network, delay_draw));
}

// One frame after the other is put on the line, and none overtakes another on it.
static int64_t landing_by_line(const node_t *edge, way_t *way, size_t bytes)
{
    const or_network_t *network = edge->network;
    const or_network_line_t *line = &edge->line;
    way->idle_ns = later(way->idle_ns, now_of(network));
    if (line->bytes_per_s > 0) {
        double seconds = (double)(bytes + line->frame_overhead) / (double)line->bytes_per_s;
        way->idle_ns += (int64_t)(seconds * (double)OR_NS_PER_S);
    }
    double jitter = line->jitter * (2 * draw(network, DRAW_JITTER) - 1);
    int64_t lands_ns = way->idle_ns + (int64_t)((double)line->one_way_ns * (1 + jitter));
    if (draw(network, DRAW_LOSE) < line->lose) {
        lands_ns += line->repair_ns;
    }
    way->last_ns = later(way->last_ns, lands_ns);
    return way->last_ns;
}

static void put_into_inbox(node_t *to, frame_t *frame, int64_t lands_ns)
{
    frame->lands_ns = later(lands_ns, frame->edge->stalled_until_ns);
    frame_t **place = &to->inbox;
    while (*place != NULL && (*place)->lands_ns <= frame->lands_ns) {
        place = &(*place)->next;
    }
    frame->next = *place;
    *place = frame;
    frame->edge->network->traffic++;
}

// NULL: no memory, and that is the thread's error text.
static frame_t *copy_frame(node_t *edge, const uint8_t *data, size_t bytes)
{
    frame_t *frame = malloc(sizeof *frame + bytes);
    if (frame == NULL) {
        or_fail(OR_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
        return NULL;
    }
    *frame = (frame_t){.edge = edge, .bytes = bytes};
    if (bytes > 0) {
        memcpy(frame->data, data, bytes);
    }
    return frame;
}

static or_status_t fly(node_t *to, node_t *edge, int64_t lands_ns, const uint8_t *data,
                       size_t bytes)
{
    frame_t *frame = copy_frame(edge, data, bytes);
    if (frame == NULL) {
        return OR_ERR_NO_MEMORY;
    }
    put_into_inbox(to, frame, lands_ns);
    way_of(to, edge)->waiting++;
    return OR_OK;
}

// Draw the fate of one frame between the hub and `edge` and put its copies into the inbox of `to`.
static or_status_t dispatch(node_t *to, node_t *edge, const uint8_t *data, size_t bytes)
{
    or_network_t *network = to->network;
    way_t *way = way_of(to, edge);
    if (way->waiting >= OR_NETWORK_QUEUE) {
        return or_fail(OR_ERR_FULL, "%d frames wait already", OR_NETWORK_QUEUE);
    }
    network->sent++;
    if (edge->has_line) {
        return fly(to, edge, landing_by_line(edge, way, bytes), data, bytes);
    }
    if (draw(network, DRAW_LOSE) < network->faults.lose) {
        return OR_OK;
    }
    or_status_t status = fly(to, edge, landing_by_faults(network, DRAW_DELAY), data, bytes);
    if (status == OR_OK && draw(network, DRAW_REPEAT) < network->faults.repeat) {
        status = fly(to, edge, landing_by_faults(network, DRAW_DELAY_COPY), data, bytes);
    }
    return status;
}

// The line is cut: what the edge sends waits for its mending.
static or_status_t hold(node_t *edge, const uint8_t *data, size_t bytes)
{
    if (edge->to_hub.waiting >= OR_NETWORK_QUEUE) {
        return or_fail(OR_ERR_FULL, "%d frames wait already", OR_NETWORK_QUEUE);
    }
    frame_t **place = &edge->held;
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = copy_frame(edge, data, bytes);
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
    return dispatch(edge, edge, data, bytes);
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
    return dispatch(edge->network->hub, edge, data, bytes);
}

static or_status_t node_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **data,
                                size_t *bytes)
{
    node_t *node = (node_t *)channel;
    free(node->current);
    node->current = NULL;
    node->listened_ns = now_of(node->network);
    frame_t *frame = node->inbox;
    if (frame == NULL || frame->lands_ns > node->listened_ns) {
        return OR_ERR_AGAIN;
    }
    node->inbox = frame->next;
    node->current = frame;
    node->network->traffic++;
    way_of(node, frame->edge)->waiting--;
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
        way_of(node, frame->edge)->waiting--;
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

// What is on the way to and from the edge is lost.
static void purge_line(node_t *edge)
{
    purge(edge, NULL);
    if (edge->network->hub != NULL) {
        purge(edge->network->hub, edge);
    }
}

// A new connection over an empty line.
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

static bool edge_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return false;
}

static const char *hub_key_of(const or_channel_t *channel, or_peer_t peer)
{
    const node_t *hub = (const node_t *)channel;
    const node_t *edge = find_edge(hub->network, peer);
    return edge != NULL ? edge->key : "";
}

static const char *edge_key_of(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return "";
}

static uint64_t hub_connection(const or_channel_t *channel)
{
    (void)channel;
    return 0;
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
                                         .connection = hub_connection,
                                         .destroy = hub_destroy};
static const or_channel_ops_t edge_ops = {.send = edge_send,
                                          .receive = node_receive,
                                          .wait = node_wait,
                                          .forget = edge_forget,
                                          .is_local = node_is_local,
                                          .is_inside = edge_is_inside,
                                          .key_of = edge_key_of,
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

// ---- lines ----

void or_network_set_line(or_channel_t *channel, const or_network_line_t *line)
{
    node_t *edge = (node_t *)channel;
    edge->line = *line;
    edge->has_line = true;
}

// Give the edge's frames in this inbox that have not landed their new time.
static void put_off(node_t *to, node_t *edge)
{
    int64_t now = now_of(to->network);
    frame_t *later_ones = NULL;
    frame_t **end = &later_ones;
    frame_t **place = &to->inbox;
    while (*place != NULL) {
        frame_t *frame = *place;
        if (frame->edge != edge || frame->lands_ns <= now) {
            place = &frame->next;
            continue;
        }
        *place = frame->next;
        frame->next = NULL;
        *end = frame;
        end = &frame->next;
    }
    while (later_ones != NULL) {
        frame_t *frame = later_ones;
        later_ones = frame->next;
        put_into_inbox(to, frame, frame->lands_ns);
    }
}

void or_network_stall(or_channel_t *channel, int64_t until_ns)
{
    node_t *edge = (node_t *)channel;
    edge->stalled_until_ns = later(edge->stalled_until_ns, until_ns);
    put_off(edge, edge);
    if (edge->network->hub != NULL) {
        put_off(edge->network->hub, edge);
    }
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
        if (hub != NULL && dispatch(hub, edge, frame->data, frame->bytes) != OR_OK) {
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

// ---- time ----

// A frame that has landed lands now for a node that listens, and for one that is at work it comes when
// that is done.
static int64_t next_of(const node_t *node, bool landed)
{
    int64_t now = now_of(node->network);
    for (const frame_t *frame = node->inbox; frame != NULL; frame = frame->next) {
        if (frame->lands_ns > now || (landed && node->listened_ns == now)) {
            return frame->lands_ns;
        }
    }
    return OR_TIME_NEVER;
}

static int64_t next_ns(const or_network_t *network, bool landed)
{
    int64_t next = network->hub != NULL ? next_of(network->hub, landed) : OR_TIME_NEVER;
    for (const node_t *edge = network->edges; edge != NULL; edge = edge->next) {
        int64_t lands_ns = next_of(edge, landed);
        next = lands_ns < next ? lands_ns : next;
    }
    return next;
}

uint64_t or_network_traffic(const or_network_t *network)
{
    return network->traffic;
}

int64_t or_network_next_ns(const or_network_t *network)
{
    return next_ns(network, true);
}

int64_t or_network_next_landing_ns(const or_network_t *network)
{
    return next_ns(network, false);
}

void or_network_set_faults(or_network_t *network, const or_network_faults_t *faults)
{
    network->faults = *faults;
}
