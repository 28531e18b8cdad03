#include <math.h>

#include "common/model/gpu_internal.h"

// The layers of forward.c on a device, step by step with the same operands, so that all bits are the same.
// Nothing here waits: a step is asked for when the one before may not have begun.

// ---- products ----

static uint32_t panels_of(const or_matrix_t *matrix)
{
    return matrix->panels.end - matrix->panels.begin;
}

static or_cuda_float_t float_type(or_tensor_type_t type)
{
    return type == OR_TENSOR_F32 ? OR_CUDA_F32 : type == OR_TENSOR_F16 ? OR_CUDA_F16 : OR_CUDA_BF16;
}

static or_cuda_span_t span_of(const or_matrix_t *matrix, or_span_t inputs)
{
    uint32_t unit = matrix->quantised ? OR_QUANT_BLOCK : 1;
    return (or_cuda_span_t){inputs.begin / unit, (inputs.end - inputs.begin) / unit};
}

static void multiply(or_gpu_t *gpu, const or_matrix_t *m, const or_cuda_rows_t *x, uint32_t rows,
                     const or_cuda_parts_t *to)
{
    const or_gpu_functions_t *f = gpu->functions;
    size_t panel_stride = (size_t)(m->inputs.end - m->inputs.begin) * OR_PANEL;
    or_gpu_keep(gpu, m->quantised
                         ? f->matmul_quants(gpu->cuda, m->quant, m->memory, m->panel_bytes,
                                            panels_of(m), x->blocks, x->blocks_stride, rows, to)
                         : f->matmul_floats(gpu->cuda, float_type(m->type), m->memory, panel_stride,
                                            panels_of(m), x->values, x->stride, rows, to));
}

// y = matrix * x over all inputs.
static void project(or_gpu_t *gpu, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    uint32_t rows, float *y, size_t y_stride)
{
    const or_cuda_span_t all = span_of(matrix, matrix->inputs);
    const or_cuda_parts_t to = {.spans = &all, .count = 1, .y = y, .y_stride = y_stride};
    multiply(gpu, matrix, x, rows, &to);
}

// x += matrix * from, cut into shards along the inputs, which come in units of unit_size.
static void add_projection(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                           uint32_t unit_size, const or_cuda_rows_t *from, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_cuda_span_t shards[OR_SHARDS];
    for (uint32_t s = 0; s < OR_SHARDS; s++) {
        shards[s] = span_of(matrix, or_shard_inputs(s, units, unit_size, matrix->inputs.end));
    }
    size_t stride = model->width_stride;
    const or_cuda_parts_t to = {.spans = shards,
                                .count = OR_SHARDS,
                                .y = gpu->parts,
                                .y_stride = stride,
                                .part_stride = rows * stride};
    multiply(gpu, matrix, from, rows, &to);
    or_gpu_keep(gpu,
                gpu->functions->add_parts(gpu->cuda, gpu->x, stride, gpu->parts, to.part_stride,
                                          stride, OR_SHARDS, model->shape.width, rows));
}

// ---- rows ----

static void normalise(or_model_t *model, const float *weight, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, gpu->x, model->width_stride, weight,
                                             model->shape.width, model->numbers.norm_epsilon, rows,
                                             &gpu->h));
}

static void add_bias(or_gpu_t *gpu, float *x, size_t stride, const float *bias, uint32_t n,
                     uint32_t rows)
{
    if (bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, x, stride, bias, 0, n, rows));
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

// As many rows at a time as there is room for their scores.
static void attend(or_model_t *model, uint32_t index, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_model_shape_t *shape = &model->shape;
    size_t blocks = (gpu->positions_max + OR_KV_BLOCK - 1) / OR_KV_BLOCK;
    size_t stride = blocks * OR_KV_BLOCK;
    size_t rows_max = gpu->scores_floats / (shape->heads * stride);
    float scale = 1.0f / sqrtf((float)shape->head_dim);
    for (uint32_t first = 0; first < rows; first += (uint32_t)rows_max) {
        uint32_t some = rows - first < rows_max ? rows - first : (uint32_t)rows_max;
        or_cuda_rows_t to = gpu->attended;
        to.values += first * to.stride;
        to.blocks += to.blocks != NULL ? first * to.blocks_stride : 0;
        or_gpu_keep(gpu, gpu->functions->attention(gpu->cuda, &gpu->kv, index, gpu->seen + first,
                                                   some, gpu->query + first * model->query_stride,
                                                   model->query_stride, shape->heads, scale,
                                                   gpu->scores, stride, &to));
    }
}

