#include "common/model/gpu/gpu_internal.h"

// The operations of arch.h on a device, with the operands that forward.c and row_ops.c have, so that all bits are the same.
// Nothing here waits: an operation is asked for when the one before may not have begun. A sum that the next operation adds
// to x as it is goes there at once.

// ---- operations on rows ----

typedef or_gpu_op_t place_t; // of an operation

// This rank's first head in the products with a matrix.
static float *heads_of(const or_layer_t *layer, float *products, const or_matrix_t *matrix,
                       or_span_t heads)
{
    return products + or_matrix_place(matrix, heads.begin * layer->head_dim);
}

static float *query_of(const or_model_t *model, const or_layer_t *layer)
{
    return model->gpu->query + or_query_place(model, layer, model->share.heads.begin);
}

static float *key_of(const or_model_t *model, const or_layer_t *layer)
{
    return heads_of(layer, model->gpu->key, &layer->key, layer->kv_heads);
}

// Values that are made of keys lie as these do.
static float *value_of(const or_model_t *model, const or_layer_t *layer)
{
    const or_matrix_t *matrix = layer->value.outputs > 0 ? &layer->value : &layer->key;
    return heads_of(layer, model->gpu->value, matrix, layer->kv_heads);
}

// Does the layer attend to K and V of its own?
static bool has_own_kv(const place_t *place)
{
    return place->layer->kv_layer == place->index;
}

static or_status_t normalise(or_model_t *model, const float *weight, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, gpu->x, model->width_stride, weight,
                                             model->shape.width, model->numbers.norm_epsilon, rows,
                                             &gpu->h));
    return OR_OK;
}

static or_status_t normalise_layer(or_model_t *model, const float *weight, const float *bias,
                                   uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    if (weight != NULL) {
        or_gpu_keep(gpu, gpu->functions->layer_norm(gpu->cuda, gpu->x, model->width_stride, weight,
                                                    bias, model->shape.width,
                                                    model->numbers.norm_epsilon, rows, &gpu->h));
    }
    return OR_OK;
}

static or_status_t norm(or_model_t *model, const place_t *place, uint32_t rows)
{
    return normalise(model, or_layer_vector(place->layer, place->op->weight), rows);
}

static or_status_t norm_layer(or_model_t *model, const place_t *place, uint32_t rows)
{
    return normalise_layer(model, or_layer_vector(place->layer, place->op->weight),
                           or_layer_vector(place->layer, place->op->bias), rows);
}

static or_status_t copy(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    (void)place;
    or_gpu_keep(gpu, gpu->functions->scale(gpu->cuda, gpu->x, model->width_stride, 1.0f,
                                           model->shape.width, rows, &gpu->h));
    return OR_OK;
}

// x begins with the first of `heads`, bias with the model's.
static void add_bias(or_model_t *model, float *x, size_t stride, const float *bias, or_span_t heads,
                     size_t head_dim, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    if (bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, x, stride, bias + heads.begin * head_dim, 0,
                                             or_span_length(heads) * (uint32_t)head_dim, rows));
    }
}

static or_status_t bias_qkv(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_layer_t *layer = place->layer;
    const uint32_t head_dim = layer->head_dim;
    add_bias(model, query_of(model, layer), model->query_stride, layer->query_bias,
             model->share.heads, head_dim, rows);
    add_bias(model, key_of(model, layer), model->kv_stride, layer->key_bias, layer->kv_heads,
             head_dim, rows);
    add_bias(model, value_of(model, layer), model->kv_stride, layer->value_bias, layer->kv_heads,
             head_dim, rows);
    return OR_OK;
}

static void norm_each(or_model_t *model, float *x, size_t stride, or_span_t heads,
                      uint32_t head_dim, const float *weight, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu,
                gpu->functions->rmsnorm_heads(gpu->cuda, x, stride, or_span_length(heads), head_dim,
                                              weight, model->numbers.norm_epsilon, rows));
}

static or_status_t norm_heads(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_layer_t *layer = place->layer;
    if (layer->query_norm != NULL) { // else the file has none
        norm_each(model, query_of(model, layer), model->query_stride, model->share.heads,
                  layer->head_dim, layer->query_norm, rows);
    }
    if (layer->key_norm != NULL) { // else it may have no key of its own either
        norm_each(model, key_of(model, layer), model->kv_stride, layer->kv_heads, layer->head_dim,
                  layer->key_norm, rows);
    }
    return OR_OK;
}

