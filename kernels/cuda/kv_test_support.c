#include "kernels/cuda/kv_test_support.h"

#include <stdlib.h>
#include <string.h>

or_cuda_t *kv_test_device;

int kv_test_open(void **state)
{
    (void)state;
    kv_test_device = cuda_test_open();
    return 0;
}

int kv_test_close(void **state)
{
    (void)state;
    or_cuda_close(&kv_test_device);
    return 0;
}

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
    return (kv_test_memory_t){cuda_test_upload(kv_test_device, host, bytes), host, bytes};
}

static void memory_free(kv_test_memory_t *memory)
{
    or_cuda_free(kv_test_device, memory->device);
    free(memory->host);
}

static void assert_memory_same(const kv_test_memory_t *memory)
{
    void *actual = kv_test_allocate(memory->bytes);
    cuda_test_download(kv_test_device, actual, memory->device, memory->bytes);
    assert_memory_equal(actual, memory->host, memory->bytes);
    free(actual);
}

static kv_test_memory_t random_numbers(uint64_t *random, test_kind_t kind, or_cuda_float_t type,
                                       size_t bytes)
{
    if (type == OR_CUDA_F32) {
        return memory_of(test_floats(random, kind, bytes / sizeof(float)), bytes);
    }
    return memory_of(test_halves(random, kind, bytes / sizeof(uint16_t)), bytes);
}

// Which pages are whose is random.
static void deal_pages(uint64_t *random, kv_test_cache_t *cache)
{
    uint32_t count = kv_test_pages_for(cache->context);
    uint32_t *deck = kv_test_allocate(KV_TEST_SEQUENCES * count * sizeof *deck);
    kv_test_draw(random, deck, KV_TEST_SEQUENCES * count, KV_TEST_SEQUENCES * count);
    for (size_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        uint32_t *table = kv_test_allocate(count * sizeof *table);
        memcpy(table, deck + s * count, count * sizeof *table);
        cache->tables[s] = memory_of(table, count * sizeof *table);
    }
    free(deck);
}

kv_test_cache_t kv_test_cache_create(uint64_t *random, test_kind_t kind, or_cuda_float_t type,
                                     uint32_t kv_heads, uint32_t head_dim, uint32_t context)
{
    kv_test_cache_t cache = {.kv = {type, KV_TEST_LAYERS, kv_heads, head_dim, NULL},
                             .context = context};
    size_t page_bytes = or_cuda_page_bytes(&cache.kv);
    deal_pages(random, &cache);
    cache.pages = random_numbers(random, kind, type,
                                 KV_TEST_SEQUENCES * kv_test_pages_for(context) * page_bytes);
    cache.kv.pages = cache.pages.device;
    for (uint32_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        cache.slots[s] =
            random_numbers(random, kind, type, or_cuda_slots_bytes(&cache.kv, KV_TEST_SLOTS));
    }
    return cache;
}

void kv_test_cache_free(kv_test_cache_t *cache)
{
    memory_free(&cache->pages);
    for (uint32_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        memory_free(&cache->tables[s]);
        memory_free(&cache->slots[s]);
    }
}

void kv_test_assert_same(const kv_test_cache_t *cache)
{
    assert_memory_same(&cache->pages);
    for (uint32_t s = 0; s < KV_TEST_SEQUENCES; s++) {
        assert_memory_same(&cache->slots[s]);
    }
}

kv_test_vector_t kv_test_in_page(const kv_test_cache_t *cache, uint32_t sequence, uint32_t position,
                                 uint32_t layer, uint32_t kv_head, kv_test_side_t side)
{
    const uint32_t *table = cache->tables[sequence].host;
    size_t head_dim = cache->kv.head_dim;
    size_t first_head =
        ((size_t)table[position / OR_KV_BLOCK] * KV_TEST_LAYERS + layer) * cache->kv.kv_heads;
    size_t block = ((first_head + kv_head) * KV_TEST_SIDES + side) * head_dim * OR_KV_BLOCK;
    size_t lane = position % OR_KV_BLOCK;
    return side == KV_TEST_KEY ? (kv_test_vector_t){cache->pages.host, block + lane, OR_KV_BLOCK}
                               : (kv_test_vector_t){cache->pages.host, block + lane * head_dim, 1};
}

kv_test_vector_t kv_test_in_slot(const kv_test_cache_t *cache, uint32_t sequence, uint32_t slot,
                                 uint32_t layer, uint32_t kv_head, kv_test_side_t side)
{
    size_t head = (size_t)layer * cache->kv.kv_heads + kv_head;
    size_t at = ((head * KV_TEST_SLOTS + slot) * KV_TEST_SIDES + side) * cache->kv.head_dim;
    return (kv_test_vector_t){cache->slots[sequence].host, at, 1};
}

float kv_test_read(const kv_test_cache_t *cache, const kv_test_vector_t *from, uint32_t d)
{
    size_t i = from->at + d * from->step;
    return cache->kv.type == OR_CUDA_F32 ? ((float *)from->numbers)[i]
                                         : or_f16_to_f32(((uint16_t *)from->numbers)[i]);
}

void kv_test_write(const kv_test_cache_t *cache, const kv_test_vector_t *to, uint32_t d, float x)
{
    size_t i = to->at + d * to->step;
    if (cache->kv.type == OR_CUDA_F32) {
        ((float *)to->numbers)[i] = x;
    } else {
        ((uint16_t *)to->numbers)[i] = or_f32_to_f16(x);
    }
}

// ---- rows ----

kv_test_rows_t *kv_test_rows_create(void)
{
    kv_test_rows_t *rows = kv_test_allocate(sizeof *rows);
    rows->device_chains = cuda_test_upload(kv_test_device, NULL, sizeof rows->chains);
    return rows;
}

static void add_row(kv_test_rows_t *rows, const kv_test_cache_t *cache, uint32_t sequence,
                    or_cuda_seen_t seen)
{
    assert_true(rows->count < KV_TEST_ROWS_MAX);
    seen.pages = cache->tables[sequence].device;
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
        or_cuda_upload(kv_test_device, rows->device_chains, rows->chains, sizeof rows->chains));
    rows->device_seen =
        cuda_test_upload(kv_test_device, rows->seen, rows->count * sizeof *rows->seen);
}

void kv_test_rows_free(kv_test_rows_t *rows)
{
    or_cuda_free(kv_test_device, rows->device_seen);
    or_cuda_free(kv_test_device, rows->device_chains);
    free(rows);
}
