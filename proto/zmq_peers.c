#include "proto/zmq_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void or_zmq_peers_init(or_zmq_peers_t *peers)
{
    *peers = (or_zmq_peers_t){.last = OR_PEER_HUB.value};
}

void or_zmq_peers_fini(or_zmq_peers_t *peers)
{
    free(peers->items);
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

void or_zmq_peers_forget(or_zmq_peers_t *peers, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(peers, peer);
    if (known != NULL) {
        or_zmq_peer_t *place = &peers->items[known - peers->items];
        size_t behind = (size_t)(peers->items + --peers->count - place);
        memmove(place, place + 1, behind * sizeof *place);
    }
}

// Did this frame come over loopback? ZeroMQ knows the address of every frame's sender; over a path it is
// "localhost:" and the process, and only this machine can use one. Who has a key is believed for that alone.
static bool came_locally(zmq_msg_t *frame, const char *key)
{
    static const char *const local[] = {"127.", "::ffff:127.", "localhost:"};
    const char *address = zmq_msg_gets(frame, "Peer-Address");
    if (key[0] != '\0' || address == NULL) {
        return false;
    }
    bool is_local = strcmp(address, "::1") == 0;
    for (size_t i = 0; !is_local && i < sizeof local / sizeof *local; i++) {
        is_local = strncmp(address, local[i], strlen(local[i])) == 0;
    }
    return is_local;
}

static const or_zmq_peer_t *find_identity(const or_zmq_peers_t *peers, bool inside,
                                          const void *identity, size_t bytes)
{
    for (size_t i = 0; i < peers->count; i++) {
        const or_zmq_peer_t *known = &peers->items[i];
        if (known->inside == inside && known->bytes == bytes &&
            memcmp(known->identity, identity, bytes) == 0) {
            return known;
        }
    }
    return NULL;
}

const or_zmq_peer_t *or_zmq_peers_recognise(or_zmq_peers_t *peers, bool inside, zmq_msg_t *identity,
                                            zmq_msg_t *frame, const char *key)
{
    const or_zmq_peer_t *known =
        find_identity(peers, inside, zmq_msg_data(identity), zmq_msg_size(identity));
    if (known != NULL &&
        (strcmp(known->key, key) != 0 || known->local != (inside || came_locally(frame, key)))) {
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
    size_t capacity = peers->capacity > 0 ? 2 * peers->capacity : 8;
    or_zmq_peer_t *larger = realloc(peers->items, capacity * sizeof *larger);
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for connection %zu", peers->count + 1);
    }
    peers->items = larger;
    peers->capacity = capacity;
    return OR_OK;
}

or_status_t or_zmq_peers_add(or_zmq_peers_t *peers, bool inside, zmq_msg_t *identity,
                             zmq_msg_t *frame, const char *key, or_peer_t *peer)
{
    if (zmq_msg_size(identity) > OR_ZMQ_IDENTITY_BYTES_MAX) {
        return OR_ERR_CANCELLED; // ROUTER takes what a raw socket claims, at any length
    }
    or_status_t status = make_room(peers);
    if (status != OR_OK) {
        return status;
    }
    or_zmq_peer_t *added = &peers->items[peers->count++];
    added->peer.value = ++peers->last;
    added->inside = inside;
    added->local = inside || came_locally(frame, key);
    added->bytes = zmq_msg_size(identity);
    memcpy(added->identity, zmq_msg_data(identity), added->bytes);
    snprintf(added->key, sizeof added->key, "%s", key);
    *peer = added->peer;
    return OR_OK;
}
