// gpu_internal - a model whose passes run on a device.
//
//     load     gpu.c (the device, and what moves there)  gpu_buffers.c (memory of a pass)  gpu_kv.c (pages)  gpu_slots.c
//              gpu_layers.c (layers that are away)  gpu_tensor.c (tensor cores, if they are asked for)
//     a pass   gpu_tables.c (what rows see, as kernels read it)  gpu_forward.c (the layers, the head)
//              gpu_steps.c (launches that are recorded and replayed)
//              gpu_products.c (matrices times rows)  gpu_ranks.c (what travels to other ranks, and back)
//              gpu_peers.c (whether that needs the host)
//     a token  gpu_contenders.c (who may be next)  gpu_rejection.c (what of a drawn tree is accepted)
//     a tree   gpu_growth.c (all its passes without a word to the host)  gpu_growth_memory.c  gpu_embedding.c
//
// The host plans and the device computes: page tables, slots and epochs stay in kv_cache.c and pass.c. All
// work is asked for in order and nobody waits for it but who needs its results, so what went wrong
// may show later. The first such code is kept; nothing works after it.
#pragma once

#include "common/model/gpu/gpu_growth.h"
#include "common/model/gpu/gpu_layers.h"
#include "common/model/gpu/gpu_slots.h"
#include "common/model/gpu/gpu_steps.h"
#include "common/model/model_draws.h"
#include "common/model/model_internal.h"

// Floats of scores that attention has at a time, for as many rows as they are enough, unless one row needs more:
// 32 MiB stay in the second cache of a large device.
#define OR_GPU_SCORES ((size_t)8 << 20)

#define OR_GPU_SUMS 240u // bytes

// Numbers that the kernels of a pass look up. They are written on the host, at the same places as they then have
// on the device, and sent together.
typedef struct {
    uint8_t *host; // pinned
    uint8_t *device;
    size_t bytes;
    size_t used; // written
    size_t sent;
} or_gpu_tables_t;

// What contests are made of, for OR_LOGITS_ROWS rows at a time.
typedef struct {
    uint32_t vocab_size; // tokens that take part; 0: their keys are not here yet
    void *keys;          // [vocab_size of the model] of the noise
    void *asked;         // [rows] or_cuda_contest_t
    void *scratch;
    void *results;                 // of both that follow
    uint32_t *counts;              // [rows]
    or_cuda_contender_t *lists;    // [rows][OR_CUDA_CONTENDERS_MAX]
    or_cuda_contest_t *asked_host; // pinned
    uint8_t *results_host;         // pinned
    int32_t *ids;   // [rows][OR_CUDA_CONTENDERS_MAX] of the last distributions, on the host
    double *scores; // likewise
} or_gpu_contests_t;

// All pointers are to the device's memory unless said.
struct or_gpu {
    const or_gpu_functions_t *functions;
    or_cuda_t *cuda;
    uint32_t index;
    uint64_t opened_with; // bytes of it that were free then
    int status;           // OR_CUDA_OK, or what went wrong first
    or_cuda_kv_t kv;
    or_kv_memory_t kv_memory;
    uint8_t *kv_block; // on the host: one K block and V block
    or_gpu_slots_t slots;
    or_gpu_layers_t layers;
    or_cuda_tensor_t *tensor;     // NULL: all arithmetic is canonical
    or_tensor_type_t tensor_type; // of the weights that it multiplies

    or_gpu_tables_t tables;
    const uint32_t *positions;  // [rows] of this pass, in the tables
    const or_cuda_seen_t *seen; // [rows] likewise
    const int32_t *tokens;      // [rows] likewise
    uint32_t positions_max;     // room for all that a row of this pass sees (or_gpu_steps_round)
    or_gpu_steps_t steps;
    const or_matrix_t *embedding; // panels of floats: the head, or the copy; NULL: it is not here
    or_matrix_t embedding_copy;
    or_gpu_growth_t growth;
    bool growth_tried; // its memory was asked for: once, whatever came of it

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
    float *up; // [rows_max][ffn_stride]
    // [this rank's shards][rows_max][width_stride]; products' rows are whole tiles (or_gpu_tensor_tiles)
    float *parts;
    // [logits_rows][vocab_stride]; and as model->logits on the host, pinned; last stage
    float *logits;

    // NULL where there are no other ranks, or stages.
    float *gathered; // as model->gathered, which is then pinned; or what peers gather
    float *passed;   // on the host, pinned: [rows_max][width_stride], x on its way between stages
    or_cuda_peers_t *peers; // NULL too: sums go by way of the host
    char sums[OR_GPU_SUMS]; // how they go, and why (or_model_sums)

    uint64_t whole_rows; // of logits that came to the host so far
    or_gpu_contests_t contests;
};

// ---- gpu.c ----

// The choice's device for the model, as model->gpu. OR_ERR_UNSUPPORTED without CUDA and for what is not done there;
// OR_ERR_NOT_FOUND: no such GPU, or it cannot be used.
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
// or_gpu_alloc, and counted with the model's buffers.
or_status_t or_gpu_alloc_buffer(or_model_t *model, size_t bytes, void **at_p);
void or_gpu_free_pinned(or_gpu_t *gpu, void *at); // NULL is nothing

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

// ---- gpu_contenders.c ----

// The memory of contests (model_draws.h), if the model is alone. OR_ERR_NO_MEMORY; on failure or_gpu_contests_free cleans up.
or_status_t or_gpu_contests_create(or_model_t *model);
void or_gpu_contests_free(or_gpu_t *gpu);

