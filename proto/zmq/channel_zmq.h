// channel_zmq - a channel over ZeroMQ: ROUTER for the hub, DEALER for an edge.
//
// Reconnects by itself; TCP's keep-alive finds dead hosts. The hub's send to a vanished peer is
// OR_ERR_UNREACHABLE (ZMQ_ROUTER_MANDATORY). Endpoints are ZeroMQ's: tcp://127.0.0.1:5555,
// tcp://127.0.0.1:* (any free port), tcp://[::1]:5555, ipc:///path; IPv6 is asked for by its brackets, and tcp://[::]:5555
// listens for IPv4 as well.
//
// CURVE (RFC 26 of ZeroMQ) encrypts and authenticates with Curve25519 and ephemeral keys, so that a recorded
// conversation stays closed if keys leak later. Both sides prove that they have their key before any frame passes.
// The owner's thread decides once whether a public key may connect (RFC 27, ZAP); a peer that is not let in never
// becomes one. Recorded bytes that are sent again, out of order or changed, end their connection and reach nobody.
// Refusals are logged, each key or address once in a while, with how many there were.
#pragma once

#include "proto/keys/keys.h"
#include "proto/net/channel.h"

// Decide whether a peer with this public key may connect. It is asked while the channel waits or receives.
typedef bool (*or_channel_admit_t)(void *context, const char *public_key);

typedef struct {
    const or_key_pair_t *own; // the server's; copied
    or_channel_admit_t admit; // borrows the context
    void *context;
} or_channel_server_t;

typedef struct {
    const char *endpoint;
    bool encrypted; // with the keys of `server`; endpoints of one hub may differ
} or_channel_listen_t;

// Listen on all of these endpoints. `bound` (may be NULL) receives the first one as it really is, with its port, cut
// to capacity. `server` may be NULL if none is encrypted. OR_ERR_IO with a sentence: port in use, no such address
// here, no permission. OR_ERR_INVALID: not an endpoint. OR_ERR_UNSUPPORTED: this libzmq has no CURVE.
or_status_t or_channel_zmq_bind(const or_channel_listen_t *listens, uint32_t count,
                                const or_channel_server_t *server, char *bound, size_t capacity,
                                or_channel_t **channel_p);
// Connect in the background, and again after losses. `keys` (copied) may be NULL: the connection is not encrypted.
// OR_ERR_INVALID if the endpoint makes no sense; OR_ERR_UNSUPPORTED.
or_status_t or_channel_zmq_connect(const char *endpoint, const or_connect_keys_t *keys,
                                   or_channel_t **channel_p);
// Create an edge inside the hub's own process, for another thread. It has no socket of the system and no keys. The
// hub knows it by or_channel_is_inside, which no peer from outside can claim. The hub outlives it. Its wait also ends
// when `wake_fd` (-1: none) is readable, but not for signals. OR_ERR_IO.
or_status_t or_channel_zmq_connect_inside(or_channel_t *hub, int wake_fd, or_channel_t **channel_p);
// End a hub's waits also when this descriptor is readable, for work that other threads do for the hub. -1: none.
void or_channel_zmq_set_wake(or_channel_t *hub, int wake_fd);
// Return how many connections were refused so far: keys that are not admitted, peers that do not encrypt or expect
// another server key. 0 for edges and other channels.
uint64_t or_channel_zmq_refusals(const or_channel_t *channel);
// Return a sentence why an edge may get no answer: the server refused our key, does not encrypt, or does not have the
// key that we expect. Return "" if no reason is known. Good until the next call.
const char *or_channel_zmq_trouble(const or_channel_t *channel);
// Return true for the one reason that waiting does not mend: the server knows our key and does not want it. In all
// other cases a server may be about to come or to go.
bool or_channel_zmq_is_refused(const or_channel_t *channel);
