#include "proto/zmq/zmq_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#define CAPACITY_LEAST 16

void or_zmq_peers_init(or_zmq_peers_t *peers)
{
    *peers = (or_zmq_peers_t){.last = OR_PEER_HUB.value};
}

void or_zmq_peers_fini(or_zmq_peers_t *peers)
{
    free(peers->items);
    free(peers->hashes);
    *peers = (or_zmq_peers_t){.items = NULL};
}

const or_zmq_peer_t *or_zmq_peers_find(const or_zmq_peers_t *peers, or_peer_t peer)
{
    size_t low = 0, high = peers->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (peers->items[middle].peer.value < peer.value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < peers->count && peers->items[low].peer.value == peer.value;
    return found ? &peers->items[low] : NULL;
}

// Resize both arrays; false if there is no memory, and they stay as they are.
static bool resize(or_zmq_peers_t *peers, size_t capacity)
{
    or_zmq_peer_t *items = realloc(peers->items, capacity * sizeof *items);
    peers->items = items != NULL ? items : peers->items;
    uint64_t *hashes = realloc(peers->hashes, capacity * sizeof *hashes);
    peers->hashes = hashes != NULL ? hashes : peers->hashes;
    bool both = items != NULL && hashes != NULL;
    if (both || capacity < peers->capacity) { // what both have room for
        peers->capacity = capacity;
    }
    return both;
}

void or_zmq_peers_forget(or_zmq_peers_t *peers, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(peers, peer);
    if (known != NULL) {
        or_zmq_peer_t *place = &peers->items[known - peers->items];
        uint64_t *hash = &peers->hashes[known - peers->items];
        size_t behind = (size_t)(peers->items + --peers->count - place);
        memmove(place, place + 1, behind * sizeof *place);
        memmove(hash, hash + 1, behind * sizeof *hash);
        if (peers->capacity > CAPACITY_LEAST && peers->count < peers->capacity / 4) {
            (void)resize(peers, peers->capacity / 2); // a crowd has left
        }
    }
}

void or_zmq_peers_set_urgent(or_zmq_peers_t *peers, or_peer_t peer, bool urgent)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(peers, peer);
    if (known != NULL) {
        peers->items[known - peers->items].is_urgent = urgent;
    }
}

static uint64_t hash_of(or_door_t door, const void *identity, size_t bytes)
{
    return XXH3_64bits_withSeed(identity, bytes, door);
}

static const or_zmq_peer_t *find_identity(const or_zmq_peers_t *peers, or_door_t door,
                                          const void *identity, size_t bytes)
{
    uint64_t hash = hash_of(door, identity, bytes);
    for (size_t i = 0; i < peers->count; i++) {
        const or_zmq_peer_t *known = &peers->items[i];
        if (peers->hashes[i] == hash && known->door == door && known->bytes == bytes &&
            memcmp(known->identity, identity, bytes) == 0) {
            return known;
        }
    }
    return NULL;
}

const or_zmq_peer_t *or_zmq_peers_recognise(or_zmq_peers_t *peers, or_door_t door,
                                            zmq_msg_t *identity, const char *key)
{
    const or_zmq_peer_t *known =
        find_identity(peers, door, zmq_msg_data(identity), zmq_msg_size(identity));
    if (known != NULL && strcmp(known->key, key) != 0) {
        or_zmq_peers_forget(peers, known->peer);
        return NULL;
    }
    return known;
}

static or_status_t make_room(or_zmq_peers_t *peers)
{
    if (peers->count < peers->capacity) {
        return OR_OK;
    }
    return resize(peers, peers->capacity > 0 ? 2 * peers->capacity : CAPACITY_LEAST)
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for connection %zu", peers->count + 1);
}

or_status_t or_zmq_peers_add(or_zmq_peers_t *peers, or_door_t door, zmq_msg_t *identity,
                             const char *key, or_peer_t *peer)
{
    if (zmq_msg_size(identity) > OR_ZMQ_IDENTITY_BYTES_MAX) {
        return OR_ERR_CANCELLED; // ROUTER takes what a raw socket claims, at any length
    }
    or_status_t status = make_room(peers);
    if (status != OR_OK) {
        return status;
    }
    peers->hashes[peers->count] = hash_of(door, zmq_msg_data(identity), zmq_msg_size(identity));
    or_zmq_peer_t *added = &peers->items[peers->count++];
    added->peer.value = ++peers->last;
    added->door = door;
    added->is_urgent = false;
    added->bytes = zmq_msg_size(identity);
    memcpy(added->identity, zmq_msg_data(identity), added->bytes);
    snprintf(added->key, sizeof added->key, "%s", key);
    *peer = added->peer;
    return OR_OK;
}
