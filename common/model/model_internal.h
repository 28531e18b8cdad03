// model_internal - a loaded model, for the files of this folder.
//
//     model.c     load, buffers          tensors.c  the file's tensors to weights
//     pass.c      plan, undo, commit     forward.c  the layers        attention.c     logits.c  the head
//
// Row buffers are [rows_max][stride] with strides of whole panels, since kernels write whole
// panels.
#pragma once

#include "common/model/arch.h"
#include "common/model/kv_cache_internal.h"
#include "common/model/model.h"
#include "common/model/shards.h"
#include "common/model/weights.h"
#include "common/model/workers.h"

// Logits are computed for this many rows at a time.
#define OR_LOGITS_ROWS 64u

typedef struct {
    or_kv_sequence_t *sequence;
    int32_t token;
    uint32_t slot; // OR_KV_NO_SLOT: a prefix row
    uint32_t position;
    uint32_t committed;    // positions below this one that the row sees in pages
    or_kv_slot_t replaced; // what the slot said before this pass
} or_pass_row_t;

// What this rank computes.
typedef struct {
    or_span_t shards;
    uint32_t heads_unit; // heads that no shard separates
    or_span_t heads;
    or_span_t kv_heads; // those of its heads
    or_span_t ffn;      // units of the FFN's middle
    or_span_t vocab;
} or_share_t;

// Most slots of a sequence, and so positions of a tree.
#define OR_TREE_POSITIONS_MAX 4096u

// One worker's own memory in attention.
typedef struct {
    float *scores; // [heads / kv_heads][score_stride]
    // A node's ancestors in position order, with the committed positions of their first block.
    float *keys;                      // [blocks][head_dim][32]
    float *values;                    // [blocks][32][head_dim]
    const or_kv_sequence_t *sequence; // whose they are; NULL: nothing is gathered
    uint32_t committed;               // where the tree begins
    uint32_t gathered;
    uint32_t *chain; // [gathered] the slots
    uint32_t *next_chain;
} or_attention_scratch_t;

struct or_model {
    const or_gguf_t *gguf;
    const or_arch_t *arch;
    const or_kernels_t *kernels;
    const or_ranks_t *ranks;
    or_model_shape_t shape;
    or_arch_numbers_t numbers;
    or_share_t share;
    uint32_t context;
    uint32_t rows_max;
    or_workers_t *workers;
    or_kv_cache_t *cache;

    const or_gguf_tensor_t *embedding; // [width, vocab_size], read in place
    or_layer_t *layers;
    float *output_norm;  // [width]
    or_matrix_t head;    // width -> vocab_size
    float *rope_factors; // [head_dim / 2]; NULL: none
    float *rope_cosine;  // [context][head_dim / 2]
    float *rope_sine;

    size_t width_stride;
    size_t query_stride;
    size_t kv_stride;
    size_t ffn_stride;
    size_t score_stride;
    float *x;                  // the residual stream
    or_activations_t h;        // x normalised for what comes next; after a pass: for the head
    float *query;              // [rows_max][query_stride]
    float *key;                // [rows_max][kv_stride]
    float *value;              // [rows_max][kv_stride]
    or_activations_t attended; // [rows_max][query_stride]
    or_activations_t gate;     // [rows_max][ffn_stride]
    float *up;                 // [rows_max][ffn_stride]
    float *parts;              // [OR_SHARDS][rows_max][width_stride] partial sums
    float *gathered; // [ranks][rows_max][width_stride] their sums by rank; NULL for one rank
    or_attention_scratch_t *scratch; // [threads]

    uint32_t vocab_share_max; // the most vocabulary rows a rank owns
    size_t vocab_stride;
    float *logits;          // [logits_rows][vocab_stride]
    float *logits_sent;     // [logits_rows][vocab_share_max]; NULL for one rank
    float *logits_received; // [ranks][logits_rows][vocab_share_max]; NULL for one rank

    or_pass_row_t *rows; // [rows_max]
    uint32_t row_count;  // of the last pass
};

// Check all tensors against architecture and shape and pack them into model's weights. On failure
// or_tensors_free cleans up.
or_status_t or_tensors_load(or_model_t *model);
void or_tensors_free(or_model_t *model);

// Check the rows, take their pages and slots, and write model->rows. On failure all is as before.
or_status_t or_pass_plan(or_model_t *model, const or_model_row_t *rows, uint32_t count);
// Give the planned pages and slots back.
void or_pass_undo(or_model_t *model, uint32_t count);
// Let the sequences grow by their prefix rows.
void or_pass_commit(or_model_t *model, uint32_t count);

// Attention of `rows` rows in one layer, whose K and V are stored: query -> attended.
void or_attention_run(or_model_t *model, uint32_t layer, uint32_t rows);
