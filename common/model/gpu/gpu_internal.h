// gpu_internal - a model whose passes run on a device.
//
//     load     gpu_open.c (the device)  gpu.c (its errors, and what moves there)  gpu_buffers.c (memory of passes and trees)
//              gpu_layers.c (layers that are away)
//     a pass   gpu_kv.c (pages, slots, and the tables by which kernels find them)  gpu_products.c (matrices)
//              gpu_ops.c (a layer's operations) gpu_attention.c  gpu_latent.c  gpu_experts.c  gpu_inputs.c (layer_inputs.h)
//              gpu_forward.c (the layers, the head)
//              gpu_steps.c (launches that are recorded and replayed)
//              gpu_ranks.c (what travels to other ranks, and whether that needs the host)
//     a tree   gpu_growth.c (contenders of a row; all passes of a tree without a word to the host)
//              gpu_rejection.c (what of a drawn tree is accepted)
//
// The host plans and the device computes: page tables, slots and epochs stay in kv_cache.c and pass.c. All work is
// launched in order, and only those who need its results wait for it, so an error may show later. The first error is
// kept, and nothing works after it.
#pragma once

#include "common/model/gpu/gpu_growth.h"
#include "common/model/gpu/gpu_layers.h"
#include "common/model/gpu/gpu_steps.h"
#include "common/model/model_draws.h"
#include "common/model/model_internal.h"

// The floats of scores and sums that attention has at a time, for as many rows as fit, unless one row needs more. 32 MiB stay
// in the second-level cache of a large device.
#define OR_GPU_SCORES ((size_t)8 << 20)

#define OR_GPU_SUMS 240u // bytes

// A device's memory for the slots of sequences. When a sequence closes its part is kept for the next one.
//
// Taking memory from a device and freeing it both stop its work. So a sequence's part is kept for the next sequence
// that wants as much. If memory was reserved at load, all of it is taken then, and never more.
//
//     reserve 4 x 1,024     kept  # # # #
//     open, open            kept  # #         taken without a word to the device
//     close                 kept  # # #
typedef struct {
    size_t bytes;  // of a part, for one sequence
    void **parts;  // [room]
    uint32_t kept; // of them, the others are in use
    uint32_t room;
    bool reserved;
} or_gpu_slots_t;

// The tables that the kernels of a pass read. They are written on the host, at the same places as they then have on
// the device, and sent together.
typedef struct {
    uint8_t *host; // pinned
    uint8_t *device;
    size_t bytes;
    size_t used; // written
    size_t sent;
} or_gpu_tables_t;

// The memory of contests, for OR_LOGITS_ROWS rows at a time. The results are counts [OR_LOGITS_ROWS], and behind them
// lists [rows][OR_CUDA_CONTENDERS_MAX].
#define OR_GPU_COUNTS_BYTES (OR_LOGITS_ROWS * sizeof(uint32_t))
#define OR_GPU_LIST_BYTES (OR_CUDA_CONTENDERS_MAX * sizeof(or_cuda_contender_t))
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

// What experts need besides gate and up, which have a row for each entry (kernels/cuda/cuda_experts.h). All is in the
// device's memory, and NULL of a model without experts.
typedef struct {
    uint32_t rows_max; // that are computed together
    size_t logits_stride;
    float *logits;             // [rows_max of the model][logits_stride]
    uint32_t *chosen;          // [rows_max of the model][used]
    float *weights;            // likewise
    uint32_t *taken;           // [layers] experts that the last pass took
    or_cuda_entries_t entries; // of rows that are computed together
    or_cuda_rows_t h;          // of entries
    float *products;           // [this rank's shards][entries][width_stride]
    // The expert that all rows take, or the FFN of a layer without experts; of all rows of a pass.
    or_cuda_rows_t shared_gate;
    float *shared_up;      // [rows_max of the model][shared_gate.stride]
    float *shared_weights; // [rows_max of the model]
} or_gpu_experts_t;

// What layers get of a token besides (layer_inputs.h). Zeroed where they get nothing.
typedef struct {
    size_t stride;       // of `values`, from the projection's first panel on
    float *values;       // [rows_max][stride], the inputs of a pass
    float *tokens;       // [rows_max][all layers * size], scaled rows of the second embedding
    float *tokens_host;  // likewise, pinned
    or_cuda_rows_t gate; // [rows_max][size] of the layer that is computed
} or_gpu_inputs_t;

