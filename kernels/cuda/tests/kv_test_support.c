#include "kernels/cuda/tests/kv_test_support.h"

#include <stdlib.h>
#include <string.h>

const kv_test_types_t kv_test_mixes[KV_TEST_MIXES] = {
    {OR_KV_F32, OR_KV_F32},  {OR_KV_F16, OR_KV_F16},  {OR_KV_Q8_0, OR_KV_Q8_0},
    {OR_KV_F32, OR_KV_F16},  {OR_KV_F16, OR_KV_Q8_0}, {OR_KV_Q8_0, OR_KV_F32},
    {OR_KV_F32, OR_KV_Q8_0}, {OR_KV_F16, OR_KV_F32},  {OR_KV_Q8_0, OR_KV_F16}};

void *kv_test_allocate(size_t bytes)
{
    void *at = calloc(bytes + 1, 1);
    assert_non_null(at);
    return at;
}

uint32_t kv_test_pages_for(uint32_t positions)
{
    return (positions + OR_KV_BLOCK - 1) / OR_KV_BLOCK;
}

void kv_test_draw(uint64_t *random, uint32_t *numbers, uint32_t count, uint32_t of)
{
    uint32_t *deck = kv_test_allocate(of * sizeof *deck);
    for (uint32_t i = 0; i < of; i++) {
        uint32_t j = (uint32_t)test_below(random, i + 1);
        deck[i] = deck[j];
        deck[j] = i;
    }
    memcpy(numbers, deck, count * sizeof *numbers);
    free(deck);
}

// ---- pages and slots ----

static kv_test_memory_t memory_of(void *host, size_t bytes)
{
    return (kv_test_memory_t){cuda_test_upload(test_device, host, bytes), host, bytes};
}

static void memory_free(kv_test_memory_t *memory)
{
    or_cuda_free(test_device, memory->device);
    free(memory->host);
}

static void assert_memory_same(const kv_test_memory_t *memory)
{
    void *actual = kv_test_allocate(memory->bytes);
    cuda_test_download(test_device, actual, memory->device, memory->bytes);
    assert_memory_equal(actual, memory->host, memory->bytes);
    free(actual);
}

