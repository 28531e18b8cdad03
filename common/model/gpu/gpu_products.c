// Products of rows on a device: with whole matrices, and with those that are cut along their inputs.
#include "common/model/gpu/gpu_internal.h"

static size_t whole_tiles(const or_gpu_t *gpu, size_t rows)
{
    const size_t tile = OR_CUDA_TENSOR_ROWS;
    return gpu->tensor != NULL ? (rows + tile - 1) / tile * tile : rows;
}

or_cuda_rows_t or_gpu_rows_from(const or_cuda_rows_t *rows, size_t first)
{
    or_cuda_rows_t from = *rows;
    from.values += first * from.stride;
    from.blocks += from.blocks != NULL ? first * from.blocks_stride : 0;
    from.halves += from.halves != NULL ? first * from.halves_stride : 0;
    return from;
}

static uint32_t panels_of(const or_matrix_t *matrix)
{
    return or_span_length(matrix->panels);
}

or_cuda_float_t or_gpu_float_type(or_tensor_type_t type)
{
    return type == OR_TENSOR_F32 ? OR_CUDA_F32 : type == OR_TENSOR_F16 ? OR_CUDA_F16 : OR_CUDA_BF16;
}

static or_cuda_span_t span_of(const or_matrix_t *matrix, or_span_t inputs)
{
    uint32_t unit = matrix->quantised ? OR_QUANT_BLOCK : 1;
    return (or_cuda_span_t){matrix->first_block + (inputs.begin - matrix->inputs.begin) / unit,
                            or_span_length(inputs) / unit};
}

size_t or_gpu_float_panel(const or_matrix_t *matrix)
{
    return (size_t)or_span_length(matrix->inputs) * OR_PANEL;
}

static uint32_t whole_outputs(const or_matrix_t *matrix)
{
    return (matrix->outputs + OR_PANEL - 1) / OR_PANEL * OR_PANEL;
}

// Prepare products with `inputs` inputs of a matrix, which need not be packed yet.
static or_status_t prepare(or_gpu_t *gpu, const or_matrix_t *m, uint32_t inputs, uint32_t parts)
{
    if (m->type != gpu->tensor_type || panels_of(m) == 0 || inputs == 0) {
        return OR_OK;
    }
    const or_cuda_tensor_shape_t shape = {or_gpu_float_type(m->type), whole_outputs(m), inputs,
                                          parts};
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
    return prepare(gpu, matrix, or_span_length(matrix->inputs), 1);
}

// Prepare the products of a matrix that or_gpu_sum_products cuts into shards.
static or_status_t prepare_shards(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                                  uint32_t unit_size)
{
    const or_span_t shards = model->share.shards;
    or_status_t status = OR_OK;
    for (uint32_t s = shards.begin; status == OR_OK && s < shards.end; s++) {
        const or_span_t inputs = or_shard_inputs(s, units, unit_size, matrix->inputs.end);
        status = prepare(model->gpu, matrix, or_span_length(inputs), OR_SHARDS);
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
    for (uint32_t i = 0; status == OR_OK && i < or_span_length(layers); i++) {
        status = prepare_layer(model, &model->layers[i]);
    }
    return status;
}

// `whole_parts` are those of all ranks.
static int multiply_by_tensor(or_gpu_t *gpu, const or_matrix_t *m, const or_cuda_rows_t *x,
                              uint32_t rows, const or_cuda_parts_t *to, uint32_t whole_parts)
{
    const or_cuda_tensor_matrix_t matrix = {
        .type = or_gpu_float_type(m->type),
        .weights = m->memory,
        .outputs = panels_of(m) * OR_PANEL,
        .inputs = or_span_length(m->inputs),
        .whole_outputs = whole_outputs(m),
        .whole_parts = whole_parts,
    };
    return gpu->functions->matmul_tensor(gpu->tensor, &matrix, x, rows, to);
}

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
                         : f->matmul_floats(gpu->cuda, or_gpu_float_type(m->type), m->memory,
                                            or_gpu_float_panel(m), panels_of(m), x->values,
                                            x->stride, rows, to));
}

