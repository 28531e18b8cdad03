#include <string.h>

#include "common/base/parts.h"
#include "common/model/cpu/attention_tile.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

// or_parts_take, with the bytes counted in the model's buffers.
static bool take(or_model_t *model, const or_part_t *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *at = parts[i].count > 0 ? or_zeroed(parts[i].count, parts[i].size) : NULL;
        memcpy(parts[i].at_p, &at, sizeof at);
        if (at == NULL && parts[i].count > 0) {
            return false;
        }
        model->buffer_bytes += parts[i].count * parts[i].size;
    }
    return true;
}

static bool give(or_model_t *model, const or_part_t *parts, size_t count)
{
    (void)model;
    return or_parts_free(parts, count);
}

typedef bool each_t(or_model_t *model, const or_part_t *parts, size_t count);

// ---- attention ----

// The most of any layer.
typedef struct {
    uint32_t group, head_dim;
    bool may_share; // threads may share a tile
} most_t;

static most_t most_of(const or_model_t *model)
{
    const uint32_t threads = or_workers_count(model->workers);
    most_t most = {0};
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        most.group = layer->group > most.group ? layer->group : most.group;
        most.head_dim = layer->head_dim > most.head_dim ? layer->head_dim : most.head_dim;
        most.may_share = most.may_share || threads > or_span_length(layer->kv_heads);
    }
    return most;
}

size_t or_attention_scores_max(const or_model_t *model)
{
    size_t stride = or_attention_stride(model->context), usual = or_attention_tile_scores(stride);
    size_t row = most_of(model).group * stride;
    size_t most = or_attention_queries_max(model) * stride;
    usual = most < usual ? most : usual;
    return row > usual ? row : usual;
}

// Return the most floats of parts' sums that a worker has. Only of tiles that threads share are several parts kept.
static size_t attention_parts_max(const or_model_t *model)
{
    const most_t most = most_of(model);
    size_t row = most.group * (size_t)((model->context - 1) / OR_ATTENTION_PART + 1);
    size_t queries = or_attention_queries_max(model);
    return (most.may_share && row > queries ? row : queries) * most.head_dim;
}

uint32_t or_attention_queries_max(const or_model_t *model)
{
    const uint32_t group = most_of(model).group;
    return group > OR_TILE_QUERIES ? group : OR_TILE_QUERIES;
}

// Return the most elements that a head has in a layer.
static size_t head_dim_max(const or_model_t *model)
{
    const or_model_shape_t *shape = &model->shape;
    return shape->window_head_dim > shape->head_dim ? shape->window_head_dim : shape->head_dim;
}

// The same of a head as the output matrix reads it.
static size_t value_dim_max(const or_model_t *model)
{
    const or_model_shape_t *shape = &model->shape;
    return shape->window_head_dim > shape->value_dim ? shape->window_head_dim : shape->value_dim;
}

// The memory of one worker's attention.
static bool each_of_worker(or_model_t *model, or_attention_scratch_t *scratch, each_t *each)
{
    const size_t head_dim = head_dim_max(model);
    const size_t block = head_dim * OR_KV_BLOCK;
    const size_t queries = or_attention_queries_max(model) * head_dim;
    // A path and the page before it, but no more than the context holds.
    const size_t blocks = OR_TREE_POSITIONS_MAX / OR_KV_BLOCK + 1;
    const size_t most = model->context / OR_KV_BLOCK + 1;
    const size_t gathered = (blocks < most ? blocks : most) * block;
    const or_part_t parts[] = {
        OR_PART(scratch->queries, queries),
        OR_PART(scratch->scores, or_attention_scores_max(model)),
        OR_PART(scratch->parts, attention_parts_max(model)),
        OR_PART(scratch->decoded_keys, block),
        OR_PART(scratch->decoded_values, block),
        OR_PART(scratch->keys.blocks, gathered),
        OR_PART(scratch->keys.chain, OR_TREE_POSITIONS_MAX),
        OR_PART(scratch->values.blocks, gathered),
        OR_PART(scratch->values.chain, OR_TREE_POSITIONS_MAX),
        OR_PART(scratch->chain, OR_TREE_POSITIONS_MAX),
        OR_PART(scratch->slot_key, head_dim),
    };
    return each(model, parts, sizeof parts / sizeof *parts);
}

