#include "coordinator/session/sessions.h"

#include <sodium.h>
#include <stdlib.h>

#define HALF_BITS 31
#define HALF_MASK ((UINT64_C(1) << HALF_BITS) - 1)
// Rounds of a Feistel network: Luby and Rackoff, "How to construct pseudorandom permutations", 1988.
#define ROUNDS 4u

_Static_assert(sizeof((or_session_ids_t *)0)->key == crypto_shorthash_KEYBYTES, "a key of SipHash");

or_status_t or_sessions_init(or_sessions_t *sessions, uint32_t places)
{
    or_session_ids_init(&sessions->ids);
    TAILQ_INIT(&sessions->marked);
    sessions->places = places;
    sessions->all = calloc(places, sizeof(or_csession_t *));
    return sessions->all != NULL ? OR_OK
                                 : or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", places);
}

void or_sessions_fini(or_sessions_t *sessions)
{
    for (uint32_t i = 0; sessions->all != NULL && i < sessions->places; i++) {
        or_csession_destroy(&sessions->all[i]);
    }
    free(sessions->all);
}

or_csession_t *or_sessions_next(const or_sessions_t *sessions, uint32_t *at)
{
    while (*at < sessions->places) {
        or_csession_t *session = sessions->all[(*at)++];
        if (session != NULL) {
            return session;
        }
    }
    return NULL;
}

or_csession_t *or_sessions_find(const or_sessions_t *sessions, or_session_id_t id)
{
    or_csession_t *session;
    uint32_t at = 0;
    do {
        session = or_sessions_next(sessions, &at);
    } while (session != NULL && session->id.value != id.value);
    return session;
}

or_csession_t *or_sessions_take_marked(or_sessions_t *sessions)
{
    or_csession_t *session = TAILQ_FIRST(&sessions->marked);
    if (session != NULL) {
        TAILQ_REMOVE(&sessions->marked, session, marked_links);
        session->listed = false;
    }
    return session;
}

// ---- numbers ----

void or_session_ids_init(or_session_ids_t *ids)
{
    ids->count = 0;
    randombytes_buf(ids->key, sizeof ids->key);
}

static uint64_t mix(const or_session_ids_t *ids, uint64_t round, uint64_t half)
{
    uint64_t in[2] = {round, half}, out;
    crypto_shorthash((uint8_t *)&out, (const uint8_t *)in, sizeof in, ids->key);
    return out & HALF_MASK;
}

or_session_id_t or_session_ids_next(const or_session_ids_t *ids)
{
    uint64_t left = ids->count >> HALF_BITS, right = ids->count & HALF_MASK;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ mix(ids, round, right);
        left = right;
        right = next;
    }
    return (or_session_id_t){(left << HALF_BITS | right) << 1 | 1};
}

void or_session_ids_take(or_session_ids_t *ids)
{
    ids->count++;
}

bool or_session_ids_was(const or_session_ids_t *ids, or_session_id_t id)
{
    uint64_t number = id.value >> 1;
    uint64_t left = number >> HALF_BITS, right = number & HALF_MASK;
    if (id.value % 2 == 0 || number >> (2 * HALF_BITS) != 0) {
        return false;
    }
    for (uint64_t round = ROUNDS; round-- > 0;) {
        uint64_t before = right ^ mix(ids, round, left);
        right = left;
        left = before;
    }
    return (left << HALF_BITS | right) < ids->count;
}
