// weights - matrices re-laid for the kernels, and the activations they are multiplied with.
//
//     file     [outputs][inputs]                 a row per output
//     panels   [panel][inputs][16 outputs]       F32, F16, BF16: the element type is kept
//              [panel][units]                    quantised types: blocks, or super-blocks of 8, of
//                                                each of 16 outputs (kernels/quants.h)
//     rows     [panel][16 outputs][inputs]       F16, BF16 for tensor cores (kernels/cuda/cuda_tensor.h)
//
// The last panel is padded with zeros. A rank holds a part of a matrix: some whole panels, or some
// of the inputs of all. Outputs, panels and inputs are numbered as in the whole matrix. But the rows
// that a part is multiplied with begin with the first input it holds, and its products with the
// first panel:
//
//     x   [inputs.begin .. inputs.end)            y   [panels.begin * 16 .. panels.end * 16)
//
// A tensor of three dimensions is as many matrices of one shape, experts, and all of it is one or_matrix_t. A rank holds
// the same part of each, one behind the other.
//
// Inputs of a quantised part are cut between blocks. Where that is inside a super-block, all of it is
// kept, and `first_block` says where the part begins. Matrices are immutable after packing: any thread.
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"
#include "common/model/cpu/workers.h"
#include "common/model/ranks/shards.h"
#include "kernels/kernels.h"

typedef struct {
    or_tensor_type_t type;
    bool quantised;
    or_quant_t quant;     // if quantised
    bool by_rows;         // not by panels
    uint32_t outputs;     // of the whole tensor
    or_span_t panels;     // those that are here
    or_span_t inputs;     // likewise; of whole blocks if quantised
    uint32_t first_block; // of the inputs, counted from where a panel begins
    size_t panel_bytes;   // from panel to panel
    size_t expert_bytes;  // from expert to expert
    uint32_t experts;     // matrices; 1 of a tensor of two dimensions
    size_t bytes;         // that are read of all of them
    bool borrowed; // `memory` is a packed file's, and may have gaps between panels and experts
    void *memory;  // owned, unless it is borrowed; NULL: nothing is here
    void *const *places; // [experts] where each is instead, or NULL; NULL: one behind the other
} or_matrix_t;

// Rows that matrices read: floats, and what quantised matrices take for them. Owns its buffers.
typedef struct {
    float *values; // [rows][stride]
    size_t stride;
    or_q8_block_t *blocks; // [rows][blocks_stride]; NULL: only floats are asked for
    size_t blocks_stride;
    uint32_t row_blocks; // that are used of blocks_stride
    size_t bytes;        // of all buffers
} or_activations_t;

// Return `count` times `size` zeroed bytes, aligned to a cache line. NULL if there is no memory or the product
// overflows. Free them with free(). A MiB or more takes memory only where it is written.
void *or_zeroed(size_t count, size_t size);

// Return the stride of rows that have room for `width` floats. It is whole panels, and an odd number of them, so that
// equal places of neighbouring rows do not compete for the same lines of a cache.
static inline size_t or_row_stride(size_t width)
{
    return ((width + OR_PANEL - 1) / OR_PANEL | 1) * OR_PANEL;
}

// Describe what or_matrix_pack will make, without its memory.
or_matrix_t or_matrix_describe(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs);
// Pack the panels that have some of these outputs, and of them these inputs. The tensor is of two or three dimensions and any
// or_tensor_type_t, or a part of one (matrix_stride). The workers share the panels. OR_ERR_NO_MEMORY.
or_status_t or_matrix_pack(or_workers_t *workers, const or_gguf_tensor_t *tensor, or_span_t outputs,
                           or_span_t inputs, or_matrix_t *matrix);
// The same of an F16 or BF16 tensor, by rows.
or_status_t or_matrix_pack_rows(or_workers_t *workers, const or_gguf_tensor_t *tensor,
                                or_span_t outputs, or_span_t inputs, or_matrix_t *matrix);
// Make the same matrix as or_matrix_pack from all panels of the tensor, as or_matrix_pack makes them of all outputs and
// inputs. The matrix borrows them. They stay as they are where a part is cut of them.
or_matrix_t or_matrix_map(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs,
                          const void *panels);
// Copy such a matrix into memory of its own, without gaps: as or_matrix_pack makes it. OR_ERR_NO_MEMORY.
or_status_t or_matrix_copy(or_workers_t *workers, const or_matrix_t *mapped, or_matrix_t *matrix);
void or_matrix_free(or_matrix_t *matrix);
// Return one of the experts as a matrix that borrows its memory. Where experts have places, it has one.
or_matrix_t or_matrix_expert(const or_matrix_t *matrix, uint32_t expert);

// Return the panels that have some of these outputs; no panels for no outputs.
or_span_t or_panels_of(or_span_t outputs);

// Return the place of an output of this matrix in a row of a product.
static inline size_t or_matrix_place(const or_matrix_t *matrix, uint32_t output)
{
    return output - (size_t)matrix->panels.begin * OR_PANEL;
}

// Take zeroed rows of `width` floats, and of equally many quants if `quantised`. OR_ERR_NO_MEMORY.
or_status_t or_activations_init(or_activations_t *activations, size_t rows, size_t width,
                                bool quantised);
void or_activations_fini(or_activations_t *activations);
// Quantise a row whose floats are written, if quants were asked for.
static inline void or_activations_quantise(const or_activations_t *activations,
                                           const or_kernels_t *kernels, size_t row)
{
    if (activations->blocks != NULL && activations->row_blocks > 0) {
        kernels->quantize_row(activations->values + row * activations->stride,
                              activations->row_blocks,
                              activations->blocks + row * activations->blocks_stride);
    }
}

// Read row `row` of a tensor [width, rows], of any or_tensor_type_t, as floats.
void or_tensor_read_row(const or_gguf_tensor_t *tensor, uint64_t row, uint32_t width, float *out);
// Set *quant to the kernels' name of a quantised type; return false if the type is not quantised.
bool or_tensor_quant(uint32_t type, or_quant_t *quant);
// All of or_tensor_type_t, for sentences.
#define OR_TENSOR_TYPES_TEXT                                                                       \
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, " \
    "MXFP4, IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS and IQ2_XXS"