// ---- a pass ----

static void run_attention(or_model_t *model, uint32_t index, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_model_shape_t *shape = &model->shape;
    const or_layer_t *layer = &model->layers[index];
    uint32_t kv_width = shape->kv_heads * shape->head_dim;
    normalise(model, layer->attention_norm, rows);
    project(gpu, &layer->query, &gpu->h, rows, gpu->query, model->query_stride);
    project(gpu, &layer->key, &gpu->h, rows, gpu->key, model->kv_stride);
    project(gpu, &layer->value, &gpu->h, rows, gpu->value, model->kv_stride);
    add_bias(gpu, gpu->query, model->query_stride, layer->query_bias,
             shape->heads * shape->head_dim, rows);
    add_bias(gpu, gpu->key, model->kv_stride, layer->key_bias, kv_width, rows);
    add_bias(gpu, gpu->value, model->kv_stride, layer->value_bias, kv_width, rows);
    rotate(model, gpu->query, model->query_stride, shape->heads, rows);
    rotate(model, gpu->key, model->kv_stride, shape->kv_heads, rows);
    or_gpu_keep(gpu, gpu->functions->store_kv(gpu->cuda, &gpu->kv, index, gpu->seen, rows, gpu->key,
                                              gpu->value, model->kv_stride));
    attend(model, index, rows);
    uint32_t heads_unit = model->share.heads_unit;
    add_projection(model, &layer->output, shape->heads / heads_unit, heads_unit * shape->head_dim,
                   &gpu->attended, rows);
}

static void run_ffn(or_model_t *model, uint32_t index, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    uint32_t ffn = model->shape.ffn;
    const or_layer_t *layer = &model->layers[index];
    normalise(model, layer->ffn_norm, rows);
    project(gpu, &layer->gate, &gpu->h, rows, gpu->gate.values, gpu->gate.stride);
    project(gpu, &layer->up, &gpu->h, rows, gpu->up, model->ffn_stride);
    or_gpu_keep(
        gpu, gpu->functions->swiglu(gpu->cuda, &gpu->gate, gpu->up, model->ffn_stride, ffn, rows));
    add_projection(model, &layer->down, (ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT,
                   OR_SHARD_FFN_UNIT, &gpu->gate, rows);
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

// What the device read for the pass before is written over, so that must be done.
static or_status_t begin_pass(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_tables_clear(gpu);
    or_workers_run(model->workers, rows, or_workers_grain(16ull * model->shape.width), embed_rows,
                   model);
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->x, gpu->x_host,
                                            rows * model->width_stride * sizeof *gpu->x));
    or_gpu_tables_of_pass(model, rows);
    return or_gpu_check(gpu);
}

or_status_t or_gpu_run_layers(or_model_t *model, uint32_t rows)
{
    or_status_t status = begin_pass(model, rows);
    for (uint32_t i = 0; status == OR_OK && i < model->shape.layers; i++) {
        run_attention(model, i, rows);
        run_ffn(model, i, rows);
        status = or_gpu_check(model->gpu);
    }
    normalise(model, model->output_norm, rows);
    return or_gpu_check(model->gpu);
}

or_status_t or_gpu_run_head(or_model_t *model, uint32_t first, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_cuda_rows_t h = gpu->h;
    h.values += first * h.stride;
    h.blocks += h.blocks != NULL ? first * h.blocks_stride : 0;
    project(gpu, &model->head, &h, rows, gpu->logits, model->vocab_stride);
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, model->logits, gpu->logits,
                                              rows * model->vocab_stride * sizeof *gpu->logits));
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    return or_gpu_check(gpu);
}