static or_status_t norm_values(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_layer_t *layer = place->layer;
    float *value = value_of(model, layer);
    if (!has_own_kv(place)) {
        return OR_OK;
    }
    if (layer->value.outputs == 0) {
        const or_cuda_rows_t to = {.values = value, .stride = model->kv_stride};
        or_gpu_keep(gpu, gpu->functions->scale(
                             gpu->cuda, key_of(model, layer), model->kv_stride, 1.0f,
                             or_span_length(layer->kv_heads) * layer->head_dim, rows, &to));
    }
    norm_each(model, value, model->kv_stride, layer->kv_heads, layer->head_dim, gpu->ones, rows);
    return OR_OK;
}

// Normalise n floats of rows in place.
static void norm_in_place(or_model_t *model, float *x, size_t stride, const float *weight,
                          uint32_t n, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_rows_t to = {.values = x, .stride = stride};
    or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, x, stride, weight, n,
                                             model->numbers.norm_epsilon, rows, &to));
}

// Every rank has all heads of query and key here (OR_DIM_ALL_QUERY).
static or_status_t norm_whole(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_model_shape_t *shape = &model->shape;
    norm_in_place(model, model->gpu->query, model->query_stride, place->layer->query_norm,
                  shape->heads * shape->head_dim, rows);
    norm_in_place(model, model->gpu->key, model->kv_stride, place->layer->key_norm,
                  shape->kv_heads * shape->head_dim, rows);
    return OR_OK;
}

// In latent attention the rotated elements of a head are its last ones, behind the latent ones.
static void rotate_heads(or_model_t *model, const place_t *place, float *x, size_t stride,
                         or_span_t heads, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_layer_t *layer = place->layer;
    x += model->shape.latent;
    or_gpu_keep(gpu, gpu->functions->rope(gpu->cuda, model->arch->rope_halves, x, stride,
                                          or_span_length(heads), layer->head_dim, layer->rope_dims,
                                          model->rope_cosine[layer->rope],
                                          model->rope_sine[layer->rope], gpu->positions, rows));
}

static or_status_t rotate(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_layer_t *layer = place->layer;
    if (layer->rope != OR_ROPE_NONE) {
        rotate_heads(model, place, query_of(model, layer), model->query_stride, model->share.heads,
                     rows);
    }
    if (layer->rope != OR_ROPE_NONE && has_own_kv(place)) {
        rotate_heads(model, place, key_of(model, layer), model->kv_stride, layer->kv_heads, rows);
    }
    return OR_OK;
}

static or_status_t grow_query(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_arch_numbers_t *numbers = &model->numbers;
    if (numbers->query_growth > 0) {
        or_gpu_keep(gpu, gpu->functions->scale_by_position(
                             gpu->cuda, query_of(model, place->layer), model->query_stride,
                             or_span_length(model->share.heads) * place->layer->head_dim,
                             numbers->query_growth, numbers->rope_original, gpu->positions, rows));
    }
    return OR_OK;
}

// A layer that attends to another's has no heads there, and nothing is stored.
static or_status_t store(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_kv_t kv = or_gpu_kv_of_layer(model, place->index);
    or_gpu_keep(gpu, gpu->functions->store_kv(gpu->cuda, &kv, 0, gpu->seen, rows,
                                              key_of(model, place->layer),
                                              value_of(model, place->layer), model->kv_stride));
    return OR_OK;
}

static or_status_t bias_up(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_span_t ffn = place->layer->ffn;
    if (place->layer->up_bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, gpu->gate.values, gpu->gate.stride,
                                             place->layer->up_bias + ffn.begin, 0,
                                             or_span_length(ffn), rows));
    }
    return OR_OK;
}

static const or_cuda_activation_t activations[OR_OP_KINDS] = {
    [OR_OP_SILU_GATED] = OR_CUDA_SILU_GATED,
    [OR_OP_GELU_GATED] = OR_CUDA_GELU_GATED,
    [OR_OP_GELU] = OR_CUDA_GELU,
    [OR_OP_GELU_EXACT] = OR_CUDA_GELU_EXACT,
    [OR_OP_RELU] = OR_CUDA_RELU,
};

static or_status_t activate(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->activate(gpu->cuda, activations[place->op->kind], &gpu->gate,
                                              gpu->up, model->ffn_stride,
                                              or_span_length(place->layer->ffn), rows));
    return OR_OK;
}

