// kv_cache - keys and values of committed tokens in pages, and of tree nodes in scratch slots.
//
//     sequence:  pages [0..32) [32..64) ...   positions 0 .. length-1, committed
//                slots  0 .. slots_max-1      tree nodes, each with a parent slot (or none: child of position length-1)
//
//     K page, per layer and KV head: [head_dim][32]  dimension-major, lanes are positions
//     V page, per layer and KV head: [32][head_dim]  lanes are dimensions
//     slot,   per layer and KV head: K [head_dim], V [head_dim]
//
// A node's ancestors lie, in position order, in the pages below `length` and then in its chain of
// slots; attention walks them in that order, so where a token's K and V lie never changes a bit.
// Accepting a path copies its slots to the next positions; nothing is recomputed. Pages come from
// one pool with a bound; sequences never share a page in this version. One thread owns a cache and
// its sequences. No allocation after create except or_kv_sequence_open.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_KV_PAGE 32u
#define OR_KV_NO_SLOT UINT32_MAX

typedef struct or_kv_cache or_kv_cache_t;
typedef struct or_kv_sequence or_kv_sequence_t;

// Room for pages_max pages of `layers` x `kv_heads` x `head_dim` floats, twice. OR_ERR_NO_MEMORY.
or_status_t or_kv_cache_create(uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                               uint32_t pages_max, or_kv_cache_t **cache_p);
// All sequences must be closed before.
void or_kv_cache_destroy(or_kv_cache_t **cache_p);
uint32_t or_kv_cache_pages_free(const or_kv_cache_t *cache);

// An empty sequence of at most positions_max positions with slots_max scratch slots.
// OR_ERR_NO_MEMORY.
or_status_t or_kv_sequence_open(or_kv_cache_t *cache, uint32_t positions_max, uint32_t slots_max,
                                or_kv_sequence_t **sequence_p);
void or_kv_sequence_close(or_kv_sequence_t **sequence_p);

// Committed positions whose K and V are here.
uint32_t or_kv_sequence_length(const or_kv_sequence_t *sequence);

// Forget positions at and above `length` (no-op if shorter) and all slots; pages no longer used go
// back to the pool.
void or_kv_sequence_truncate(or_kv_sequence_t *sequence, uint32_t length);

// Forget all slots.
void or_kv_sequence_drop_slots(or_kv_sequence_t *sequence);

// Forget the slots from `first` on, so that they can hold other nodes; those below it must have their
// parents there too.
void or_kv_sequence_drop_slots_from(or_kv_sequence_t *sequence, uint32_t first);

// Move the K and V of `count` slots, each the parent of the next and the first without a parent, to
// positions length, length + 1, ...; then drop all slots. OR_ERR_INVALID if that is not such a
// path; OR_ERR_FULL if pages or positions run out (nothing moved).
or_status_t or_kv_sequence_accept(or_kv_sequence_t *sequence, const uint32_t *slots,
                                  uint32_t count);

// For tests: a copy of position p's K and V, [layers][kv_heads][head_dim] each. p < length.
void or_kv_sequence_read(const or_kv_sequence_t *sequence, uint32_t position, float *keys,
                         float *values);
