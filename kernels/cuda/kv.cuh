// kv - where K and V lie in device memory (drawn in cuda_kernels.h), as numbers of type T: float, or uint16_t
// for halves.
#pragma once

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#define PREFIX_ROW UINT32_MAX // the slot of one

// The K of a layer's head in a page, [head_dim][32], and V, [32][head_dim].
template <typename T>
OR_DEVICE T *page_keys(const or_cuda_kv_t *kv, uint32_t layer, uint32_t kv_head, uint32_t page)
{
    size_t index = ((size_t)page * kv->layers + layer) * kv->kv_heads + kv_head;
    return (T *)kv->pages + index * 2 * kv->head_dim * OR_KV_BLOCK;
}

template <typename T>
OR_DEVICE T *page_values(const or_cuda_kv_t *kv, uint32_t layer, uint32_t kv_head, uint32_t page)
{
    return page_keys<T>(kv, layer, kv_head, page) + (size_t)kv->head_dim * OR_KV_BLOCK;
}

// The K of a layer's head in a slot, [head_dim]; V follows. Slots follow each other.
template <typename T>
OR_DEVICE T *slot_keys(const or_cuda_kv_t *kv, void *slots, uint32_t slots_max, uint32_t layer,
                       uint32_t kv_head, uint32_t slot)
{
    size_t index = ((size_t)layer * kv->kv_heads + kv_head) * slots_max + slot;
    return (T *)slots + index * 2 * kv->head_dim;
}

OR_DEVICE float widen(float number)
{
    return number;
}

OR_DEVICE float widen(uint16_t half)
{
    return canonical_widen(half);
}
