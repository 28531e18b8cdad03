#include <string.h>

#include "common/model/model_internal.h"

// One pass, layer by layer, all rows together:
//
//     h = norm(x)   q, k, v = h W (+ b)   rotate q, k   store k, v   attended = attention(q)
//     x += sum over shards of attended_s W_out,s      h = norm(x)
//     x += sum over shards of (silu(h W_gate) * h W_up)_s W_down,s
//
// A step is a loop over rows, or over panels of weights; the workers meet between steps. Rows that
// quantised weights read are quantised where they are made. x of a stage's first layer is the
// embedding, or comes from the stage before; x of its last goes to the head, or on.

typedef struct {
    or_model_t *model;
    uint32_t layer;    // of the stage
    const float *norm; // of what follows here; NULL: x goes on
} step_t;

static void norm_row(const step_t *step, uint32_t row)
{
    const or_model_t *model = step->model;
    uint32_t width = model->shape.width;
    if (step->norm != NULL) {
        model->kernels->rmsnorm(model->x + (size_t)row * width, step->norm, width,
                                model->numbers.norm_epsilon,
                                model->h.values + row * model->h.stride);
        or_activations_quantise(&model->h, model->kernels, row);
    }
}

static void begin_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const step_t *step = context;
    const or_model_t *model = step->model;
    uint32_t width = model->shape.width;
    for (uint32_t i = begin; i < end; i++) {
        if (model->share.embeds) {
            or_tensor_read_row(model->embedding, (uint64_t)model->rows[i].token, width,
                               model->x + (size_t)i * width);
        }
        norm_row(step, i);
    }
}

static void store_kv(const or_pass_row_t *row, uint32_t layer, uint32_t cache_head,
                     const float *key, const float *value)
{
    if (row->slot == OR_KV_NO_SLOT) {
        or_kv_put_position(row->sequence, row->position, layer, cache_head, key, value);
    } else {
        or_kv_put_slot(row->sequence, row->slot, layer, cache_head, key, value);
    }
}

// x begins with the first of `heads`, bias with the model's.
static void add_bias(const or_model_t *model, float *x, const float *bias, or_span_t heads)
{
    uint32_t head_dim = model->shape.head_dim;
    if (bias != NULL) {
        model->kernels->add(x, bias + (size_t)heads.begin * head_dim,
                            or_span_length(heads) * head_dim);
    }
}

static void rotate_and_store_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const step_t *step = context;
    const or_model_t *model = step->model;
    const or_layer_t *layer = &model->layers[step->layer];
    const or_share_t *share = &model->share;
    uint32_t head_dim = model->shape.head_dim;
    void (*rotate)(float *, const float *, const float *, uint32_t) =
        model->arch->rope_halves ? model->kernels->rope_halves : model->kernels->rope_pairs;
    size_t query_place = or_matrix_place(&layer->query, share->heads.begin * head_dim);
    size_t kv_place = or_matrix_place(&layer->key, share->kv_heads.begin * head_dim);
    for (uint32_t i = begin; i < end; i++) {
        const or_pass_row_t *row = &model->rows[i];
        const float *cosine = model->rope_cosine + (size_t)row->position * (head_dim / 2);
        const float *sine = model->rope_sine + (size_t)row->position * (head_dim / 2);
        float *query = model->query + i * model->query_stride + query_place;
        float *key = model->key + i * model->kv_stride + kv_place;
        float *value = model->value + i * model->kv_stride + kv_place;
        add_bias(model, query, layer->query_bias, share->heads);
        add_bias(model, key, layer->key_bias, share->kv_heads);
        add_bias(model, value, layer->value_bias, share->kv_heads);
        for (uint32_t h = 0; h < or_span_length(share->heads); h++) {
            rotate(query + (size_t)h * head_dim, cosine, sine, head_dim);
        }
        for (uint32_t h = 0; h < or_span_length(share->kv_heads); h++) {
            size_t offset = (size_t)h * head_dim;
            rotate(key + offset, cosine, sine, head_dim);
            store_kv(row, step->layer, h, key + offset, value + offset);
        }
    }
}

