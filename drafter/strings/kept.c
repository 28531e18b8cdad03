#include "drafter/strings/kept.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- places ----

// Places of any type that begins with its or_kept_t.
typedef struct {
    void *first;
    size_t size; // of one
    uint32_t count;
    uint64_t *calls;
} places_t;

static places_t places_of_maps(or_maps_t *maps)
{
    return (places_t){maps->places, sizeof *maps->places, OR_MAPS_MAX, &maps->calls};
}

static places_t places_of_targets(or_targets_t *targets)
{
    return (places_t){targets->places, sizeof *targets->places, OR_TARGETS_MAX, &targets->calls};
}

static or_kept_t *place_at(places_t places, uint32_t i)
{
    return (or_kept_t *)((char *)places.first + i * places.size);
}

static void *find(places_t places, uint64_t hash)
{
    for (uint32_t i = 0; i < places.count; i++) {
        or_kept_t *place = place_at(places, i);
        if (hash != 0 && place->hash == hash) {
            place->used = ++*places.calls;
            return place;
        }
    }
    return NULL;
}

// Return a free place, or of those that no session holds the one used longest ago.
static void *find_room(places_t places)
{
    or_kept_t *oldest = NULL;
    for (uint32_t i = 0; i < places.count; i++) {
        or_kept_t *place = place_at(places, i);
        if (place->users == 0 && (oldest == NULL || place->used < oldest->used)) {
            oldest = place;
        }
    }
    return oldest;
}

static void *take(places_t places, uint64_t hash)
{
    or_kept_t *place = find(places, hash);
    if (place != NULL) {
        place->users++;
    }
    return place;
}

// ---- maps ----

void or_maps_fini(or_maps_t *maps)
{
    for (uint32_t i = 0; i < OR_MAPS_MAX; i++) {
        assert(maps->places[i].kept.users == 0);
        free(maps->places[i].to);
    }
    *maps = (or_maps_t){0};
}

static or_status_t check_map(const or_vocab_t *vocab, const or_vocab_map_t *map)
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
    or_status_t status = check_map(vocab, map);
    if (status != OR_OK || find(places_of_maps(maps), map->map_hash) != NULL) {
        return status;
    }
    or_map_t *place = find_room(places_of_maps(maps));
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
    *place = (or_map_t){.kept = {.hash = map->map_hash, .used = ++maps->calls}, .to = to};
    for (uint32_t i = 0; i < map->count; i++) {
        place->common += to[i] >= 0;
    }
    return OR_OK;
}

or_map_t *or_maps_take(or_maps_t *maps, uint64_t hash)
{
    return take(places_of_maps(maps), hash);
}

void or_map_release(or_map_t **map_p)
{
    if (*map_p != NULL) {
        (*map_p)->kept.users--;
        *map_p = NULL;
    }
}

// ---- vocabularies ----

static void forget(or_target_t *target)
{
    assert(target->kept.users == 0);
    or_token_trie_destroy(&target->trie);
    or_vocab_pair_destroy(&target->pair);
    or_vocab_destroy(&target->vocab);
    *target = (or_target_t){0};
}

void or_targets_fini(or_targets_t *targets)
{
    for (uint32_t i = 0; i < OR_TARGETS_MAX; i++) {
        forget(&targets->places[i]);
    }
    targets->calls = 0;
}

// Load the vocabulary into `fresh`, as far as that succeeds.
static or_status_t load(const or_vocab_t *draft, const or_vocabulary_t *vocabulary,
                        or_target_t *fresh)
{
    or_status_t status = or_vocab_unpack(vocabulary->packed, vocabulary->packed_bytes,
                                         vocabulary->unpacked_bytes, &fresh->vocab);
    if (status == OR_OK && or_vocab_hash(fresh->vocab) != vocabulary->hash) {
        status = or_fail(OR_ERR_MISMATCH, "a vocabulary %016" PRIx64 " that is sent as %016" PRIx64,
                         or_vocab_hash(fresh->vocab), vocabulary->hash);
    }
    if (status == OR_OK) {
        status = or_vocab_pair_create(draft, fresh->vocab, &fresh->pair);
    }
    if (status == OR_OK) {
        status = or_token_trie_create(fresh->vocab, &fresh->trie);
    }
    return status == OR_OK ? or_string_cost_count(draft, fresh->vocab, &fresh->cost) : status;
}

or_status_t or_targets_put(or_targets_t *targets, const or_vocab_t *draft,
                           const or_vocabulary_t *vocabulary)
{
    if (find(places_of_targets(targets), vocabulary->hash) != NULL) {
        return OR_OK;
    }
    or_target_t *place = find_room(places_of_targets(targets));
    if (place == NULL) {
        return or_fail(OR_ERR_FULL, "sessions draft for %u targets: there is no room for more",
                       OR_TARGETS_MAX);
    }
    or_target_t fresh = {.kept.hash = vocabulary->hash};
    or_status_t status = load(draft, vocabulary, &fresh);
    if (status != OR_OK) {
        forget(&fresh);
        return status;
    }
    forget(place);
    *place = fresh;
    place->kept.used = ++targets->calls;
    return OR_OK;
}

or_target_t *or_targets_take(or_targets_t *targets, uint64_t hash)
{
    return take(places_of_targets(targets), hash);
}

void or_target_release(or_target_t **target_p)
{
    if (*target_p != NULL) {
        (*target_p)->kept.users--;
        *target_p = NULL;
    }
}
