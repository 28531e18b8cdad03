// link - messages to and from peers: the codec, the greeting, heartbeats and byte counts on top of
// a channel.
//
// An edge says Hello when the link starts, after a silence, and until it is welcomed; a hub hands
// Hello to its owner, who answers Welcome or Error through or_link_send.
// Heartbeats are sent where nothing else was for a heartbeat interval; a peer silent for
// OR_LINK_SILENCE intervals is reported lost. A frame that does not decode costs its sender an
// Error (VERSION or INVALID) and is dropped; an Error is never answered with an Error. One thread;
// no call blocks except or_link_wait.
#pragma once

#include "common/base/clock.h"
#include "proto/net/channel.h"
#include "proto/wire/message.h"

#define OR_LINK_HEARTBEAT_MS 1000 // the usual interval; a Welcome may say otherwise
#define OR_LINK_SILENCE 10        // intervals without a frame before a peer counts as lost

typedef struct or_link or_link_t;

// What or_link_receive may give besides a message.
typedef enum {
    OR_LINK_MESSAGE,
    OR_LINK_PEER_LOST, // hub: `from` is gone (silent or unreachable). Edge: the hub has been silent; Hello is being sent again
    OR_LINK_MALFORMED, // hub: a frame of `from`, which has greeted, made no sense; it was told so
} or_link_event_t;

// A link over `channel` (borrowed, as the clock). `hello` (copied) makes it an edge's; NULL makes
// it a hub's.
or_status_t or_link_create(or_channel_t *channel, const or_clock_t *clock, const or_hello_t *hello,
                           uint32_t heartbeat_ms, or_link_t **link_p);
void or_link_destroy(or_link_t **link_p);

// Encode and queue. OR_ERR_FULL, OR_ERR_UNREACHABLE (the peer is reported lost by the next
// receive), OR_ERR_INVALID.
or_status_t or_link_send(or_link_t *link, or_peer_t to, const or_message_t *message);
// An Error message, formatted. OR_ERR_FULL, and the last error's sentence stays, also where a hub's peer has more than 256 KiB
// unread. It gets no answers to its heartbeats then either.
or_status_t or_link_send_error(or_link_t *link, or_peer_t to, or_session_id_t session,
                               or_wire_error_t code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// The next event; OR_ERR_AGAIN if none. *message is the caller's to fini (set for OR_LINK_MESSAGE
// only). Heartbeats, Hello's repetition and Welcome's interval are handled inside; an edge sees
// each Welcome, a hub sees each Hello, of a peer that has greeted ten a second.
or_status_t or_link_receive(or_link_t *link, or_link_event_t *event, or_peer_t *from,
                            or_message_t *message);
// Did the last receive find nothing more? If not it may still have given OR_ERR_AGAIN: after many frames that were no
// events, where more may wait.
bool or_link_is_drained(const or_link_t *link);

// Send what is due (Hello, heartbeats) and return when something is due next. Call in every turn of
// the loop.
int64_t or_link_tick(or_link_t *link);
// Sleep until a frame waits or `deadline_ns` (of the link's clock); early returns are harmless.
void or_link_wait(or_link_t *link, int64_t deadline_ns);

// Edge: has the hub welcomed us (since the last silence)?
bool or_link_welcomed(const or_link_t *link);
// Frame bytes exchanged with this peer so far, both directions, heartbeats included. 0 for unknown
// peers; a lost peer's can be asked until the receive after the one that reported it.
uint64_t or_link_bytes(const or_link_t *link, or_peer_t peer);
// Hub: the bytes sent to this peer of which it is not known yet that it has read them: they may all lie in our memory. A
// peer that is sent 64 KiB is asked, by a number that it can only answer when it has read so far; less than that counts as
// 0, as do unknown peers and parts of this process.
uint64_t or_link_unread(const or_link_t *link, or_peer_t peer);
const or_clock_t *or_link_clock(const or_link_t *link);
// Hub: does this peer connect from this machine (channel.h)?
bool or_link_is_local(const or_link_t *link, or_peer_t peer);
// Hub: is it a part of this process (channel.h)?
bool or_link_is_inside(const or_link_t *link, or_peer_t peer);

// The public key that this peer has proved to have; "" where its connection is not encrypted.
const char *or_link_key_of(const or_link_t *link, or_peer_t peer);
// Frames on encrypted connections are made one of a few sizes (proto/net/padding.h), heartbeats too. On, unless
// it is switched off here. Connections that are not encrypted are never padded.
void or_link_set_padding(or_link_t *link, bool padding);

// Hub: asked about each frame of a peer that has greeted, before it is decoded: false drops it, unread
// and unanswered. So a flood costs its counting and nothing else.
typedef bool (*or_link_gate_t)(void *context, or_peer_t from, size_t bytes);
// Borrows the context; NULL (the beginning): all frames are read.
void or_link_set_gate(or_link_t *link, or_link_gate_t gate, void *context);
// Hub: drop whatever this peer sends until then; it is a stranger afterwards. No lost event follows.
void or_link_ignore(or_link_t *link, or_peer_t peer, int64_t until_ns);
// Hub: hear this peer before others (proto/net/channel.h), until it is ignored or lost.
void or_link_hurry(or_link_t *link, or_peer_t peer);
// Hub: is it heard before others?
bool or_link_is_hurried(const or_link_t *link, or_peer_t peer);
// Hub: hear nobody else until this time of the link's clock; nothing new where they are waiting already.
void or_link_hold(or_link_t *link, int64_t until_ns);
// Stop watching a peer that said good-bye or was refused; no lost event follows.
void or_link_forget(or_link_t *link, or_peer_t peer);
