// arch - what tells one transformer family from another, as data.
//
// A family is a file of tables (families/). It lists the metadata beyond what all have, the tensors with their shapes,
// and the operations of a layer in order, which cpu/forward.c and gpu/gpu_ops.c walk. Metadata keys are
// "<name>.<suffix>" in every GGUF file, and names and meanings are llama.cpp's.
//
// All operations work on the rows of a pass. What each reads and writes:
//
//     x       [width]   the residual stream        sums   [width]   what attention or the FFN adds to it
//     h       [width]   x, normalised              query, key, value, attended; gate, up [ffn]
//     chosen  [used]    experts and their weights  of a family whose FFN is experts
//
// Of the dimensions a rank has: all of `width`, its heads of `query` and `attended`, its KV heads of `key` and `value`,
// its part of `ffn`. Operations that add over a dimension which is cut do it in the fixed tree of shards (ranks/shards.h).
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"
#include "common/model/cpu/weights.h"
#include "common/model/model.h"

// ---- a layer's weights ----

#define OR_EXPERTS_MAX 1024u

// The tables of rotations that a layer may use.
typedef enum {
    OR_ROPE_MAIN,
    OR_ROPE_LOCAL,
    OR_ROPE_TABLES,
    OR_ROPE_NONE = OR_ROPE_TABLES
} or_rope_t;

// Pointers are NULL, and matrices zeroed, where the family or the file has none.
typedef struct {
    uint32_t window; // positions that a row attends to, the last its own; 0: all before it too
    or_rope_t rope;
    uint32_t rope_dims; // elements of a head that are rotated, the first ones
    uint32_t head_dim;  // elements of a head of query, key and value
    uint32_t value_dim; // ... and as the output matrix reads it: the same, but in latent attention
    uint32_t group;     // heads of query that share one of key and value
    or_span_t kv_heads; // those of this rank's heads
    uint32_t
        kv_layer; // of this stage, the one whose K and V it attends to: itself, unless it has none
    uint32_t ffn_size;     // of the FFN's middle
    or_span_t ffn;         // this rank's part of it
    float *attention_norm; // [width]
    float *attention_norm_bias;
    float *ffn_norm; // [width]
    float *ffn_norm_bias;
    float *query_bias;          // [heads * head_dim]
    float *key_bias;            // [kv_heads * head_dim]
    float *value_bias;          // [kv_heads * head_dim]
    float *output_bias;         // [width]
    float *up_bias;             // [ffn]
    float *down_bias;           // [width]
    float *sinks;               // [heads], a score more of each head (OR_OP_ATTEND)
    float *query_norm;          // [head_dim], or [heads * head_dim] (OR_OP_NORM_WHOLE)
    float *key_norm;            // [head_dim], or [kv_heads * head_dim]
    float *attention_post_norm; // [width]
    float *ffn_post_norm;       // [width]
    float *output_scale;        // [1], of x behind the layer
    or_matrix_t query;          // width, or query_latent -> heads * query_dim
    or_matrix_t key;            // width -> kv_heads * head_dim
    or_matrix_t value;          // likewise; empty: values are made of the key (OR_OP_NORM_VALUES)
    or_matrix_t output;         // heads * value_dim -> width
    float *latent_norm;         // [latent]
    float *query_latent_norm;   // [query_latent]
    or_matrix_t query_latent;   // width -> query_latent
    or_matrix_t key_up;         // of each head: its elements without a rotation -> latent
    or_matrix_t value_up;       // of each head: latent -> value_dim
    or_matrix_t gate;           // width -> ffn
    or_matrix_t up;             // width -> ffn
    or_matrix_t down;           // ffn -> width
    or_matrix_t router;         // width -> experts
    or_matrix_t expert_gate;    // width -> ffn, of each expert
    or_matrix_t expert_up;      // likewise
    or_matrix_t expert_down;    // ffn -> width, of each expert
    float *router_bias;         // [experts], of the choice alone
    float *logit_bias;          // [experts], of the router's logits
    float *expert_gate_bias;    // [experts][ffn]
    float *expert_up_bias;      // likewise
    float *expert_down_bias;    // [experts][width]
    float *expert_scales;       // [experts], of their weights
    float *router_norm;         // [width] (OR_OP_NORM_ROUTER)
    float *experts_norm;        // [width]
    float *experts_post_norm;   // [width]
    float *shared_post_norm;    // [width]
    float *shared_router;       // [width]
    or_matrix_t shared_gate; // width -> shared_ffn; of a layer without experts, width -> dense_ffn
    or_matrix_t shared_up;   // likewise
    or_matrix_t shared_down; // shared_ffn or dense_ffn -> width
    or_matrix_t input_gate;  // width -> layer_input (layer_inputs.h)
    or_matrix_t input_up;    // layer_input -> width
    float *input_post_norm;  // [width]
} or_layer_t;

