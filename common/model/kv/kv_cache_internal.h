// kv_cache_internal - where K and V lie, for the forward pass.
//
//     page:   [layer][kv head] { K block, V block }        kv_store.h has the blocks
//     slots:  [layer][kv head][slot] { K, V }
//
// A slot holds a node while its epoch is the sequence's: forgetting all slots is one increment. A
// pass plans first (pages taken, slots taken, `pending` counts its prefix rows), runs, and only
// then lets the sequence grow.
//
// A page is written by a sequence that holds it alone. Only positions at and above the length are
// ever written, so of the pages a sequence shares only the one that holds position `length` can stand
// in the way. Taking pages beyond it replaces that one by a copy.
//
// The numbers themselves may be in the memory of a device (or_kv_memory_t). What is said here of pages and
// slots holds there as well, but only kv_store.c and the passes on the CPU follow the pointers.
//
// Functions in kv_cache.h that change a sequence note it in the journal, those here do not.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/model/kv/kv_cache.h"

// ---- the journal ----
//
// kv_cache.c notes each change of a sequence after it was made, for whoever must repeat it elsewhere (lockstep.h). A
// sequence is named by a number: the smallest that was free when it was opened. Passes are not noted, because they travel
// whole.

typedef enum {
    OR_KV_NOTE_OPEN,     // value: slots_max
    OR_KV_NOTE_CLOSE,    //
    OR_KV_NOTE_TRUNCATE, // value: length
    OR_KV_NOTE_DROP,     // value: the first slot
    OR_KV_NOTE_ACCEPT,   // slots
    OR_KV_NOTE_RESERVE,  // value: positions
    OR_KV_NOTE_SHARE,    // value: length; donor
} or_kv_note_kind_t;

typedef struct {
    or_kv_note_kind_t kind;
    uint32_t sequence;
    uint32_t value;
    uint32_t donor;
    const uint32_t *slots; // borrowed for the call
    uint32_t slot_count;
} or_kv_note_t;

// The first member of the struct that keeps a journal. A note is valid during the call only.
typedef struct or_kv_journal {
    void (*note)(struct or_kv_journal *journal, const or_kv_note_t *note);
} or_kv_journal_t;

// ---- memory ----
//
// The numbers of pages and slots are kept by this process (kv_store.c) or by a device (gpu_kv.c). kv_cache.c decides which
// page and which slot hold what, and these functions do it to the bytes. Both kinds lay them out alike, with the same
// numbers in them. Only the two functions that take memory can fail: the next pass reports a device that fails elsewhere.

typedef struct {
    void *owner; // for the functions below

    // Take zeroed room for the cache's pages_max pages, into cache->allocation and ->pages, and for its frames. Take room for
    // a sequence's slots_max slots, which nobody reads before they are written, into sequence->slot_bytes. Both return
    // false if there is no memory.
    bool (*take_pages)(or_kv_cache_t *cache);
    bool (*take_slots)(or_kv_sequence_t *sequence);
    void (*give_pages)(or_kv_cache_t *cache);
    void (*give_slots)(or_kv_sequence_t *sequence);

    void (*copy_page)(or_kv_cache_t *cache, uint32_t from, uint32_t to);
    // K and V of these slots become positions length, length + 1, ..., whose pages are taken.
    void (*move_slots)(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count);
    // The K block and V block of a page's layer and head, where this process can read them; until the next call.
    uint8_t *(*block)(const or_kv_cache_t *cache, uint32_t page, uint32_t layer, uint32_t head);
} or_kv_memory_t;

extern const or_kv_memory_t or_kv_memory_host;

// ---- caches and sequences ----

typedef struct {
    uint32_t parent; // OR_KV_NO_SLOT: child of the last committed position
    uint32_t depth;  // 0 for such a child; position = length + depth
    uint64_t epoch;  // 0: never used
} or_kv_slot_t;

// The place of a layer's K and V in a page, or in its frame, and in slots: what the layers before it take there. Layers
// may have heads of their own.
typedef struct {
    bool in_frame;
    or_kv_heads_t heads;
    size_t before;      // bytes of a page, or of a frame
    size_t slot_before; // bytes of a slot
    size_t key_bytes;   // of one head's K block, and V block, in a page
    size_t value_bytes;
    size_t slot_key_bytes; // of one head's K, and V, in a slot, which keep the alignment of floats
    size_t slot_value_bytes;
} or_kv_place_t;

#define OR_KV_NO_FRAME UINT32_MAX

// The frames of a cache (kv_frames.c). A page that is taken has one until nobody may attend to it any more.
typedef struct {
    uint32_t window, slack;
    uint32_t frames_max;
    size_t frame_bytes;
    void *allocation;   // owns the memory of `bytes`
    uint8_t *bytes;     // aligned to a cache line
    uint32_t *frame_of; // [pages_max] the page's frame, or OR_KV_NO_FRAME
    uint32_t *users;    // [pages_max] sequences that may still attend to the page through a window
    uint32_t *free;     // stack of free frames
    uint32_t free_count;
} or_kv_frames_t;

struct or_kv_cache {
    or_kv_shape_t shape;
    const or_kv_memory_t *memory; // borrowed
    uint32_t pages_max;
    or_kv_place_t *places; // [shape.layers]
    size_t page_bytes;     // of the layers that are not in frames
    void *allocation;      // owns the memory of `pages`
    uint8_t *pages;        // aligned to a cache line
    uint32_t *holders;     // [pages_max] sequences that hold a page
    uint32_t *free;        // stack of free page numbers
    uint32_t free_count;
    or_kv_frames_t *frames;   // NULL: all layers keep whole texts
    or_kv_sequence_t *first;  // the open sequences by number
    or_kv_journal_t *journal; // NULL: nobody repeats this
};

