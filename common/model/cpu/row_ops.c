#include "common/model/cpu/row_ops.h"

#include <math.h>
#include <string.h>

#include "common/base/math/math.h"
#include "common/model/cpu/elementwise.h"

static float *x_of(const or_model_t *model, uint32_t row)
{
    return model->x + (size_t)row * model->shape.width;
}

static float *sums_of(const or_model_t *model, uint32_t row)
{
    return model->sums + row * model->width_stride;
}

static float *gate_of(const or_model_t *model, uint32_t row)
{
    return model->gate.values + row * model->gate.stride;
}

// This rank's KV heads of a row.
static float *heads_of(const or_model_t *model, float *rows, const or_layer_t *layer,
                       const or_matrix_t *matrix, uint32_t row)
{
    return rows + row * model->kv_stride +
           or_matrix_place(matrix, layer->kv_heads.begin * layer->head_dim);
}

static float *query_of(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    return model->query + row * model->query_stride +
           or_query_place(model, step->layer, model->share.heads.begin);
}

static float *key_of(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    return heads_of(model, model->key, step->layer, &step->layer->key, row);
}

// Values that are made of keys lie as these do.
static float *value_of(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_layer_t *layer = step->layer;
    const or_matrix_t *matrix = layer->value.outputs > 0 ? &layer->value : &layer->key;
    return heads_of(model, model->value, layer, matrix, row);
}

// ---- the residual stream ----

void or_embed_row(const or_model_t *model, uint32_t row, float *x, float *scratch)
{
    const or_pass_row_t *planned = &model->rows[row];
    uint32_t width = model->shape.width;
    or_tensor_read_row(model->embedding, (uint64_t)planned->token, width, x);
    if (model->numbers.embedding_scale != 1) {
        or_scale(x, width, model->numbers.embedding_scale);
    }
    if (model->positions != NULL) {
        or_tensor_read_row(model->positions, planned->position, width, scratch);
        model->kernels->add(x, scratch, width);
    }
}

static void embed(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    or_embed_row(model, row, x_of(model, row), sums_of(model, row)); // nothing is in sums yet
}

static void norm(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    model->kernels->rmsnorm(x_of(model, row), step->weight, model->shape.width,
                            model->numbers.norm_epsilon, model->h.values + row * model->h.stride);
    or_activations_quantise(&model->h, model->kernels, row);
}

static void norm_router(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const uint32_t width = model->shape.width;
    float *h = model->h.values + row * model->h.stride;
    model->kernels->rmsnorm(x_of(model, row), step->weight, width, model->numbers.norm_epsilon, h);
    or_scale(h, width, 1 / sqrtf((float)width));
    or_activations_quantise(&model->h, model->kernels, row);
}

static void norm_layer(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    if (step->weight == NULL) {
        return;
    }
    or_layer_norm(x_of(model, row), step->weight, step->bias, model->shape.width,
                  model->numbers.norm_epsilon, model->h.values + row * model->h.stride);
    or_activations_quantise(&model->h, model->kernels, row);
}

static void copy(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    memcpy(model->h.values + row * model->h.stride, x_of(model, row),
           model->shape.width * sizeof(float));
    or_activations_quantise(&model->h, model->kernels, row);
}

static void bias_sums(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    if (step->weight != NULL) {
        model->kernels->add(sums_of(model, row), step->weight, model->shape.width);
    }
}

// The biases of a row's experts, by ascending number. Each rank has all of them and the sums of all, so they are added once.
static void bias_experts(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const uint32_t used = model->shape.experts_used, width = model->shape.width;
    const uint32_t *chosen = model->experts.chosen + (size_t)row * used;
    const float *weights = model->experts.weights + (size_t)row * used;
    float *sums = sums_of(model, row);
    for (uint32_t i = 0; i < used; i++) {
        const float *bias = step->layer->expert_down_bias + (size_t)chosen[i] * width;
        for (uint32_t d = 0; d < width; d++) {
            sums[d] += weights[i] * bias[d];
        }
    }
}

static void norm_sums(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    float *sums = sums_of(model, row);
    model->kernels->rmsnorm(sums, step->weight, model->shape.width, model->numbers.norm_epsilon,
                            sums);
}

static float *aside_of(const or_model_t *model, uint32_t row)
{
    return model->experts.aside + row * model->width_stride;
}

static void put_aside(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    memcpy(aside_of(model, row), sums_of(model, row), model->shape.width * sizeof(float));
}

static void add_aside(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    model->kernels->add(sums_of(model, row), aside_of(model, row), model->shape.width);
}