// A dimension of a tensor. The ALL ones are computed whole by every rank, because a norm needs all of them.
typedef enum {
    OR_DIM_ONE,
    OR_DIM_WIDTH,
    OR_DIM_QUERY,
    OR_DIM_KV,
    OR_DIM_FFN,
    OR_DIM_EXPERT_FFN, // of each expert: the tensor has a matrix or a vector for each, in its last dimension
    OR_DIM_EXPERT_WIDTH, // likewise
    OR_DIM_SHARED_FFN,
    OR_DIM_DENSE_FFN,
    OR_DIM_EXPERTS,
    OR_DIM_HEADS,
    OR_DIM_HEAD,
    OR_DIM_ALL_QUERY,
    OR_DIM_ALL_KV,
    // Of latent attention. A tensor that has one of the last two has a matrix for each head, and every rank has all of them.
    OR_DIM_LATENT_QUERY, // heads * query_dim
    OR_DIM_LATENT_VALUE, // heads * value_dim
    OR_DIM_QUERY_LATENT,
    OR_DIM_LATENT,
    OR_DIM_HEAD_PLAIN, // the elements of a head that are not rotated
    OR_DIM_HEAD_VALUE, // value_dim
    OR_DIM_LAYER_INPUT,
} or_dim_t;

// The layers that have a tensor: of a family whose first layers have no experts, those or the others. Some files have it in no
// layer.
typedef enum {
    OR_IN_ALL,
    OR_IN_DENSE,
    OR_IN_EXPERTS,
    OR_IN_SIGMOID_EXPERTS,   // of files whose experts are chosen by sigmoids
    OR_WITH_QUERY_LATENT,    // all layers, of files whose queries are made of a vector of their own
    OR_WITHOUT_QUERY_LATENT, // all layers, of other files
    OR_WITH_OWN_KV, // those that attend to K and V of their own; what others have of it is not read
    OR_WITH_INPUTS, // all layers, of files whose layers have inputs of their own
    OR_WITH_FUSED_EXPERTS, // all layers, of files that have gates and ups of experts in one tensor
    OR_WITHOUT_FUSED_EXPERTS, // all layers, of other files
} or_in_layers_t;

typedef struct {
    const char *suffix; // "attn_q.weight", after "blk.<layer>."
    or_dim_t inputs;
    or_dim_t outputs; // OR_DIM_ONE: a vector of floats, else a matrix
    size_t offset;    // of the float * or or_matrix_t in or_layer_t
    // Of a fused tensor: what it has one after the other, ending with OR_DIM_ONE, and which of these this row is. NULL:
    // the tensor is not fused. One of all experts has all parts of the first, then those of the next.
    const or_dim_t *fused;
    uint32_t part;
    bool optional; // the file may lack it
    or_in_layers_t layers;
} or_arch_tensor_t;

// ---- a layer's operations ----

