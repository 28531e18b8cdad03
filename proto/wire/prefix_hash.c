#include "proto/wire/message.h"

#include <xxhash.h>

// The same on hosts of either byte order.
static uint64_t fold(uint64_t hash, uint32_t number)
{
    const uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
                              (uint8_t)(number >> 24)};
    return XXH64(bytes, sizeof bytes, hash);
}

uint64_t or_prefix_hash(uint64_t hash, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hash = fold(hash, tokens[i]);
    }
    return hash;
}

uint64_t or_vocab_map_hash(const int32_t *to, uint32_t count)
{
    uint64_t hash = fold(0, count);
    for (uint32_t i = 0; i < count; i++) {
        hash = fold(hash, (uint32_t)to[i]);
    }
    return hash != 0 ? hash : 1;
}
