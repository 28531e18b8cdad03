// latent - attention whose heads share one vector of K and V (DeepSeek-AI, "DeepSeek-V2", 2024, arXiv:2405.04434, section 2.1).
//
//     key     [latent | rotated]           h times the key matrix; its latent part is normed. The cache keeps it
//     value   [latent | 0]                 the same part
//     heads   [heads][plain | rotated]     the query: h, or a normed vector made of h, times the query matrix
//     query   [heads][latent | rotated]    the head's plain part times its key_up
//     sums    [heads][latent | 0]          what attention adds up, over one head of K and V
//     attended [heads][value_dim]          a head's latent sums times its value_up
//
// So a head's key is never made. Its plain part would be key_up's transpose times the latent part, and a score is the same
// whichever factor the matrix is applied to. Attention itself is that of any model with one head of K and V, and with
// it the cache, trees, ranks and stages are. A rank has its heads, and key_up and value_up of all.
//
// What matrices of heads read is copied to rows of their own, a head's after another's: entries[head * rows + row].
#pragma once

#include "common/model/arch/arch.h"
#include "common/model/cpu/products.h"

typedef struct or_model or_model_t;

// What a pass needs besides query, key, value and attended. Zeroed in models without latent attention.
typedef struct {
    or_activations_t query_latent; // [rows_max][query_latent], of files that have it
    size_t heads_stride;
    float *heads;             // [rows_max][heads_stride]
    or_activations_t entries; // [heads here * rows_max][the longer of plain and latent]
    size_t raised_stride;
    float *raised;          // [heads here * rows_max][raised_stride] products of entries
    float *sums;            // [rows_max][heads here * head_dim]
    or_matrix_t *matrices;  // [heads here], that borrow their memory
    or_product_t *products; // [heads here]
    or_span_t *spans;       // [heads here] the entries of each
} or_latent_t;

// Take the memory of model->latent; false if there is none. or_latent_free cleans up.
bool or_latent_create(or_model_t *model);
void or_latent_free(or_model_t *model);

// OR_OP_PROJECT_LATENT, OR_OP_RAISE_QUERY, OR_OP_ABSORB and OR_OP_RAISE_VALUES for `rows` rows.
void or_latent_project(or_model_t *model, const or_layer_t *layer, uint32_t rows);
void or_latent_raise_query(or_model_t *model, const or_layer_t *layer, uint32_t rows);
void or_latent_absorb(or_model_t *model, const or_layer_t *layer, uint32_t rows);
void or_latent_raise_values(or_model_t *model, const or_layer_t *layer, uint32_t rows);
// OR_OP_NORM_QUERY_LATENT and OR_OP_NORM_LATENT for one row.
void or_latent_norm_query(const or_model_t *model, const float *weight, uint32_t row);
void or_latent_norm_key(const or_model_t *model, const float *weight, uint32_t row);
