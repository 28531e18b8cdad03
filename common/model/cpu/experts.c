#include "common/model/cpu/experts.h"

#include <string.h>

#include "common/base/inline.h"
#include "common/base/parts.h"
#include "common/model/cpu/elementwise.h"
#include "common/model/model_internal.h"

#define ENTRIES_MAX 4096u

// ---- memory ----

// Where rows take many experts, fewer rows are computed together: whatever a file says, buffers stay small.
static uint32_t rows_together(const or_model_t *model)
{
    const uint32_t used =
        model->shape.experts_used; // 0 of a model without experts, whose buffers are freed
    const uint32_t most = used > 0 ? ENTRIES_MAX / used : ENTRIES_MAX;
    return or_min_u32(model->rows_max, or_min_u32(OR_PART_SUM_ROWS, most));
}

size_t or_experts_entries_max(const or_model_t *model)
{
    return (size_t)rows_together(model) * model->shape.experts_used;
}

// ---- layers without experts ----

bool or_experts_is_dense(const or_layer_t *layer)
{
    return layer->router.outputs == 0;
}

uint32_t or_experts_common_ffn(const or_model_t *model, const or_layer_t *layer)
{
    return or_experts_is_dense(layer) ? model->shape.dense_ffn : model->shape.shared_ffn;
}

uint32_t or_experts_common_ffn_here(const or_model_t *model, const or_layer_t *layer)
{
    return or_span_length(or_experts_is_dense(layer) ? model->share.dense_ffn
                                                     : model->share.shared_ffn);
}

uint32_t or_experts_common_ffn_max(const or_model_t *model)
{
    const uint32_t shared = or_span_length(model->share.shared_ffn);
    const uint32_t dense = or_span_length(model->share.dense_ffn);
    return shared > dense ? shared : dense;
}

static bool has_common(const or_model_t *model)
{
    return model->shape.shared_ffn > 0 || model->shape.dense_ffn > 0;
}

bool or_experts_quantised(const or_layer_t *layer)
{
    return layer->router.quantised || layer->expert_gate.quantised || layer->expert_up.quantised ||
           layer->shared_gate.quantised || layer->shared_up.quantised;
}

typedef struct {
    bool h, shared_gate;
} quantised_t;

// Are the rows read by quantised matrices in some layer?
static quantised_t quantised_rows(const or_model_t *model)
{
    quantised_t quantised = {0};
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        quantised.h = quantised.h || layer->expert_gate.quantised || layer->expert_up.quantised;
        quantised.shared_gate = quantised.shared_gate || layer->shared_down.quantised;
    }
    return quantised;
}

// Are sums put aside, of a family whose shared expert has a norm of its own behind it?
static bool puts_aside(const or_model_t *model)
{
    bool puts = false;
    for (const or_op_t *op = model->arch->layer_ops; op->kind != OR_OP_END; op++) {
        puts = puts || op->kind == OR_OP_PUT_ASIDE;
    }
    return puts;
}

static bool each_array(or_model_t *model, or_parts_t *each)
{
    or_experts_t *experts = &model->experts;
    const size_t chosen = (size_t)model->rows_max * model->shape.experts_used;
    const size_t entries = or_experts_entries_max(model);
    const size_t count = model->shape.experts;
    const size_t shared = has_common(model) ? rows_together(model) : 0;
    const or_part_t parts[] = {
        OR_PART(experts->logits, model->rows_max * experts->logits_stride),
        OR_PART(experts->chosen, chosen),
        OR_PART(experts->weights, chosen),
        OR_PART(experts->groups, count),
        OR_PART(experts->rows, entries),
        OR_PART(experts->entry_experts, entries),
        OR_PART(experts->entry_weights, entries),
        OR_PART(experts->matrices, 2 * count),
        OR_PART(experts->products, 2 * count),
        OR_PART(experts->product_rows, 2 * count),
        OR_PART(experts->parts, count + 1),
        OR_PART(experts->scratch, or_workers_count(model->workers) * (size_t)OR_PART_SUM_FLOATS),
        OR_PART(experts->shared_up, shared * experts->shared_stride),
        OR_PART(experts->aside, puts_aside(model) ? model->rows_max * model->width_stride : 0),
    };
    return each(parts, sizeof parts / sizeof *parts);
}

bool or_experts_create(or_model_t *model)
{
    or_experts_t *experts = &model->experts;
    const quantised_t quantised = quantised_rows(model);
    experts->logits_stride = or_row_stride(model->shape.experts);
    experts->shared_stride = or_row_stride(or_experts_common_ffn_max(model));
    return each_array(model, or_parts_take) &&
           or_activations_init(&experts->h, or_experts_entries_max(model), model->shape.width,
                               quantised.h) == OR_OK &&
           (!has_common(model) ||
            or_activations_init(&experts->shared_gate, rows_together(model),
                                or_experts_common_ffn_max(model), quantised.shared_gate) == OR_OK);
}

