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
// slots. Attention walks them in that order, so where a token's K and V lie never changes a bit.
// Accepting a path copies its slots to the next positions; nothing is recomputed.
//
// Pages come from one pool with a bound and are counted: sequences that begin with the same tokens
// can hold the same pages (or_kv_sequence_share). A shared page is never written: what would write to
// one copies it first. K and V depend on the tokens up to their position only, so whose pages they
// are never changes a bit.
//
// K and V are kept as F32, F16 or Q8_0, each rounded once when it is stored, by position and head
// alone. So the bits do not depend on where or with what else they were computed. Slots are kept in
// the same form. Another type is another arithmetic (or_model_arith_id).
//
// Layers whose rows attend to the last positions only can keep no more than those (or_kv_windows_t). The K and V of
// such layers lie in frames, which a page has only while a sequence that holds it may still attend to it:
//
//     pages   [0..32) [32..64) [64..96) [96..128)      of the other layers, as above
//     frames     -        -     [64..96) [96..128)     length 110, window 30, slack 10
//
// What was given up is gone: a text that is cut back to where its rows would attend to it begins anew.
//
// One thread owns a cache and its sequences. No allocation after create except or_kv_sequence_open.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "kernels/kernels.h"

#define OR_KV_PAGE 32u
#define OR_KV_NO_SLOT UINT32_MAX

typedef struct or_kv_cache or_kv_cache_t;
typedef struct or_kv_sequence or_kv_sequence_t;

// Return "f32", "f16" or "q8_0"; NULL for a number that is none.
const char *or_kv_type_name(or_kv_type_t type);
// OR_ERR_INVALID, with those there are.
or_status_t or_kv_type_parse(const char *name, or_kv_type_t *type);

// The heads of K and V in a layer, and the elements of each.
typedef struct {
    uint32_t kv_heads;
    uint32_t head_dim;
} or_kv_heads_t;

typedef struct {
    uint32_t layers;
    uint32_t kv_heads;
    uint32_t head_dim;
    or_kv_type_t key_type;
    or_kv_type_t value_type;
    // [layers] Those of each layer, where they are not alike; borrowed as long as the cache is there. NULL: as above.
    const or_kv_heads_t *each;
} or_kv_shape_t;

static inline or_kv_heads_t or_kv_heads_of(const or_kv_shape_t *shape, uint32_t layer)
{
    return shape->each != NULL ? shape->each[layer]
                               : (or_kv_heads_t){shape->kv_heads, shape->head_dim};
}

// Layers that keep the last positions of a text only.
typedef struct {
    uint32_t window; // positions that a row of them attends to, the last its own; at least 1
    uint32_t slack;  // positions before those that stay, so that a text can be cut back by as many
    uint32_t
        frames_max; // pages whose K and V of these layers are kept at the same time; at most all pages
    const bool *is_bounded; // [layers]: is it one of them? Borrowed for the call.
} or_kv_windows_t;

// Return the bytes of one page of all layers, and of one slot.
uint64_t or_kv_page_bytes(const or_kv_shape_t *shape);
uint64_t or_kv_slot_bytes(const or_kv_shape_t *shape);

// Create a cache with room for pages_max pages. OR_ERR_NO_MEMORY.
or_status_t or_kv_cache_create(const or_kv_shape_t *shape, uint32_t pages_max,
                               or_kv_cache_t **cache_p);
// The same where some layers keep the last positions only.
or_status_t or_kv_cache_create_bounded(const or_kv_shape_t *shape, const or_kv_windows_t *windows,
                                       uint32_t pages_max, or_kv_cache_t **cache_p);