typedef enum {
    OR_OP_END,         // of the list
    OR_OP_NORM,        // h = rms norm of x with the weights at `weight`
    OR_OP_NORM_LAYER,  // h = layer norm of x, with `bias` if it has one; without `weight` h stays
    OR_OP_COPY,        // h = x
    OR_OP_PROJECT_QKV, // query, key, value = h times matrices
    OR_OP_BIAS_QKV,    // each plus its bias
    OR_OP_NORM_HEADS,  // each head of query and key = its rms norm
    OR_OP_NORM_WHOLE,  // all heads of query together, and those of key
    OR_OP_NORM_VALUES, // each head of value = its rms norm without weights; of key where there is no matrix `value`
    OR_OP_ROTATE,         // query and key by their positions, where the layer has a table
    OR_OP_GROW_QUERY,     // query *= 1 + query_growth * ln(1 + floor(position / rope_original))
    OR_OP_PROJECT_LATENT, // key, and query or what it is made of, = h times matrices (cpu/latent.h)
    OR_OP_NORM_QUERY_LATENT, // what the query is made of = its rms norm, of a file that has it
    OR_OP_RAISE_QUERY,       // query = that times matrix, likewise
    OR_OP_NORM_LATENT,       // the key's latent part = its rms norm
    OR_OP_ABSORB, // query of each head: its part without a rotation times the head's matrix; value = the key's latent part
    OR_OP_RAISE_VALUES, // attended of each head = times the head's matrix
    OR_OP_STORE,        // key and value to the cache
    OR_OP_ATTEND, // attended = softmax(scale query keys) values; a sink is a score without a value
    OR_OP_SUM_OUTPUT, // sums = attended times matrix, in the tree of shards
    OR_OP_PROJECT_UP, // gate, up = h times matrices; of a family without a gate the matrix `up` writes gate
    OR_OP_BIAS_UP,    // gate plus the bias of `up`, of a family without a gate
    OR_OP_SILU_GATED, // gate = silu(gate) * up
    OR_OP_GELU_GATED, // gate = gelu(gate) * up, with the approximation by tanh
    OR_OP_GELU,       // gate = gelu(gate)
    OR_OP_GELU_EXACT, // the same without an approximation
    OR_OP_RELU,       // gate = 0 where it is negative
    OR_OP_SUM_DOWN,   // sums = gate times matrix, in the tree of shards
    OR_OP_ROUTE,      // chosen = the experts with the largest of h times router, and their weights
    OR_OP_EXPERTS,    // sums = the chosen experts of h (cpu/experts.h), in the tree of shards
    OR_OP_CHOSEN,     // the same without the shared expert, ...
    OR_OP_SHARED,     // ... and that alone
    OR_OP_NORM_ROUTER, // h = rms norm of x with the weights at `weight`, divided by the root of the width
    OR_OP_PUT_ASIDE,    // aside = sums
    OR_OP_ADD_ASIDE,    // sums += aside
    OR_OP_BIAS_EXPERTS, // sums plus the chosen experts' biases of down, each times its weight
    OR_OP_BIAS_SUMS,    // sums plus the bias at `weight`
    OR_OP_NORM_SUMS,    // sums = rms norm of sums with the weights at `weight`
    OR_OP_ADD,          // x += residual_scale * sums
    OR_OP_SCALE,        // x *= the number at `weight`
    OR_OP_MAKE_INPUTS, // what the stage's layers get of a token besides, before the first (layer_inputs.h): a row's part,
    OR_OP_PROJECT_INPUTS, // ... a matrix of all rows, ...
    OR_OP_JOIN_INPUTS,    // ... and what is left
    OR_OP_GATE_INPUT,     // the layer's input is gated by h times matrix `input_gate`, ...
    OR_OP_GELU_INPUT,     // ... whose gelu it is multiplied with, ...
    OR_OP_RAISE_INPUT,    // ... and sums = that times matrix `input_up`
    OR_OP_EMBED,          // x = embedding_scale * the token's row, plus the position's
    OR_OP_KINDS,
} or_op_kind_t;

// Offsets are of a float * in or_layer_t; 0: none.
typedef struct {
    or_op_kind_t kind;
    size_t weight;
    size_t bias;
    size_t
        needs; // of an or_matrix_t in or_layer_t: a layer without it leaves the operation out; 0: none does
} or_op_t;

// Return the floats of a layer that such an offset names; NULL: none.
static inline const float *or_layer_vector(const or_layer_t *layer, size_t offset)
{
    return offset == 0 ? NULL : *(float *const *)((const char *)layer + offset);
}

// ---- numbers ----