static bool each_of_all_workers(or_model_t *model, each_t *each)
{
    const or_part_t parts[] = {OR_PART(model->tiles, model->rows_max),
                               OR_PART(model->scratch, or_workers_count(model->workers))};
    return each(model, parts, sizeof parts / sizeof *parts);
}

static bool create_scratch(or_model_t *model)
{
    bool all = each_of_all_workers(model, take);
    for (uint32_t i = 0; all && i < or_workers_count(model->workers); i++) {
        all = each_of_worker(model, &model->scratch[i], take);
    }
    return all;
}

static or_quantised_rows_t quantised_rows(const or_model_t *model)
{
    or_quantised_rows_t rows = {.h = model->head.quantised || model->inputs.projection.quantised};
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        rows.h = rows.h || layer->query.quantised || layer->key.quantised ||
                 layer->value.quantised || layer->gate.quantised || layer->up.quantised ||
                 layer->query_latent.quantised || layer->input_gate.quantised ||
                 or_experts_quantised(layer);
        rows.attended = rows.attended || layer->output.quantised;
        rows.gate = rows.gate || layer->down.quantised || layer->expert_down.quantised;
    }
    return rows;
}

// Experts have a row for each time that one is chosen.
static size_t ffn_rows(const or_model_t *model)
{
    return model->arch->has_experts ? or_experts_entries_max(model) : model->rows_max;
}

// The most of an FFN's middle that this rank has in a layer.
static size_t ffn_width(const or_model_t *model)
{
    size_t most = 0;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        size_t width = or_span_length(model->layers[i].ffn);
        most = width > most ? width : most;
    }
    return most;
}

// Activations that quantised matrices read are kept in quantised form too.
static bool create_activations(or_model_t *model, or_quantised_rows_t quantised)
{
    const struct {
        or_activations_t *activations;
        size_t rows, width;
        bool quantised;
    } all[] = {
        {&model->h, model->rows_max, model->shape.width, quantised.h},
        {&model->attended, model->rows_max,
         or_span_length(model->share.heads) * value_dim_max(model), quantised.attended},
        {&model->gate, ffn_rows(model), ffn_width(model), quantised.gate},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (or_activations_init(all[i].activations, all[i].rows, all[i].width, all[i].quantised) !=
            OR_OK) {
            return false;
        }
        model->buffer_bytes += all[i].activations->bytes;
    }
    return true;
}

// Room for whole panels of a matrix that writes rows.
static size_t product_stride(or_span_t panels)
{
    return or_row_stride((size_t)or_span_length(panels) * OR_PANEL);
}

static void raise_to(size_t *stride, size_t other)
{
    *stride = other > *stride ? other : *stride;
}

// Layers may have heads of several shapes: rows have room for the largest.
static void choose_strides(or_model_t *model)
{
    model->width_stride = or_row_stride(model->shape.width);
    model->query_stride =
        model->arch->has_latent
            ? or_row_stride((size_t)or_span_length(model->share.heads) * model->shape.head_dim)
            : 0;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        if (!model->arch->has_latent) {
            raise_to(&model->query_stride, product_stride(layer->query.panels));
        }
        raise_to(&model->kv_stride, product_stride(layer->key.panels));
        raise_to(&model->kv_stride, product_stride(layer->value.panels));
        raise_to(&model->ffn_stride, product_stride(or_panels_of(layer->ffn)));
    }
    model->vocab_stride = product_stride(or_panels_of(model->share.vocab));
}

