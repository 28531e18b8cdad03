// zmq_peers - the connections of a hub as ROUTER names them, and their peers. For the hub only.
//
//     identity (bytes) + key + door  ◀──▶  or_peer_t, never used twice
//
// Peers choose identities. A connection that takes the identity of one that left, with another key or through another
// door, is another peer. One thread.
#pragma once

#include <zmq.h>

#include "proto/keys/keys.h"
#include "proto/net/channel.h"

#define OR_ZMQ_IDENTITY_BYTES_MAX 255u // libzmq's own limit

// The socket through which a peer came. Each has its own identities, so that no peer can pass for one of another
// door.
typedef enum {
    OR_DOOR_FAR,    // encrypted, or from elsewhere
    OR_DOOR_NEAR,   // not encrypted, over loopback or a path: from this machine
    OR_DOOR_INSIDE, // an edge of this process
    OR_DOORS
} or_door_t;

typedef struct {
    or_peer_t peer;
    or_door_t door;
    bool is_urgent;         // its frames are handled before others'
    char key[OR_KEY_BYTES]; // "": not encrypted
    size_t bytes;
    uint8_t identity[OR_ZMQ_IDENTITY_BYTES_MAX];
} or_zmq_peer_t;

typedef struct {
    or_zmq_peer_t *items; // peers ascend: new ones go to the end
    uint64_t
        *hashes; // hashes of identity and door, because each frame is looked up among a thousand
    size_t count, capacity;
    uint64_t last;
} or_zmq_peers_t;

void or_zmq_peers_init(or_zmq_peers_t *peers);
void or_zmq_peers_fini(or_zmq_peers_t *peers);

// Return this peer; NULL if there is none. The pointer is good until the next change.
const or_zmq_peer_t *or_zmq_peers_find(const or_zmq_peers_t *peers, or_peer_t peer);
// Return the peer that came through this door with this key or "", under this identity; NULL if it is not known.
const or_zmq_peer_t *or_zmq_peers_recognise(or_zmq_peers_t *peers, or_door_t door,
                                            zmq_msg_t *identity, const char *key);
// Add a peer. OR_ERR_NO_MEMORY; OR_ERR_CANCELLED if its identity is longer than libzmq allows.
or_status_t or_zmq_peers_add(or_zmq_peers_t *peers, or_door_t door, zmq_msg_t *identity,
                             const char *key, or_peer_t *peer);
void or_zmq_peers_forget(or_zmq_peers_t *peers, or_peer_t peer);
void or_zmq_peers_set_urgent(or_zmq_peers_t *peers, or_peer_t peer, bool urgent);