typedef enum { OR_SCALING_NONE, OR_SCALING_LINEAR, OR_SCALING_YARN } or_scaling_t;

// The numbers that the graph needs besides the shape.
typedef struct {
    float norm_epsilon;
    float embedding_scale; // of rows of the embedding
    float residual_scale;
    float attention_scale;    // of scores
    float attention_softcap;  // c: scores become c tanh(score / c); 0: none
    float logit_scale;        // of logits
    float logit_softcap;      // likewise
    uint32_t window;          // of the layers that have one; 0: no layer has
    float rope_base;          // 10000 where the file gives none
    float rope_local_base;    // of OR_ROPE_LOCAL
    uint32_t rope_dims;       // elements of a head that are rotated, the first ones
    uint32_t rope_local_dims; // the same of OR_ROPE_LOCAL
    or_scaling_t rope_scaling;
    float rope_stretch;          // divides positions ("linear" and "yarn" scaling); 1: none
    uint32_t rope_original;      // positions before scaling
    float rope_attention_factor; // of rotated queries and keys; 0: by the kind of scaling
    float query_growth;          // OR_OP_GROW_QUERY; 0: none
    float yarn_log_multiplier;   // of YaRN's factor of rotated queries and keys, what divides it
    float yarn_beta_fast, yarn_beta_slow;
    float expert_scale; // of the weights of experts
} or_arch_numbers_t;

typedef struct {
    const char *suffix; // of the metadata key
    size_t offset;      // of a float in or_arch_numbers_t
    float fallback;     // where the file has no such key; 0: the file must have it
} or_arch_key_t;

#define OR_NO_NUMBER (-1.0f) // a fallback that reads as 0

typedef struct {
    const char *name; // general.architecture
    const char *embedding;
    const char *positions; // learned, [width][context]; NULL: none
    const char *output_norm;
    const char *output_norm_bias; // NULL: none
    const char *head;             // absent in the file: the embedding is the head
    const char *head_bias;        // [vocab_size], of logits; NULL: none
    // The input that each layer gets of a token besides, in files that have it (layer_inputs.h); NULL: none has
    const char *input_embedding, *input_projection, *input_norm;
    const char *rope_factors; // [rope_dims / 2] divide the frequencies; absent in the file: none do
    // The same for files whose context is longer than the original one, and for others (longrope); NULL: there are none
    const char *rope_factors_long, *rope_factors_short;
    or_rope_t rope;   // of layers that say nothing else
    bool rope_halves; // pairs are (i, i + rope_dims / 2), not neighbours
    bool has_gate;    // the FFN
    bool has_experts; // the FFN is experts; another row of the table may have the name without them
    bool normalises_experts; // weights of a row's chosen experts are made to add up to 1
    bool has_shared_expert;
    bool shares_by_count;  // its size is that of so many experts, and the file has their number
    bool gates_by_sigmoid; // weights are the logits' sigmoids, and not their softmax
    bool tells_routing;    // the file says both, and whether experts are in groups
    bool
        mixes_sparsely; // two experts, each weighted among those with nearly its logit (cpu/experts.h)
    bool has_latent;    // attention is latent (cpu/latent.h)
    bool yarn_grows_scores; // YaRN's growth is of scores; the file has a tenth of its multiplier
    bool has_dense_layers;  // the file may say that the first layers have no experts
    bool clamps_experts;  // their activation is or_clamped_gated (cpu/elementwise.h), and not SiLU
    bool gelu_experts;    // ... or GELU
    bool yarn_cuts_pairs; // the ends of YaRN's ramp are not rounded to whole pairs
    const char *ffn_key;  // suffix of the key of `ffn`; NULL: "feed_forward_length"
    bool divides_logits;  // logit_scale is in the file as its reciprocal
    bool scales_embedding_by_width; // by its square root
    uint32_t
        layers_scaled_by_width; // in a file of so many, scores are scaled by 1 / sqrt(width / heads)
    bool has_window;            // the file may say how many positions it has
    uint32_t window_usual;      // ... and where it does not, it is this; 0: there is none
    // Of each `period` layers all but the last have a window (0: all layers have it, where there is one), the local table
    // of rotations, ...
    uint32_t window_period;
    bool has_local_rope;
    bool
        tells_layers; // the file says which layers have a window instead, and what heads those have
    // ... and of each of this period all but the last are rotated (0: all are), in some families only where the file has
    // windows.
    uint32_t rope_period;
    bool rotates_all_without_windows;
    // Operations, and a whole tensor for each matrix, are those of Llama: what can be inflated.
    bool is_plain;
    const or_arch_key_t *keys;             // ends with a zeroed row
    const or_arch_tensor_t *layer_tensors; // ends with a zeroed row
    const or_op_t *layer_ops;              // ends with OR_OP_END
    or_op_t output_op; // the norm of what goes to the head; its weights are output_norm
} or_arch_t;

