// The memory of a pass on a device.
#include "common/model/gpu/gpu_internal.h"

static uint32_t length(or_span_t span)
{
    return span.end - span.begin;
}

static or_status_t take_floats(or_model_t *model, size_t floats, float **at_p)
{
    void *at;
    or_status_t status = or_gpu_alloc_buffer(model, floats * sizeof **at_p, &at);
    *at_p = at;
    return status;
}

static or_status_t take_rows(or_model_t *model, size_t width, size_t stride, bool quantised,
                             or_cuda_rows_t *rows)
{
    const or_gpu_t *gpu = model->gpu;
    size_t room = or_gpu_tensor_room(gpu, model->rows_max);
    void *at;
    rows->stride = stride;
    rows->blocks_stride = (width + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
    rows->halves_stride = width;
    rows->halves_type = gpu->tensor_type == OR_TENSOR_F16 ? OR_CUDA_F16 : OR_CUDA_BF16;
    or_status_t status = take_floats(model, room * stride, &rows->values);
    if (status == OR_OK && quantised) {
        status = or_gpu_alloc_buffer(
            model, model->rows_max * rows->blocks_stride * sizeof *rows->blocks, &at);
        rows->blocks = at;
    }
    if (status == OR_OK && gpu->tensor != NULL) {
        status = or_gpu_alloc_buffer(model, room * width * sizeof *rows->halves, &at);
        rows->halves = at;
    }
    return status;
}

static or_status_t take_activations(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    const or_share_t *share = &model->share;
    or_quantised_rows_t quantised = or_buffers_quantised(model);
    size_t heads = (size_t)length(share->heads) * model->shape.head_dim;
    or_status_t status =
        take_rows(model, model->shape.width, model->width_stride, quantised.h, &gpu->h);
    status = status != OR_OK
                 ? status
                 : take_rows(model, heads, model->query_stride, quantised.attended, &gpu->attended);
    return status != OR_OK ? status
                           : take_rows(model, length(share->ffn), model->ffn_stride, quantised.gate,
                                       &gpu->gate);
}

// Scores of one row that sees the whole context, with the room that is usual for some more.
static size_t scores_floats(const or_model_t *model)
{
    size_t row = (size_t)length(model->share.heads) * or_gpu_steps_round(model->context);
    size_t most = model->rows_max * row;
    size_t usual = most < OR_GPU_SCORES ? most : OR_GPU_SCORES;
    return row > usual ? row : usual;
}

static or_status_t take_floats_of_rows(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    size_t rows = model->rows_max;
    size_t logits_rows = rows < OR_LOGITS_ROWS ? rows : OR_LOGITS_ROWS;
    size_t room = or_gpu_tensor_room(gpu, rows);
    size_t logits_room = or_gpu_tensor_room(gpu, logits_rows);
    gpu->scores_floats = scores_floats(model);
    const struct {
        float **buffer;
        size_t floats;
    } buffers[] = {
        {&gpu->x, rows * model->width_stride},
        {&gpu->query, room * model->query_stride},
        {&gpu->key, room * model->kv_stride},
        {&gpu->value, room * model->kv_stride},
        {&gpu->up, room * model->ffn_stride},
        {&gpu->parts, length(model->share.shards) * room * model->width_stride},
        {&gpu->scores, gpu->scores_floats},
        {&gpu->logits, model->share.has_head ? logits_room * model->vocab_stride : 0},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof buffers / sizeof buffers[0]; i++) {
        status = take_floats(model, buffers[i].floats, buffers[i].buffer);
    }
    return status;
}

static or_status_t take_tables(or_model_t *model)
{
    or_gpu_tables_t *tables = &model->gpu->tables;
    void *at;
    tables->bytes = or_gpu_tables_bytes(model);
    or_status_t status = or_gpu_alloc_buffer(model, tables->bytes, &at);
    tables->device = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(model->gpu, tables->bytes, &at);
        tables->host = at;
    }
    return status;
}

static or_status_t take_host_rows(or_model_t *model)
{
    size_t logits_rows = model->rows_max < OR_LOGITS_ROWS ? model->rows_max : OR_LOGITS_ROWS;
    void *at;
    or_status_t status = or_gpu_alloc_pinned(
        model->gpu, model->rows_max * model->width_stride * sizeof *model->gpu->x_host, &at);
    model->gpu->x_host = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(
            model->gpu, logits_rows * model->vocab_stride * sizeof *model->logits, &at);
        model->logits = at;
    }
    return status;
}

or_status_t or_gpu_buffers_create(or_model_t *model)
{
    model->gpu->embedding = or_gpu_head_embeds(model) ? &model->head : NULL;
    or_status_t status = take_activations(model);
    status = status != OR_OK ? status : take_floats_of_rows(model);
    status = status != OR_OK ? status : take_tables(model);
    status = status != OR_OK ? status : take_host_rows(model);
    status = status != OR_OK ? status : or_gpu_ranks_create(model);
    return status != OR_OK ? status : or_gpu_contests_create(model);
}

void or_gpu_buffers_free(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu == NULL) {
        return;
    }
    or_gpu_steps_forget(model);
    or_gpu_growth_free(gpu);
    or_gpu_embedding_free(gpu);
    or_gpu_contests_free(gpu);
    or_gpu_ranks_free(model);
    or_gpu_free_pinned(gpu, model->logits);
    model->logits = NULL;
    or_gpu_free_pinned(gpu, gpu->x_host);
    or_gpu_free_pinned(gpu, gpu->tables.host);
    void *buffers[] = {gpu->tables.device,
                       gpu->logits,
                       gpu->scores,
                       gpu->parts,
                       gpu->up,
                       gpu->value,
                       gpu->key,
                       gpu->query,
                       gpu->x,
                       gpu->gate.halves,
                       gpu->gate.blocks,
                       gpu->gate.values,
                       gpu->attended.halves,
                       gpu->attended.blocks,
                       gpu->attended.values,
                       gpu->h.halves,
                       gpu->h.blocks,
                       gpu->h.values};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        or_gpu_give(gpu, buffers[i]);
    }
}
