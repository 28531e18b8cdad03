// Pages and slots in a device's memory, laid out as the host's (kv_memory.h).
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

static const or_cuda_kv_type_t types[] = {
    [OR_KV_F32] = OR_CUDA_KV_F32, [OR_KV_F16] = OR_CUDA_KV_F16, [OR_KV_Q8_0] = OR_CUDA_KV_Q8_0};

static or_gpu_t *gpu_of(const or_kv_cache_t *cache)
{
    return cache->memory->owner;
}

static bool take_pages(or_kv_cache_t *cache)
{
    or_gpu_t *gpu = gpu_of(cache);
    const or_kv_shape_t *shape = &cache->shape;
    gpu->kv_block = malloc(cache->key_bytes + cache->value_bytes);
    if (gpu->kv_block == NULL ||
        or_gpu_alloc(gpu, cache->pages_max * cache->page_bytes, &cache->allocation) != OR_OK) {
        free(gpu->kv_block);
        return false;
    }
    cache->pages = cache->allocation;
    gpu->kv = (or_cuda_kv_t){.key_type = types[shape->key_type],
                             .value_type = types[shape->value_type],
                             .layers = shape->layers,
                             .kv_heads = shape->kv_heads,
                             .head_dim = shape->head_dim,
                             .pages = cache->pages};
    return true;
}

static void give_pages(or_kv_cache_t *cache)
{
    or_gpu_t *gpu = gpu_of(cache);
    or_gpu_give(gpu, cache->allocation);
    free(gpu->kv_block);
}

static bool take_slots(or_kv_sequence_t *sequence)
{
    void *at;
    bool taken = or_gpu_slots_take(gpu_of(sequence->cache), sequence->slots_max, &at);
    sequence->slot_bytes = at;
    return taken;
}

static void give_slots(or_kv_sequence_t *sequence)
{
    or_gpu_slots_give(gpu_of(sequence->cache), sequence->slots_max, sequence->slot_bytes);
}

static void copy_page(or_kv_cache_t *cache, uint32_t from, uint32_t to)
{
    or_gpu_t *gpu = gpu_of(cache);
    or_gpu_keep(gpu,
                gpu->functions->copy(gpu->cuda, cache->pages + to * cache->page_bytes,
                                     cache->pages + from * cache->page_bytes, cache->page_bytes));
}

// The path's tables begin with the page of position `length`.
static void move_slots(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    or_gpu_t *gpu = gpu_of(sequence->cache);
    if (count == 0) {
        return;
    }
    or_gpu_path_t path = or_gpu_tables_of_path(gpu, sequence, slots, count);
    or_gpu_keep(gpu, gpu->functions->accept(gpu->cuda, &gpu->kv, path.pages,
                                            sequence->length % OR_KV_PAGE, sequence->slot_bytes,
                                            sequence->slots_max, path.slots, count));
}

static uint8_t *block(const or_kv_cache_t *cache, uint32_t page, uint32_t index)
{
    or_gpu_t *gpu = gpu_of(cache);
    size_t bytes = cache->key_bytes + cache->value_bytes;
    const uint8_t *from = cache->pages + page * cache->page_bytes + index * bytes;
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, gpu->kv_block, from, bytes));
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    return gpu->kv_block;
}

or_kv_memory_t or_gpu_kv_memory(or_gpu_t *gpu)
{
    return (or_kv_memory_t){.owner = gpu,
                            .take_pages = take_pages,
                            .take_slots = take_slots,
                            .give_pages = give_pages,
                            .give_slots = give_slots,
                            .copy_page = copy_page,
                            .move_slots = move_slots,
                            .block = block};
}
