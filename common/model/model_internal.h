// model_internal - a loaded model, for the files of this folder.
//
//     load     load.c  cache_room.c (pages)  shards.c (what this rank computes)  tensors.c (the file's tensors to weights.c)
//              tensors_check.c (are they all there?)  rope.c (rotations)  buffers.c (memory of a pass)
//              streamed.c (what of them stays on disk)
//     a pass   model.c (the public calls)  pass.c (plan, run, undo)  forward.c (walks the operations of steps.c)
//              row_ops.c  products.c  experts.c  experts_choice.c  attention.c  attention_tile.c  latent.c  logits.c (the head)
//              importance.c (what matrices read)  layer_inputs.c
//     ranks    lockstep.c
//     a GPU    gpu_internal.h: weights, K and V are then in its memory, and so are the buffers of a pass, which
//              or_gpu_t has instead of those below; what is planned is the same
//
// Calls go one way: from load.c and model.c to lockstep.c, from there to pass.c and logits.c, then to the layers and
// the memory below them.
//
// Row buffers hold what this rank's share needs, [rows_max][stride]; what products write has strides
// of whole panels and begins with the first panel the matrix holds (or_matrix_place).
#pragma once

#include "common/gguf/packed.h"
#include "common/model/arch/arch.h"
#include "common/model/cpu/experts.h"
#include "common/model/cpu/importance.h"
#include "common/model/cpu/latent.h"
#include "common/model/cpu/products.h"
#include "common/model/kv/kv_cache_internal.h"
#include "common/model/layer_inputs.h"
#include "common/model/model.h"
#include "common/model/ranks/lockstep.h"
#include "common/model/ranks/shards.h"
#include "common/model/streamed.h"

// Most rows of a pass, and the sequences that there is room for, where nobody says.
#define OR_ROWS_DEFAULT 256u
#define OR_SEQUENCES_DEFAULT 2u
// Positions before a window that stay, likewise.
#define OR_WINDOW_SLACK 256u
// Logits are computed for this many rows at a time.
#define OR_LOGITS_ROWS 64u
// Rows that ranks exchange at once: a batch of trees, and much less than the longest pass.
#define OR_EXCHANGE_ROWS 256u

typedef struct {
    or_kv_sequence_t *sequence;
    int32_t token;
    uint32_t slot; // OR_KV_NO_SLOT: a prefix row
    uint32_t position;
    uint32_t committed;    // positions below this one that the row sees in pages
    or_kv_slot_t replaced; // what the slot said before this pass
} or_pass_row_t;

// The part of the model that this rank computes.
typedef struct {
    or_span_t layers; // of its stage
    bool embeds;      // it is in the first stage
    bool has_head;    // it is in the last stage
    or_span_t shards;
    uint32_t heads_unit; // heads that no shard separates
    or_span_t heads;
    or_span_t kv_heads; // those of its heads, but in layers that have others (or_layer_t)
    or_span_t ffn;      // of the FFN's middle, and of each expert's
    or_span_t shared_ffn, dense_ffn;
    or_span_t vocab;
} or_share_t;

// Most slots of a sequence, and so positions of a tree.
#define OR_TREE_POSITIONS_MAX 4096u

// Queries that attention takes together (attention_tile.h), unless the heads of one row are more.
// Then the floats of their scores: half a MiB stays in a core's own cache. Over a context where that is
// room for few queries, there is room for some more: fewer wait for K and V, which each tile reads anew.
#define OR_TILE_QUERIES 32u
#define OR_TILE_SCORES (128u * 1024)
#define OR_TILE_QUERIES_LEAST 16u

// K, or V, of a node's ancestors in position order, with the committed positions of their first block.
typedef struct {
    float *blocks;   // [blocks][head_dim * 32]
    uint32_t *chain; // [count] the slots
    uint32_t count;
    bool has_page; // those committed positions are there
} or_gathered_t;

// An operation of a pass: its function, the layer that it works on, and its weights.
typedef struct or_pass_op or_pass_op_t;
// One on a single row; rows never share what they write.
typedef void (*or_row_op_t)(const or_model_t *model, const or_pass_op_t *step, uint32_t row);
// One on all rows of a pass together. Fails if another rank is not heard.
typedef or_status_t (*or_batch_op_t)(or_model_t *model, const or_pass_op_t *step, uint32_t rows);

struct or_pass_op {
    const or_layer_t *layer;    // NULL: before the first layer or behind the last
    uint32_t layer_index;       // of the stage
    const float *weight, *bias; // what or_op_t's offsets say; NULL: none
    or_batch_op_t on_batch;     // NULL: it is an operation on rows
    or_row_op_t on_row;         // NULL: it is not
    // How many operations on rows follow each other from this one on, and how many rows a worker takes at least.
    uint32_t group, grain;
};

// A pass of this stage from its first operation to its last, all layers one after the other.
typedef struct {
    or_pass_op_t *steps;
    size_t count;
} or_pass_ops_t;

// A device, and what of a model is on it (gpu_internal.h).
typedef struct or_gpu or_gpu_t;

