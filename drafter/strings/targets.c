#include "drafter/strings/targets.h"

#include <assert.h>
#include <inttypes.h>

static void forget(or_target_t *target)
{
    assert(target->users == 0);
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

static or_target_t *find(or_targets_t *targets, uint64_t hash)
{
    for (uint32_t i = 0; i < OR_TARGETS_MAX; i++) {
        if (hash != 0 && targets->places[i].hash == hash) {
            targets->places[i].used = ++targets->calls;
            return &targets->places[i];
        }
    }
    return NULL;
}

// Return a free place, or of those that no session holds the one used longest ago.
static or_target_t *find_room(or_targets_t *targets)
{
    or_target_t *oldest = NULL;
    for (uint32_t i = 0; i < OR_TARGETS_MAX; i++) {
        or_target_t *place = &targets->places[i];
        if (place->users == 0 && (oldest == NULL || place->used < oldest->used)) {
            oldest = place;
        }
    }
    return oldest;
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
    if (find(targets, vocabulary->hash) != NULL) {
        return OR_OK;
    }
    or_target_t *place = find_room(targets);
    if (place == NULL) {
        return or_fail(OR_ERR_FULL, "sessions draft for %u targets: there is no room for more",
                       OR_TARGETS_MAX);
    }
    or_target_t fresh = {.hash = vocabulary->hash};
    or_status_t status = load(draft, vocabulary, &fresh);
    if (status != OR_OK) {
        forget(&fresh);
        return status;
    }
    forget(place);
    *place = fresh;
    place->used = ++targets->calls;
    return OR_OK;
}

or_target_t *or_targets_take(or_targets_t *targets, uint64_t hash)
{
    or_target_t *target = find(targets, hash);
    if (target != NULL) {
        target->users++;
    }
    return target;
}

void or_target_release(or_target_t **target_p)
{
    if (*target_p != NULL) {
        (*target_p)->users--;
        *target_p = NULL;
    }
}
