#include <math.h>

#include "common/model/gpu/gpu_internal.h"

// The layers of forward.c on a device, step by step with the same operands, so that all bits are the same.
// Nothing here waits: a step is asked for when the one before may not have begun.

// ---- products ----

static size_t whole_tiles(const or_gpu_t *gpu, size_t rows)
{
    const size_t tile = OR_CUDA_TENSOR_ROWS;
    return gpu->tensor != NULL ? (rows + tile - 1) / tile * tile : rows;
}

static or_cuda_rows_t rows_from(const or_cuda_rows_t *rows, size_t first)
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

static or_cuda_float_t float_type(or_tensor_type_t type)
{
    return type == OR_TENSOR_F32 ? OR_CUDA_F32 : type == OR_TENSOR_F16 ? OR_CUDA_F16 : OR_CUDA_BF16;
}

static or_cuda_span_t span_of(const or_matrix_t *matrix, or_span_t inputs)
{
    uint32_t unit = matrix->quantised ? OR_QUANT_BLOCK : 1;
    return (or_cuda_span_t){matrix->first_block + (inputs.begin - matrix->inputs.begin) / unit,
                            or_span_length(inputs) / unit};
}

static size_t float_panel_stride(const or_matrix_t *matrix)
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
    return prepare(gpu, matrix, or_span_length(matrix->inputs), 1);
}

// Prepare the products of a matrix that add_projection cuts into shards.
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
        .type = float_type(m->type),
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
                         : f->matmul_floats(gpu->cuda, float_type(m->type), m->memory,
                                            float_panel_stride(m), panels_of(m), x->values,
                                            x->stride, rows, to));
}

static void project(or_model_t *model, const or_matrix_t *matrix, const or_cuda_rows_t *x,
                    uint32_t rows, float *y, size_t y_stride)
{
    const or_cuda_span_t all = span_of(matrix, matrix->inputs);
    const or_cuda_parts_t to = {
        .spans = &all, .count = 1, .x_first = matrix->first_block, .y = y, .y_stride = y_stride};
    multiply(model->gpu, matrix, x, rows, &to, 1);
}

typedef struct {
    const or_matrix_t *matrix;
    float *y;
    size_t stride;
} projection_t;

// Several products of h, each on a branch of its own: alone the small ones leave most of a device idle. Those by tensor
// cores share a workspace, so they follow one another.
static void project_all(or_model_t *model, const projection_t *projections, uint32_t count,
                        uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_functions_t *f = gpu->functions;
    const bool apart = gpu->tensor == NULL;
    if (apart) {
        or_gpu_keep(gpu, f->part(gpu->cuda));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (apart) {
            f->branch(gpu->cuda, i);
        }
        project(model, projections[i].matrix, &gpu->h, rows, projections[i].y,
                projections[i].stride);
    }
    if (apart) {
        or_gpu_keep(gpu, f->meet(gpu->cuda));
    }
}

static or_status_t add_projection(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
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
                                .count = or_span_length(shards),
                                .x_first = matrix->first_block,
                                .y = gpu->parts,
                                .y_stride = stride,
                                .part_stride = whole_tiles(gpu, rows) * stride};
    multiply(gpu, matrix, from, rows, &to, OR_SHARDS);
    if (model->ranks->size > 1) {
        return or_gpu_add_ranks(model, to.part_stride, rows);
    }
    or_gpu_keep(gpu,
                gpu->functions->add_parts(gpu->cuda, gpu->x, stride, gpu->parts, to.part_stride,
                                          stride, to.count, model->shape.width, rows));
    return or_gpu_check(gpu);
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

// ---- rows ----

static void normalise(or_model_t *model, const float *weight, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, gpu->x, model->width_stride, weight,
                                             model->shape.width, model->numbers.norm_epsilon, rows,
                                             &gpu->h));
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

static void rotate(or_model_t *model, float *x, size_t stride, uint32_t heads, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->rope(gpu->cuda, model->arch->rope_halves, x, stride, heads,
                                          model->shape.head_dim, model->rope_cosine[OR_ROPE_MAIN],
                                          model->rope_sine[OR_ROPE_MAIN], gpu->positions, rows));
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

// Rows attend together as far as there is room for their scores.
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
        const or_cuda_rows_t to = rows_from(&gpu->attended, first);
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
    const projection_t projections[] = {{&layer->query, gpu->query, model->query_stride},
                                        {&layer->key, gpu->key, model->kv_stride},
                                        {&layer->value, gpu->value, model->kv_stride}};
    project_all(model, projections, sizeof projections / sizeof projections[0], rows);
    add_bias(model, query, model->query_stride, layer->query_bias, share->heads, rows);
    add_bias(model, key, model->kv_stride, layer->key_bias, share->kv_heads, rows);
    add_bias(model, value, model->kv_stride, layer->value_bias, share->kv_heads, rows);
    rotate(model, query, model->query_stride, or_span_length(share->heads), rows);
    rotate(model, key, model->kv_stride, or_span_length(share->kv_heads), rows);
    or_gpu_keep(gpu, gpu->functions->store_kv(gpu->cuda, &gpu->kv, index, gpu->seen, rows, key,
                                              value, model->kv_stride));
    attend(model, index, query, rows);
    return add_projection(model, &layer->output, model->shape.heads / share->heads_unit,
                          share->heads_unit * head_dim, &gpu->attended, rows);
}

static or_status_t run_ffn(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    uint32_t units = (model->shape.ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    normalise(model, layer->ffn_norm, rows);
    const projection_t projections[] = {{&layer->gate, gpu->gate.values, gpu->gate.stride},
                                        {&layer->up, gpu->up, model->ffn_stride}};
    project_all(model, projections, sizeof projections / sizeof projections[0], rows);
    or_gpu_keep(gpu, gpu->functions->swiglu(gpu->cuda, &gpu->gate, gpu->up, model->ffn_stride,
                                            or_span_length(model->share.ffn), rows));
    return add_projection(model, &layer->down, units, OR_SHARD_FFN_UNIT, &gpu->gate, rows);
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

// If the embedding is not on the device, its rows are uploaded.
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

// The tables of the pass before are written over, so the device must be done with them.
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
    for (uint32_t i = 0; status == OR_OK && i < or_span_length(model->share.layers); i++) {
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

void or_gpu_multiply_head(or_model_t *model, uint32_t first, uint32_t rows, float *logits)
{
    const or_cuda_rows_t h = rows_from(&model->gpu->h, first);
    project(model, &model->head, &h, rows, logits, model->vocab_stride);
}

or_status_t or_gpu_run_head(or_model_t *model, uint32_t first, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_multiply_head(model, first, rows, gpu->logits);
    gpu->whole_rows += rows;
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, model->logits, gpu->logits,
                                              rows * model->vocab_stride * sizeof *gpu->logits));
    or_gpu_wait_for_peers(model);
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    return or_gpu_check(gpu);
}