// One worker's own memory in attention.
typedef struct {
    float *queries; // [queries][head_dim]
    float *scores;  // [queries][their stride]
    float *parts; // [queries][head_dim] sums of a part; of a tile that workers share: of each part
    // The block of a page that was decoded last, or its scales, where K or V is kept as Q8_0.
    float *decoded_keys;           // [head_dim][32]
    float *decoded_values;         // [32][head_dim]
    uint32_t decoded_keys_block;   // UINT32_MAX: none
    uint32_t decoded_values_block; // likewise
    or_gathered_t keys;
    or_gathered_t values;
    uint32_t *chain; // the slots of the row that is gathered now
    float *slot_key; // [head_dim]
} or_attention_scratch_t;

struct or_model {
    or_model_between_t *between; // NULL: nothing
    void *between_context;
    const or_gguf_t *gguf;
    const or_arch_t *arch;
    const or_kernels_t *kernels;
    const or_ranks_t *ranks;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_packed_t *packed; // which matrices borrow from; NULL: none
    bool changed;        // the model's own file was, since it was opened: or_model_check_files
    or_share_t share;
    uint32_t context;
    uint32_t rows_max;
    or_workers_t *workers;
    or_kv_shape_t cache_shape;
    or_kv_heads_t *cache_heads; // [share.layers] those of each; NULL: layers are alike
    uint32_t window_slack; // of layers with a window (kv_cache.h), on all ranks; 0: none has one
    or_kv_cache_t *cache;
    uint32_t slots_max;      // of a sequence, where memory for slots was reserved; 0: it was not
    uint32_t sequences_max;  // with slots
    or_lockstep_t *lockstep; // NULL: alone
    or_gpu_t *gpu;           // NULL: the CPU
    char arith_id[64];

    const or_gguf_tensor_t *
        embedding; // [width, vocab_size], read in place; NULL: of another stage, which alone reads it
    const or_gguf_tensor_t
        *positions;          // [width, context], read in place; NULL: none, or of another stage
    or_layer_t *layers;      // [share.layers]
    float *output_norm;      // [width]; NULL: of another stage
    float *output_norm_bias; // [width]; NULL: none, or of another stage
    or_matrix_t head;        // width -> vocab_size; empty likewise
    float *head_bias;        // [vocab_size]; NULL: none, or of another stage
    float *rope_factors;     // [rope_dims / 2] of OR_ROPE_MAIN; NULL: none
    float
        *rope_cosine[OR_ROPE_TABLES]; // [context][their rope_dims / 2] each; NULL: no layer uses it
    float *rope_sine[OR_ROPE_TABLES];
    uint64_t weight_bytes;   // of all tensors above
    uint64_t mapped_bytes;   // of these, in the packed file and in memory
    or_streamed_t *streamed; // of these, on disk; NULL: none

    or_pass_ops_t steps; // of a pass on the CPU

    uint64_t buffer_bytes; // all below together
    size_t width_stride;
    size_t query_stride;
    size_t kv_stride;
    size_t ffn_stride;
    float *x;           // [rows_max][width], the residual stream: no gaps, it travels
    or_activations_t h; // x normalised for what comes next; after a pass: for the head
    float *query;       // [rows_max][query_stride] from its first panel here on (or_query_place)
    float *key;         // [rows_max][kv_stride]
    float *value;       // [rows_max][kv_stride]
    or_activations_t attended; // [rows_max][share.heads][value_dim]
    or_layer_inputs_t inputs;  // zeroed where layers get nothing of a token besides
    or_latent_t latent;        // zeroed where attention is not latent
    float
        *head_sums; // [rows_max][head_sums_stride], of attention: attended's values or latent.sums
    size_t head_sums_stride;
    or_activations_t gate; // [rows_max][share.ffn]; of experts: a row for each entry
    float *up;             // [rows_max][ffn_stride]; likewise
    or_experts_t experts;  // zeroed where the FFN is not experts
    float *sums;           // [rows_max][width_stride] over this rank's shards
    float *shard_scratch;  // [threads][OR_SHARD_SUM_FLOATS]
    float *ones;           // [head_dim], the weights of norms that have none
    float *gathered;       // [ranks][OR_EXCHANGE_ROWS][width_stride] sums; NULL for one rank
    or_attention_scratch_t *scratch; // [threads]
    or_span_t *tiles;                // [rows_max] the rows of a pass as attention takes them

    uint32_t vocab_share_max; // the most vocabulary rows a rank owns
    size_t vocab_stride;
    float *logits;      // [logits_rows][vocab_stride], from the head's first panel on; last stage
    float *logits_sent; // [logits_rows][vocab_share_max]; last stage of several ranks
    float *logits_received; // [ranks][logits_rows][vocab_share_max]; leader of several ranks

    or_pass_row_t *rows; // [rows_max]
    uint32_t row_count;  // of the last pass

    or_importance_t *importance; // borrowed; NULL: none is collected
};

