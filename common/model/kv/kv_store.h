// kv_store - how the numbers of K and V are kept: as F32, F16 or Q8_0 (kv_cache.h).
//
//     slot:       scales [ceil(head_dim / 32)]        numbers [head_dim]         one head's K or V of a node
//     K block:    scales [ceil(head_dim / 32)][32]    numbers [head_dim][32]     of a page, lanes are positions
//     V block:    scales [32][ceil(head_dim / 32)]    numbers [32][head_dim]     of a page, lanes are dimensions
//
// Only Q8_0 has scales. The definition, the same on every machine: F16 is round to nearest, ties to
// even, past the range infinite. In Q8_0 the scale of 32 numbers is their largest amount / 127 as an
// F16, a number is x / scale, to the nearest integer, ties to even, within -127 .. 127, and all are 0
// where the scale is; a NaN or an infinity shows in the scale. What is kept is never rounded again:
// accepting a node copies it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/model/kv/kv_cache.h"
#include "kernels/kernels.h"

// The K or V of one position and head, wherever it lies.
typedef struct {
    or_kv_type_t type;
    uint32_t head_dim;
    uint8_t *numbers;
    size_t step; // numbers from one dimension to the next
    uint16_t *scales;
    size_t scale_step;
} or_kv_vector_t;

// Return the bytes of a vector. A block has OR_KV_PAGE times as many.
size_t or_kv_vector_bytes(or_kv_type_t type, uint32_t head_dim);
// Bytes of a vector in a slot, which keep the floats behind it aligned.
static inline size_t or_kv_slot_vector_bytes(or_kv_type_t type, uint32_t head_dim)
{
    size_t bytes = or_kv_vector_bytes(type, head_dim);
    return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// Return the bytes of one page of a layer, all heads of it.
uint64_t or_kv_page_bytes_of(const or_kv_shape_t *shape, uint32_t layer);

// Return a view of the vector that `at` holds: of a slot, or of position `lane` in a K block or V block.
or_kv_vector_t or_kv_slot_vector(or_kv_type_t type, uint32_t head_dim, void *at);
or_kv_vector_t or_kv_key_vector(or_kv_type_t type, uint32_t head_dim, void *at, uint32_t lane);
or_kv_vector_t or_kv_value_vector(or_kv_type_t type, uint32_t head_dim, void *at, uint32_t lane);

// Round head_dim floats into a vector; copy one as it is, between views of the same type; read one back.
void or_kv_vector_write(const or_kv_vector_t *to, const float *x);
void or_kv_vector_copy(const or_kv_vector_t *from, const or_kv_vector_t *to);
void or_kv_vector_read(const or_kv_vector_t *from, float *x);

// Return a view of a K block or V block, to be read as it lies; the scales of Q8_0 are or will be in `scales`
// (or_kv_decode_scales).
or_kv_block_t or_kv_block_view(or_kv_type_t type, uint32_t head_dim, const void *at,
                               const float *scales);
// Write the scales of a block of Q8_0 as floats, in the order that they lie in: out [32 * or_kv_scales(head_dim)].
void or_kv_decode_scales(const or_kernels_t *kernels, uint32_t head_dim, const void *at,
                         float *out);

// A slot's vector, a K block or a V block as floats in the same order: out [head_dim],
// [head_dim][32], [32][head_dim].
void or_kv_decode_slot(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                       const void *at, float *out);
void or_kv_decode_keys(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                       const void *at, float *out);
void or_kv_decode_values(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                         const void *at, float *out);