static void swiglu_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const step_t *step = context;
    const or_model_t *model = step->model;
    uint32_t units = or_span_length(model->share.ffn);
    for (uint32_t i = begin; i < end && units > 0; i++) {
        model->kernels->swiglu(model->gate.values + i * model->gate.stride,
                               model->up + i * model->ffn_stride, units);
        or_activations_quantise(&model->gate, model->kernels, i);
    }
}

static void quantise_attended_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const step_t *step = context;
    for (uint32_t i = begin; i < end; i++) {
        or_activations_quantise(&step->model->attended, step->model->kernels, i);
    }
}

// x += the sum of all shards; h = norm(x).
static void add_shards_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const step_t *step = context;
    const or_model_t *model = step->model;
    uint32_t width = model->shape.width;
    for (uint32_t i = begin; i < end; i++) {
        model->kernels->add(model->x + (size_t)i * width, model->sums + i * model->width_stride,
                            width);
        norm_row(step, i);
    }
}

// Add the sums of `count` ranks (1, 2, 4 or 8) in the fixed tree, into the first's.
static void add_ranks(const or_model_t *model, float *sums, size_t floats, uint32_t count)
{
    for (uint32_t step = 1; step < count; step *= 2) {
        for (uint32_t rank = 0; rank < count; rank += 2 * step) {
            float *sum = sums + rank * floats;
            model->kernels->add(sum, sum + step * floats, (uint32_t)floats);
        }
    }
}

// Every rank has summed its own aligned subtree; gathered, the tree is finished everywhere alike.
static or_status_t exchange(or_model_t *model, uint32_t rows)
{
    const or_ranks_t *ranks = model->ranks;
    or_status_t status = OR_OK;
    for (uint32_t first = 0; status == OR_OK && first < rows; first += OR_EXCHANGE_ROWS) {
        uint32_t count = rows - first < OR_EXCHANGE_ROWS ? rows - first : OR_EXCHANGE_ROWS;
        size_t floats = count * model->width_stride;
        float *mine = model->sums + first * model->width_stride;
        status = ranks->all_gather(ranks, mine, floats * sizeof *mine, model->gathered);
        if (status == OR_OK) {
            add_ranks(model, model->gathered, floats, (uint32_t)ranks->size);
            memcpy(mine, model->gathered, floats * sizeof *mine);
        }
    }
    return status;
}

// x += matrix * from, cut into shards along the inputs; h = norm(x).
static or_status_t add_projection(step_t *step, const or_matrix_t *matrix, uint32_t units,
                                  uint32_t unit_size, const or_activations_t *from, uint32_t rows)
{
    or_model_t *model = step->model;
    const or_span_t shards = model->share.shards;
    or_span_t inputs[OR_SHARDS];
    for (uint32_t s = shards.begin; s < shards.end; s++) {
        inputs[s - shards.begin] = or_shard_inputs(s, units, unit_size, matrix->inputs.end);
    }
    or_product_t product =
        or_product(matrix, 0, model->shape.width, model->sums, model->width_stride);
    or_shard_sum_run(model->kernels, model->workers, model->shard_scratch, from, rows, &product,
                     inputs, or_span_length(shards));
    or_status_t status = model->ranks->size == 1 ? OR_OK : exchange(model, rows);
    if (status == OR_OK) {
        or_workers_run(model->workers, rows, or_workers_grain(16ull * model->shape.width),
                       add_shards_rows, step);
    }
    return status;
}

