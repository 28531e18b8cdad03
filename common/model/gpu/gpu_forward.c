#include <math.h>

#include "common/model/gpu/gpu_internal.h"

// The layers of forward.c on a device, step by step with the same operands, so that all bits are the same.
// Nothing here waits: a step is asked for when the one before may not have begun.

// ---- rows ----

static void normalise(or_model_t *model, const float *weight, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, gpu->x, model->width_stride, weight,
                                             model->shape.width, model->numbers.norm_epsilon, rows,
                                             &gpu->h));
}

static uint32_t length(or_span_t span)
{
    return span.end - span.begin;
}

// x begins with the first of `heads`, bias with the model's.
static void add_bias(or_model_t *model, float *x, size_t stride, const float *bias, or_span_t heads,
                     uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    size_t head_dim = model->shape.head_dim;
    if (bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, x, stride, bias + heads.begin * head_dim, 0,
                                             length(heads) * (uint32_t)head_dim, rows));
    }
}

static void rotate(or_model_t *model, float *x, size_t stride, uint32_t heads, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rope(gpu->cuda, model->arch->rope_halves, x, stride, heads,
                                          model->shape.head_dim, model->rope_cosine,
                                          model->rope_sine, gpu->positions, rows));
}

// ---- attention ----

// This rank's heads; it may have none.
static or_cuda_heads_t own_heads(const or_model_t *model)
{
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    const or_share_t *share = &model->share;
    return (or_cuda_heads_t){.count = length(share->heads),
                             .group = group,
                             .first = share->heads.begin - share->kv_heads.begin * group};
}

// As many rows at a time as there is room for their scores.
static void attend(or_model_t *model, uint32_t index, const float *query, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_heads_t heads = own_heads(model);
    if (heads.count == 0) {
        return;
    }
    size_t blocks = (gpu->positions_max + OR_KV_BLOCK - 1) / OR_KV_BLOCK;
    size_t stride = blocks * OR_KV_BLOCK;
    size_t rows_max = gpu->scores_floats / (heads.count * stride);
    float scale = 1.0f / sqrtf((float)model->shape.head_dim);
    for (uint32_t first = 0; first < rows; first += (uint32_t)rows_max) {
        uint32_t some = rows - first < rows_max ? rows - first : (uint32_t)rows_max;
        const or_cuda_rows_t to = or_gpu_rows_from(&gpu->attended, first);
        or_gpu_keep(gpu, gpu->functions->attention(gpu->cuda, &gpu->kv, index, gpu->seen + first,
                                                   some, query + first * model->query_stride,
                                                   model->query_stride, &heads, scale, gpu->scores,
                                                   stride, &to));
    }
}

// ---- a pass ----

static or_status_t run_attention(or_model_t *model, const or_layer_t *layer, uint32_t index,
                                 uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_share_t *share = &model->share;
    uint32_t head_dim = model->shape.head_dim;
    size_t kv_place = or_matrix_place(&layer->key, share->kv_heads.begin * head_dim);
    float *query = gpu->query + or_matrix_place(&layer->query, share->heads.begin * head_dim);
    float *key = gpu->key + kv_place;
    float *value = gpu->value + kv_place;
    normalise(model, layer->attention_norm, rows);
    or_gpu_project(model, &layer->query, &gpu->h, rows, gpu->query, model->query_stride);
    or_gpu_project(model, &layer->key, &gpu->h, rows, gpu->key, model->kv_stride);
    or_gpu_project(model, &layer->value, &gpu->h, rows, gpu->value, model->kv_stride);
    add_bias(model, query, model->query_stride, layer->query_bias, share->heads, rows);
    add_bias(model, key, model->kv_stride, layer->key_bias, share->kv_heads, rows);
    add_bias(model, value, model->kv_stride, layer->value_bias, share->kv_heads, rows);
    rotate(model, query, model->query_stride, length(share->heads), rows);
    rotate(model, key, model->kv_stride, length(share->kv_heads), rows);
    or_gpu_keep(gpu, gpu->functions->store_kv(gpu->cuda, &gpu->kv, index, gpu->seen, rows, key,
                                              value, model->kv_stride));
    attend(model, index, query, rows);
    return or_gpu_add_projection(model, &layer->output, model->shape.heads / share->heads_unit,
                                 share->heads_unit * head_dim, &gpu->attended, rows);
}