static or_status_t bias_sums(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const float *bias = or_layer_vector(place->layer, place->op->weight);
    if (bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, gpu->parts, model->width_stride, bias, 0,
                                             model->shape.width, rows));
    }
    return OR_OK;
}

static or_status_t norm_sums(or_model_t *model, const place_t *place, uint32_t rows)
{
    norm_in_place(model, model->gpu->parts, model->width_stride,
                  or_layer_vector(place->layer, place->op->weight), model->shape.width, rows);
    return OR_OK;
}

void or_gpu_scale(or_model_t *model, float *x, size_t stride, float factor, uint32_t n,
                  uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_rows_t to = {.values = x, .stride = stride};
    if (factor != 1) {
        or_gpu_keep(gpu, gpu->functions->scale(gpu->cuda, x, stride, factor, n, rows, &to));
    }
}

static or_status_t scale(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const float *factor = or_layer_vector(place->layer, place->op->weight);
    if (factor != NULL) {
        or_gpu_keep(gpu, gpu->functions->scale_by(gpu->cuda, gpu->x, model->width_stride, factor,
                                                  model->shape.width, rows));
    }
    return OR_OK;
}

static bool is_added_at_once(const or_model_t *model, const or_op_t *sum)
{
    return sum[1].kind == OR_OP_ADD && model->numbers.residual_scale == 1;
}

// There is a sum before it, somewhere.
static or_status_t add(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_op_kind_t before = place->op[-1].kind;
    if ((before == OR_OP_SUM_OUTPUT || before == OR_OP_SUM_DOWN || before == OR_OP_EXPERTS) &&
        is_added_at_once(model, place->op - 1)) {
        return OR_OK;
    }
    const size_t stride = model->width_stride;
    const uint32_t width = model->shape.width;
    or_gpu_scale(model, gpu->parts, stride, model->numbers.residual_scale, width, rows);
    or_gpu_keep(gpu,
                gpu->functions->add(gpu->cuda, gpu->x, stride, gpu->parts, stride, width, rows));
    return OR_OK;
}

// ---- products ----

static or_status_t project_qkv(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_layer_t *layer = place->layer;
    const or_gpu_projection_t projections[] = {{&layer->query, gpu->query, model->query_stride},
                                               {&layer->key, gpu->key, model->kv_stride},
                                               {&layer->value, gpu->value, model->kv_stride}};
    const uint32_t count = layer->key.outputs == 0 ? 1 : layer->value.outputs == 0 ? 2 : 3;
    or_gpu_project_all(model, &gpu->h, projections, count, NULL, rows);
    return OR_OK;
}

static or_status_t sum_products(or_model_t *model, const place_t *place, const or_matrix_t *matrix,
                                uint32_t units, uint32_t unit_size, const or_cuda_rows_t *from,
                                uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const bool over = !is_added_at_once(model, place->op);
    return or_gpu_sum_products(model, matrix, units, unit_size, from, rows, over,
                               over ? gpu->parts : gpu->x);
}

static or_status_t sum_output(or_model_t *model, const place_t *place, uint32_t rows)
{
    const uint32_t unit = model->share.heads_unit;
    return sum_products(model, place, &place->layer->output, model->shape.heads / unit,
                        unit * place->layer->value_dim, &model->gpu->attended, rows);
}

static or_status_t project_up(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_layer_t *layer = place->layer;
    const or_gpu_projection_t gated[] = {{&layer->gate, gpu->gate.values, gpu->gate.stride},
                                         {&layer->up, gpu->up, model->ffn_stride}};
    const or_gpu_projection_t plain = {&layer->up, gpu->gate.values, gpu->gate.stride};
    const bool has_gate = model->arch->has_gate;
    or_gpu_project_all(model, &gpu->h, has_gate ? gated : &plain, has_gate ? 2 : 1, NULL, rows);
    return OR_OK;
}

