// Keeping K and V: what a pass computes goes into pages and slots, and what is accepted from slots into pages.
#include "kernels/cuda/kv.cuh"

#include <assert.h>

#define THREADS 128u

static size_t number_bytes(or_cuda_float_t type)
{
    assert(type == OR_CUDA_F32 || type == OR_CUDA_F16);
    return type == OR_CUDA_F32 ? sizeof(float) : sizeof(uint16_t);
}

// K and V of one position, of all layers and heads.
static size_t position_bytes(const or_cuda_kv_t *kv)
{
    return (size_t)kv->layers * kv->kv_heads * kv->head_dim * 2 * number_bytes(kv->type);
}

size_t or_cuda_page_bytes(const or_cuda_kv_t *kv)
{
    return position_bytes(kv) * OR_KV_BLOCK;
}

size_t or_cuda_slots_bytes(const or_cuda_kv_t *kv, uint32_t slots_max)
{
    return position_bytes(kv) * slots_max;
}

// Where dimension 0 of one head's K and V of a position lies, and how far K's next one is; V's are neighbours.
template <typename T> struct place_t {
    T *key;
    size_t key_step;
    T *value;
};

template <typename T>
OR_DEVICE place_t<T> place_in_page(const or_cuda_kv_t *kv, uint32_t layer, uint32_t kv_head,
                                   const uint32_t *pages, uint32_t position)
{
    uint32_t page = pages[position / OR_KV_BLOCK];
    uint32_t lane = position % OR_KV_BLOCK;
    return {page_keys<T>(kv, layer, kv_head, page) + lane, OR_KV_BLOCK,
            page_values<T>(kv, layer, kv_head, page) + (size_t)lane * kv->head_dim};
}

template <typename T>
OR_DEVICE place_t<T> place_in_slot(const or_cuda_kv_t *kv, uint32_t layer, uint32_t kv_head,
                                   void *slots, uint32_t slots_max, uint32_t slot)
{
    T *key = slot_keys<T>(kv, slots, slots_max, layer, kv_head, slot);
    return {key, 1, key + kv->head_dim};
}

OR_DEVICE void write_number(float *to, float x)
{
    *to = x;
}

OR_DEVICE void write_number(uint16_t *to, float x)
{
    *to = canonical_narrow(x);
}

// ---- storing ----

// A thread for each number of a row's K, and of its V.
template <typename T>
OR_GLOBAL void store_rows(or_cuda_kv_t kv, uint32_t layer, const or_cuda_seen_t *seen,
                          const float *key, const float *value, size_t stride)
{
    uint32_t i = blockIdx.y * THREADS + threadIdx.x;
    if (i >= kv.kv_heads * kv.head_dim) {
        return;
    }
    uint32_t kv_head = i / kv.head_dim;
    uint32_t d = i % kv.head_dim;
    const or_cuda_seen_t *row = &seen[blockIdx.x];
    place_t<T> place =
        row->slot == PREFIX_ROW
            ? place_in_page<T>(&kv, layer, kv_head, row->pages, row->position)
            : place_in_slot<T>(&kv, layer, kv_head, row->slots, row->slots_max, row->slot);
    write_number(place.key + d * place.key_step, key[blockIdx.x * stride + i]);
    write_number(place.value + d, value[blockIdx.x * stride + i]);
}

int or_cuda_store_kv(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                     const or_cuda_seen_t *seen, uint32_t rows, const float *key,
                     const float *value, size_t stride)
{
    uint32_t width = kv->kv_heads * kv->head_dim;
    if (rows == 0 || width == 0) {
        return OR_CUDA_OK;
    }
    dim3 grid(rows, (width - 1) / THREADS + 1);
    if (kv->type == OR_CUDA_F32) {
        return or_launch(cuda, store_rows<float>, grid, dim3(THREADS), 0, *kv, layer, seen, key,
                         value, stride);
    }
    return or_launch(cuda, store_rows<uint16_t>, grid, dim3(THREADS), 0, *kv, layer, seen, key,
                     value, stride);
}

// ---- accepting ----

// A thread block for each accepted node, layer and head. Numbers are copied as they are.
template <typename T>
OR_GLOBAL void accept_slots(or_cuda_kv_t kv, const uint32_t *pages, uint32_t position, void *slots,
                            uint32_t slots_max, const uint32_t *accepted)
{
    uint32_t layer = blockIdx.y;
    uint32_t kv_head = blockIdx.z;
    place_t<T> from = place_in_slot<T>(&kv, layer, kv_head, slots, slots_max, accepted[blockIdx.x]);
    place_t<T> to = place_in_page<T>(&kv, layer, kv_head, pages, position + blockIdx.x);
    for (uint32_t d = threadIdx.x; d < kv.head_dim; d += THREADS) {
        to.key[d * to.key_step] = from.key[d];
        to.value[d] = from.value[d];
    }
}

int or_cuda_accept(or_cuda_t *cuda, const or_cuda_kv_t *kv, const uint32_t *pages,
                   uint32_t position, const void *slots, uint32_t slots_max, const uint32_t *from,
                   uint32_t count)
{
    if (count == 0 || kv->layers == 0 || kv->kv_heads == 0) {
        return OR_CUDA_OK;
    }
    dim3 grid(count, kv->layers, kv->kv_heads);
    void *read = (void *)slots; // as the way to a slot is the same for who writes
    if (kv->type == OR_CUDA_F32) {
        return or_launch(cuda, accept_slots<float>, grid, dim3(THREADS), 0, *kv, pages, position,
                         read, slots_max, from);
    }
    return or_launch(cuda, accept_slots<uint16_t>, grid, dim3(THREADS), 0, *kv, pages, position,
                     read, slots_max, from);
}
