// A pass on a device: tables and embedding, the operations of all layers (gpu_ops.c), the head.
#include "common/model/cpu/row_ops.h"
#include "common/model/gpu/gpu_internal.h"

// ---- a pass ----

void or_gpu_embed(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_matrix_t *embedding = gpu->embedding;
    or_gpu_keep(gpu, gpu->functions->embed(gpu->cuda, or_gpu_float_type(embedding->type),
                                           embedding->memory, or_gpu_float_panel(embedding),
                                           model->shape.width, gpu->tokens, rows, gpu->x,
                                           model->width_stride));
    or_gpu_scale(model, gpu->x, model->width_stride, model->numbers.embedding_scale,
                 model->shape.width, rows);
}

static void embed_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const or_model_t *model = context;
    const size_t stride = model->width_stride;
    for (uint32_t i = begin; i < end; i++) {
        float *x = model->gpu->x_host + i * stride;
        or_embed_row(model, i, x, x + model->rows_max * stride);
    }
}

void or_gpu_embed_on_host(or_model_t *model, uint32_t rows)
{
    or_workers_run(model->workers, rows, or_workers_grain(16ull * model->shape.width), embed_rows,
                   model);
}

// If the embedding is not on the device, its rows are uploaded.
static or_status_t embed(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu->embedding != NULL) {
        or_gpu_embed(model, rows);
        return or_gpu_check(gpu);
    }
    or_gpu_embed_on_host(model, rows);
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
    or_status_t status = model->share.embeds ? embed(model, rows) : or_gpu_take_over(model, rows);
    if (status == OR_OK) {
        or_gpu_inputs_make(model, rows);
    }
    return status != OR_OK ? status : or_gpu_check(model->gpu);
}

// Activations for the head, or x for the next stage.
static or_status_t end_pass(or_model_t *model, uint32_t rows)
{
    if (!model->share.has_head) {
        return or_gpu_pass_on(model, rows);
    }
    or_gpu_norm_output(model, rows);
    return or_gpu_check(model->gpu);
}

or_status_t or_gpu_launch_layers(or_model_t *model, uint32_t rows)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < or_span_length(model->share.layers); i++) {
        status = or_gpu_run_layer(model, i, rows);
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
    or_gpu_t *gpu = model->gpu;
    const or_arch_numbers_t *numbers = &model->numbers;
    const or_cuda_rows_t h = or_gpu_rows_from(&gpu->h, first);
    or_gpu_project(model, &model->head, &h, rows, logits, model->vocab_stride);
    logits += or_matrix_place(&model->head, model->share.vocab.begin);
    const uint32_t count = or_span_length(model->share.vocab);
    if (model->head_bias != NULL) {
        or_gpu_keep(gpu, gpu->functions->add(gpu->cuda, logits, model->vocab_stride,
                                             model->head_bias + model->share.vocab.begin, 0, count,
                                             rows));
    }
    or_gpu_scale(model, logits, model->vocab_stride, numbers->logit_scale, count, rows);
    if (numbers->logit_softcap > 0) {
        or_gpu_keep(gpu, gpu->functions->softcap(gpu->cuda, logits, model->vocab_stride,
                                                 numbers->logit_softcap, count, rows));
    }
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