extern const or_arch_t or_arch_llama;

// All that there are, the last NULL.
extern const or_arch_t *const or_architectures[];

// Find the architecture that the file names. OR_ERR_UNSUPPORTED lists those there are.
or_status_t or_arch_find(const or_gguf_t *gguf, const or_arch_t **arch_p);

// Read shape and numbers from the metadata, and check them for sense and for features this graph does not have.
// shape->vocab_size is the embedding's, shape->parameters all tensors' elements. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED,
// naming the key.
or_status_t or_arch_read(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape,
                         or_arch_numbers_t *numbers);

// The experts' part of or_arch_read, for a family that has them: their numbers go to `shape`. How experts are chosen
// and weighted must be as the family does it. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED, naming the key.
or_status_t or_arch_read_experts(const or_arch_t *arch, const or_gguf_t *gguf,
                                 or_model_shape_t *shape);

// The windows' part of or_arch_read, once the rotations' base is in `numbers`. The layers that have one must be the
// family's, and rotated as the graph can; how many they are goes to `shape`. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED, naming
// the key.
or_status_t or_arch_read_window(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape, or_arch_numbers_t *numbers);

// The part of or_arch_read about latent attention, for a family that has it, once the heads are known. The file must have
// the form that is run: one head of K and V. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED, naming the key.
or_status_t or_arch_read_latent(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape);

// Return what scores grow by in a family whose YaRN says so; 1 without YaRN.
double or_arch_score_growth(const or_arch_numbers_t *numbers);

// Does the layer have a window, of a file that says so for each (tells_layers)?
static inline bool or_arch_is_windowed(const or_model_shape_t *shape, uint32_t layer)
{
    return (shape->windowed[layer / 64] >> layer % 64 & 1) != 0;
}

// The layers' part of or_arch_read, for a family whose files say which layers have a window and what heads both kinds have.
// What of this this version does not run is refused. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED, naming the key.
or_status_t or_arch_read_layers(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape);

// Return the layer whose K and V a layer attends to, both numbered in the whole model. It is the layer itself, but for the
// last ones of some models: these attend to those of the last layer of their kind that has its own.
uint32_t or_arch_kv_layer(const or_model_shape_t *shape, uint32_t layer);

// Return the shape as this layer has it, numbered in the whole model: with its own heads and FFN.
or_model_shape_t or_arch_layer_shape(const or_model_shape_t *shape, uint32_t layer);

// Return the size of a dimension, of a layer if its shape is given.
uint32_t or_arch_dim(const or_model_shape_t *shape, or_dim_t dim);

// Does the layer, numbered in the whole model, have this row of the table?
bool or_arch_layer_has(const or_model_shape_t *shape, const or_arch_tensor_t *tensor,
                       uint32_t layer);

// Return the matrices of a tensor, or the vectors of one of all experts.
uint32_t or_arch_matrices(const or_model_shape_t *shape, const or_arch_tensor_t *tensor);

// Return the window of a layer (or_layer_t), numbered in the whole model, and its table of rotations.
uint32_t or_arch_window(const or_arch_t *arch, const or_model_shape_t *shape,
                        const or_arch_numbers_t *numbers, uint32_t layer);
or_rope_t or_arch_rope(const or_arch_t *arch, const or_model_shape_t *shape,
                       const or_arch_numbers_t *numbers, uint32_t layer);
