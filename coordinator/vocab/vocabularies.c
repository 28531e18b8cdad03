#include "coordinator/vocab/vocabularies.h"

#include <stdlib.h>
#include <string.h>

void or_vocabularies_init(or_vocabularies_t *all, const or_vocab_t *target)
{
    *all = (or_vocabularies_t){.target = target};
}

static void free_known(or_known_vocab_t **known_p)
{
    or_known_vocab_t *known = *known_p;
    if (known == NULL) {
        return;
    }
    free(known->string_cost);
    or_vocab_pair_destroy(&known->pair);
    or_vocab_destroy(&known->vocab);
    free(known);
    *known_p = NULL;
}

void or_vocabularies_fini(or_vocabularies_t *all)
{
    for (uint32_t i = 0; i < OR_VOCABULARIES_MAX; i++) {
        free_known(&all->known[i]);
    }
}

or_known_vocab_t *or_vocabularies_find(const or_vocabularies_t *all, uint64_t hash, uint32_t size)
{
    for (uint32_t i = 0; i < OR_VOCABULARIES_MAX; i++) {
        or_known_vocab_t *known = all->known[i];
        if (known != NULL && known->hash == hash && known->size == size) {
            return known;
        }
    }
    return NULL;
}

// A free place, or that of one nobody has any more; NULL if there is none.
static or_known_vocab_t **find_place(or_vocabularies_t *all)
{
    or_known_vocab_t **unused = NULL;
    for (uint32_t i = 0; i < OR_VOCABULARIES_MAX; i++) {
        if (all->known[i] == NULL) {
            return &all->known[i];
        }
        if (all->known[i]->drafters == 0) {
            unused = &all->known[i];
        }
    }
    return unused;
}

static or_status_t compare(or_known_vocab_t *known, const or_vocab_t *target)
{
    or_status_t status = or_vocab_pair_create(known->vocab, target, &known->pair);
    if (status == OR_OK) {
        known->map_hash = or_vocab_map_hash(known->pair->to_target, known->size);
        status = or_vocab_pair_measure(known->pair, or_vocab_sample_text,
                                       strlen(or_vocab_sample_text), &known->figures);
    }
    return status;
}

or_status_t or_vocabularies_take(or_vocabularies_t *all, const or_vocabulary_t *message,
                                 uint64_t hash, uint32_t size, or_known_vocab_t **known_p)
{
    or_known_vocab_t **place = find_place(all);
    if (place == NULL) {
        return or_fail(OR_ERR_FULL, "drafters with %u other vocabularies are connected already",
                       OR_VOCABULARIES_MAX);
    }
    or_known_vocab_t *known = calloc(1, sizeof *known);
    if (known == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a drafter's vocabulary");
    }
    known->hash = hash;
    known->size = size;
    or_status_t status = or_vocab_unpack(message->packed, message->packed_bytes,
                                         message->unpacked_bytes, &known->vocab);
    if (status == OR_OK &&
        (or_vocab_hash(known->vocab) != hash || or_vocab_size(known->vocab) != size)) {
        status =
            or_fail(OR_ERR_MISMATCH,
                    "the vocabulary that came (%u tokens, hash %016llx) is not the one that "
                    "was announced (%u tokens, hash %016llx)",
                    or_vocab_size(known->vocab), (unsigned long long)or_vocab_hash(known->vocab),
                    size, (unsigned long long)hash);
    }
    if (status == OR_OK) {
        status = compare(known, all->target);
    }
    if (status != OR_OK) {
        free_known(&known);
        return status;
    }
    free_known(place);
    *place = known;
    *known_p = known;
    return OR_OK;
}

or_status_t or_vocabularies_string_cost(or_known_vocab_t *known, const or_string_cost_t **cost_p)
{
    if (known->string_cost == NULL) {
        or_string_cost_t *cost = malloc(sizeof *cost);
        if (cost == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory to estimate what slrs costs");
        }
        or_status_t status = or_string_cost_count(known->vocab, known->pair->target, cost);
        if (status != OR_OK) {
            free(cost);
            return status;
        }
        known->string_cost = cost;
    }
    *cost_p = known->string_cost;
    return OR_OK;
}
