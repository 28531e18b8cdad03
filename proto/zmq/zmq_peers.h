// zmq_peers - the connections of a hub as ROUTER names them, and the peers that they are. For channel_zmq only.
//
//     identity (bytes) + key + door  ◀──▶  or_peer_t, never used twice
//
// Peers choose identities: who takes that of one that left, with another key or through another door, is another
// peer. One thread.
#pragma once

#include <zmq.h>

#include "proto/keys/keys.h"
#include "proto/net/channel.h"

#define OR_ZMQ_IDENTITY_BYTES_MAX 255u // of who uses libzmq

// The socket through which a peer came. Each has identities of its own, so that none can pass for another.
typedef enum {
    OR_DOOR_FAR,    // encrypted, or from elsewhere
    OR_DOOR_NEAR,   // not encrypted, over loopback or a path: from this machine
    OR_DOOR_INSIDE, // an edge of this process
    OR_DOORS
} or_door_t;

typedef struct {
    or_peer_t peer;
    or_door_t door;
    bool is_urgent;         // its frames go before others'
    char key[OR_KEY_BYTES]; // "": not encrypted
    size_t bytes;
    uint8_t identity[OR_ZMQ_IDENTITY_BYTES_MAX];
} or_zmq_peer_t;

typedef struct {
    or_zmq_peer_t *items; // peers ascend: new ones go to the end
    uint64_t *hashes; // of their identities and doors: each frame looks for one among a thousand
    size_t count, capacity;
    uint64_t last;
} or_zmq_peers_t;

void or_zmq_peers_init(or_zmq_peers_t *peers);
void or_zmq_peers_fini(or_zmq_peers_t *peers);

// NULL if there is no such peer. Good until the next change.
const or_zmq_peer_t *or_zmq_peers_find(const or_zmq_peers_t *peers, or_peer_t peer);
// Who came through this door with this key or "", under this identity; NULL if it is not known.
const or_zmq_peer_t *or_zmq_peers_recognise(or_zmq_peers_t *peers, or_door_t door,
                                            zmq_msg_t *identity, const char *key);
// A new peer. OR_ERR_NO_MEMORY; OR_ERR_CANCELLED: its identity is longer than libzmq lets
// anybody choose.
or_status_t or_zmq_peers_add(or_zmq_peers_t *peers, or_door_t door, zmq_msg_t *identity,
                             const char *key, or_peer_t *peer);
void or_zmq_peers_forget(or_zmq_peers_t *peers, or_peer_t peer);
void or_zmq_peers_set_urgent(or_zmq_peers_t *peers, or_peer_t peer, bool urgent);