static void project_qkv(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    const or_share_t *share = &model->share;
    uint32_t head_dim = model->shape.head_dim;
    uint32_t q_begin = share->heads.begin * head_dim;
    uint32_t q_end = share->heads.end * head_dim;
    uint32_t kv_begin = share->kv_heads.begin * head_dim;
    uint32_t kv_end = share->kv_heads.end * head_dim;
    const or_product_t products[] = {
        or_product(&layer->query, q_begin, q_end, model->query, model->query_stride),
        or_product(&layer->key, kv_begin, kv_end, model->key, model->kv_stride),
        or_product(&layer->value, kv_begin, kv_end, model->value, model->kv_stride),
    };
    or_products_run(model->kernels, model->workers, &model->h, 0, rows, products, 3);
}

static void project_gate_up(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    const or_span_t ffn = model->share.ffn;
    const or_product_t products[] = {
        or_product(&layer->gate, ffn.begin, ffn.end, model->gate.values, model->gate.stride),
        or_product(&layer->up, ffn.begin, ffn.end, model->up, model->ffn_stride),
    };
    or_products_run(model->kernels, model->workers, &model->h, 0, rows, products, 2);
}

// Return the weights of the norm that follows a layer of this stage.
static const float *norm_after(const or_model_t *model, uint32_t layer)
{
    uint32_t layers = or_span_length(model->share.layers);
    return layer + 1 < layers ? model->layers[layer + 1].attention_norm : model->output_norm;
}

static or_status_t run_layer(or_model_t *model, uint32_t index, uint32_t rows)
{
    const or_model_shape_t *shape = &model->shape;
    const or_layer_t *layer = &model->layers[index];
    step_t step = {.model = model, .layer = index, .norm = layer->ffn_norm};

    project_qkv(model, layer, rows);
    or_workers_run(model->workers, rows, or_workers_grain(16ull * shape->width),
                   rotate_and_store_rows, &step);
    or_attention_run(model, index, rows);
    if (model->attended.blocks != NULL) {
        or_workers_run(model->workers, rows, or_workers_grain(4ull * shape->width),
                       quantise_attended_rows, &step);
    }
    uint32_t heads_unit = model->share.heads_unit;
    or_status_t status = add_projection(&step, &layer->output, shape->heads / heads_unit,
                                        heads_unit * shape->head_dim, &model->attended, rows);
    if (status != OR_OK) {
        return status;
    }

    project_gate_up(model, layer, rows);
    or_workers_run(model->workers, rows, or_workers_grain(16ull * shape->ffn), swiglu_rows, &step);
    step.norm = norm_after(model, index);
    uint32_t units = (shape->ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    return add_projection(&step, &layer->down, units, OR_SHARD_FFN_UNIT, &model->gate, rows);
}

// x of all rows: embedded here, or the stage before's.
static or_status_t begin_pass(or_model_t *model, uint32_t count)
{
    const or_ranks_t *ranks = model->ranks;
    uint32_t width = model->shape.width;
    or_status_t status =
        model->share.embeds
            ? OR_OK
            : ranks->take_over(ranks, model->x, (size_t)count * width * sizeof *model->x);
    if (status == OR_OK) {
        step_t step = {.model = model, .norm = model->layers[0].attention_norm};
        or_workers_run(model->workers, count, or_workers_grain(16ull * width), begin_rows, &step);
    }
    return status;
}

// h is there for the head, or x goes on to the next stage.
static or_status_t end_pass(const or_model_t *model, uint32_t count)
{
    const or_ranks_t *ranks = model->ranks;
    size_t bytes = (size_t)count * model->shape.width * sizeof *model->x;
    return model->share.has_head ? OR_OK : ranks->pass_on(ranks, model->x, bytes);
}

or_status_t or_forward_run(or_model_t *model, uint32_t count)
{
    uint32_t layers = or_span_length(model->share.layers);
    or_status_t status = begin_pass(model, count);
    for (uint32_t i = 0; status == OR_OK && i < layers; i++) {
        status = run_layer(model, i, count);
    }
    return status != OR_OK ? status : end_pass(model, count);
}
