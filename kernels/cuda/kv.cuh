// kv - where K and V lie in device memory (drawn in cuda_kernels.h), as numbers of type T. It is float, uint16_t for
// halves, or int8_t for the integers of Q8_0, which have a scale beside them.
#pragma once

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#define PREFIX_ROW UINT32_MAX // the slot of one

typedef enum { KEYS, VALUES, SIDES } side_t;

CANONICAL or_cuda_kv_type_t type_of(const or_cuda_kv_t *kv, side_t side)
{
    return side == KEYS ? kv->key_type : kv->value_type;
}

// ---- sizes ----

// Scales of a vector, which is one head's K or V of a position.
CANONICAL size_t scales_of(const or_cuda_kv_t *kv, side_t side)
{
    return type_of(kv, side) == OR_CUDA_KV_Q8_0
               ? (kv->head_dim + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK
               : 0;
}

CANONICAL size_t number_bytes(or_cuda_kv_type_t type)
{
    return type == OR_CUDA_KV_F32   ? sizeof(float)
           : type == OR_CUDA_KV_F16 ? sizeof(uint16_t)
                                    : sizeof(int8_t);
}

CANONICAL size_t vector_bytes(const or_cuda_kv_t *kv, side_t side)
{
    return scales_of(kv, side) * sizeof(uint16_t) + kv->head_dim * number_bytes(type_of(kv, side));
}

// Return the bytes of a vector in a slot, which keep the floats behind it aligned.
CANONICAL size_t slot_vector_bytes(const or_cuda_kv_t *kv, side_t side)
{
    return (vector_bytes(kv, side) + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// Return the bytes of a page and of a slot, of all layers.
CANONICAL size_t page_bytes_of(const or_cuda_kv_t *kv)
{
    size_t position = vector_bytes(kv, KEYS) + vector_bytes(kv, VALUES);
    return kv->page_bytes > 0 ? kv->page_bytes
                              : (size_t)kv->layers * kv->kv_heads * position * OR_KV_BLOCK;
}

CANONICAL size_t slot_bytes_of(const or_cuda_kv_t *kv)
{
    size_t slot = slot_vector_bytes(kv, KEYS) + slot_vector_bytes(kv, VALUES);
    return kv->slot_bytes > 0 ? kv->slot_bytes : (size_t)kv->layers * kv->kv_heads * slot;
}

// The same with the bytes of a page said, as page_vector wants it.
static inline or_cuda_kv_t with_page_bytes(const or_cuda_kv_t *kv)
{
    or_cuda_kv_t said = *kv;
    said.page_bytes = page_bytes_of(kv);
    return said;
}

// ---- places ----

// Return the numbers by which the layers that `kv` describes find a sequence's positions.
CANONICAL const uint32_t *pages_of(const or_cuda_kv_t *kv, const or_cuda_page_table_t *table)
{
    return kv->in_frames ? table->frames : table->pages;
}

template <typename T> struct vector_t {
    T *numbers;
    size_t step; // from one dimension's to the next one's
    uint16_t *scales;
    size_t scale_step;
};

// Return a layer's head at the position that has this lane of a page; kv->page_bytes must be said.
template <typename T>
OR_DEVICE vector_t<T> page_vector(const or_cuda_kv_t *kv, side_t side, uint32_t layer,
                                  uint32_t kv_head, uint32_t page, uint32_t lane)
{
    size_t index = (size_t)layer * kv->kv_heads + kv_head;
    size_t key_bytes = vector_bytes(kv, KEYS);
    size_t bytes = index * (key_bytes + vector_bytes(kv, VALUES));
    bytes += side == VALUES ? key_bytes : 0;
    bytes = page * kv->page_bytes + bytes * OR_KV_BLOCK;
    size_t count = scales_of(kv, side);
    uint16_t *scales = (uint16_t *)((uint8_t *)kv->pages + bytes);
    T *numbers = (T *)(scales + count * OR_KV_BLOCK);
    if (side == KEYS) {
        return {numbers + lane, OR_KV_BLOCK, scales + lane, OR_KV_BLOCK};
    }
    return {numbers + (size_t)lane * kv->head_dim, 1, scales + lane * count, 1};
}

template <typename T>
OR_DEVICE vector_t<T> slot_vector(const or_cuda_kv_t *kv, side_t side, uint32_t layer,
                                  uint32_t kv_head, void *slots, uint32_t slots_max, uint32_t slot)
{
    size_t index = ((size_t)layer * kv->kv_heads + kv_head) * slots_max + slot;
    size_t key_bytes = slot_vector_bytes(kv, KEYS);
    size_t bytes = index * (key_bytes + slot_vector_bytes(kv, VALUES));
    bytes += side == VALUES ? key_bytes : 0;
    bytes += kv->slot_before * slots_max;
    uint16_t *scales = (uint16_t *)((uint8_t *)slots + bytes);
    return {(T *)(scales + scales_of(kv, side)), 1, scales, 1};
}

// ---- numbers ----

template <typename T> constexpr bool HAS_SCALES = sizeof(T) == sizeof(int8_t);

// The scale of dimension d, which it shares with the others of its 32.
template <typename T> OR_DEVICE uint16_t scale_at(const vector_t<T> *vector, uint32_t d)
{
    return HAS_SCALES<T> ? vector->scales[d / OR_QUANT_BLOCK * vector->scale_step] : 0;
}

OR_DEVICE float widen(float number, uint16_t scale)
{
    (void)scale;
    return number;
}

OR_DEVICE float widen(uint16_t half, uint16_t scale)
{
    (void)scale;
    return or_widen_half(half);
}

OR_DEVICE float widen(int8_t quant, uint16_t scale)
{
    return or_widen_half(scale) * (float)quant;
}
