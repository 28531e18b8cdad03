// link_internal - what the two parts of a link share: link_peers.c knows the peers, link.c talks with them.
#pragma once

#include "proto/net/link.h"

#define OR_LINK_PEERS_MAX 1024     // peers that a hub watches
#define OR_LINK_UNREAD_ASKED 65536 // unread bytes at which a peer is asked how far it has read
#define OR_LINK_UNREAD_ANSWERED                                                                    \
    (4 * OR_LINK_UNREAD_ASKED) // unread bytes at which a peer gets no more answers

// alive ──silent or unreachable──▶ lost ──event given──▶ reported ──next receive──▶ dropped by a hub
//   ▲──────────────────────────────── any frame, on an edge ─────────┘
typedef enum { PEER_ALIVE, PEER_LOST, PEER_REPORTED } or_link_state_t;

typedef struct {
    or_peer_t id;
    or_link_state_t state;
    bool greeted;  // it said Hello, so that the hub's owner knows it; an edge's hub always has
    bool welcomed; // heartbeats are due
    bool hurried;  // hub: it is heard before others
    int64_t heard_ns, sent_ns;
    uint64_t bytes; // of frames in both directions
    // A hub counts what it has sent and what of it the peer has read. It asks by a numbered question.
    uint64_t sent, read;
    uint32_t question; // 0: none is open
    int64_t asked_ns;
    uint64_t sent_before_question;
    int64_t answers_since_ns; // the second that `answers` counts in
    uint32_t answers;         // to nonsense and to repeated greetings
    int64_t ignored_until_ns; // hub
} or_link_peer_t;

struct or_link {
    or_channel_t *channel;   // borrowed
    const or_clock_t *clock; // borrowed
    int64_t heartbeat_ns;
    or_link_peer_t *peers; // an edge has one: the hub
    size_t count, capacity;
    bool losses; // some peer may be lost or reported
    bool padding;
    // Every frame that waited at drained_ns has been heard since. A silence before that time is the peer's; after it, it
    // may be ours. The time moves when the channel is empty, and after each lap, so that a flood does not put off the
    // judgement for ever.
    int64_t drained_ns;
    int64_t lap_ns; // when the present lap began
    uint32_t lap_frames;
    bool is_drained;
    int64_t held_until_ns; // hub: until then frames may wait that are not received
    or_link_gate_t gate;   // hub; NULL: open
    void *gate_context;
    // Edge only.
    uint8_t *hello; // encoded; NULL on a hub
    size_t hello_bytes;
    int64_t hello_due_ns;
    bool called;         // a Hello has been sent, or waits for a connection
    uint64_t connection; // the channel's last connection
};

static inline int64_t or_link_now(const or_link_t *link)
{
    return or_clock_now(link->clock);
}

static inline bool or_link_is_edge(const or_link_t *link)
{
    return link->hello != NULL;
}

// Return what is known of this peer; NULL if it is unknown. The pointer is good until a peer is added or removed.
or_link_peer_t *or_link_find(const or_link_t *link, or_peer_t id);
// Add a peer; a hub drops its oldest stranger if it has to. NULL if there is no room.
or_link_peer_t *or_link_add(or_link_t *link, or_peer_t id);
// Count the peer as lost; the owner hears of it from the next receive.
void or_link_lose(or_link_t *link, or_link_peer_t *peer, const char *why);
// Return true and the next lost peer that the owner does not know of. Drops those it knows of.
bool or_link_report_loss(or_link_t *link, or_peer_t *from);
