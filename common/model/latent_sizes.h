// latent_sizes - the sizes of latent attention on this rank (cpu/latent.h), on a CPU or a device.
//
//     key, query   [latent | rotated]     head_dim together
//     heads        [plain  | rotated]     query_dim together, of each head
//     entries      a head's plain part, or its latent sums: what its matrices read
//     raised       its latent part, or its value: what they make
//
// Private to common/model. They mean something in models with latent attention alone.
#pragma once

#include "common/model/model_internal.h"

static inline uint32_t or_latent_heads(const or_model_t *model)
{
    return or_span_length(model->share.heads);
}

// A rank without heads has no head of K and V either.
static inline bool or_latent_has_key(const or_model_t *model)
{
    return or_span_length(model->share.kv_heads) > 0;
}

// Return the elements of a head that are rotated, and those of its query that are not.
static inline uint32_t or_latent_rotated(const or_model_t *model)
{
    return model->shape.head_dim - model->shape.latent;
}

static inline uint32_t or_latent_plain(const or_model_t *model)
{
    return model->shape.query_dim - or_latent_rotated(model);
}

// Return the most elements of an entry, and of what is raised from it.
static inline uint32_t or_latent_entry(const or_model_t *model)
{
    const uint32_t plain = or_latent_plain(model), latent = model->shape.latent;
    return plain > latent ? plain : latent;
}

static inline uint32_t or_latent_raised(const or_model_t *model)
{
    const uint32_t latent = model->shape.latent, value = model->shape.value_dim;
    return latent > value ? latent : value;
}

// The rows that some layer's quantised matrices read.
typedef struct {
    bool query_latent, entries;
} or_latent_quantised_t;

// Find them: none before layers are loaded, and once they are freed.
static inline or_latent_quantised_t or_latent_quantised(const or_model_t *model)
{
    or_latent_quantised_t found = {0};
    for (uint32_t i = 0; model->layers != NULL && i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        found.query_latent = found.query_latent || layer->query.quantised;
        found.entries = found.entries || layer->key_up.quantised || layer->value_up.quantised;
    }
    return found;
}
