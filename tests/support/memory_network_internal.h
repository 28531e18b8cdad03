// memory_network_internal - what the two halves of the in-memory network share: memory_network.c has its ends and their channels,
// memory_network_flight.c decides when each frame lands.
#pragma once

#include "common/base/math/rng.h"
#include "proto/keys/keys.h"
#include "tests/support/memory_network.h"

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

static inline int64_t or_network_now(const or_network_t *network)
{
    return or_clock_now(&network->clock->clock);
}

// Return the direction of the edge that leads to this end.
static inline way_t *or_way_of(const node_t *to, node_t *edge)
{
    return to == edge ? &edge->to_edge : &edge->to_hub;
}

// Return a copy of the frame, which the caller owns; NULL and the thread's error text if there is no memory.
frame_t *or_frame_copy(node_t *edge, const uint8_t *data, size_t bytes);
// Draw the fate of one frame between the hub and `edge`, and put its copies into the inbox of `to`. OR_ERR_FULL;
// OR_ERR_NO_MEMORY.
or_status_t or_frame_send(node_t *to, node_t *edge, const uint8_t *data, size_t bytes);