// Check all of the file's tensors against architecture and shape, whichever rank they are for, so that all ranks
// refuse the same file.
or_status_t or_tensors_check(const or_model_t *model);
// Pack this rank's share of the tensors into the model's weights. The first packs all but the layers', which it
// describes; the second packs the layers'. On failure or_tensors_free cleans up.
or_status_t or_tensors_load(or_model_t *model);
or_status_t or_tensors_load_layers(or_model_t *model);
void or_tensors_free(or_model_t *model);
// Is some matrix, of a layer or the head, of this type? Call it after the check.
bool or_tensors_have(const or_model_t *model, or_tensor_type_t type);
// Is the matrix at this offset of or_layer_t quantised in some layer of the file? Call it after the check.
bool or_tensors_quantised(const or_model_t *model, size_t offset);

// Find the part that this rank computes, from shape, ranks and the file's types. OR_ERR_UNSUPPORTED or OR_ERR_INVALID
// for a number of ranks or stages that is not possible.
or_status_t or_share_cut(or_model_t *model);
// Return the KV heads of a rank's heads, in layers of this shape.
or_span_t or_share_kv_heads(const or_share_t *share, const or_model_shape_t *shape);
// Return a rank's part of an FFN whose middle has this size.
or_span_t or_share_ffn(const or_share_t *share, uint32_t ffn);

// The rows of activations that some quantised matrix reads.
typedef struct {
    bool h;
    bool attended;
    bool gate;
} or_quantised_rows_t;

// The pages of a model's cache, and the frames of its layers with a window (kv_cache.h); 0: these keep whole texts.
typedef struct {
    uint32_t pages, frames;
} or_cache_room_t;

// Find how many there are room for on this rank, whose host's memory, or device, so many ranks share.
or_cache_room_t or_cache_room(const or_model_t *model, const or_model_options_t *options,
                              uint32_t sharers);
// Return the bytes of the smallest cache that the options allow.
uint64_t or_cache_least_bytes(const or_model_t *model, const or_model_options_t *options);
// Return or_model_pass_bytes of this rank.
uint64_t or_pass_bytes_here(const or_model_t *model);
// Create the cache. OR_ERR_NO_MEMORY.
or_status_t or_cache_create(or_model_t *model, const or_cache_room_t *room);

// Take the memory of a pass. On failure (OR_ERR_NO_MEMORY) or_buffers_free cleans up.
or_status_t or_buffers_create(or_model_t *model);
void or_buffers_free(or_model_t *model);

// Check the rows, take their pages and slots, and write model->rows. On failure all is as before.
or_status_t or_pass_plan(or_model_t *model, const or_model_row_t *rows, uint32_t count);
// Write the slots of a planned tree row's ancestors and its own, in position order, and return how many they are.
static inline uint32_t or_pass_chain(const or_pass_row_t *row, uint32_t *chain)
{
    uint32_t count = row->position - row->committed + 1;
    uint32_t slot = row->slot;
    for (uint32_t i = count; i-- > 0;) {
        chain[i] = slot;
        slot = row->sequence->slots[slot].parent;
    }
    return count;
}
// Run this rank's part of the layers for `count` planned rows. Then the sequences grow by their prefix rows; on
// failure the planned pages and slots are given back.
or_status_t or_pass_run(or_model_t *model, uint32_t count);
// Give the pages and slots of a plan back without a run.
void or_pass_undo(or_model_t *model, uint32_t count);
// OR_ERR_INVALID unless first .. first + count - 1 are rows of the last pass.
or_status_t or_pass_check_rows(const or_model_t *model, uint32_t first, uint32_t count);

// Write the tables of rotations that the layers use.
or_status_t or_rope_fill(or_model_t *model);
void or_rope_free(or_model_t *model);

// Fail where the model's own file, from which embeddings are read in every pass, or its packed file has changed or is broken.
// Waits until the packed one was compared with its checksums. OR_ERR_IO, from then on always.
or_status_t or_model_check_files(or_model_t *model);

// List the operations of a pass on the CPU, once the weights are there. OR_ERR_NO_MEMORY; or_steps_free cleans up.
or_status_t or_steps_create(or_model_t *model);
void or_steps_free(or_model_t *model);
// Return the function of an operation on all rows; NULL for one on single rows.
or_batch_op_t or_batch_op(or_op_kind_t kind);

// Return the place of a head that is here in a row of `query`.
static inline size_t or_query_place(const or_model_t *model, const or_layer_t *layer, uint32_t head)
{
    const uint32_t head_dim = layer->head_dim;
    return model->shape.latent > 0 ? (size_t)(head - model->share.heads.begin) * head_dim
                                   : or_matrix_place(&layer->query, head * head_dim);
}

// Run all layers for the planned rows on the CPU. The activations for the head are then in model->h. Fails if another
// rank is not heard.
or_status_t or_forward_run(or_model_t *model, uint32_t count);

// Return the most queries, and the most floats of scores, that a worker has at a time.
uint32_t or_attention_queries_max(const or_model_t *model);
size_t or_attention_scores_max(const or_model_t *model);
// Run attention for `rows` rows in one layer, whose K and V are stored: query -> attended.
void or_attention_run(or_model_t *model, uint32_t layer, uint32_t rows);