void or_experts_free(or_model_t *model)
{
    each_array(model, or_parts_free);
    or_activations_fini(&model->experts.h);
    or_activations_fini(&model->experts.shared_gate);
}

static uint64_t bytes_of_layer(const or_layer_t *layer)
{
    return layer->expert_gate.bytes + layer->expert_up.bytes + layer->expert_down.bytes;
}

uint64_t or_experts_bytes(const or_model_t *model)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        bytes += bytes_of_layer(&model->layers[i]);
    }
    return bytes;
}

// ---- entries ----

// The rows that are computed together.
typedef struct {
    or_model_t *model;
    const or_layer_t *layer;
    uint32_t first, count;
    or_experts_part_t part;
} tile_t;

static bool has_chosen(const tile_t *tile)
{
    return tile->part != OR_EXPERTS_SHARED && !or_experts_is_dense(tile->layer);
}

static bool has_shared(const tile_t *tile)
{
    return tile->part != OR_EXPERTS_CHOSEN && or_experts_common_ffn(tile->model, tile->layer) > 0;
}

// Order the entries of the rows by expert: count those of each, and put each row where its expert's next entry is.
static void group_entries(const tile_t *tile)
{
    const or_experts_t *experts = &tile->model->experts;
    const uint32_t used = tile->model->shape.experts_used, count = tile->model->shape.experts;
    const uint32_t *chosen = experts->chosen + (size_t)tile->first * used;
    const float *weights = experts->weights + (size_t)tile->first * used;
    memset(experts->groups, 0, count * sizeof *experts->groups);
    for (uint32_t i = 0; i < tile->count * used; i++) {
        experts->groups[chosen[i]].end++;
    }
    uint32_t next = 0;
    for (uint32_t e = 0; e < count; e++) {
        uint32_t length = experts->groups[e].end;
        experts->groups[e] = (or_span_t){next, next};
        next += length;
    }
    for (uint32_t i = 0; i < tile->count * used; i++) {
        uint32_t entry = experts->groups[chosen[i]].end++;
        experts->rows[entry] = i / used;
        experts->entry_experts[entry] = chosen[i];
        experts->entry_weights[entry] = weights[i];
    }
}

// Copy the entries' rows of h, in the form that the layer's matrices read.
static void copy_entries(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const tile_t *tile = context;
    const or_activations_t *from = &tile->model->h, *to = &tile->model->experts.h;
    bool reads_floats = !tile->layer->expert_gate.quantised || !tile->layer->expert_up.quantised;
    for (uint32_t i = begin; i < end; i++) {
        size_t row = tile->first + tile->model->experts.rows[i];
        if (reads_floats) {
            memcpy(to->values + i * to->stride, from->values + row * from->stride,
                   tile->model->shape.width * sizeof *to->values);
        }
        if (to->blocks != NULL) {
            memcpy(to->blocks + i * to->blocks_stride, from->blocks + row * from->blocks_stride,
                   to->row_blocks * sizeof *to->blocks);
        }
    }
}

// ---- the middle ----

// The gates and ups of all experts that some row takes.
static void project_entries(const tile_t *tile)
{
    or_model_t *model = tile->model;
    or_experts_t *experts = &model->experts;
    uint32_t count = 0;
    for (uint32_t e = 0; e < model->shape.experts; e++) {
        const or_span_t group = experts->groups[e];
        float *const to[] = {model->gate.values + group.begin * model->gate.stride,
                             model->up + group.begin * model->ffn_stride};
        const or_matrix_t *const from[] = {&tile->layer->expert_gate, &tile->layer->expert_up};
        const size_t strides[] = {model->gate.stride, model->ffn_stride};
        for (uint32_t i = 0; i < 2 && or_span_length(group) > 0; i++) {
            experts->matrices[count] = or_matrix_expert(from[i], e);
            experts->products[count] =
                or_product_here(&experts->matrices[count], to[i], strides[i]);
            experts->product_rows[count++] = group;
        }
    }
    or_products_run_each(model->kernels, model->workers, &experts->h, experts->products,
                         experts->product_rows, count);
}

static void activate(const or_model_t *model, const or_activations_t *gate, float *up,
                     uint32_t units, uint32_t row, float weight)
{
    const or_activation_t activation = model->arch->clamps_experts ? or_clamped_gated
                                       : model->arch->gelu_experts ? or_gelu_gated
                                                                   : or_silu_gated;
    float *values = gate->values + row * gate->stride;
    if (units > 0) {
        activation(model->kernels, values, up, units);
        or_scale(values, units, weight);
        or_activations_quantise(gate, model->kernels, row);
    }
}

// Add this rank's part of an expert's bias, of a family that has them.
static void add_bias(const or_model_t *model, const float *biases, uint32_t expert, float *values)
{
    const or_span_t ffn = model->share.ffn;
    if (biases != NULL && or_span_length(ffn) > 0) {
        model->kernels->add(values, biases + (size_t)expert * model->shape.ffn + ffn.begin,
                            or_span_length(ffn));
    }
}