// All sequences must be closed before.
void or_kv_cache_destroy(or_kv_cache_t **cache_p);
uint32_t or_kv_cache_pages(const or_kv_cache_t *cache);
// Return how many pages can be taken now: of each there must be a frame as well, where layers have them.
uint32_t or_kv_cache_pages_free(const or_kv_cache_t *cache);
// Return how many pages count as free in figures: fewer than are free where a smaller share of the frames is.
uint32_t or_kv_cache_pages_unused(const or_kv_cache_t *cache);
// Return the bytes of all pages and frames, and of the frames alone.
uint64_t or_kv_cache_bytes(const or_kv_cache_t *cache);
uint64_t or_kv_cache_window_bytes(const or_kv_cache_t *cache);
// Return how many frames there are; 0: all layers keep whole texts.
uint32_t or_kv_cache_frames(const or_kv_cache_t *cache);
// Return how many pages more than one sequence holds.
uint32_t or_kv_cache_pages_shared(const or_kv_cache_t *cache);

// Open an empty sequence of at most positions_max positions with slots_max scratch slots. OR_ERR_NO_MEMORY.
or_status_t or_kv_sequence_open(or_kv_cache_t *cache, uint32_t positions_max, uint32_t slots_max,
                                or_kv_sequence_t **sequence_p);
void or_kv_sequence_close(or_kv_sequence_t **sequence_p);

// Return the number of committed positions whose K and V are here.
uint32_t or_kv_sequence_length(const or_kv_sequence_t *sequence);
// Return the number of pages that a sequence holds, and of those that no other sequence holds: closing it gives these
// back.
uint32_t or_kv_sequence_pages(const or_kv_sequence_t *sequence);
uint32_t or_kv_sequence_pages_own(const or_kv_sequence_t *sequence);
// Return how many of its pages have frames that it uses, and in *own those that no other sequence uses. Both are 0 where
// there are no frames.
uint32_t or_kv_sequence_frames(const or_kv_sequence_t *sequence, uint32_t *own);

// Take pages for positions 0 .. positions - 1 now, so that no pass or accept up to there fails for want
// of them. A shared page that these would write to is copied. What is reserved stays, through passes that
// fail too, until the next truncate or share. OR_ERR_FULL if pages or positions run out (nothing taken).
or_status_t or_kv_sequence_reserve(or_kv_sequence_t *sequence, uint32_t positions);

// Return `length` if a text can go on behind the sequence's first `length` positions, once it has grown to `grown`, which
// is no less. Return 0 if layers with a window will have given up what the next position attends to.
uint32_t or_kv_sequence_usable(const or_kv_sequence_t *sequence, uint32_t grown, uint32_t length);

// Begin with `donor`'s first `length` positions: whole pages are shared. The rest of the last one is
// copied where a page for it is free and left out where none is. If the donor cannot give as many
// (or_kv_sequence_usable) the sequence is empty. What it held, slots included,
// is forgotten; that the tokens are the same is the caller's to know. length is at most the donor's.
void or_kv_sequence_share(or_kv_sequence_t *sequence, const or_kv_sequence_t *donor,
                          uint32_t length);

// Forget positions at and above `length` (no-op if shorter) and all slots; pages no longer used go
// back to the pool. All positions are forgotten where the text cannot go on behind so many (or_kv_sequence_usable):
// or_kv_sequence_length then says 0.
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

// The same, but slots whose chain of parents leads through the last of these stay. They keep their
// numbers, and those whose parent was the last of these have no parent now. With count 0 nothing
// changes: all slots stand on the last position already. For a model that runs alone:
// OR_ERR_UNSUPPORTED where other ranks repeat what happens here (or_kv_journal_t).
or_status_t or_kv_sequence_accept_root(or_kv_sequence_t *sequence, const uint32_t *slots,
                                       uint32_t count);
// Forget this slot, which is no other's parent, so that it can hold another node. Likewise for a model
// that runs alone: where other ranks repeat it, nothing is forgotten.
void or_kv_sequence_drop_slot(or_kv_sequence_t *sequence, uint32_t slot);

// For tests: a copy of position p's K and V, [layers][kv_heads][head_dim] each. p < length. What was given up is 0.
void or_kv_sequence_read(const or_kv_sequence_t *sequence, uint32_t position, float *keys,
                         float *values);
