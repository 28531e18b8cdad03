// channel_zmq - a channel over ZeroMQ: ROUTER for the hub, DEALER for an edge.
//
// Reconnects by itself; TCP's keep-alive finds dead hosts. The hub's send to a vanished peer is
// OR_ERR_UNREACHABLE (ZMQ_ROUTER_MANDATORY). Endpoints are ZeroMQ's: tcp://127.0.0.1:5555,
// tcp://127.0.0.1:* (any free port), tcp://[::1]:5555, ipc:///path; IPv6 is asked for by its brackets, and tcp://[::]:5555
// listens for IPv4 as well.
//
// CURVE (RFC 26 of ZeroMQ: Curve25519, ephemeral keys, so that a captured conversation stays closed when
// keys leak later) encrypts and authenticates: both sides prove that they have their key before any frame
// passes. Who connects is asked about once, with its public key, on the thread that owns the channel
// (RFC 27, ZAP); who is not let in never becomes a peer. What was recorded and is sent again, out of order
// or changed, ends its connection and reaches nobody. Refusals are logged, each key or address once in a
// while, with how many there were.
#pragma once

#include "proto/keys/keys.h"
#include "proto/net/channel.h"

// May who has this public key come in? Asked while the channel waits or receives.
typedef bool (*or_channel_admit_t)(void *context, const char *public_key);

typedef struct {
    const or_key_pair_t *own; // the server's; copied
    or_channel_admit_t admit; // borrows the context
    void *context;
} or_channel_server_t;

typedef struct {
    const char *endpoint;
    bool encrypted; // by `server`; several endpoints of one hub may differ
} or_channel_listen_t;

// Listen on all of these. `bound` (may be NULL) receives the first endpoint as it really is, with its port, cut
// to capacity. `server` may be NULL if none is encrypted. OR_ERR_IO with a sentence: port in use, no such
// address here, no permission. OR_ERR_INVALID: not an endpoint. OR_ERR_UNSUPPORTED: no CURVE here.
or_status_t or_channel_zmq_bind(const or_channel_listen_t *listens, uint32_t count,
                                const or_channel_server_t *server, char *bound, size_t capacity,
                                or_channel_t **channel_p);
// Connect, in the background and again after losses. `keys` (copied) may be NULL: as if not encrypted.
// OR_ERR_INVALID if the endpoint makes no sense; OR_ERR_UNSUPPORTED.
or_status_t or_channel_zmq_connect(const char *endpoint, const or_connect_keys_t *keys,
                                   or_channel_t **channel_p);
// An edge inside the hub's own process, for another thread: no socket of the system, no keys; the hub knows it by
// or_channel_is_inside, which no peer from outside can claim. The hub outlives it. It has its own wait: `wake_fd`
// (-1: none) ends it when readable; signals do not. OR_ERR_IO.
or_status_t or_channel_zmq_connect_inside(or_channel_t *hub, int wake_fd, or_channel_t **channel_p);
// End a hub's waits also when this descriptor is readable, for work that other threads do for the hub. -1: none.
void or_channel_zmq_set_wake(or_channel_t *hub, int wake_fd);
// Connections that were refused so far: keys that are not admitted, peers that do not encrypt or know
// another server key. 0 for other channels and edges.
uint64_t or_channel_zmq_refusals(const or_channel_t *channel);
// Why an edge that gets no answer may have none: "" or a sentence (the server refused our key, it does not
// encrypt, it does not have the key we expect). Good until the next call.
const char *or_channel_zmq_trouble(const or_channel_t *channel);
// Of these the one that waiting does not mend: the server knows who an edge is and does not want it. Any other
// trouble may be a server that is about to come or to go.
bool or_channel_zmq_is_refused(const or_channel_t *channel);
