// zmq_peers - the connections of a hub as ROUTER names them, and the peers that they are. For channel_zmq only.
//
//     identity (bytes) + key + local + inside  ◀──▶  or_peer_t, never used twice
//
// Peers choose identities: who takes that of one that left, with another key or from another place, is another
// peer. One thread.
#pragma once

#include <zmq.h>

#include "proto/channel.h"
#include "proto/keys.h"

#define OR_ZMQ_IDENTITY_BYTES_MAX 255u // of who uses libzmq

typedef struct {
    or_peer_t peer;
    bool inside;            // an edge of this process, which names itself apart from those outside
    bool local;             // inside, or over loopback
    char key[OR_KEY_BYTES]; // "": not encrypted
    size_t bytes;
    uint8_t identity[OR_ZMQ_IDENTITY_BYTES_MAX];
} or_zmq_peer_t;

typedef struct {
    or_zmq_peer_t *items; // peers ascend: new ones go to the end
    size_t count, capacity;
    uint64_t last;
} or_zmq_peers_t;

void or_zmq_peers_init(or_zmq_peers_t *peers);
void or_zmq_peers_fini(or_zmq_peers_t *peers);

// NULL if there is no such peer. Good until the next change.
const or_zmq_peer_t *or_zmq_peers_find(const or_zmq_peers_t *peers, or_peer_t peer);
// Who sent this frame, with this key or "", under this identity; NULL if it is not known.
const or_zmq_peer_t *or_zmq_peers_recognise(or_zmq_peers_t *peers, bool inside, zmq_msg_t *identity,
                                            zmq_msg_t *frame, const char *key);
// A new peer that has sent this frame. OR_ERR_NO_MEMORY; OR_ERR_CANCELLED: its identity is longer than libzmq lets
// anybody choose.
or_status_t or_zmq_peers_add(or_zmq_peers_t *peers, bool inside, zmq_msg_t *identity,
                             zmq_msg_t *frame, const char *key, or_peer_t *peer);
void or_zmq_peers_forget(or_zmq_peers_t *peers, or_peer_t peer);