// Planned rows, and the buffers in which logits travel from the ranks that have a head to the leader. A model on a GPU
// has them too.
static bool each_anywhere(or_model_t *model, each_t *each)
{
    const size_t rows = model->rows_max < OR_LOGITS_ROWS ? model->rows_max : OR_LOGITS_ROWS;
    const size_t floats = or_ranks_is_alone(model->ranks) ? 0 : rows * model->vocab_share_max;
    const bool leads = or_ranks_is_leader(model->ranks);
    const or_part_t parts[] = {
        OR_PART(model->rows, model->rows_max),
        OR_PART(model->logits_sent, model->share.has_head ? floats : 0),
        OR_PART(model->logits_received, leads ? (size_t)model->ranks->size * floats : 0),
    };
    return each(model, parts, sizeof parts / sizeof *parts);
}

// Sizes are bounded by arch.c and apply_options, so that no product here overflows.
static bool each_of_rows(or_model_t *model, each_t *each)
{
    const size_t rows = model->rows_max;
    const size_t ranks = (size_t)model->ranks->size;
    const size_t logits_rows = rows < OR_LOGITS_ROWS ? rows : OR_LOGITS_ROWS;
    const size_t exchanged = rows < OR_EXCHANGE_ROWS ? rows : OR_EXCHANGE_ROWS;
    const size_t shard_sums = or_workers_count(model->workers) * (size_t)OR_SHARD_SUM_FLOATS;
    const or_part_t parts[] = {
        OR_PART(model->x, rows * model->shape.width),
        OR_PART(model->query, rows * model->query_stride),
        OR_PART(model->key, rows * model->kv_stride),
        OR_PART(model->value, rows * model->kv_stride),
        OR_PART(model->up, ffn_rows(model) * model->ffn_stride),
        OR_PART(model->sums, rows * model->width_stride),
        OR_PART(model->shard_scratch, shard_sums),
        OR_PART(model->ones, model->arch->tells_layers ? head_dim_max(model) : 0),
        OR_PART(model->gathered, ranks == 1 ? 0 : ranks * exchanged * model->width_stride),
        OR_PART(model->logits, model->share.has_head ? logits_rows * model->vocab_stride : 0),
    };
    return each(model, parts, sizeof parts / sizeof *parts);
}

// Find out where attention writes.
static void choose_head_sums(or_model_t *model)
{
    const bool has_latent = model->arch->has_latent;
    model->head_sums = has_latent ? model->latent.sums : model->attended.values;
    model->head_sums_stride =
        has_latent ? (size_t)or_span_length(model->share.heads) * model->shape.head_dim
                   : model->attended.stride;
}

static bool create_parts_of_families(or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    return (!arch->has_experts || or_experts_create(model)) &&
           (!arch->has_latent || or_latent_create(model)) &&
           (model->inputs.embedding == NULL || or_layer_inputs_create(model));
}

or_status_t or_buffers_create(or_model_t *model)
{
    const or_quantised_rows_t quantised = quantised_rows(model);
    choose_strides(model);
    bool shared = each_anywhere(model, take);
    if (shared && model->gpu != NULL) {
        return or_gpu_buffers_create(model, quantised);
    }
    const bool all = shared && create_scratch(model) && create_activations(model, quantised) &&
                     each_of_rows(model, take) && create_parts_of_families(model);
    choose_head_sums(model);
    for (size_t i = 0; all && model->ones != NULL && i < head_dim_max(model); i++) {
        model->ones[i] = 1;
    }
    return all ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY,
                         "no memory for passes of %u rows; ask for fewer, or a shorter context",
                         model->rows_max);
}

void or_buffers_free(or_model_t *model)
{
    if (model->workers == NULL) {
        return; // loading failed before there were buffers
    }
    or_gpu_buffers_free(model);
    each_anywhere(model, give);
    each_of_rows(model, give);
    or_experts_free(model);
    or_latent_free(model);
    or_layer_inputs_free(model);
    or_activations_fini(&model->gate);
    or_activations_fini(&model->attended);
    or_activations_fini(&model->h);
    for (uint32_t i = 0; model->scratch != NULL && i < or_workers_count(model->workers); i++) {
        each_of_worker(model, &model->scratch[i], give);
    }
    each_of_all_workers(model, give);
}
