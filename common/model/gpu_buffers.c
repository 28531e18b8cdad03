// The memory of a pass on a device.
#include "common/model/gpu_internal.h"

// A buffer, its bytes counted with the model's.
static or_status_t take(or_model_t *model, size_t bytes, void **at_p)
{
    or_status_t status = or_gpu_alloc(model->gpu, bytes, at_p);
    model->buffer_bytes += status == OR_OK ? bytes : 0;
    return status;
}

static or_status_t take_floats(or_model_t *model, size_t floats, float **at_p)
{
    void *at;
    or_status_t status = take(model, floats * sizeof **at_p, &at);
    *at_p = at;
    return status;
}

static or_status_t take_rows(or_model_t *model, size_t width, size_t stride, bool quantised,
                             or_cuda_rows_t *rows)
{
    size_t blocks = (width + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
    rows->stride = stride;
    rows->blocks_stride = blocks;
    or_status_t status = take_floats(model, model->rows_max * stride, &rows->values);
    if (status == OR_OK && quantised) {
        void *at;
        status = take(model, model->rows_max * blocks * sizeof *rows->blocks, &at);
        rows->blocks = at;
    }
    return status;
}

static or_status_t take_activations(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    const or_model_shape_t *shape = &model->shape;
    or_quantised_rows_t quantised = or_buffers_quantised(model);
    or_status_t status = take_rows(model, shape->width, model->width_stride, quantised.h, &gpu->h);
    status = status != OR_OK ? status
                             : take_rows(model, (size_t)shape->heads * shape->head_dim,
                                         model->query_stride, quantised.attended, &gpu->attended);
    return status != OR_OK
               ? status
               : take_rows(model, shape->ffn, model->ffn_stride, quantised.gate, &gpu->gate);
}

// Scores of one row that sees the whole context, with the room that is usual for some more.
static size_t scores_floats(const or_model_t *model)
{
    uint32_t blocks = model->context / OR_KV_BLOCK + 1;
    size_t row = (size_t)model->shape.heads * blocks * OR_KV_BLOCK;
    size_t most = model->rows_max * row;
    size_t usual = most < OR_GPU_SCORES ? most : OR_GPU_SCORES;
    return row > usual ? row : usual;
}

static or_status_t take_floats_of_rows(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    size_t rows = model->rows_max;
    size_t logits_rows = rows < OR_LOGITS_ROWS ? rows : OR_LOGITS_ROWS;
    gpu->scores_floats = scores_floats(model);
    const struct {
        float **buffer;
        size_t floats;
    } buffers[] = {
        {&gpu->x, rows * model->width_stride},
        {&gpu->query, rows * model->query_stride},
        {&gpu->key, rows * model->kv_stride},
        {&gpu->value, rows * model->kv_stride},
        {&gpu->up, rows * model->ffn_stride},
        {&gpu->parts, OR_SHARDS * rows * model->width_stride},
        {&gpu->scores, gpu->scores_floats},
        {&gpu->logits, logits_rows * model->vocab_stride},
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
    or_status_t status = take(model, tables->bytes, &at);
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
    or_status_t status = take_activations(model);
    status = status != OR_OK ? status : take_floats_of_rows(model);
    status = status != OR_OK ? status : take_tables(model);
    return status != OR_OK ? status : take_host_rows(model);
}

static void free_pinned(const or_gpu_t *gpu, void *at)
{
    if (at != NULL) {
        gpu->functions->free_pinned(gpu->cuda, at);
    }
}

void or_gpu_buffers_free(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu == NULL) {
        return;
    }
    free_pinned(gpu, model->logits);
    model->logits = NULL;
    free_pinned(gpu, gpu->x_host);
    free_pinned(gpu, gpu->tables.host);
    void *buffers[] = {gpu->tables.device,
                       gpu->logits,
                       gpu->scores,
                       gpu->parts,
                       gpu->up,
                       gpu->value,
                       gpu->key,
                       gpu->query,
                       gpu->x,
                       gpu->gate.blocks,
                       gpu->gate.values,
                       gpu->attended.blocks,
                       gpu->attended.values,
                       gpu->h.blocks,
                       gpu->h.values};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        or_gpu_give(gpu, buffers[i]);
    }
}
