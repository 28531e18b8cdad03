// Products of a pass on a device, and the sums of their shards.
#include "common/model/gpu/gpu_internal.h"

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
    return (or_cuda_span_t){matrix->first_block + (inputs.begin - matrix->inputs.begin) / unit,
                            (inputs.end - inputs.begin) / unit};
}

static size_t float_panel_stride(const or_matrix_t *matrix)
{
    return (size_t)(matrix->inputs.end - matrix->inputs.begin) * OR_PANEL;
}

// ---- on tensor cores ----

static uint32_t whole_outputs(const or_matrix_t *matrix)
{
    return (matrix->outputs + OR_PANEL - 1) / OR_PANEL * OR_PANEL;
}

// For products of `inputs` inputs of a matrix, which may have been described only.
static or_status_t prepare(or_gpu_t *gpu, const or_matrix_t *m, uint32_t inputs, uint32_t parts)
{
    if (m->type != gpu->tensor_type || panels_of(m) == 0 || inputs == 0) {
        return OR_OK;
    }
    const or_cuda_tensor_shape_t shape = {float_type(m->type), whole_outputs(m), inputs, parts};
    int status = gpu->functions->tensor_prepare(gpu->tensor, &shape);
    return status == OR_CUDA_OK
               ? OR_OK
               : or_fail(OR_ERR_IO,
                         "the GPU: %s, when its tensor cores were tried with a matrix of %u "
                         "outputs and %u x %u inputs; choose --arith canonical",
                         gpu->functions->text(status), shape.outputs, parts, inputs);
}

static or_status_t prepare_whole(or_gpu_t *gpu, const or_matrix_t *matrix)
{
    return prepare(gpu, matrix, matrix->inputs.end - matrix->inputs.begin, 1);
}

// As or_gpu_add_projection cuts it.
static or_status_t prepare_shards(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                                  uint32_t unit_size)
{
    const or_span_t shards = model->share.shards;
    or_status_t status = OR_OK;
    for (uint32_t s = shards.begin; status == OR_OK && s < shards.end; s++) {
        const or_span_t inputs = or_shard_inputs(s, units, unit_size, matrix->inputs.end);
        status = prepare(model->gpu, matrix, inputs.end - inputs.begin, OR_SHARDS);
    }
    return status;
}

static or_status_t prepare_layer(or_model_t *model, const or_layer_t *layer)
{
    const or_matrix_t *whole[] = {&layer->query, &layer->key, &layer->value, &layer->gate,
                                  &layer->up};
    const uint32_t heads_unit = model->share.heads_unit;
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof whole / sizeof whole[0]; i++) {
        status = prepare_whole(model->gpu, whole[i]);
    }
    status = status != OR_OK
                 ? status
                 : prepare_shards(model, &layer->output, model->shape.heads / heads_unit,
                                  heads_unit * model->shape.head_dim);
    return status != OR_OK
               ? status
               : prepare_shards(model, &layer->down,
                                (model->shape.ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT,
                                OR_SHARD_FFN_UNIT);
}

or_status_t or_gpu_prepare_products(or_model_t *model)
{
    if (model->gpu == NULL || model->gpu->tensor == NULL) {
        return OR_OK;
    }
    const or_span_t layers = model->share.layers;
    or_status_t status = prepare_whole(model->gpu, &model->head);
    for (uint32_t i = 0; status == OR_OK && i < layers.end - layers.begin; i++) {
        status = prepare_layer(model, &model->layers[i]);
    }
    return status;
}

// `whole_parts` are those of all ranks.
static int multiply_by_tensor(or_gpu_t *gpu, const or_matrix_t *m, const or_cuda_rows_t *x,
                              uint32_t rows, const or_cuda_parts_t *to, uint32_t whole_parts)
{
    const or_cuda_tensor_matrix_t matrix = {
        .type = float_type(m->type),
        .weights = m->memory,
        .outputs = panels_of(m) * OR_PANEL,
        .inputs = m->inputs.end - m->inputs.begin,
        .whole_outputs = whole_outputs(m),
        .whole_parts = whole_parts,
    };
    return gpu->functions->matmul_tensor(gpu->tensor, &matrix, x, rows, to);
}

// ---- products ----

static void multiply(or_gpu_t *gpu, const or_matrix_t *m, const or_cuda_rows_t *x, uint32_t rows,
                     const or_cuda_parts_t *to, uint32_t whole_parts)
{
    const or_gpu_functions_t *f = gpu->functions;
    if (m->by_rows) {
        or_gpu_keep(gpu, multiply_by_tensor(gpu, m, x, rows, to, whole_parts));
        return;
    }
    or_gpu_keep(gpu, m->quantised
                         ? f->matmul_quants(gpu->cuda, m->quant, m->memory, m->panel_bytes,
                                            panels_of(m), x->blocks, x->blocks_stride, rows, to)
                         : f->matmul_floats(gpu->cuda, float_type(m->type), m->memory,
                                            float_panel_stride(m), panels_of(m), x->values,
                                            x->stride, rows, to));
}

void or_gpu_project(or_model_t *model, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    uint32_t rows, float *y, size_t y_stride)
{
    const or_cuda_span_t all = span_of(matrix, matrix->inputs);
    const or_cuda_parts_t to = {
        .spans = &all, .count = 1, .x_first = matrix->first_block, .y = y, .y_stride = y_stride};
    multiply(model->gpu, matrix, x, rows, &to, 1);
}

or_status_t or_gpu_add_projection(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                                  uint32_t unit_size, const or_cuda_rows_t *from, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_span_t shards = model->share.shards;
    or_cuda_span_t spans[OR_SHARDS];
    for (uint32_t s = shards.begin; s < shards.end; s++) {
        spans[s - shards.begin] =
            span_of(matrix, or_shard_inputs(s, units, unit_size, matrix->inputs.end));
    }
    size_t stride = model->width_stride;
    const or_cuda_parts_t to = {.spans = spans,
                                .count = shards.end - shards.begin,
                                .x_first = matrix->first_block,
                                .y = gpu->parts,
                                .y_stride = stride,
                                .part_stride = or_gpu_tensor_tiles(gpu, rows) * stride};
    multiply(gpu, matrix, from, rows, &to, OR_SHARDS);
    if (model->ranks->size > 1) {
        return or_gpu_add_ranks(model, to.part_stride, rows);
    }
    or_gpu_keep(gpu,
                gpu->functions->add_parts(gpu->cuda, gpu->x, stride, gpu->parts, to.part_stride,
                                          stride, to.count, model->shape.width, rows));
    return or_gpu_check(gpu);
}

bool or_gpu_head_embeds(const or_model_t *model)
{
    return or_ranks_is_alone(model->ranks) && !model->head.quantised && !model->head.by_rows &&
           or_gguf_find_tensor(model->gguf, model->arch->head) == NULL;
}

void or_gpu_embed(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_matrix_t *embedding = gpu->embedding;
    or_gpu_keep(gpu,
                gpu->functions->embed(gpu->cuda, float_type(embedding->type), embedding->memory,
                                      float_panel_stride(embedding), model->shape.width,
                                      gpu->tokens, rows, gpu->x, model->width_stride));
}
