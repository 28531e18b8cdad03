// kv_test_support - pages and slots full of random numbers on a device, with a copy on the host. The copy's vectors lie
// by the drawing in cuda_kernels.h, and are read and written as the CPU does it (kv_store.h).
#pragma once

#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/kernels_test_support.h"

#include "common/model/kv/kv_store.h"
#include "kernels/cuda/cuda_kernels.h"

#define KV_TEST_LAYERS 2u
#define KV_TEST_SEQUENCES 2u
#define KV_TEST_SLOTS 40u // of a sequence
#define KV_TEST_CHAIN_MAX 20u
#define KV_TEST_ROWS_MAX 70u

// Zeroed memory; the test fails if there is none.
void *kv_test_allocate(size_t bytes);
uint32_t kv_test_pages_for(uint32_t positions);

// ---- pages and slots ----

// Device memory, and what it should hold, on the host.
typedef struct {
    void *device;
    void *host;
    size_t bytes;
} kv_test_memory_t;

typedef struct {
    or_kv_type_t key;
    or_kv_type_t value;
} kv_test_types_t;

// All there are, those of two alike first.
#define KV_TEST_MIXES 9u
extern const kv_test_types_t kv_test_mixes[KV_TEST_MIXES];

typedef struct {
    kv_test_types_t types;
    or_cuda_kv_t kv;
    uint32_t context; // positions of each sequence
    kv_test_memory_t pages;
    kv_test_memory_t tables[KV_TEST_SEQUENCES]; // page numbers
    kv_test_memory_t frames
        [KV_TEST_SEQUENCES]; // others, of the layers in frames, whose places are in `pages` all the same
    bool in_frames[KV_TEST_LAYERS];
    kv_test_memory_t slots[KV_TEST_SEQUENCES];
} kv_test_cache_t;

// For a test of sizes: no pages.
or_cuda_kv_t kv_test_describe(kv_test_types_t types, uint32_t layers, uint32_t kv_heads,
                              uint32_t head_dim);
// Create a cache of KV_TEST_LAYERS layers, of which some are in frames.
kv_test_cache_t kv_test_cache_create(uint64_t *random, test_kind_t kind, kv_test_types_t types,
                                     uint32_t kv_heads, uint32_t head_dim, uint32_t context);
void kv_test_cache_free(kv_test_cache_t *cache);
// Describe all layers to who works on this one.
or_cuda_kv_t kv_test_kv_of(const kv_test_cache_t *cache, uint32_t layer);
or_cuda_page_table_t kv_test_table_of(const kv_test_cache_t *cache, uint32_t sequence);
// Tell the device that the frames of a sequence's first `positions` are gone, whole pages of them.
void kv_test_lose_frames(const kv_test_cache_t *cache, uint32_t sequence, uint32_t positions);
// The device has what the host's copy has.
void kv_test_assert_same(const kv_test_cache_t *cache);

typedef enum { KV_TEST_KEY, KV_TEST_VALUE, KV_TEST_SIDES } kv_test_side_t;

// One head's K or V of a position in the copy.
or_kv_vector_t kv_test_in_page(const kv_test_cache_t *cache, uint32_t sequence, uint32_t position,
                               uint32_t layer, uint32_t kv_head, kv_test_side_t side);
or_kv_vector_t kv_test_in_slot(const kv_test_cache_t *cache, uint32_t sequence, uint32_t slot,
                               uint32_t layer, uint32_t kv_head, kv_test_side_t side);

// ---- rows ----

typedef struct {
    uint32_t count;
    uint32_t sequences[KV_TEST_ROWS_MAX];
    uint32_t chains[KV_TEST_ROWS_MAX][KV_TEST_CHAIN_MAX];
    or_cuda_seen_t seen[KV_TEST_ROWS_MAX]; // with the device's addresses
    uint32_t *device_chains;
    or_cuda_seen_t *device_seen;
} kv_test_rows_t;

kv_test_rows_t *kv_test_rows_create(void);
// `position` is committed, its own included.
void kv_test_add_prefix_row(kv_test_rows_t *rows, const kv_test_cache_t *cache, uint32_t sequence,
                            uint32_t position);
// After `committed` positions, the last of a chain of slots.
void kv_test_add_tree_row(kv_test_rows_t *rows, const kv_test_cache_t *cache, uint32_t sequence,
                          uint32_t committed, const uint32_t *chain, uint32_t chain_count);
// Upload the rows, once all are added.
void kv_test_rows_upload(kv_test_rows_t *rows);
void kv_test_rows_free(kv_test_rows_t *rows);

// `count` of `of` numbers, each once at most.
void kv_test_draw(uint64_t *random, uint32_t *numbers, uint32_t count, uint32_t of);