// What latent attention needs besides query, key, value and attended (cpu/latent.h). Zeroed in models without.
typedef struct {
    or_cuda_rows_t query_latent; // [rows_max][query_latent], of files that have it
    size_t heads_stride;
    float *heads;           // [rows_max][heads_stride]
    or_cuda_rows_t entries; // [heads here * rows_max][the longer of plain and latent]
    size_t raised_stride;
    float *raised;           // [heads here * rows_max][raised_stride] products of entries
    or_cuda_rows_t sums;     // [rows_max][heads here * head_dim]
    or_cuda_group_t *groups; // [heads here] the entries of each
} or_gpu_latent_t;

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
    // [rows_max][width_stride], pinned: rows of the embedding; of a model with learned positions as many more behind them
    float *x_host;
    float *x; // [rows_max][width_stride], the residual stream
    or_cuda_rows_t h;
    float *query; // [rows_max][query_stride]
    float *key;   // [rows_max][kv_stride]
    float *value; // [rows_max][kv_stride]
    or_cuda_rows_t attended;
    float *scores; // [scores_floats]
    size_t scores_floats;
    or_cuda_rows_t gate;
    float *up; // [rows_max][ffn_stride]
    or_gpu_experts_t experts;
    or_gpu_inputs_t inputs;
    or_gpu_latent_t latent;
    float *ones; // [the most elements of a head], weights of norms that have none; NULL: all have
    // [this rank's shards][rows_max][width_stride]; products' rows are whole tiles (or_gpu_tensor_room). Sums that are not
    // added to x at once lie where the first shard's did.
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

uint64_t or_gpu_free_bytes(const or_gpu_t *gpu);

// Remember the first status that is not OR_CUDA_OK.
void or_gpu_keep(or_gpu_t *gpu, int status);
// Return OR_ERR_IO, with the text of the status that was remembered, if there is one.
or_status_t or_gpu_check(const or_gpu_t *gpu);

// Take zeroed memory of the device. On OR_ERR_NO_MEMORY *at_p is NULL.
or_status_t or_gpu_alloc(or_gpu_t *gpu, size_t bytes, void **at_p);
// The same as or_gpu_alloc, and count the bytes with the model's buffers.
or_status_t or_gpu_alloc_buffer(or_model_t *model, size_t bytes, void **at_p);
void or_gpu_free_pinned(or_gpu_t *gpu, void *at); // NULL is nothing

// A part of the memory that is taken and given back together.
typedef struct {
    void *at_p; // to a pointer of any type: to the part, or NULL
    enum {
        OR_GPU_BUFFER,
        OR_GPU_UNCOUNTED,
        OR_GPU_PINNED
    } kind;       // counted with the buffers or not; or pinned memory of the host, of any content
    size_t bytes; // 0: there is no such part
} or_gpu_part_t;

typedef or_status_t or_gpu_parts_t(or_model_t *model, const or_gpu_part_t *parts, size_t count);

// Take the parts up to the first that fails.
or_gpu_parts_t or_gpu_take_parts;
// Give back the parts that were taken, and set their pointers to NULL. OR_OK.
or_gpu_parts_t or_gpu_give_parts;

// Move numbers that were allocated with malloc to where the model's passes run: to the device, or nowhere if gpu is
// NULL. On failure *numbers is NULL. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_gpu_take(or_gpu_t *gpu, void **numbers, size_t bytes);
or_status_t or_gpu_take_floats(or_gpu_t *gpu, float **numbers, size_t count);
// Free such numbers. NULL is nothing.
void or_gpu_give(or_gpu_t *gpu, void *numbers);

// ---- gpu_open.c ----

// Open the chosen device as model->gpu. OR_ERR_UNSUPPORTED without CUDA and for a model that GPUs cannot run;
// OR_ERR_NOT_FOUND if there is no such GPU or it cannot be used.
or_status_t or_gpu_open(or_model_t *model, const or_gpu_choice_t *choice);
// Close the device. All memory that was taken from it must have been given back. *gpu_p may be NULL.
void or_gpu_close(or_gpu_t **gpu_p);

