#include "coordinator/session/session_ids.h"

#include <sodium.h>
#include <string.h>

#define HALF_BITS 31
#define HALF_MASK ((UINT64_C(1) << HALF_BITS) - 1)
#define ROUNDS                                                                                     \
    4u // of a Feistel network: Luby and Rackoff, "How to construct pseudorandom permutations", 1988

_Static_assert(sizeof((or_session_ids_t *)0)->key == crypto_shorthash_KEYBYTES, "a key of SipHash");

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
