#include "proto/message.h"

#include <xxhash.h>

uint64_t or_prefix_hash(uint64_t hash, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = tokens[i];
        const uint8_t bytes[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16),
                                  (uint8_t)(id >> 24)}; // the same on hosts of either byte order
        hash = XXH64(bytes, sizeof bytes, hash);
    }
    return hash;
}