// ---- gpu_buffers.c ----

// Take the memory of passes and contests; `quantised` says which rows are also needed as blocks. model->logits is on the
// host, where or_gpu_run_head leaves them. On failure (OR_ERR_NO_MEMORY) or_gpu_buffers_free cleans up.
or_status_t or_gpu_buffers_create(or_model_t *model, or_quantised_rows_t quantised);
// Free all of it. Does nothing without a GPU.
void or_gpu_buffers_free(or_model_t *model);
// Describe rows of `width` floats, but for where they are.
void or_gpu_describe_rows(const or_gpu_t *gpu, size_t width, size_t stride, or_cuda_rows_t *rows);

// ---- gpu_kv.c ----

// Return the functions that keep K and V in the device's memory.
or_kv_memory_t or_gpu_kv_memory(or_gpu_t *gpu);

// Reserve parts of slots_max slots for `wanted` sequences, at least one, and return how many there are. They may take
// half of the free memory, which all `sharers` of this device divide. From now on sequences get only these parts.
// Call it after the cache's pages were taken, and before the first sequence opens.
uint32_t or_gpu_slots_reserve(or_gpu_t *gpu, uint32_t slots_max, uint32_t wanted, uint32_t sharers);
// Give back all but `count` of what was reserved, before the first sequence opens.
void or_gpu_slots_keep(or_gpu_t *gpu, uint32_t count);

// Return the bytes of a table of so many pages, with their frames if layers have any.
size_t or_gpu_page_table_bytes(uint32_t pages, bool has_frames);
// Write the table of `count` pages of a sequence from number `first` on. Return it for who reads it at `read_at`, on the
// device.
or_cuda_page_table_t or_gpu_write_page_table(const or_kv_sequence_t *sequence, uint32_t first,
                                             uint32_t count, uint32_t *to, const uint32_t *read_at);

// Describe the K and V of a layer of this stage alone: its number is 0 there.
or_cuda_kv_t or_gpu_kv_of_layer(const or_model_t *model, uint32_t layer);

// Free the parts that are kept.
void or_gpu_slots_free(or_gpu_t *gpu);

// Return the bytes that suffice for the tables of any pass of this model, and of any accepted path.
size_t or_gpu_tables_bytes(const or_model_t *model);
// Wait until no work needs the tables, and clear them.
void or_gpu_tables_clear(or_gpu_t *gpu);
// Write gpu->positions and gpu->seen of the planned rows, into tables that are clear, and send them.
void or_gpu_tables_of_pass(or_model_t *model, uint32_t rows);

// ---- gpu_ranks.c ----

// Set model->gpu->peers if all ranks of the group have a GPU of their own and NCCL, and none declines. Collective,
// also for ranks on the CPU. Fails if another rank is not heard.
or_status_t or_gpu_peers_create(or_model_t *model, bool declines);
// Wait, after the leader has ended the session, until no other rank's device reads from this one any more. Does
// nothing without peers.
void or_gpu_peers_end(or_model_t *model);

// Add the sum of all ranks' parts to `to` [rows][width_stride], or with `over` write it there. This rank's parts are at
// model->gpu->parts, part_stride floats apart, and are written over. OR_ERR_IO, or the reason why another rank is not heard.
or_status_t or_gpu_add_ranks(or_model_t *model, size_t part_stride, uint32_t rows, bool over,
                             float *to);
// Wait for all work of the device while other ranks may still read from it. Does nothing without peers.
void or_gpu_wait_for_peers(or_model_t *model);
// Receive model->gpu->x from the stage before, and send it to the next. Fails as above.
or_status_t or_gpu_take_over(or_model_t *model, uint32_t rows);
or_status_t or_gpu_pass_on(or_model_t *model, uint32_t rows);
// Can a recording contain all that a pass exchanges with other ranks? If so, or_gpu_ranks_have_recorded tells whether
// all ranks have recorded; it is the same on all, because they record and replay together.
bool or_gpu_ranks_can_record(const or_model_t *model);
bool or_gpu_ranks_have_recorded(or_model_t *model, bool recorded);

// ---- gpu_products.c ----

