// What layers get of a token besides, on a device (layer_inputs.h).
//
//     host     the token's row of the second embedding, which is read from the file, scaled ──▶ tokens
//     device   x ──copy──▶ h ──projection──▶ values ──scale, norm, plus tokens, scale──▶ values
//
// That is before what can be recorded: only the host knows a token's row. A later stage, whose x is no embedding, takes the
// embedding of its rows from the host.
#include <math.h>

#include "common/model/cpu/elementwise.h"
#include "common/model/gpu/gpu_internal.h"

static size_t all_layers(const or_model_t *model)
{
    return (size_t)model->shape.layers * model->shape.layer_input;
}

// ---- memory ----

void or_gpu_inputs_describe(or_model_t *model)
{
    or_gpu_inputs_t *inputs = &model->gpu->inputs;
    const uint32_t size = model->shape.layer_input;
    const size_t panels = or_span_length(model->inputs.projection.panels);
    inputs->stride = or_row_stride(panels * OR_PANEL);
    or_gpu_describe_rows(model->gpu, size, or_row_stride(size), &inputs->gate);
}

or_status_t or_gpu_inputs_each(or_model_t *model, or_gpu_parts_t *each)
{
    or_gpu_inputs_t *inputs = &model->gpu->inputs;
    const size_t rows = model->rows_max;
    const size_t tokens = rows * all_layers(model) * sizeof(float);
    bool quantised = false;
    for (uint32_t i = 0; model->layers != NULL && i < or_span_length(model->share.layers); i++) {
        quantised = quantised || model->layers[i].input_up.quantised;
    }
    const or_gpu_part_t parts[] = {
        {&inputs->values, OR_GPU_BUFFER, rows * inputs->stride * sizeof(float)},
        {&inputs->tokens, OR_GPU_BUFFER, tokens},
        {&inputs->tokens_host, OR_GPU_PINNED, tokens},
        {&inputs->gate.values, OR_GPU_BUFFER, rows * inputs->gate.stride * sizeof(float)},
        {&inputs->gate.blocks, OR_GPU_BUFFER,
         quantised ? rows * inputs->gate.blocks_stride * sizeof(or_q8_block_t) : 0},
    };
    return model->inputs.embedding != NULL ? each(model, parts, sizeof parts / sizeof parts[0])
                                           : OR_OK;
}

// ---- before the first layer ----

static void read_tokens(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const or_model_t *model = context;
    const uint32_t floats = (uint32_t)all_layers(model);
    for (uint32_t row = begin; row < end; row++) {
        float *token = model->gpu->inputs.tokens_host + (size_t)row * floats;
        or_tensor_read_row(model->inputs.embedding, (uint64_t)model->rows[row].token, floats,
                           token);
        or_scale(token, floats, sqrtf((float)model->shape.layer_input));
    }
}

static void send_tokens(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_inputs_t *inputs = &gpu->inputs;
    or_workers_run(model->workers, rows, or_workers_grain(4ull * all_layers(model)), read_tokens,
                   model);
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, inputs->tokens, inputs->tokens_host,
                                            rows * all_layers(model) * sizeof(float)));
}

// Set h to the embeddings. No sums are in gpu->parts yet.
static void take_embeddings(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const size_t stride = model->width_stride;
    const float *from = gpu->x;
    if (!model->share.embeds) {
        or_gpu_embed_on_host(model, rows);
        or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->parts, gpu->x_host,
                                                rows * stride * sizeof *gpu->parts));
        from = gpu->parts;
    }
    or_gpu_keep(gpu, gpu->functions->scale(gpu->cuda, from, stride, 1.0f, model->shape.width, rows,
                                           &gpu->h));
}

// Return the inputs of a layer of this stage in the first row.
static float *input_of(const or_model_t *model, uint32_t layer)
{
    const uint32_t first = (model->share.layers.begin + layer) * model->shape.layer_input;
    return model->gpu->inputs.values + or_matrix_place(&model->inputs.projection, first);
}

void or_gpu_inputs_make(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_functions_t *f = gpu->functions;
    const or_gpu_inputs_t *inputs = &gpu->inputs;
    const uint32_t size = model->shape.layer_input;
    const uint32_t layers = or_span_length(model->share.layers), floats = layers * size;
    const float *tokens = inputs->tokens + (size_t)model->share.layers.begin * size;
    if (model->inputs.embedding == NULL) {
        return;
    }
    float *values = input_of(model, 0);
    send_tokens(model, rows);
    take_embeddings(model, rows);
    or_gpu_project(model, &model->inputs.projection, &gpu->h, rows, inputs->values, inputs->stride);
    or_gpu_scale(model, values, inputs->stride, 1 / sqrtf((float)model->shape.width), floats, rows);
    or_gpu_keep(gpu, f->rmsnorm_heads(gpu->cuda, values, inputs->stride, layers, size,
                                      model->inputs.norm, model->numbers.norm_epsilon, rows));
    or_gpu_keep(gpu,
                f->add(gpu->cuda, values, inputs->stride, tokens, all_layers(model), floats, rows));
    or_gpu_scale(model, values, inputs->stride, 1 / sqrtf(2), floats, rows);
}

// ---- in a layer ----

or_status_t or_gpu_inputs_gate(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    const or_cuda_rows_t *gate = &model->gpu->inputs.gate;
    or_gpu_project(model, &place->layer->input_gate, &model->gpu->h, rows, gate->values,
                   gate->stride);
    return OR_OK;
}

or_status_t or_gpu_inputs_gelu(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->activate(gpu->cuda, OR_CUDA_GELU_GATED, &gpu->inputs.gate,
                                              input_of(model, place->index), gpu->inputs.stride,
                                              model->shape.layer_input, rows));
    return OR_OK;
}

or_status_t or_gpu_inputs_raise(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_project(model, &place->layer->input_up, &model->gpu->inputs.gate, rows,
                   model->gpu->parts, model->width_stride);
    return OR_OK;
}
