#include "common/model/gpu/gpu_internal.h"

// The operations of arch.h on a device, with the operands that forward.c and row_ops.c have, so that all bits are the same.
// Nothing here waits: an operation is asked for when the one before may not have begun. A sum that the next operation adds
// to x as it is goes there at once.

// ---- operations on rows ----

// An operation of a layer.
typedef struct {
    const or_op_t *op; // in the family's list, so that its neighbours are there, too
    const or_layer_t *layer;
    uint32_t index; // of the stage
} place_t;

typedef or_status_t (*run_op_t)(or_model_t *model, const place_t *place, uint32_t rows);

// This rank's first head in the products with a matrix.
static float *heads_of(const or_model_t *model, float *products, const or_matrix_t *matrix,
                       or_span_t heads)
{
    return products + or_matrix_place(matrix, heads.begin * model->shape.head_dim);
}

static float *query_of(const or_model_t *model, const or_layer_t *layer)
{
    return heads_of(model, model->gpu->query, &layer->query, model->share.heads);
}

static float *key_of(const or_model_t *model, const or_layer_t *layer)
{
    return heads_of(model, model->gpu->key, &layer->key, model->share.kv_heads);
}

static float *value_of(const or_model_t *model, const or_layer_t *layer)
{
    return heads_of(model, model->gpu->value, &layer->value, model->share.kv_heads);
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
                     uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    size_t head_dim = model->shape.head_dim;
    if (bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, x, stride, bias + heads.begin * head_dim, 0,
                                             or_span_length(heads) * (uint32_t)head_dim, rows));
    }
}

static or_status_t bias_qkv(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_layer_t *layer = place->layer;
    const or_share_t *share = &model->share;
    add_bias(model, query_of(model, layer), model->query_stride, layer->query_bias, share->heads,
             rows);
    add_bias(model, key_of(model, layer), model->kv_stride, layer->key_bias, share->kv_heads, rows);
    add_bias(model, value_of(model, layer), model->kv_stride, layer->value_bias, share->kv_heads,
             rows);
    return OR_OK;
}

static void norm_each(or_model_t *model, float *x, size_t stride, or_span_t heads,
                      const float *weight, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rmsnorm_heads(gpu->cuda, x, stride, or_span_length(heads),
                                                   model->shape.head_dim, weight,
                                                   model->numbers.norm_epsilon, rows));
}

static or_status_t norm_heads(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_layer_t *layer = place->layer;
    if (layer->query_norm != NULL) { // else the file has none
        norm_each(model, query_of(model, layer), model->query_stride, model->share.heads,
                  layer->query_norm, rows);
        norm_each(model, key_of(model, layer), model->kv_stride, model->share.kv_heads,
                  layer->key_norm, rows);
    }
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

static void rotate_heads(or_model_t *model, const place_t *place, float *x, size_t stride,
                         or_span_t heads, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_rope_t table = place->layer->rope;
    or_gpu_keep(gpu, gpu->functions->rope(gpu->cuda, model->arch->rope_halves, x, stride,
                                          or_span_length(heads), model->shape.head_dim,
                                          model->numbers.rope_dims, model->rope_cosine[table],
                                          model->rope_sine[table], gpu->positions, rows));
}

static or_status_t rotate(or_model_t *model, const place_t *place, uint32_t rows)
{
    const or_layer_t *layer = place->layer;
    if (layer->rope != OR_ROPE_NONE) {
        rotate_heads(model, place, query_of(model, layer), model->query_stride, model->share.heads,
                     rows);
        rotate_heads(model, place, key_of(model, layer), model->kv_stride, model->share.kv_heads,
                     rows);
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
                             or_span_length(model->share.heads) * model->shape.head_dim,
                             numbers->query_growth, numbers->rope_original, gpu->positions, rows));
    }
    return OR_OK;
}

static or_status_t store(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->store_kv(gpu->cuda, &gpu->kv, place->index, gpu->seen, rows,
                                              key_of(model, place->layer),
                                              value_of(model, place->layer), model->kv_stride));
    return OR_OK;
}