static void add_sums(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    if (model->numbers.residual_scale != 1) {
        or_scale(sums_of(model, row), model->shape.width, model->numbers.residual_scale);
    }
    model->kernels->add(x_of(model, row), sums_of(model, row), model->shape.width);
}

static void scale(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    if (step->weight != NULL) {
        or_scale(x_of(model, row), model->shape.width, *step->weight);
    }
}

// ---- queries, keys and values ----

// x begins with the first of `heads`, bias with the model's.
static void add_bias(const or_model_t *model, float *x, const float *bias, or_span_t heads,
                     uint32_t head_dim)
{
    if (bias != NULL) {
        model->kernels->add(x, bias + (size_t)heads.begin * head_dim,
                            or_span_length(heads) * head_dim);
    }
}

static void bias_qkv(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_layer_t *layer = step->layer;
    const uint32_t head_dim = layer->head_dim;
    add_bias(model, query_of(model, step, row), layer->query_bias, model->share.heads, head_dim);
    add_bias(model, key_of(model, step, row), layer->key_bias, layer->kv_heads, head_dim);
    add_bias(model, value_of(model, step, row), layer->value_bias, layer->kv_heads, head_dim);
}

static void norm_each(const or_model_t *model, float *heads, const float *weight, uint32_t head_dim,
                      uint32_t count)
{
    for (uint32_t h = 0; h < count; h++) {
        float *head = heads + (size_t)h * head_dim;
        model->kernels->rmsnorm(head, weight, head_dim, model->numbers.norm_epsilon, head);
    }
}

static void norm_heads(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_layer_t *layer = step->layer;
    if (layer->query_norm != NULL) { // else the file has none
        norm_each(model, query_of(model, step, row), layer->query_norm, layer->head_dim,
                  or_span_length(model->share.heads));
    }
    if (layer->key_norm != NULL) { // else it may have no key of its own either
        norm_each(model, key_of(model, step, row), layer->key_norm, layer->head_dim,
                  or_span_length(layer->kv_heads));
    }
}

static void norm_values(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_layer_t *layer = step->layer;
    const uint32_t count = or_span_length(layer->kv_heads);
    if (layer->kv_layer != step->layer_index) {
        return;
    }
    float *value = value_of(model, step, row);
    if (layer->value.outputs == 0) {
        memcpy(value, key_of(model, step, row), (size_t)count * layer->head_dim * sizeof *value);
    }
    norm_each(model, value, model->ones, layer->head_dim, count);
}

// Every rank has all heads of query and key here (OR_DIM_ALL_QUERY), so that the sums of squares are the same.
static void norm_whole(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_model_shape_t *shape = &model->shape;
    float *query = model->query + row * model->query_stride;
    float *key = model->key + row * model->kv_stride;
    model->kernels->rmsnorm(query, step->layer->query_norm, shape->heads * shape->head_dim,
                            model->numbers.norm_epsilon, query);
    model->kernels->rmsnorm(key, step->layer->key_norm, shape->kv_heads * shape->head_dim,
                            model->numbers.norm_epsilon, key);
}

// In latent attention the rotated elements of a head are its last ones, behind the latent ones.
static void rotate_heads(const or_model_t *model, const or_pass_op_t *step, float *heads,
                         uint32_t count, uint32_t position)
{
    const uint32_t dims = step->layer->rope_dims;
    const float *cosine = model->rope_cosine[step->layer->rope] + (size_t)position * (dims / 2);
    const float *sine = model->rope_sine[step->layer->rope] + (size_t)position * (dims / 2);
    void (*turn)(float *, const float *, const float *, uint32_t) =
        model->arch->rope_halves ? model->kernels->rope_halves : model->kernels->rope_pairs;
    for (uint32_t h = 0; h < count; h++) {
        turn(heads + (size_t)h * step->layer->head_dim + model->shape.latent, cosine, sine, dims);
    }
}

static void norm_query_latent(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    or_latent_norm_query(model, step->weight, row);
}

static void norm_latent(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    or_latent_norm_key(model, step->weight, row);
}

static void rotate(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    if (step->layer->rope == OR_ROPE_NONE) {
        return;
    }
    uint32_t position = model->rows[row].position;
    rotate_heads(model, step, query_of(model, step, row), or_span_length(model->share.heads),
                 position);
    if (step->layer->kv_layer != step->layer_index) {
        return;
    }
    rotate_heads(model, step, key_of(model, step, row), or_span_length(step->layer->kv_heads),
                 position);
}