// A contest as the device has it.
or_cuda_contest_t or_gpu_contest_of(const or_contest_t *contest);
// Contenders of the first rows of gpu->logits, by contests on the device, into counts and lists.
void or_gpu_find_contenders(or_model_t *model, const or_cuda_contest_t *contests, uint32_t rows);
// A list as a distribution over ids and scores, which have room for it. May change the list's order.
or_distribution_t or_gpu_distribution_of(const or_gpu_t *gpu, const or_sampling_t *sampling,
                                         or_cuda_contender_t *list, uint32_t count, int32_t *ids,
                                         double *scores);

// ---- gpu_embedding.c ----

// A copy of the embedding on the device, if gpu->embedding is NULL and a quarter of the free memory is enough for it;
// else it stays NULL. OR_ERR_IO.
or_status_t or_gpu_embedding_copy(or_model_t *model);
// The copy, if there is one: gpu->embedding is NULL then.
void or_gpu_embedding_free(or_gpu_t *gpu);

// ---- gpu_tensor.c ----

// Tensor cores for the model's products. OR_ERR_UNSUPPORTED for a model that has nothing for them; OR_ERR_IO.
or_status_t or_gpu_tensor_open(or_model_t *model);
void or_gpu_tensor_close(or_gpu_t *gpu);
// Do they multiply this tensor? gpu may be NULL.
bool or_gpu_tensor_takes(const or_gpu_t *gpu, const or_gguf_tensor_t *tensor);
// Rows for which a product writes, and reads, when it has `rows`; and what buffers of rows need room for.
size_t or_gpu_tensor_tiles(const or_gpu_t *gpu, size_t rows);
size_t or_gpu_tensor_room(const or_gpu_t *gpu, size_t rows);
// Buffers' rows as they are from row `first` on.
or_cuda_rows_t or_gpu_rows_from(const or_cuda_rows_t *rows, size_t first);
// "canonical-1", or the name of the tensor cores' arithmetic. model->gpu may be NULL.
void or_gpu_name_arithmetic(const or_model_t *model, char *name, size_t bytes);

// ---- gpu_products.c ----

// With tensor cores: have algorithms for all products of passes chosen, which takes memory for the largest matrix, of
// all ranks', for a moment. After or_tensors_load, before room is counted. OR_ERR_IO.
or_status_t or_gpu_prepare_products(or_model_t *model);
// y = matrix * x over all inputs.
void or_gpu_project(or_model_t *model, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    uint32_t rows, float *y, size_t y_stride);
// model->gpu->x += matrix * from, cut into shards along the inputs, which come in units of unit_size; those of
// all ranks. OR_ERR_IO, or why another rank is not heard.
or_status_t or_gpu_add_projection(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                                  uint32_t unit_size, const or_cuda_rows_t *from, uint32_t rows);

// ---- gpu_peers.c ----

// model->gpu->peers, if the group's ranks all have GPUs of their own and NCCL and none declines. Collective, also for ranks
// on the CPU. Why another rank is not heard.
or_status_t or_gpu_peers_create(or_model_t *model, bool declines);
// With peers, when the leader has said that it is over: until nobody's device takes from this one any more. Nothing without.
void or_gpu_peers_end(or_model_t *model);

// ---- gpu_ranks.c ----

// The memory for it, if there are other ranks. OR_ERR_NO_MEMORY; on failure or_gpu_ranks_free cleans up.
or_status_t or_gpu_ranks_create(or_model_t *model);
void or_gpu_ranks_free(or_model_t *model);

// Several ranks: model->gpu->x += the sum of all ranks' parts, of which this one's are at model->gpu->parts, part_stride
// floats apart, and are written over. OR_ERR_IO, or why another rank is not heard.
or_status_t or_gpu_add_ranks(or_model_t *model, size_t part_stride, uint32_t rows);
// With peers: until what the device was asked for is done, as long as others may take. Nothing without.
void or_gpu_wait_for_peers(or_model_t *model);
// Several stages: model->gpu->x from the stage before, and to the next. As above.
or_status_t or_gpu_take_over(or_model_t *model, uint32_t rows);
or_status_t or_gpu_pass_on(or_model_t *model, uint32_t rows);
// Does a pass say nothing to other ranks that a recording could not? Then have all of them recorded the same, where
// this one has, or not: which is the same for all, as they record and replay together.
bool or_gpu_ranks_can_record(const or_model_t *model);
bool or_gpu_ranks_have_recorded(or_model_t *model, bool recorded);

// Has the head, as floats, all that the embedding would be read for? After the load of tensors.
bool or_gpu_head_embeds(const or_model_t *model);
// x = the embedding of the pass's tokens, where gpu->embedding is not NULL.
void or_gpu_embed(or_model_t *model, uint32_t rows);

// ---- gpu_forward.c ----

// All layers of the planned rows, whose activations for the head stay on the device. OR_ERR_IO.
or_status_t or_gpu_run_layers(or_model_t *model, uint32_t rows);
// The launches of x's way through all layers: for gpu->positions, seen and positions_max, x being there.
or_status_t or_gpu_launch_layers(or_model_t *model, uint32_t rows);
// The head of rows first .. first + rows - 1 into logits [rows][vocab_stride], which have room for whole tiles
// (or_gpu_tensor_room). The same of at most OR_LOGITS_ROWS rows, into gpu->logits; and into model->logits as well. OR_ERR_IO.
void or_gpu_multiply_head_to(or_model_t *model, uint32_t first, uint32_t rows, float *logits);
void or_gpu_multiply_head(or_model_t *model, uint32_t first, uint32_t rows);
or_status_t or_gpu_run_head(or_model_t *model, uint32_t first, uint32_t rows);