static or_status_t sum_down(or_model_t *model, const place_t *place, uint32_t rows)
{
    const uint32_t units = (place->layer->ffn_size + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    return sum_products(model, place, &place->layer->down, units, OR_SHARD_FFN_UNIT,
                        &model->gpu->gate, rows);
}

// ---- experts ----

static or_status_t route(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_route(model, place->layer, rows);
    return OR_OK;
}

static or_status_t run_experts(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const bool over = !is_added_at_once(model, place->op);
    return or_gpu_run_experts(model, place->layer, place->index, rows, over,
                              over ? gpu->parts : gpu->x);
}

static or_status_t bias_experts(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_bias_experts(model, place->layer, rows, model->gpu->parts);
    return OR_OK;
}

// ---- attention ----

static or_status_t attend(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_queries_t queries = {query_of(model, place->layer), model->query_stride};
    or_gpu_attend(model, place->layer, &queries, rows,
                  model->arch->has_latent ? &gpu->latent.sums : &gpu->attended);
    return OR_OK;
}

// ---- what a GPU can run ----

static or_gpu_run_op_t *const ops[OR_OP_KINDS] = {
    [OR_OP_NORM] = norm,
    [OR_OP_NORM_LAYER] = norm_layer,
    [OR_OP_COPY] = copy,
    [OR_OP_PROJECT_QKV] = project_qkv,
    [OR_OP_BIAS_QKV] = bias_qkv,
    [OR_OP_NORM_HEADS] = norm_heads,
    [OR_OP_NORM_WHOLE] = norm_whole,
    [OR_OP_NORM_VALUES] = norm_values,
    [OR_OP_ROTATE] = rotate,
    [OR_OP_GROW_QUERY] = grow_query,
    [OR_OP_STORE] = store,
    [OR_OP_ATTEND] = attend,
    [OR_OP_SUM_OUTPUT] = sum_output,
    [OR_OP_PROJECT_UP] = project_up,
    [OR_OP_BIAS_UP] = bias_up,
    [OR_OP_SILU_GATED] = activate,
    [OR_OP_GELU_GATED] = activate,
    [OR_OP_GELU] = activate,
    [OR_OP_GELU_EXACT] = activate,
    [OR_OP_RELU] = activate,
    [OR_OP_SUM_DOWN] = sum_down,
    [OR_OP_ROUTE] = route,
    [OR_OP_EXPERTS] = run_experts,
    [OR_OP_BIAS_EXPERTS] = bias_experts,
    [OR_OP_BIAS_SUMS] = bias_sums,
    [OR_OP_NORM_SUMS] = norm_sums,
    [OR_OP_ADD] = add,
    [OR_OP_SCALE] = scale,
    [OR_OP_GATE_INPUT] = or_gpu_inputs_gate,
    [OR_OP_GELU_INPUT] = or_gpu_inputs_gelu,
    [OR_OP_RAISE_INPUT] = or_gpu_inputs_raise,
    [OR_OP_PROJECT_LATENT] = or_gpu_latent_project,
    [OR_OP_NORM_QUERY_LATENT] = or_gpu_latent_norm_query,
    [OR_OP_RAISE_QUERY] = or_gpu_latent_raise_query,
    [OR_OP_NORM_LATENT] = or_gpu_latent_norm_key,
    [OR_OP_ABSORB] = or_gpu_latent_absorb,
    [OR_OP_RAISE_VALUES] = or_gpu_latent_raise_values,
};

const char *or_gpu_cannot_run(const or_model_t *model)
{
    if (model->arch->gelu_experts) {
        return "experts beside a feed-forward network";
    }
    for (const or_op_t *op = model->arch->layer_ops; op->kind != OR_OP_END; op++) {
        if (ops[op->kind] == NULL) {
            return "operations of its own";
        }
    }
    return NULL;
}

// ---- layers ----

static bool is_left_out(const or_layer_t *layer, const or_op_t *op)
{
    const or_matrix_t *matrix = (const or_matrix_t *)((const char *)layer + op->needs);
    return op->needs != 0 && matrix->outputs == 0;
}

or_status_t or_gpu_run_layer(or_model_t *model, uint32_t index, uint32_t rows)
{
    const or_layer_t *layer = or_gpu_layer(model, index);
    or_status_t status = OR_OK;
    for (const or_op_t *op = model->arch->layer_ops; status == OR_OK && op->kind != OR_OP_END;
         op++) {
        const place_t place = {op, layer, index};
        status = is_left_out(layer, op) ? OR_OK : ops[op->kind](model, &place, rows);
    }
    return status;
}

void or_gpu_norm_output(or_model_t *model, uint32_t rows)
{
    if (model->arch->output_op.kind == OR_OP_NORM_LAYER) {
        normalise_layer(model, model->output_norm, model->output_norm_bias, rows);
    } else {
        normalise(model, model->output_norm, rows);
    }
}