static or_status_t bias_up(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_span_t ffn = model->share.ffn;
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
                                              or_span_length(model->share.ffn), rows));
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
    or_gpu_project_all(model, &gpu->h, projections, 3, NULL, rows);
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
                        unit * model->shape.head_dim, &model->gpu->attended, rows);
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
    const uint32_t units = (model->shape.ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
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

// This rank's heads; it may have none.
static or_cuda_heads_t own_heads(const or_model_t *model)
{
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    const or_share_t *share = &model->share;
    return (or_cuda_heads_t){.count = or_span_length(share->heads),
                             .group = group,
                             .first = share->heads.begin - share->kv_heads.begin * group};
}

static bool has_sinks(const or_arch_t *arch)
{
    const or_arch_tensor_t *tensor = arch->layer_tensors;
    while (tensor->suffix != NULL && tensor->offset != offsetof(or_layer_t, sinks)) {
        tensor++;
    }
    return tensor->suffix != NULL;
}

size_t or_gpu_scores_stride(const or_model_t *model, uint32_t positions)
{
    size_t scores = (size_t)positions + (has_sinks(model->arch) ? 1 : 0);
    return (scores + OR_KV_BLOCK - 1) / OR_KV_BLOCK * OR_KV_BLOCK;
}

// Rows attend together as far as there is room for their scores.
static or_status_t attend(or_model_t *model, const place_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_heads_t heads = own_heads(model);
    if (heads.count == 0) {
        return OR_OK;
    }
    const float *query = query_of(model, place->layer);
    const float *sinks = place->layer->sinks; // of all ranks' heads
    size_t stride = or_gpu_scores_stride(model, gpu->positions_max);
    size_t floats = or_cuda_attention_floats(stride, model->shape.head_dim);
    size_t rows_max = gpu->scores_floats / (heads.count * floats);
    const or_cuda_attention_t how = {
        .scale = model->numbers.attention_scale,
        .softcap = model->numbers.attention_softcap,
        .window = place->layer->window,
        .sinks = sinks != NULL ? sinks + model->share.heads.begin : NULL,
    };
    for (uint32_t first = 0; first < rows; first += (uint32_t)rows_max) {
        uint32_t some = rows - first < rows_max ? rows - first : (uint32_t)rows_max;
        const or_cuda_rows_t to = or_gpu_rows_from(&gpu->attended, first);
        or_gpu_keep(gpu, gpu->functions->attention(
                             gpu->cuda, &gpu->kv, place->index, gpu->seen + first, some,
                             query + first * model->query_stride, model->query_stride, &heads, &how,
                             gpu->scores, stride, &to));
    }
    return OR_OK;
}

// ---- what a GPU can run ----

static const run_op_t ops[OR_OP_KINDS] = {
    [OR_OP_NORM] = norm,
    [OR_OP_NORM_LAYER] = norm_layer,
    [OR_OP_COPY] = copy,
    [OR_OP_PROJECT_QKV] = project_qkv,
    [OR_OP_BIAS_QKV] = bias_qkv,
    [OR_OP_NORM_HEADS] = norm_heads,
    [OR_OP_NORM_WHOLE] = norm_whole,
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
};

const char *or_gpu_cannot_run(const or_model_t *model)
{
    const or_arch_t *arch = model->arch;
    if (arch->has_latent) {
        return "latent attention";
    }
    if (arch->mixes_sparsely || model->shape.expert_groups > 0) {
        return "experts that are chosen otherwise than by their largest weights";
    }
    if (arch->head_bias != NULL) {
        return "a bias of its logits";
    }
    for (const or_op_t *op = model->arch->layer_ops; op->kind != OR_OP_END; op++) {
        if (ops[op->kind] == NULL) {
            return "operations of its own";
        }
    }
    return NULL;
}

// ---- layers ----

or_status_t or_gpu_run_layer(or_model_t *model, uint32_t index, uint32_t rows)
{
    const or_layer_t *layer = or_gpu_layer(model, index);
    or_status_t status = OR_OK;
    for (const or_op_t *op = model->arch->layer_ops; status == OR_OK && op->kind != OR_OP_END;
         op++) {
        const place_t place = {op, layer, index};
        status = ops[op->kind] == NULL ? OR_OK : ops[op->kind](model, &place, rows);
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