static size_t round_up(size_t bytes)
{
    return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// Numbers of a type, or scales.
static void *random_array(uint64_t *random, test_kind_t kind, or_kv_type_t type, size_t count)
{
    return type == OR_KV_F32   ? (void *)test_floats(random, kind, count)
           : type == OR_KV_F16 ? (void *)test_halves(random, kind, count)
                               : test_bytes(random, count);
}

// Vectors that lie together: their scales are of the kind as halves are, and any byte is a number of Q8_0. Returns
// their bytes.
static size_t fill_vectors(uint64_t *random, test_kind_t kind, or_kv_type_t type, uint32_t head_dim,
                           size_t vectors, uint8_t *at)
{
    size_t bytes = vectors * or_kv_vector_bytes(type, head_dim);
    size_t numbers = vectors * head_dim;
    size_t number_bytes = or_kv_vector_bytes(type, OR_QUANT_BLOCK) / OR_QUANT_BLOCK;
    size_t scale_bytes = bytes - numbers * number_bytes;
    void *scales = random_array(random, kind, OR_KV_F16, scale_bytes / sizeof(uint16_t) + 1);
    void *rest = random_array(random, kind, type, numbers);
    memcpy(at, scales, scale_bytes);
    memcpy(at + scale_bytes, rest, bytes - scale_bytes);
    free(rest);
    free(scales);
    return bytes;
}

// Return `pairs` times K and V, each of `vectors` vectors, laid out as pages and slots are.
static kv_test_memory_t random_numbers(uint64_t *random, test_kind_t kind,
                                       const kv_test_cache_t *cache, size_t pairs, size_t vectors)
{
    const kv_test_types_t *types = &cache->types;
    uint32_t head_dim = cache->kv.head_dim;
    size_t most = round_up(vectors * or_kv_vector_bytes(OR_KV_F32, head_dim));
    uint8_t *host = kv_test_allocate(pairs * 2 * most);
    size_t bytes = 0;
    for (size_t i = 0; i < pairs; i++) {
        bytes += fill_vectors(random, kind, types->key, head_dim, vectors, host + bytes);
        bytes = round_up(bytes);
        bytes += fill_vectors(random, kind, types->value, head_dim, vectors, host + bytes);
        bytes = round_up(bytes);
    }
    return memory_of(host, bytes);
}

// Deal the pages to the sequences at random.
static void deal_pages(uint64_t *random, uint32_t count, kv_test_memory_t *tables)
{
    uint32_t *deck = kv_test_allocate(KV_TEST_SEQUENCES * count * sizeof *deck);
    kv_test_draw(random, deck, KV_TEST_SEQUENCES * count, KV_TEST_SEQUENCES * count);
    for (size_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        uint32_t *table = kv_test_allocate(count * sizeof *table);
        memcpy(table, deck + s * count, count * sizeof *table);
        tables[s] = memory_of(table, count * sizeof *table);
    }
    free(deck);
}

or_cuda_kv_t kv_test_describe(kv_test_types_t types, uint32_t layers, uint32_t kv_heads,
                              uint32_t head_dim)
{
    static const or_cuda_kv_type_t on_device[] = {
        [OR_KV_F32] = OR_CUDA_KV_F32, [OR_KV_F16] = OR_CUDA_KV_F16, [OR_KV_Q8_0] = OR_CUDA_KV_Q8_0};
    return (or_cuda_kv_t){.key_type = on_device[types.key],
                          .value_type = on_device[types.value],
                          .layers = layers,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim};
}

kv_test_cache_t kv_test_cache_create(uint64_t *random, test_kind_t kind, kv_test_types_t types,
                                     uint32_t kv_heads, uint32_t head_dim, uint32_t context)
{
    kv_test_cache_t cache = {.types = types,
                             .kv = kv_test_describe(types, KV_TEST_LAYERS, kv_heads, head_dim),
                             .context = context};
    size_t heads = (size_t)KV_TEST_LAYERS * kv_heads;
    size_t pages = (size_t)KV_TEST_SEQUENCES * kv_test_pages_for(context);
    deal_pages(random, kv_test_pages_for(context), cache.tables);
    deal_pages(random, kv_test_pages_for(context), cache.frames);
    for (uint32_t layer = 0; layer < KV_TEST_LAYERS; layer++) {
        cache.in_frames[layer] = test_below(random, 2) == 0;
    }
    cache.pages = random_numbers(random, kind, &cache, pages * heads, OR_KV_BLOCK);
    assert_int_equal(cache.pages.bytes, pages * or_cuda_page_bytes(&cache.kv));
    cache.kv.pages = cache.pages.device;
    for (uint32_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        cache.slots[s] = random_numbers(random, kind, &cache, heads * KV_TEST_SLOTS, 1);
        assert_int_equal(cache.slots[s].bytes, or_cuda_slots_bytes(&cache.kv, KV_TEST_SLOTS));
    }
    return cache;
}

void kv_test_cache_free(kv_test_cache_t *cache)
{
    memory_free(&cache->pages);
    for (uint32_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        memory_free(&cache->tables[s]);
        memory_free(&cache->frames[s]);
        memory_free(&cache->slots[s]);
    }
}

or_cuda_kv_t kv_test_kv_of(const kv_test_cache_t *cache, uint32_t layer)
{
    or_cuda_kv_t kv = cache->kv;
    kv.in_frames = cache->in_frames[layer];
    return kv;
}

or_cuda_page_table_t kv_test_table_of(const kv_test_cache_t *cache, uint32_t sequence)
{
    return (or_cuda_page_table_t){.pages = cache->tables[sequence].device,
                                  .frames = cache->frames[sequence].device};
}

void kv_test_lose_frames(const kv_test_cache_t *cache, uint32_t sequence, uint32_t positions)
{
    static const uint32_t gone = UINT32_MAX;
    uint32_t *frames = cache->frames[sequence].device;
    for (uint32_t i = 0; i < positions / OR_KV_BLOCK; i++) {
        cuda_test_ok(or_cuda_upload(test_device, &frames[i], &gone, sizeof gone));
    }
}

void kv_test_assert_same(const kv_test_cache_t *cache)
{
    assert_memory_same(&cache->pages);
    for (uint32_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        assert_memory_same(&cache->slots[s]);
    }
}

or_kv_vector_t kv_test_in_page(const kv_test_cache_t *cache, uint32_t sequence, uint32_t position,
                               uint32_t layer, uint32_t kv_head, kv_test_side_t side)
{
    const kv_test_memory_t *tables = cache->in_frames[layer] ? cache->frames : cache->tables;
    const uint32_t *table = tables[sequence].host;
    uint32_t head_dim = cache->kv.head_dim;
    size_t head =
        ((size_t)table[position / OR_KV_BLOCK] * KV_TEST_LAYERS + layer) * cache->kv.kv_heads +
        kv_head;
    size_t key_bytes = OR_KV_BLOCK * or_kv_vector_bytes(cache->types.key, head_dim);
    size_t value_bytes = OR_KV_BLOCK * or_kv_vector_bytes(cache->types.value, head_dim);
    uint8_t *key = (uint8_t *)cache->pages.host + head * (key_bytes + value_bytes);
    uint32_t lane = position % OR_KV_BLOCK;
    return side == KV_TEST_KEY
               ? or_kv_key_vector(cache->types.key, head_dim, key, lane)
               : or_kv_value_vector(cache->types.value, head_dim, key + key_bytes, lane);
}

or_kv_vector_t kv_test_in_slot(const kv_test_cache_t *cache, uint32_t sequence, uint32_t slot,
                               uint32_t layer, uint32_t kv_head, kv_test_side_t side)
{
    uint32_t head_dim = cache->kv.head_dim;
    size_t index = ((size_t)layer * cache->kv.kv_heads + kv_head) * KV_TEST_SLOTS + slot;
    size_t key_bytes = round_up(or_kv_vector_bytes(cache->types.key, head_dim));
    size_t value_bytes = round_up(or_kv_vector_bytes(cache->types.value, head_dim));
    uint8_t *key = (uint8_t *)cache->slots[sequence].host + index * (key_bytes + value_bytes);
    return side == KV_TEST_KEY ? or_kv_slot_vector(cache->types.key, head_dim, key)
                               : or_kv_slot_vector(cache->types.value, head_dim, key + key_bytes);
}

// ---- rows ----

kv_test_rows_t *kv_test_rows_create(void)
{
    kv_test_rows_t *rows = kv_test_allocate(sizeof *rows);
    rows->device_chains = cuda_test_upload(test_device, NULL, sizeof rows->chains);
    return rows;
}

static void add_row(kv_test_rows_t *rows, const kv_test_cache_t *cache, uint32_t sequence,
                    or_cuda_seen_t seen)
{
    assert_true(rows->count < KV_TEST_ROWS_MAX);
    seen.table = kv_test_table_of(cache, sequence);
    seen.slots = cache->slots[sequence].device;
    seen.slots_max = KV_TEST_SLOTS;
    seen.chain = rows->device_chains + (size_t)rows->count * KV_TEST_CHAIN_MAX;
    rows->sequences[rows->count] = sequence;
    rows->seen[rows->count++] = seen;
}

void kv_test_add_prefix_row(kv_test_rows_t *rows, const kv_test_cache_t *cache, uint32_t sequence,
                            uint32_t position)
{
    add_row(rows, cache, sequence,
            (or_cuda_seen_t){.committed = position + 1, .position = position, .slot = UINT32_MAX});
}

void kv_test_add_tree_row(kv_test_rows_t *rows, const kv_test_cache_t *cache, uint32_t sequence,
                          uint32_t committed, const uint32_t *chain, uint32_t chain_count)
{
    memcpy(rows->chains[rows->count], chain, chain_count * sizeof *chain);
    add_row(rows, cache, sequence,
            (or_cuda_seen_t){.committed = committed,
                             .position = committed + chain_count - 1,
                             .slot = chain[chain_count - 1],
                             .chain_count = chain_count});
}

void kv_test_rows_upload(kv_test_rows_t *rows)
{
    cuda_test_ok(
        or_cuda_upload(test_device, rows->device_chains, rows->chains, sizeof rows->chains));
    rows->device_seen = cuda_test_upload(test_device, rows->seen, rows->count * sizeof *rows->seen);
}

void kv_test_rows_free(kv_test_rows_t *rows)
{
    or_cuda_free(test_device, rows->device_seen);
    or_cuda_free(test_device, rows->device_chains);
    free(rows);
}