// With tensor cores, choose the algorithms of all products. That takes memory for the largest matrix of all ranks for
// a moment. Call it after or_tensors_load and before room is counted. OR_ERR_IO.
or_status_t or_gpu_prepare_products(or_model_t *model);

// The products of rows with the outputs of a matrix that are here, in y [rows][y_stride], which has room for whole tiles.
void or_gpu_project(or_model_t *model, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    uint32_t rows, float *y, size_t y_stride);
// The products of x with several matrices, each on a branch of its own (or_cuda_part): alone the small ones leave most of a
// device idle. Those by tensor cores share a workspace, so they follow one another. With `groups`, whose expert_bytes are not
// looked at, each matrix is experts, and rows are as or_cuda_parts_t has them.
typedef struct {
    const or_matrix_t *matrix;
    float *y;
    size_t stride;
} or_gpu_projection_t;
void or_gpu_project_all(or_model_t *model, const or_cuda_rows_t *x,
                        const or_gpu_projection_t *projections, uint32_t count,
                        const or_cuda_groups_t *groups, uint32_t rows);
// The products with a matrix that is cut along its inputs, by `unit_size` of them: y [this rank's shards][part_stride], in
// rows of width_stride floats. `groups` as above.
void or_gpu_multiply_shards(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                            uint32_t unit_size, const or_cuda_rows_t *from,
                            const or_cuda_groups_t *groups, uint32_t rows, float *y,
                            size_t part_stride);
// Sum such products, which are in gpu->parts, in the tree of shards and ranks. The sum is added to `to`
// [rows][width_stride], or with `over` written there. OR_ERR_IO, or why another rank is not heard.
or_status_t or_gpu_add_shards(or_model_t *model, size_t part_stride, uint32_t rows, bool over,
                              float *to);
// Both: the products of rows, which end in `to`.
or_status_t or_gpu_sum_products(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                                uint32_t unit_size, const or_cuda_rows_t *from, uint32_t rows,
                                bool over, float *to);
// Return the rows from `first` on.
or_cuda_rows_t or_gpu_rows_from(const or_cuda_rows_t *rows, size_t first);
// The type and the floats of a panel of a matrix of floats.
or_cuda_float_t or_gpu_float_type(or_tensor_type_t type);
size_t or_gpu_float_panel(const or_matrix_t *matrix);

// ---- gpu_experts.c ----

// Describe what or_gpu_experts_t has, once the layers are described; take it, or give it back.
void or_gpu_experts_describe(or_model_t *model);
or_status_t or_gpu_experts_each(or_model_t *model, or_gpu_parts_t *each);
// Return the rows that gate and up have.
size_t or_gpu_ffn_rows(const or_model_t *model);
// Choose experts for the rows of h.
void or_gpu_route(or_model_t *model, const or_layer_t *layer, uint32_t rows);
// Sum those chosen as or_gpu_add_shards does.
or_status_t or_gpu_run_experts(or_model_t *model, const or_layer_t *layer, uint32_t index,
                               uint32_t rows, bool over, float *to);
// Add the biases of their downs to sums [rows][width_stride].
void or_gpu_bias_experts(or_model_t *model, const or_layer_t *layer, uint32_t rows, float *sums);
// Return what the last pass read of experts. It waits for the pass.
or_model_reads_t or_gpu_experts_read(const or_model_t *model);

// ---- operations ----

// The place of an operation: a layer of this stage, and the family's list, so that its neighbours are there, too.
typedef struct {
    const or_op_t *op;
    const or_layer_t *layer;
    uint32_t index; // of the layer
} or_gpu_op_t;

// Launch an operation for `rows` rows. OR_ERR_IO, or why another rank is not heard.
typedef or_status_t or_gpu_run_op_t(or_model_t *model, const or_gpu_op_t *place, uint32_t rows);

// ---- gpu_attention.c ----

// Return the room for scores that a row of attention takes which sees so many positions, whole blocks of them.
size_t or_gpu_scores_stride(const or_model_t *model, uint32_t positions);
// This rank's heads of rows, one after the other, from the first on.
typedef struct {
    const float *values;
    size_t stride;
} or_gpu_queries_t;
// Attend to K and V, which are stored: the heads' sums of values go to `to`.
void or_gpu_attend(or_model_t *model, const or_layer_t *layer, const or_gpu_queries_t *queries,
                   uint32_t rows, const or_cuda_rows_t *to);