static void activate_entries(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const tile_t *tile = context;
    const or_model_t *model = tile->model;
    const or_experts_t *experts = &model->experts;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t expert = experts->entry_experts[i];
        float *up = model->up + i * model->ffn_stride;
        add_bias(model, tile->layer->expert_gate_bias, expert,
                 model->gate.values + i * model->gate.stride);
        add_bias(model, tile->layer->expert_up_bias, expert, up);
        activate(model, &model->gate, up, or_span_length(model->share.ffn), i,
                 experts->entry_weights[i]);
    }
}

// ---- the shared expert ----

static void project_shared(const tile_t *tile)
{
    or_model_t *model = tile->model;
    const or_experts_t *experts = &model->experts;
    const or_product_t products[] = {
        or_product_here(&tile->layer->shared_gate, experts->shared_gate.values,
                        experts->shared_gate.stride),
        or_product_here(&tile->layer->shared_up, experts->shared_up, experts->shared_stride),
    };
    or_products_run(model->kernels, model->workers, &model->h, tile->first, tile->count, products,
                    2);
}

static void activate_shared(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const tile_t *tile = context;
    const or_model_t *model = tile->model;
    const or_experts_t *experts = &model->experts;
    for (uint32_t row = begin; row < end; row++) {
        activate(model, &experts->shared_gate, experts->shared_up + row * experts->shared_stride,
                 or_experts_common_ffn_here(model, tile->layer), row,
                 or_experts_shared_weight(model, tile->layer, tile->first + row));
    }
}

// ---- the sum ----

// The inputs of this rank's shards, of a matrix `down` with `ffn` inputs in all.
static void cut_inputs(const or_model_t *model, uint32_t ffn, or_span_t *inputs)
{
    const or_span_t shards = model->share.shards;
    const uint32_t units = (ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    for (uint32_t s = shards.begin; s < shards.end; s++) {
        inputs[s - shards.begin] = or_shard_inputs(s, units, OR_SHARD_FFN_UNIT, ffn);
    }
}

static void sum_entries(const tile_t *tile)
{
    or_model_t *model = tile->model;
    or_experts_t *experts = &model->experts;
    or_span_t inputs[OR_SHARDS], shared_inputs[OR_SHARDS];
    uint32_t count = 0;
    cut_inputs(model, model->shape.ffn, inputs);
    cut_inputs(model, or_experts_common_ffn(model, tile->layer), shared_inputs);
    for (uint32_t e = 0; e < model->shape.experts && has_chosen(tile); e++) {
        const or_span_t group = experts->groups[e];
        if (or_span_length(group) > 0) {
            experts->parts[count++] =
                (or_part_product_t){.matrix = or_matrix_expert(&tile->layer->expert_down, e),
                                    .x = &model->gate,
                                    .first = group.begin,
                                    .count = or_span_length(group),
                                    .rows = experts->rows + group.begin,
                                    .shards = inputs};
        }
    }
    experts->read.experts += count;
    experts->read.weights += count * (bytes_of_layer(tile->layer) / model->shape.experts);
    if (has_shared(tile)) {
        experts->parts[count++] = (or_part_product_t){.matrix = tile->layer->shared_down,
                                                      .x = &experts->shared_gate,
                                                      .count = tile->count,
                                                      .shards = shared_inputs};
    }
    or_part_sum_run(model->kernels, model->workers, experts->scratch, experts->parts, count,
                    or_span_length(model->share.shards), tile->count,
                    model->sums + tile->first * model->width_stride, model->width_stride);
}

static void run_entries(tile_t *tile)
{
    or_model_t *model = tile->model;
    const uint32_t entries = tile->count * model->shape.experts_used;
    const uint32_t work = 16 * model->shape.ffn;
    group_entries(tile);
    or_workers_run(model->workers, entries, or_workers_grain(model->shape.width), copy_entries,
                   tile);
    project_entries(tile);
    or_workers_run(model->workers, entries, or_workers_grain(work), activate_entries, tile);
}

static void run_tile(tile_t *tile)
{
    or_model_t *model = tile->model;
    const uint32_t shared_work = 16 * or_experts_common_ffn(model, tile->layer);
    if (has_chosen(tile)) {
        run_entries(tile);
        or_importance_add_chosen(model->importance, tile->layer, tile->first);
    }
    if (has_shared(tile)) {
        project_shared(tile);
        or_workers_run(model->workers, tile->count, or_workers_grain(shared_work), activate_shared,
                       tile);
        or_importance_add_shared(model->importance, tile->layer, tile->first, tile->count);
    }
    sum_entries(tile);
}

void or_experts_run(or_model_t *model, const or_layer_t *layer, or_experts_part_t part,
                    uint32_t rows)
{
    const uint32_t together = rows_together(model);
    for (uint32_t first = 0; first < rows; first += together) {
        tile_t tile = {model, layer, first, or_min_u32(together, rows - first), part};
        run_tile(&tile);
    }
}