// The groups of rows that experts of this matrix have; none if groups is NULL.
static or_cuda_groups_t groups_of(const or_matrix_t *matrix, const or_cuda_groups_t *groups)
{
    or_cuda_groups_t own = groups != NULL ? *groups : (or_cuda_groups_t){0};
    own.expert_bytes = matrix->expert_bytes;
    return own;
}

static void project(or_model_t *model, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    const or_cuda_groups_t *groups, uint32_t rows, float *y, size_t y_stride)
{
    const or_cuda_span_t all = span_of(matrix, matrix->inputs);
    const or_cuda_groups_t own = groups_of(matrix, groups);
    const or_cuda_parts_t to = {.spans = &all,
                                .count = 1,
                                .x_first = matrix->first_block,
                                .y = y,
                                .y_stride = y_stride,
                                .groups = groups != NULL ? &own : NULL};
    multiply(model->gpu, matrix, x, rows, &to, 1);
}

void or_gpu_project(or_model_t *model, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    uint32_t rows, float *y, size_t y_stride)
{
    project(model, matrix, x, NULL, rows, y, y_stride);
}

// Whether one kernel multiplies by both, which are of as many experts where `grouped`.
static bool are_alike(const or_matrix_t *a, const or_matrix_t *b, bool grouped)
{
    return a->quantised && b->quantised && a->quant == b->quant &&
           a->panel_bytes == b->panel_bytes && (!grouped || a->expert_bytes == b->expert_bytes) &&
           a->first_block == b->first_block && a->inputs.begin == b->inputs.begin &&
           a->inputs.end == b->inputs.end;
}

// Return how many of the projections, from the first on, one kernel makes.
static uint32_t count_alike(const or_gpu_projection_t *projections, uint32_t count, bool grouped)
{
    uint32_t alike = 1;
    while (alike < count && alike < OR_CUDA_BESIDE_MAX &&
           are_alike(projections[0].matrix, projections[alike].matrix, grouped)) {
        alike++;
    }
    return alike;
}

static void project_beside(or_model_t *model, const or_cuda_rows_t *x,
                           const or_gpu_projection_t *projections, uint32_t count,
                           const or_cuda_groups_t *groups, uint32_t rows)
{
    const or_matrix_t *first = projections[0].matrix;
    or_cuda_beside_t matrices[OR_CUDA_BESIDE_MAX];
    for (uint32_t i = 0; i < count; i++) {
        const or_matrix_t *m = projections[i].matrix;
        matrices[i] =
            (or_cuda_beside_t){m->memory, panels_of(m), projections[i].y, projections[i].stride};
    }
    const or_cuda_span_t all = span_of(first, first->inputs);
    const or_cuda_groups_t own = groups_of(first, groups);
    const or_cuda_parts_t to = {.spans = &all,
                                .count = 1,
                                .x_first = first->first_block,
                                .groups = groups != NULL ? &own : NULL};
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->matmul_quants_beside(gpu->cuda, first->quant, matrices, count,
                                                          first->panel_bytes, x->blocks,
                                                          x->blocks_stride, rows, &to));
}

void or_gpu_project_all(or_model_t *model, const or_cuda_rows_t *x,
                        const or_gpu_projection_t *projections, uint32_t count,
                        const or_cuda_groups_t *groups, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_functions_t *f = gpu->functions;
    uint32_t alike = count_alike(projections, count, groups != NULL);
    const bool beside = rows <= OR_CUDA_FEW_ROWS;
    const bool apart = gpu->tensor == NULL && count > 1 && (!beside || alike < count);
    if (apart) {
        or_gpu_keep(gpu, f->part(gpu->cuda));
    }
    for (uint32_t i = 0; i < count; i += alike) {
        alike = beside ? count_alike(projections + i, count - i, groups != NULL) : 1;
        if (apart) {
            f->branch(gpu->cuda, i);
        }
        if (alike > 1) {
            project_beside(model, x, projections + i, alike, groups, rows);
        } else {
            project(model, projections[i].matrix, x, groups, rows, projections[i].y,
                    projections[i].stride);
        }
    }
    if (apart) {
        or_gpu_keep(gpu, f->meet(gpu->cuda));
    }
}

