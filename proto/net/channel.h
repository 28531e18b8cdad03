// channel - frames to and from peers, over any transport.
//
// A hub (the coordinator) has many peers; an edge (drafter, verifier, client) has exactly one, OR_PEER_HUB. Frames
// arrive whole or not at all. A channel may lose, repeat, delay or reorder frames. Everything above it must survive
// that, and the tests' in-memory network does it on purpose. channel_zmq.h is the transport over ZeroMQ.
//
// One thread owns a channel. Queues are bounded: a full one is OR_ERR_FULL from send, never a block.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

typedef struct {
    uint64_t value; // stable for the life of a connection; never reused within a channel
} or_peer_t;
#define OR_PEER_HUB ((or_peer_t){1})

typedef struct or_channel or_channel_t;

// The operations of a transport, which embeds or_channel_t as the first member of its struct. Some may be NULL.
typedef struct {
    or_status_t (*send)(or_channel_t *channel, or_peer_t to, const uint8_t *frame, size_t bytes);
    or_status_t (*receive)(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                           size_t *bytes);
    or_status_t (*wait)(or_channel_t *channel, int64_t timeout_ns);
    void (*forget)(or_channel_t *channel, or_peer_t peer); // NULL: nothing is kept
    void (*set_urgent)(or_channel_t *channel, or_peer_t peer,
                       bool urgent);                                // NULL: no peer is urgent
    void (*hold)(or_channel_t *channel, int64_t until_ns);          // NULL: nothing is held
    bool (*is_local)(const or_channel_t *channel, or_peer_t peer);  // NULL: no peer is
    bool (*is_inside)(const or_channel_t *channel, or_peer_t peer); // NULL: no peer is
    const char *(*key_of)(const or_channel_t *channel,
                          or_peer_t peer);               // NULL: nothing is encrypted
    uint64_t (*connection)(const or_channel_t *channel); // NULL: 0
    void (*destroy)(or_channel_t *channel);
} or_channel_ops_t;

struct or_channel {
    const or_channel_ops_t *ops;
};

// Queue a copy of the frame. Never blocks. OR_ERR_FULL; OR_ERR_UNREACHABLE if the peer is known to
// be gone, or there is no connection that a frame could wait for; OR_ERR_INVALID if the frame is
// over OR_FRAME_BYTES_MAX.
or_status_t or_channel_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame,
                            size_t bytes);

// Receive the next frame, which is valid until the next receive. OR_ERR_AGAIN if none waits. Hub: OR_ERR_CANCELLED if
// the next one came from a peer that is not let in; it is gone, and others may wait.
static inline or_status_t or_channel_receive(or_channel_t *channel, or_peer_t *from,
                                             const uint8_t **frame, size_t *bytes)
{
    return channel->ops->receive(channel, from, frame, bytes);
}

// Sleep until a frame waits, a signal interrupts, an edge that had lost its connection has one again
// (all OR_OK) or timeout_ns has passed (OR_ERR_TIMEOUT).
static inline or_status_t or_channel_wait(or_channel_t *channel, int64_t timeout_ns)
{
    return channel->ops->wait(channel, timeout_ns);
}

// Hub: drop the state kept for a peer, so that peers that left do not pile up. If it sends again, it is a new peer.
static inline void or_channel_forget(or_channel_t *channel, or_peer_t peer)
{
    if (channel->ops->forget != NULL) {
        channel->ops->forget(channel, peer);
    }
}

// Hub: receive this peer's frames before those of others, or (false, the default) in turn with them. It is for peers
// on whose frames everybody's texts wait, and who do not flood.
static inline void or_channel_set_urgent(or_channel_t *channel, or_peer_t peer, bool urgent)
{
    if (channel->ops->set_urgent != NULL) {
        channel->ops->set_urgent(channel, peer, urgent);
    }
}

// Hub: until this time (or_clock_monotonic) only urgent frames are received and end a wait. The others keep their
// order and come after it. A peer whose frames wait is read from no further than the transport's bounds.
static inline void or_channel_hold(or_channel_t *channel, int64_t until_ns)
{
    if (channel->ops->hold != NULL) {
        channel->ops->hold(channel, until_ns);
    }
}

// Hub: return true if this peer connects from this machine, over loopback or a path. False for unknown peers.
static inline bool or_channel_is_local(const or_channel_t *channel, or_peer_t peer)
{
    return channel->ops->is_local != NULL && channel->ops->is_local(channel, peer);
}

// Hub: return true if this peer is a part of the hub's own process. No peer from outside can pass for one. Such a
// peer is local, too. False for unknown peers.
static inline bool or_channel_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    return channel->ops->is_inside != NULL && channel->ops->is_inside(channel, peer);
}

// Return the public key that this peer has proved to have (proto/keys/keys.h), borrowed and good until the channel
// changes. "" if its connection is not encrypted or the peer is unknown. An edge asks about OR_PEER_HUB.
static inline const char *or_channel_key_of(const or_channel_t *channel, or_peer_t peer)
{
    return channel->ops->key_of != NULL ? channel->ops->key_of(channel, peer) : "";
}

// Edge: return the number of the present connection to the hub, counted from 1 as they are made. 0: there is none,
// and frames wait for the next. To the hub each connection is a new peer.
static inline uint64_t or_channel_connection(const or_channel_t *channel)
{
    return channel->ops->connection != NULL ? channel->ops->connection(channel) : 0;
}

// Free *channel_p and set it to NULL; *channel_p may already be NULL.
static inline void or_channel_destroy(or_channel_t **channel_p)
{
    if (*channel_p != NULL) {
        (*channel_p)->ops->destroy(*channel_p);
        *channel_p = NULL;
    }
}
