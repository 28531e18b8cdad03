// arch - what tells one transformer family from another, as data.
//
// A new architecture of the same graph is a new table: its name, and its tensors with their shapes.
// Metadata keys are "<name>.<suffix>" in every GGUF file.
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"
#include "common/model/cpu/weights.h"
#include "common/model/model.h"

typedef struct {
    float *attention_norm; // [width]
    float *ffn_norm;       // [width]
    float *query_bias;     // [heads * head_dim]; NULL where the architecture has none
    float *key_bias;       // [kv_heads * head_dim], likewise
    float *value_bias;     // [kv_heads * head_dim], likewise
    or_matrix_t query;     // width -> heads * head_dim
    or_matrix_t key;       // width -> kv_heads * head_dim
    or_matrix_t value;     // width -> kv_heads * head_dim
    or_matrix_t output;    // heads * head_dim -> width
    or_matrix_t gate;      // width -> ffn
    or_matrix_t up;        // width -> ffn
    or_matrix_t down;      // ffn -> width
} or_layer_t;

typedef enum { OR_DIM_ONE, OR_DIM_WIDTH, OR_DIM_QUERY, OR_DIM_KV, OR_DIM_FFN } or_dim_t;

typedef struct {
    const char *suffix; // "attn_q.weight", after "blk.<layer>."
    or_dim_t inputs;
    or_dim_t outputs; // OR_DIM_ONE: a vector of floats, else a matrix
    size_t offset;    // of the float * or or_matrix_t in or_layer_t
} or_arch_tensor_t;

typedef struct {
    const char *name; // general.architecture
    const char *embedding;
    const char *output_norm;
    const char *head;         // absent in the file: the embedding is the head
    const char *rope_factors; // [head_dim / 2] divide the frequencies; absent in the file: none do
    bool rope_halves;         // pairs are (i, i + head_dim / 2), not neighbours
    const or_arch_tensor_t *layer_tensors; // ends with a zeroed row
} or_arch_t;

// The numbers that the graph needs besides the shape.
typedef struct {
    float norm_epsilon;
    float rope_base;    // 10000 where the file gives none
    float rope_stretch; // divides all positions ("linear" scaling); 1: none
} or_arch_numbers_t;

extern const or_arch_t or_arch_llama;
extern const or_arch_t or_arch_qwen2;

// Find the architecture that the file names. OR_ERR_UNSUPPORTED lists those there are.
or_status_t or_arch_find(const or_gguf_t *gguf, const or_arch_t **arch_p);

// Read shape and numbers from the metadata, and check them for sense and for features this graph does not have.
// shape->vocab_size is the embedding's, shape->parameters all tensors' elements. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED,
// naming the key.
or_status_t or_arch_read(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape,
                         or_arch_numbers_t *numbers);

uint32_t or_arch_dim(const or_model_shape_t *shape, or_dim_t dim);
