// The flight of frames through the in-memory network: fates are drawn from the seed, and lines have delays and rates.
#include <stdlib.h>
#include <string.h>

#include "tests/support/memory_network_internal.h"

// The draws that decide a frame's fate.
enum { DRAW_LOSE, DRAW_REPEAT, DRAW_DELAY, DRAW_DELAY_COPY, DRAW_JITTER };

static double draw(const or_network_t *network, uint32_t what)
{
    return or_rng_uniform(or_rng_draw(network->key, OR_RNG_NETWORK, (uint32_t)network->sent,
                                      (uint32_t)(network->sent >> 32), what));
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t landing_by_faults(const or_network_t *network, uint32_t delay_draw)
{
    const or_network_faults_t *faults = &network->faults;
    double span = (double)(faults->delay_max_ns - faults->delay_min_ns);
    return or_network_now(network) + faults->delay_min_ns +
           (int64_t)(span * draw(network, delay_draw));
}

// Put frames on the line one after the other; none overtakes another.
static int64_t landing_by_line(const node_t *edge, way_t *way, size_t bytes)
{
    const or_network_t *network = edge->network;
    const or_network_line_t *line = &edge->line;
    way->idle_ns = later(way->idle_ns, or_network_now(network));
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

frame_t *or_frame_copy(node_t *edge, const uint8_t *data, size_t bytes)
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
    frame_t *frame = or_frame_copy(edge, data, bytes);
    if (frame == NULL) {
        return OR_ERR_NO_MEMORY;
    }
    put_into_inbox(to, frame, lands_ns);
    or_way_of(to, edge)->waiting++;
    return OR_OK;
}

or_status_t or_frame_send(node_t *to, node_t *edge, const uint8_t *data, size_t bytes)
{
    or_network_t *network = to->network;
    way_t *way = or_way_of(to, edge);
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

// ---- stalls ----

// Give the edge's frames in this inbox that have not landed their new time.
static void put_off(node_t *to, node_t *edge)
{
    int64_t now = or_network_now(to->network);
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

// ---- time ----

// A frame that has landed lands now for a node that listens, and for one that is at work it comes when
// that is done.
static int64_t next_of(const node_t *node, bool landed)
{
    int64_t now = or_network_now(node->network);
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

int64_t or_network_next_ns(const or_network_t *network)
{
    return next_ns(network, true);
}

int64_t or_network_next_landing_ns(const or_network_t *network)
{
    return next_ns(network, false);
}

uint64_t or_network_traffic(const or_network_t *network)
{
    return network->traffic;
}