// The inputs of this rank's shards; how many they are.
static uint32_t own_shards(const or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                           uint32_t unit_size, or_cuda_span_t spans[OR_SHARDS])
{
    const or_span_t shards = model->share.shards;
    for (uint32_t s = shards.begin; s < shards.end; s++) {
        spans[s - shards.begin] =
            span_of(matrix, or_shard_inputs(s, units, unit_size, matrix->inputs.end));
    }
    return or_span_length(shards);
}

void or_gpu_multiply_shards(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                            uint32_t unit_size, const or_cuda_rows_t *from,
                            const or_cuda_groups_t *groups, uint32_t rows, float *y,
                            size_t part_stride)
{
    const or_cuda_groups_t own = groups_of(matrix, groups);
    or_cuda_span_t spans[OR_SHARDS];
    const or_cuda_parts_t parts = {.spans = spans,
                                   .count = own_shards(model, matrix, units, unit_size, spans),
                                   .x_first = matrix->first_block,
                                   .y = y,
                                   .y_stride = model->width_stride,
                                   .part_stride = part_stride,
                                   .groups = groups != NULL ? &own : NULL};
    multiply(model->gpu, matrix, from, rows, &parts, OR_SHARDS);
}

or_status_t or_gpu_add_shards(or_model_t *model, size_t part_stride, uint32_t rows, bool over,
                              float *to)
{
    or_gpu_t *gpu = model->gpu;
    const size_t stride = model->width_stride;
    if (model->ranks->size > 1) {
        return or_gpu_add_ranks(model, part_stride, rows, over, to);
    }
    or_gpu_keep(gpu, gpu->functions->add_parts(gpu->cuda, over, to, stride, gpu->parts, part_stride,
                                               stride, or_span_length(model->share.shards),
                                               model->shape.width, rows));
    return or_gpu_check(gpu);
}

// The products and their sum in one, of a model that has all shards here.
static or_status_t sum_quants(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                              uint32_t unit_size, const or_cuda_rows_t *from, uint32_t rows,
                              bool over, float *to)
{
    or_gpu_t *gpu = model->gpu;
    const size_t stride = model->width_stride;
    or_cuda_span_t spans[OR_SHARDS];
    const or_cuda_parts_t parts = {.spans = spans,
                                   .count = own_shards(model, matrix, units, unit_size, spans),
                                   .x_first = matrix->first_block,
                                   .y = gpu->parts,
                                   .y_stride = stride,
                                   .part_stride = whole_tiles(gpu, rows) * stride};
    or_gpu_keep(gpu, gpu->functions->sum_quants(gpu->cuda, matrix->quant, matrix->memory,
                                                matrix->panel_bytes, panels_of(matrix),
                                                from->blocks, from->blocks_stride, rows, &parts,
                                                over, to, stride, model->shape.width));
    return or_gpu_check(gpu);
}

or_status_t or_gpu_sum_products(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                                uint32_t unit_size, const or_cuda_rows_t *from, uint32_t rows,
                                bool over, float *to)
{
    or_gpu_t *gpu = model->gpu;
    const size_t part_stride = whole_tiles(gpu, rows) * model->width_stride;
    if (matrix->quantised && model->ranks->size == 1) {
        return sum_quants(model, matrix, units, unit_size, from, rows, over, to);
    }
    or_gpu_multiply_shards(model, matrix, units, unit_size, from, NULL, rows, gpu->parts,
                           part_stride);
    return or_gpu_add_shards(model, part_stride, rows, over, to);
}
