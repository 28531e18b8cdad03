// The embedding on a device, as panels that or_cuda_embed reads: for passes whose tokens only the device knows.
//
// Where the head is the embedding, and floats, it serves as both. Else there is a copy: of floats as they are, of a
// quantised one as F32, so that its rows have the bits that or_tensor_read_row gives them on the host.
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

#define ROOM_PART 4u // of the free memory: slots of sequences still have to come

typedef struct {
    const or_gguf_tensor_t *tensor;
    uint32_t width;
    float *rows;   // [workers][width]
    float *panels; // [panel][width][16]
} decoding_t;

static void decode_panels(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const decoding_t *decoding = context;
    size_t width = decoding->width;
    uint64_t outputs = decoding->tensor->dims[1];
    float *row = decoding->rows + worker * width;
    for (uint64_t output = (uint64_t)begin * OR_PANEL;
         output < (uint64_t)end * OR_PANEL && output < outputs; output++) {
        float *lane = decoding->panels + output / OR_PANEL * OR_PANEL * width + output % OR_PANEL;
        or_tensor_read_row(decoding->tensor, output, decoding->width, row);
        for (size_t i = 0; i < width; i++) {
            lane[i * OR_PANEL] = row[i];
        }
    }
}

// The panels of a matrix that is described as F32.
static or_status_t decode(const or_model_t *model, or_matrix_t *matrix)
{
    uint32_t panels = matrix->panels.end;
    decoding_t decoding = {.tensor = model->embedding,
                           .width = model->shape.width,
                           .rows = or_zeroed(or_workers_count(model->workers),
                                             model->shape.width * sizeof *decoding.rows),
                           .panels = or_zeroed(panels, matrix->panel_bytes)};
    if (decoding.rows == NULL || decoding.panels == NULL) {
        free(decoding.panels);
        free(decoding.rows);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the embedding");
    }
    or_workers_run(model->workers, panels, 1, decode_panels, &decoding);
    free(decoding.rows);
    matrix->memory = decoding.panels;
    return OR_OK;
}

or_status_t or_gpu_embedding_copy(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    const or_span_t outputs = {0, model->shape.vocab_size};
    const or_span_t inputs = {0, model->shape.width};
    or_gguf_tensor_t floats = *model->embedding;
    or_matrix_t matrix = or_matrix_describe(&floats, outputs, inputs);
    bool quantised = matrix.quantised;
    if (quantised) {
        floats.type = OR_TENSOR_F32;
        matrix = or_matrix_describe(&floats, outputs, inputs);
    }
    if (gpu->embedding != NULL || matrix.bytes > or_gpu_free_bytes(gpu) / ROOM_PART) {
        return OR_OK;
    }
    or_status_t status =
        quantised ? decode(model, &matrix)
                  : or_matrix_pack(model->workers, model->embedding, outputs, inputs, &matrix);
    status = status != OR_OK ? status : or_gpu_take(gpu, &matrix.memory, matrix.bytes);
    if (status == OR_OK) {
        gpu->embedding_copy = matrix;
        gpu->embedding = &gpu->embedding_copy;
        model->buffer_bytes += matrix.bytes;
    } else {
        or_gpu_give(gpu, matrix.memory);
    }
    return status == OR_ERR_NO_MEMORY ? OR_OK : status;
}

void or_gpu_embedding_free(or_gpu_t *gpu)
{
    if (gpu->embedding == &gpu->embedding_copy) {
        gpu->embedding = NULL;
    }
    or_gpu_give(gpu, gpu->embedding_copy.memory);
    gpu->embedding_copy = (or_matrix_t){0};
}