static or_status_t run_ffn(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    uint32_t units = (model->shape.ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    normalise(model, layer->ffn_norm, rows);
    or_gpu_project(model, &layer->gate, &gpu->h, rows, gpu->gate.values, gpu->gate.stride);
    or_gpu_project(model, &layer->up, &gpu->h, rows, gpu->up, model->ffn_stride);
    or_gpu_keep(gpu, gpu->functions->swiglu(gpu->cuda, &gpu->gate, gpu->up, model->ffn_stride,
                                            length(model->share.ffn), rows));
    return or_gpu_add_projection(model, &layer->down, units, OR_SHARD_FFN_UNIT, &gpu->gate, rows);
}

static void embed_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const or_model_t *model = context;
    for (uint32_t i = begin; i < end; i++) {
        or_tensor_read_row(model->embedding, (uint64_t)model->rows[i].token, model->shape.width,
                           model->gpu->x_host + i * model->width_stride);
    }
}

// Where it is not on the device, rows of it travel.
static or_status_t embed(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu->embedding != NULL) {
        or_gpu_embed(model, rows);
        return or_gpu_check(gpu);
    }
    or_workers_run(model->workers, rows, or_workers_grain(16ull * model->shape.width), embed_rows,
                   model);
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->x, gpu->x_host,
                                            rows * model->width_stride * sizeof *gpu->x));
    return or_gpu_check(gpu);
}

// What the device read for the pass before is written over, so that must be done.
static or_status_t begin_pass(or_model_t *model, uint32_t rows)
{
    or_gpu_wait_for_peers(model);
    or_gpu_tables_clear(model->gpu);
    or_gpu_tables_of_pass(model, rows);
    return model->share.embeds ? embed(model, rows) : or_gpu_take_over(model, rows);
}

// Activations for the head, or x for the next stage.
static or_status_t end_pass(or_model_t *model, uint32_t rows)
{
    if (!model->share.has_head) {
        return or_gpu_pass_on(model, rows);
    }
    normalise(model, model->output_norm, rows);
    return or_gpu_check(model->gpu);
}

or_status_t or_gpu_launch_layers(or_model_t *model, uint32_t rows)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < length(model->share.layers); i++) {
        const or_layer_t *layer = or_gpu_layer(model, i);
        status = run_attention(model, layer, i, rows);
        status = status != OR_OK ? status : run_ffn(model, layer, rows);
    }
    return status != OR_OK ? status : end_pass(model, rows);
}

or_status_t or_gpu_run_layers(or_model_t *model, uint32_t rows)
{
    or_status_t status = begin_pass(model, rows);
    return status != OR_OK ? status : or_gpu_steps_run(model, rows, or_gpu_launch_layers);
}

void or_gpu_multiply_head_to(or_model_t *model, uint32_t first, uint32_t rows, float *logits)
{
    const or_cuda_rows_t h = or_gpu_rows_from(&model->gpu->h, first);
    or_gpu_project(model, &model->head, &h, rows, logits, model->vocab_stride);
}

void or_gpu_multiply_head(or_model_t *model, uint32_t first, uint32_t rows)
{
    or_gpu_multiply_head_to(model, first, rows, model->gpu->logits);
}

or_status_t or_gpu_run_head(or_model_t *model, uint32_t first, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_multiply_head(model, first, rows);
    gpu->whole_rows += rows;
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, model->logits, gpu->logits,
                                              rows * model->vocab_stride * sizeof *gpu->logits));
    or_gpu_wait_for_peers(model);
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    return or_gpu_check(gpu);
}
