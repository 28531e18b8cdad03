// maps - the few maps from our vocabulary to a target's that sessions are restricted by, as VocabMap messages brought
// them (method tli; docs/algorithms.md section 4).
//
//     to      0  17  -1  4  -1 ...     for each id of ours: the id over there, -1 if there is none
//
// A map is known by its hash, so one that is not what its sender says is never used. OR_MAPS_MAX are kept: those of
// living sessions in any case, and else the ones used last. One thread.
#pragma once

#include "common/text/vocab/vocab.h"
#include "proto/wire/message.h"

#define OR_MAPS_MAX 4u

typedef struct {
    uint64_t hash;   // 0: this place is free
    int32_t *to;     // owned; one entry for each of our tokens
    uint32_t common; // number of tokens that both have
    uint32_t users;  // number of sessions that hold it
    uint64_t used;   // when it was last taken or came, counted in calls
} or_map_t;

typedef struct {
    or_map_t places[OR_MAPS_MAX];
    uint64_t calls;
} or_maps_t;

// Free the maps; no session may hold one any longer. A zeroed or_maps_t is empty.
void or_maps_fini(or_maps_t *maps);

// Keep a peer's map of `vocab` into another vocabulary, trusting nothing in it; one that is here already stays.
// OR_ERR_MISMATCH if its hash is not the one it is sent under: it must be sent again. OR_ERR_INVALID (another
// vocabulary or size, an entry below -1); OR_ERR_FULL (sessions hold all places); OR_ERR_NO_MEMORY.
or_status_t or_maps_put(or_maps_t *maps, const or_vocab_t *vocab, const or_vocab_map_t *map);

// Return the map with this hash, held until it is given back; NULL if it is not here.
or_map_t *or_maps_take(or_maps_t *maps, uint64_t hash);
// Give *map_p back and set it to NULL; *map_p may already be NULL.
void or_map_release(or_map_t **map_p);
