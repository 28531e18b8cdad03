// cuda_kernels - the arithmetic of the forward pass on a GPU, in canonical arithmetic: the same bits as every
// table of kernels.h.
//
// Lanes are given to outputs, never to K, as on the CPU, so a row's bits depend on its own inputs only: not on the
// batch, and not on the kind of processor. A model of quantised weights writes the same text on a GPU and on a
// CPU. Tensor cores multiply the integers of a block (16 outputs x 8 rows x 32 weights, exactly); chains of
// floats are in the order of kernels.h.
//
// All pointers are to device memory (or_cuda_alloc) unless said; strides count elements; buffers do not overlap
// unless said. Rows, and widths, may be 0. All are asked for on the device's stream (cuda_device.h) and return
// OR_CUDA_OK, or why they could not be launched.
#pragma once

#include <stdbool.h>

#include "kernels/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/kernels.h"

// ---- rows of floats ----

// Rows of floats, and what quantised matrices read of them: with `blocks` not NULL whoever writes a row writes these
// as well (quantize_row of kernels.h), of ceil(width / 32) blocks a row; the floats behind the width in the last block are 0.
typedef struct {
    float *values;
    size_t stride;
    or_q8_block_t *blocks;
    size_t blocks_stride;
} or_cuda_rows_t;

// to = rmsnorm(x) of `rows` rows of n floats; to->values may be x.
int or_cuda_rmsnorm(or_cuda_t *cuda, const float *x, size_t x_stride, const float *weight,
                    uint32_t n, float eps, uint32_t rows, const or_cuda_rows_t *to);
// Rotate heads that lie one after the other in each row, by row r's position: cosine and sine [context][head_dim / 2].
int or_cuda_rope(or_cuda_t *cuda, bool halves, float *x, size_t x_stride, uint32_t heads,
                 uint32_t head_dim, const float *cosine, const float *sine,
                 const uint32_t *positions, uint32_t rows);
// gate = swiglu(gate, up), in place.
int or_cuda_swiglu(or_cuda_t *cuda, const or_cuda_rows_t *gate, const float *up, size_t up_stride,
                   uint32_t n, uint32_t rows);
// y += x. With x_stride 0 it is the same x, a bias, in every row.
int or_cuda_add(or_cuda_t *cuda, float *y, size_t y_stride, const float *x, size_t x_stride,
                uint32_t n, uint32_t rows);
// Only the blocks of rows that are there.
int or_cuda_quantize(or_cuda_t *cuda, const or_cuda_rows_t *x, uint32_t n, uint32_t rows);
// y += ((p0 + p1) + (p2 + p3)) + ... over `count` (1, 2, 4 or 8) parts, `part_stride` floats apart, each
// [rows][p_stride].
int or_cuda_add_parts(or_cuda_t *cuda, float *y, size_t y_stride, const float *parts,
                      size_t part_stride, size_t p_stride, uint32_t count, uint32_t n,
                      uint32_t rows);

// ---- products ----

#define OR_CUDA_SPANS_MAX 8u

// Inputs that are summed together: of a quantised matrix counted in blocks of 32 from where its panels begin.
typedef struct {
    uint32_t first;
    uint32_t count; // 0: the product is +0
} or_cuda_span_t;

// Parts of the same panels' product, one for each of 1 to OR_CUDA_SPANS_MAX spans: part s is y + s * part_stride.
typedef struct {
    const or_cuda_span_t *spans; // on the host, read before the call returns
    uint32_t count;
    uint32_t x_first; // where the rows of x begin, counted as spans are
    float *y;         // [rows][y_stride], 16 floats for each panel
    size_t y_stride;
    size_t part_stride;
} or_cuda_parts_t;

// matmul_quants of kernels.h. `panels` are as or_quant_pack writes them, each at a multiple of 8 bytes.
int or_cuda_matmul_quants(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                          uint32_t panel_count, const or_q8_block_t *x, size_t x_stride,
                          uint32_t rows, const or_cuda_parts_t *to);

typedef enum { OR_CUDA_F32, OR_CUDA_F16, OR_CUDA_BF16 } or_cuda_float_t;

// matmul_f32, matmul_f16 and matmul_bf16 of kernels.h: panels [panel][k][16], panel_stride elements apart, each
// aligned to 16 bytes.
int or_cuda_matmul_floats(or_cuda_t *cuda, or_cuda_float_t type, const void *panels,
                          size_t panel_stride, uint32_t panel_count, const float *x,
                          size_t x_stride, uint32_t rows, const or_cuda_parts_t *to);

// x = rows of a table of floats [tokens][width], widened exactly: row r is that of tokens[r], which must be in it.
int or_cuda_embed(or_cuda_t *cuda, or_cuda_float_t type, const void *table, uint32_t width,
                  const int32_t *tokens, uint32_t rows, float *x, size_t x_stride);

// ---- keys and values ----

// Pages and slots hold what those of common/model/kv_cache_internal.h do, as floats or halves:
//
//     page    [layer][kv head] { K [head_dim][32]   V [32][head_dim] }
//     slots   [layer][kv head][slot] { K [head_dim]   V [head_dim] }          of a sequence
typedef struct {
    or_cuda_float_t type; // OR_CUDA_F32, or OR_CUDA_F16: rounded to nearest even when it is stored
    uint32_t layers;
    uint32_t kv_heads;
    uint32_t head_dim;
    void *pages;
} or_cuda_kv_t;

// What a row of a pass sees: positions 0 .. committed - 1 of its sequence's pages, and then, of a tree row, the slots
// of its ancestors in the order of their positions, itself the last. A prefix row's own position is committed.
typedef struct {
    const uint32_t *pages; // page numbers of the sequence
    uint32_t committed;
    uint32_t position; // its own
    void *slots;       // of its sequence
    uint32_t slots_max;
    uint32_t slot;         // its own; UINT32_MAX: a prefix row
    const uint32_t *chain; // [chain_count] slots
    uint32_t chain_count;  // 0 of a prefix row
} or_cuda_seen_t;

// Store a layer's K and V of the rows, [rows][stride] with the heads side by side, where `seen` [rows] says.
int or_cuda_store_kv(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                     const or_cuda_seen_t *seen, uint32_t rows, const float *key,
                     const float *value, size_t stride);

#define OR_CUDA_GROUP_MAX 16u // query heads that share a KV head, at most

// Attention of rows whose K and V are stored: query [rows][query_stride] with `heads` heads side by side, of which each
// heads / kv_heads share a KV head -> to. `scale` multiplies scores. `scores` is room for rows * heads * scores_stride
// floats; no row sees more than scores_stride positions. Canonical: chains over positions in order, softmax
// over all of them.
int or_cuda_attention(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                      const or_cuda_seen_t *seen, uint32_t rows, const float *query,
                      size_t query_stride, uint32_t heads, float scale, float *scores,
                      size_t scores_stride, const or_cuda_rows_t *to);

// Accepted nodes: of all layers and heads, slot from[i] becomes position `position` + i of the sequence with these page
// numbers; `from` is in device memory.
int or_cuda_accept(or_cuda_t *cuda, const or_cuda_kv_t *kv, const uint32_t *pages,
                   uint32_t position, const void *slots, uint32_t slots_max, const uint32_t *from,
                   uint32_t count);
// Bytes of a page, of all layers and heads; of a sequence's slots.
size_t or_cuda_page_bytes(const or_cuda_kv_t *kv);
size_t or_cuda_slots_bytes(const or_cuda_kv_t *kv, uint32_t slots_max);

#ifdef __cplusplus
}
#endif
