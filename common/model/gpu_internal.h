// gpu_internal - a model whose passes run on a device.
//
//     load     gpu.c (the device, and what moves there)  gpu_buffers.c (memory of a pass)  gpu_kv.c (pages and slots)
//     a pass   gpu_tables.c (what rows see, as kernels read it)  gpu_forward.c (the layers, the head)
//
// The host plans and the device computes: page tables, slots and epochs stay in kv_cache.c and pass.c. All
// work is asked for in order and nobody waits for it but who needs its results, so what went wrong
// may show later. The first such code is kept; nothing works after it.
#pragma once

#include "common/model/model_internal.h"

// Floats of scores that attention has at a time, for as many rows as they are enough, unless one row needs more:
// 32 MiB stay in the second cache of a large device.
#define OR_GPU_SCORES ((size_t)8 << 20)

// Numbers that the kernels of a pass look up. They are written on the host, at the same places as they then have
// on the device, and sent together.
typedef struct {
    uint8_t *host; // pinned
    uint8_t *device;
    size_t bytes;
    size_t used; // written
    size_t sent;
} or_gpu_tables_t;

// All pointers are to the device's memory unless said.
struct or_gpu {
    const or_gpu_functions_t *functions;
    or_cuda_t *cuda;
    uint32_t index;
    int status; // OR_CUDA_OK, or what went wrong first
    or_cuda_kv_t kv;
    or_kv_memory_t kv_memory;
    uint8_t *kv_block; // on the host: one K block and V block

    or_gpu_tables_t tables;
    const uint32_t *positions;  // [rows] of this pass, in the tables
    const or_cuda_seen_t *seen; // [rows] likewise
    uint32_t positions_max;     // that a row of this pass sees

    // Buffers of a pass, by the strides of or_model_t.
    float *x_host; // [rows_max][width_stride], pinned: rows of the embedding
    float *x;      // [rows_max][width_stride], the residual stream
    or_cuda_rows_t h;
    float *query; // [rows_max][query_stride]
    float *key;   // [rows_max][kv_stride]
    float *value; // [rows_max][kv_stride]
    or_cuda_rows_t attended;
    float *scores; // [scores_floats]
    size_t scores_floats;
    or_cuda_rows_t gate;
    float *up;     // [rows_max][ffn_stride]
    float *parts;  // [OR_SHARDS][rows_max][width_stride]
    float *logits; // [logits_rows][vocab_stride]; and as model->logits on the host, pinned
};

// ---- gpu.c ----

// The choice's device for the model, as model->gpu. OR_ERR_UNSUPPORTED without CUDA and for what is not done there;
// OR_ERR_NOT_FOUND; OR_ERR_IO.
or_status_t or_gpu_open(or_model_t *model, const or_gpu_choice_t *choice);
// What was taken must be given back before. *gpu_p may be NULL.
void or_gpu_close(or_gpu_t **gpu_p);
uint64_t or_gpu_free_bytes(const or_gpu_t *gpu);

// Keep the first code that is not OR_CUDA_OK.
void or_gpu_keep(or_gpu_t *gpu, int status);
// OR_ERR_IO, with its text, if there is one.
or_status_t or_gpu_check(const or_gpu_t *gpu);

// Zeroed memory of the device; memory of the host that it reads and writes, of any content. OR_ERR_NO_MEMORY:
// *at_p is then NULL.
or_status_t or_gpu_alloc(or_gpu_t *gpu, size_t bytes, void **at_p);
or_status_t or_gpu_alloc_pinned(or_gpu_t *gpu, size_t bytes, void **at_p);

// The model's numbers are where its passes run: on the device, or with gpu NULL on the host. Move what was made
// with malloc there; *numbers is NULL where there is no room. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_gpu_take(or_gpu_t *gpu, void **numbers, size_t bytes);
or_status_t or_gpu_take_floats(or_gpu_t *gpu, float **numbers, size_t count);
// Free such numbers. NULL is nothing.
void or_gpu_give(or_gpu_t *gpu, void *numbers);

// ---- gpu_buffers.c ----

// The memory of a pass; model->logits is on the host, where or_gpu_run_head leaves them. OR_ERR_NO_MEMORY; on
// failure or_gpu_buffers_free cleans up.
or_status_t or_gpu_buffers_create(or_model_t *model);
// Nothing without a GPU.
void or_gpu_buffers_free(or_model_t *model);

// ---- gpu_kv.c ----

// K and V in the device's memory.
or_kv_memory_t or_gpu_kv_memory(or_gpu_t *gpu);

// ---- gpu_tables.c ----

// Bytes for the tables of any pass of this model, and of any accepted path.
size_t or_gpu_tables_bytes(const or_model_t *model);
// Wait until nothing needs the tables and forget them.
void or_gpu_tables_clear(or_gpu_t *gpu);
// Write gpu->positions and gpu->seen of the planned rows, into tables that are clear, and send them.
void or_gpu_tables_of_pass(or_model_t *model, uint32_t rows);

// Of a sequence's pages those from position `length` on, and slots.
typedef struct {
    const uint32_t *pages;
    const uint32_t *slots;
} or_gpu_path_t;

// What moving `count` slots to the positions behind length looks up, sent; for a launch that is asked for now.
or_gpu_path_t or_gpu_tables_of_path(or_gpu_t *gpu, const or_kv_sequence_t *sequence,
                                    const uint32_t *slots, uint32_t count);

// ---- gpu_forward.c ----

// All layers of the planned rows, whose activations for the head stay on the device. OR_ERR_IO.
or_status_t or_gpu_run_layers(or_model_t *model, uint32_t rows);
// The head of rows first .. first + rows - 1, at most OR_LOGITS_ROWS, into model->logits. OR_ERR_IO.
or_status_t or_gpu_run_head(or_model_t *model, uint32_t first, uint32_t rows);
