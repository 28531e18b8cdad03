// link - messages to and from peers: codec, greeting, heartbeats and byte counts on top of a channel.
//
// An edge says Hello when the link starts, after a silence, and until it is welcomed. A hub hands Hello to its owner,
// who answers Welcome or Error through or_link_send. A heartbeat is sent if nothing else was sent for a heartbeat
// interval. A peer that is silent for OR_LINK_SILENCE intervals is reported lost. A frame that does not decode costs
// its sender an Error (VERSION or INVALID) and is dropped; an Error is never answered with an Error.
//
// One thread. No call blocks except or_link_wait.
#pragma once

#include "common/base/clock.h"
#include "proto/net/channel.h"
#include "proto/wire/message.h"

#define OR_LINK_HEARTBEAT_MS 1000 // the usual interval; a Welcome may say otherwise
#define OR_LINK_SILENCE 10        // intervals without a frame before a peer counts as lost

typedef struct or_link or_link_t;

// The events of or_link_receive.
typedef enum {
    OR_LINK_MESSAGE,
    OR_LINK_PEER_LOST, // hub: `from` is gone (silent or unreachable). Edge: the hub has been silent; Hello is being sent again
    OR_LINK_MALFORMED, // hub: a frame of `from`, which has greeted, made no sense; it was told so
} or_link_event_t;

// Create a link over `channel`; borrows channel and clock. `hello` (copied) makes it an edge's, NULL a hub's.
or_status_t or_link_create(or_channel_t *channel, const or_clock_t *clock, const or_hello_t *hello,
                           uint32_t heartbeat_ms, or_link_t **link_p);
void or_link_destroy(or_link_t **link_p);

// Encode a message and queue it. OR_ERR_FULL, OR_ERR_INVALID, OR_ERR_UNREACHABLE (the next receive reports the peer
// lost).
or_status_t or_link_send(or_link_t *link, or_peer_t to, const or_message_t *message);
// Send an Error message, formatted. It is OR_ERR_FULL, and the last error's sentence stays, also if a hub's peer has
// more than 256 KiB unread; such a peer gets no answers to its heartbeats either.
or_status_t or_link_send_error(or_link_t *link, or_peer_t to, or_session_id_t session,
                               or_wire_error_t code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Likewise send an Error that the peer as a whole is to come back after `retry_ms`.
or_status_t or_link_send_busy(or_link_t *link, or_peer_t to, uint32_t retry_ms, const char *text);

// Receive the next event; OR_ERR_AGAIN if there is none. *message is the caller's to fini (set for OR_LINK_MESSAGE
// only). Heartbeats, the repetition of Hello and the interval of Welcome are handled inside. An edge sees each
// Welcome; a hub sees each Hello, but no more than ten a second from a peer that has greeted.
or_status_t or_link_receive(or_link_t *link, or_link_event_t *event, or_peer_t *from,
                            or_message_t *message);
// Return true if the last receive found no frame. OR_ERR_AGAIN alone does not say so: it also ends a call that has
// looked at many frames that were no events, and more may wait.
bool or_link_is_drained(const or_link_t *link);

// Send Hello and heartbeats that are due, and return when the next one is due. Call it in every turn of the loop.
int64_t or_link_tick(or_link_t *link);
// Edge: send the hub a heartbeat if one is due, and do nothing else, in the middle of work that takes longer than a turn.
void or_link_beat(or_link_t *link);
// Sleep until a frame waits or `deadline_ns` (of the link's clock); early returns are harmless.
void or_link_wait(or_link_t *link, int64_t deadline_ns);

// Edge: return true if the hub has welcomed us since the last silence.
bool or_link_welcomed(const or_link_t *link);
// Return the bytes of all frames exchanged with this peer, in both directions, with heartbeats. 0 for unknown peers.
// A lost peer's can be asked until the receive after the one that reported it.
uint64_t or_link_bytes(const or_link_t *link, or_peer_t peer);
// Hub: return the bytes sent to this peer that it is not known to have read; they may all lie in our memory. A peer
// that is sent 64 KiB is asked by a number that it can answer only when it has read so far. Less than that counts as
// 0, as do unknown peers and parts of this process.
uint64_t or_link_unread(const or_link_t *link, or_peer_t peer);
const or_clock_t *or_link_clock(const or_link_t *link);
// Hub: return true if this peer connects from this machine (channel.h).
bool or_link_is_local(const or_link_t *link, or_peer_t peer);
// Hub: return true if it is a part of this process (channel.h).
bool or_link_is_inside(const or_link_t *link, or_peer_t peer);

// Return the public key that this peer has proved to have; "" if its connection is not encrypted.
const char *or_link_key_of(const or_link_t *link, or_peer_t peer);
// Switch padding on (the default) or off: frames on encrypted connections get one of a few sizes
// (proto/net/padding.h), heartbeats too. Other connections are never padded.
void or_link_set_padding(or_link_t *link, bool padding);

// A hub asks its gate about each frame of a peer that has greeted, before decoding it. False drops the frame, unread
// and unanswered, so that a flood costs only its counting.
typedef bool (*or_link_gate_t)(void *context, or_peer_t from, size_t bytes);
// Set the gate; borrows the context. NULL (the default): all frames are read.
void or_link_set_gate(or_link_t *link, or_link_gate_t gate, void *context);
// Hub: drop all frames of this peer until then; it is a stranger afterwards. No lost event follows.
void or_link_ignore(or_link_t *link, or_peer_t peer, int64_t until_ns);
// Hub: receive this peer's frames before others' (proto/net/channel.h), until it is ignored or lost.
void or_link_hurry(or_link_t *link, or_peer_t peer);
// Hub: return true if its frames are received before others'.
bool or_link_is_hurried(const or_link_t *link, or_peer_t peer);
// Hub: receive only such frames until this time of the link's clock. Without effect while an earlier hold lasts.
void or_link_hold(or_link_t *link, int64_t until_ns);
// Stop watching a peer that said good-bye or was refused; no lost event follows.
void or_link_forget(or_link_t *link, or_peer_t peer);