struct or_kv_sequence {
    or_kv_cache_t *cache;
    or_kv_sequence_t *next;
    uint32_t number; // the smallest that was free
    uint32_t positions_max;
    uint32_t slots_max;
    uint32_t length;
    uint32_t pending;  // prefix rows of the pass being planned or run
    uint32_t reserved; // positions whose pages stay until the next truncate
    uint32_t page_count;
    uint32_t *pages;    // page numbers, [ceil(positions_max / 32)]
    uint32_t kept_from; // the first of them whose frame it uses: those before are given up
    uint64_t epoch;
    bool has_slots;      // some slot may hold a node
    or_kv_slot_t *slots; // [slots_max]
    uint8_t *slot_bytes;
};

// Return the K block of a layer and head of page number `page`, which has a frame if the layer's blocks lie there; the
// V block follows.
static inline uint8_t *or_kv_block(const or_kv_cache_t *cache, uint32_t page, uint32_t layer,
                                   uint32_t head)
{
    const or_kv_frames_t *frames = cache->frames;
    const or_kv_place_t *place = &cache->places[layer];
    uint8_t *blocks = place->in_frame ? frames->bytes + frames->frame_of[page] * frames->frame_bytes
                                      : cache->pages + page * cache->page_bytes;
    return blocks + place->before + head * (place->key_bytes + place->value_bytes);
}

static inline void *or_kv_page_keys(const or_kv_sequence_t *sequence, uint32_t page, uint32_t layer,
                                    uint32_t head)
{
    return or_kv_block(sequence->cache, sequence->pages[page], layer, head);
}

static inline void *or_kv_page_values(const or_kv_sequence_t *sequence, uint32_t page,
                                      uint32_t layer, uint32_t head)
{
    return (uint8_t *)or_kv_page_keys(sequence, page, layer, head) +
           sequence->cache->places[layer].key_bytes;
}

static inline void *or_kv_slot_keys(const or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer,
                                    uint32_t head)
{
    const or_kv_place_t *place = &sequence->cache->places[layer];
    size_t index = (size_t)head * sequence->slots_max + slot;
    return sequence->slot_bytes + place->slot_before * sequence->slots_max +
           index * (place->slot_key_bytes + place->slot_value_bytes);
}

static inline void *or_kv_slot_values(const or_kv_sequence_t *sequence, uint32_t slot,
                                      uint32_t layer, uint32_t head)
{
    return (uint8_t *)or_kv_slot_keys(sequence, slot, layer, head) +
           sequence->cache->places[layer].slot_key_bytes;
}

static inline bool or_kv_slot_is_live(const or_kv_sequence_t *sequence, uint32_t slot,
                                      uint64_t epoch)
{
    return slot < sequence->slots_max && sequence->slots[slot].epoch == epoch;
}

// The same as or_kv_cache_create_bounded with the given memory, which must outlive the cache. `windows` NULL: all layers
// keep whole texts.
or_status_t or_kv_cache_create_in(const or_kv_memory_t *memory, const or_kv_shape_t *shape,
                                  const or_kv_windows_t *windows, uint32_t pages_max,
                                  or_kv_cache_t **cache_p);

// From now on note all changes of the cache's sequences in this journal, which is borrowed; NULL ends that.
static inline void or_kv_cache_set_journal(or_kv_cache_t *cache, or_kv_journal_t *journal)
{
    cache->journal = journal;
}

// Round and store one head's K and V of a position, whose page is taken, or of a slot, in this process's memory.
void or_kv_put_position(or_kv_sequence_t *sequence, uint32_t position, uint32_t layer,
                        uint32_t head, const float *key, const float *value);
void or_kv_put_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer, uint32_t head,
                    const float *key, const float *value);

// Return how many pages positions 0 .. positions - 1 need that the sequence does not have, a copy of a shared page
// included.
uint32_t or_kv_pages_missing(const or_kv_sequence_t *sequence, uint32_t positions);
// OR_ERR_FULL, with what helps, if fewer than `wanted` are free.
or_status_t or_kv_pages_check(const or_kv_cache_t *cache, uint64_t wanted);
// Take the missing pages, which are free.
void or_kv_pages_take(or_kv_sequence_t *sequence, uint32_t positions);
// Give back pages that hold no committed position and are not reserved.
void or_kv_pages_trim(or_kv_sequence_t *sequence);
// Let the sequence grow by `count` positions, whose pages are taken. Frames that no later row attends to are given up.
void or_kv_sequence_grow(or_kv_sequence_t *sequence, uint32_t count);

// Take and free the tables of frames, all of which are free. OR_ERR_NO_MEMORY.
or_status_t or_kv_frames_create(const or_kv_shape_t *shape, const or_kv_windows_t *windows,
                                uint32_t pages_max, or_kv_frames_t **frames_p);
void or_kv_frames_destroy(or_kv_frames_t **frames_p);
// A page that was taken gets a frame, of which one is free. One more sequence uses it, or one fewer: the last gives it
// back. Without frames (NULL) nothing happens.
void or_kv_frames_take(or_kv_frames_t *frames, uint32_t page);
void or_kv_frames_use(or_kv_frames_t *frames, uint32_t page);
void or_kv_frames_give_up(or_kv_frames_t *frames, uint32_t page);
// Return the first page that a text of this length keeps a frame of, and the first position that its next row attends
// to through a window.
uint32_t or_kv_frames_kept_from(const or_kv_frames_t *frames, uint32_t length);
uint32_t or_kv_frames_seen_from(const or_kv_frames_t *frames, uint32_t length);
// Forget all slots.
static inline void or_kv_slots_forget(or_kv_sequence_t *sequence)
{
    sequence->epoch++;
    sequence->has_slots = false;
}
