// name_hash - where the name of an owner or of a key belongs in a table of such.
#pragma once

#include <stdint.h>

// FNV-1a, 64 bits (Fowler, Noll, Vo). Quick, and nobody's secret: who chooses names can make them meet, so tables that
// hold strangers' names bound their searches or their sizes.
static inline uint64_t or_name_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++) {
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}
