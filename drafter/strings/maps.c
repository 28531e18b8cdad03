#include "drafter/strings/maps.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void or_maps_fini(or_maps_t *maps)
{
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        assert(maps->places[i].users == 0);
        free(maps->places[i].to);
    }
    *maps = (or_maps_t){0};
}

static or_map_t *find(or_maps_t *maps, uint64_t hash)
{
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        if (hash != 0 && maps->places[i].hash == hash) {
            maps->places[i].used = ++maps->calls;
            return &maps->places[i];
        }
    }
    return NULL;
}

// Return a free place, or of those that no session holds the one used longest ago.
static or_map_t *find_room(or_maps_t *maps)
{
    or_map_t *oldest = NULL;
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        or_map_t *place = &maps->places[i];
        if (place->users == 0 && (oldest == NULL || place->used < oldest->used)) {
            oldest = place;
        }
    }
    return oldest;
}

static or_status_t check(const or_vocab_t *vocab, const or_vocab_map_t *map)
{
    if (map->from_hash != or_vocab_hash(vocab)) {
        return or_fail(OR_ERR_INVALID,
                       "a map of vocabulary %016" PRIx64 ", but this drafter has %016" PRIx64,
                       map->from_hash, or_vocab_hash(vocab));
    }
    if (or_vocab_map_hash(map->to, map->count) != map->map_hash) {
        return or_fail(OR_ERR_MISMATCH,
                       "a vocabulary map that is not the one it is sent as: send it again");
    }
    if (map->count != or_vocab_size(vocab)) {
        return or_fail(OR_ERR_INVALID, "a map of %u tokens for a vocabulary of %u", map->count,
                       or_vocab_size(vocab));
    }
    for (uint32_t i = 0; i < map->count; i++) {
        if (map->to[i] < OR_TOKEN_NONE) {
            return or_fail(OR_ERR_INVALID, "token %u is mapped to %d, which is no token", i,
                           map->to[i]);
        }
    }
    return OR_OK;
}

or_status_t or_maps_put(or_maps_t *maps, const or_vocab_t *vocab, const or_vocab_map_t *map)
{
    or_status_t status = check(vocab, map);
    if (status != OR_OK || find(maps, map->map_hash) != NULL) {
        return status;
    }
    or_map_t *place = find_room(maps);
    if (place == NULL) {
        return or_fail(OR_ERR_FULL, "sessions hold %u vocabulary maps: there is no room for more",
                       OR_MAPS_MAX);
    }
    int32_t *to = malloc(map->count * sizeof *to);
    if (to == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a vocabulary map of %u tokens", map->count);
    }
    memcpy(to, map->to, map->count * sizeof *to);
    free(place->to);
    *place = (or_map_t){.hash = map->map_hash, .to = to, .used = ++maps->calls};
    for (uint32_t i = 0; i < map->count; i++) {
        place->common += to[i] >= 0;
    }
    return OR_OK;
}

or_map_t *or_maps_take(or_maps_t *maps, uint64_t hash)
{
    or_map_t *map = find(maps, hash);
    if (map != NULL) {
        map->users++;
    }
    return map;
}

void or_map_release(or_map_t **map_p)
{
    if (*map_p != NULL) {
        (*map_p)->users--;
        *map_p = NULL;
    }
}