// ---- gpu_inputs.c ----

// Describe what or_gpu_inputs_t has, once the layers are described; take it, or give it back.
void or_gpu_inputs_describe(or_model_t *model);
or_status_t or_gpu_inputs_each(or_model_t *model, or_gpu_parts_t *each);
// Make the inputs of a pass, whose x is there if this stage embeds.
void or_gpu_inputs_make(or_model_t *model, uint32_t rows);
// OR_OP_GATE_INPUT, OR_OP_GELU_INPUT and OR_OP_RAISE_INPUT, with sums in gpu->parts.
or_gpu_run_op_t or_gpu_inputs_gate, or_gpu_inputs_gelu, or_gpu_inputs_raise;

// ---- gpu_latent.c ----

// Describe what or_gpu_latent_t has, and gpu->attended, once the layers are described; take it, or give it back.
void or_gpu_latent_describe(or_model_t *model);
or_status_t or_gpu_latent_each(or_model_t *model, or_gpu_parts_t *each);
// OR_OP_PROJECT_LATENT, OR_OP_NORM_QUERY_LATENT, OR_OP_RAISE_QUERY, OR_OP_NORM_LATENT, OR_OP_ABSORB and OR_OP_RAISE_VALUES.
or_gpu_run_op_t or_gpu_latent_project, or_gpu_latent_norm_query, or_gpu_latent_raise_query;
or_gpu_run_op_t or_gpu_latent_norm_key, or_gpu_latent_absorb, or_gpu_latent_raise_values;

// ---- gpu_ops.c ----

// Return a few words on what of the model a GPU cannot run; NULL if it can run all.
const char *or_gpu_cannot_run(const or_model_t *model);
// Launch the operations of a layer of this stage. OR_ERR_IO, or why another rank is not heard.
or_status_t or_gpu_run_layer(or_model_t *model, uint32_t index, uint32_t rows);
// Set h to what the head reads of x.
void or_gpu_norm_output(or_model_t *model, uint32_t rows);
// x *= factor, of n floats of rows.
void or_gpu_scale(or_model_t *model, float *x, size_t stride, float factor, uint32_t n,
                  uint32_t rows);

// ---- gpu_forward.c ----

// Set x to the embedding of the pass's tokens; gpu->embedding must not be NULL.
void or_gpu_embed(or_model_t *model, uint32_t rows);
// Set gpu->x_host to it.
void or_gpu_embed_on_host(or_model_t *model, uint32_t rows);

// Run all layers for the planned rows. Their activations for the head stay on the device. OR_ERR_IO.
or_status_t or_gpu_run_layers(or_model_t *model, uint32_t rows);
// Launch all layers for gpu->positions, gpu->seen and gpu->positions_max; x must be there already.
or_status_t or_gpu_launch_layers(or_model_t *model, uint32_t rows);
// Launch the head for rows first .. first + rows - 1, into logits [rows][vocab_stride] on the device, which has room
// for whole tiles (or_gpu_tensor_room).
void or_gpu_multiply_head(or_model_t *model, uint32_t first, uint32_t rows, float *logits);
// The same of at most OR_LOGITS_ROWS rows, into gpu->logits and from there into model->logits. OR_ERR_IO.
or_status_t or_gpu_run_head(or_model_t *model, uint32_t first, uint32_t rows);

// ---- tensor cores ----

// Rows for which a buffer needs room: products on tensor cores write, and read, whole tiles of rows.
static inline size_t or_gpu_tensor_room(const or_gpu_t *gpu, size_t rows)
{
    return gpu->tensor != NULL ? rows + OR_CUDA_TENSOR_ROWS - 1 : rows;
}

// Does a product with this tensor go to tensor cores? gpu may be NULL.
static inline bool or_gpu_tensor_takes(const or_gpu_t *gpu, const or_gguf_tensor_t *tensor)
{
    return gpu != NULL && gpu->tensor != NULL && tensor->type == (uint32_t)gpu->tensor_type;
}