static void grow_query(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_arch_numbers_t *numbers = &model->numbers;
    if (numbers->query_growth > 0) {
        uint32_t times = model->rows[row].position / numbers->rope_original;
        double factor = 1 + (double)numbers->query_growth * or_ln(1.0 + times);
        or_scale(query_of(model, step, row),
                 or_span_length(model->share.heads) * step->layer->head_dim, (float)factor);
    }
}

static void store(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_pass_row_t *planned = &model->rows[row];
    if (step->layer->kv_layer != step->layer_index) {
        return; // another layer's are stored
    }
    const float *key = key_of(model, step, row);
    const float *value = value_of(model, step, row);
    for (uint32_t h = 0; h < or_span_length(step->layer->kv_heads); h++) {
        size_t offset = (size_t)h * step->layer->head_dim;
        if (planned->slot == OR_KV_NO_SLOT) {
            or_kv_put_position(planned->sequence, planned->position, step->layer_index, h,
                               key + offset, value + offset);
        } else {
            or_kv_put_slot(planned->sequence, planned->slot, step->layer_index, h, key + offset,
                           value + offset);
        }
    }
}

// ---- the feed-forward network ----

static void bias_up(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    const or_span_t ffn = model->share.ffn;
    if (step->layer->up_bias != NULL && or_span_length(ffn) > 0) {
        model->kernels->add(gate_of(model, row), step->layer->up_bias + ffn.begin,
                            or_span_length(ffn));
    }
}

// A rank may have no part of the FFN.
static void activate(const or_model_t *model, const or_pass_op_t *step, uint32_t row,
                     or_activation_t activation)
{
    uint32_t units = or_span_length(step->layer->ffn);
    if (units > 0) {
        activation(model->kernels, gate_of(model, row), model->up + row * model->ffn_stride, units);
        or_activations_quantise(&model->gate, model->kernels, row);
    }
}

static void silu_gated(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    activate(model, step, row, or_silu_gated);
}

static void gelu_gated(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    activate(model, step, row, or_gelu_gated);
}

static void gelu(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    activate(model, step, row, or_gelu);
}

static void gelu_exact(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    activate(model, step, row, or_gelu_exact);
}

static void relu(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    activate(model, step, row, or_relu);
}

// ---- what layers get of a token besides ----

static void make_inputs(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    or_embed_row(model, row, model->h.values + row * model->h.stride, sums_of(model, row));
    or_activations_quantise(&model->h, model->kernels, row);
}

static void join_inputs(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    (void)step;
    or_layer_inputs_join(model, row);
}

static void gelu_input(const or_model_t *model, const or_pass_op_t *step, uint32_t row)
{
    or_layer_inputs_gelu(model, step->layer_index, row);
}

static const or_row_op_t row_ops[OR_OP_KINDS] = {
    [OR_OP_NORM] = norm,
    [OR_OP_NORM_LAYER] = norm_layer,
    [OR_OP_NORM_ROUTER] = norm_router,
    [OR_OP_COPY] = copy,
    [OR_OP_BIAS_QKV] = bias_qkv,
    [OR_OP_NORM_HEADS] = norm_heads,
    [OR_OP_NORM_WHOLE] = norm_whole,
    [OR_OP_NORM_VALUES] = norm_values,
    [OR_OP_NORM_QUERY_LATENT] = norm_query_latent,
    [OR_OP_NORM_LATENT] = norm_latent,
    [OR_OP_ROTATE] = rotate,
    [OR_OP_GROW_QUERY] = grow_query,
    [OR_OP_STORE] = store,
    [OR_OP_BIAS_UP] = bias_up,
    [OR_OP_SILU_GATED] = silu_gated,
    [OR_OP_GELU_GATED] = gelu_gated,
    [OR_OP_GELU] = gelu,
    [OR_OP_GELU_EXACT] = gelu_exact,
    [OR_OP_RELU] = relu,
    [OR_OP_BIAS_SUMS] = bias_sums,
    [OR_OP_NORM_SUMS] = norm_sums,
    [OR_OP_PUT_ASIDE] = put_aside,
    [OR_OP_ADD_ASIDE] = add_aside,
    [OR_OP_ADD] = add_sums,
    [OR_OP_SCALE] = scale,
    [OR_OP_EMBED] = embed,
    [OR_OP_MAKE_INPUTS] = make_inputs,
    [OR_OP_JOIN_INPUTS] = join_inputs,
    [OR_OP_GELU_INPUT] = gelu_input,
    [OR_OP_BIAS_EXPERTS] = bias_experts,
};

or_row_op_t or_row_op(or_op_kind_t kind)
{
    return row_ops[kind];
}
