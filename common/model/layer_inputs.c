#include "common/model/layer_inputs.h"

#include <math.h>
#include <stdlib.h>

#include "common/model/cpu/elementwise.h"
#include "common/model/model_internal.h"

static size_t all_layers(const or_model_t *model)
{
    return (size_t)model->shape.layers * model->shape.layer_input;
}

bool or_layer_inputs_create(or_model_t *model)
{
    or_layer_inputs_t *inputs = &model->inputs;
    const size_t rows = model->rows_max;
    bool quantised = false;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        quantised = quantised || model->layers[i].input_up.quantised;
    }
    inputs->stride = or_row_stride((size_t)or_span_length(inputs->projection.panels) * OR_PANEL);
    inputs->values = or_zeroed(rows * inputs->stride, sizeof *inputs->values);
    inputs->tokens = or_zeroed(rows * all_layers(model), sizeof *inputs->tokens);
    or_status_t status =
        or_activations_init(&inputs->gate, rows, model->shape.layer_input, quantised);
    model->buffer_bytes +=
        rows * (inputs->stride + all_layers(model)) * sizeof(float) + inputs->gate.bytes;
    return status == OR_OK && inputs->values != NULL && inputs->tokens != NULL;
}

void or_layer_inputs_free(or_model_t *model)
{
    or_activations_fini(&model->inputs.gate);
    free(model->inputs.tokens);
    free(model->inputs.values);
}

// Return the input of a layer of this stage.
static float *input_of(const or_model_t *model, uint32_t layer, uint32_t row)
{
    const or_layer_inputs_t *inputs = &model->inputs;
    const uint32_t first = (model->share.layers.begin + layer) * model->shape.layer_input;
    return inputs->values + row * inputs->stride + or_matrix_place(&inputs->projection, first);
}

static void multiply(or_model_t *model, const or_matrix_t *matrix, const or_activations_t *x,
                     uint32_t rows, float *y, size_t y_stride)
{
    const or_product_t product = or_product(matrix, matrix->panels.begin * OR_PANEL,
                                            matrix->panels.end * OR_PANEL, y, y_stride);
    or_products_run(model->kernels, model->workers, x, 0, rows, &product, 1);
}

void or_layer_inputs_project(or_model_t *model, uint32_t rows)
{
    const or_layer_inputs_t *inputs = &model->inputs;
    multiply(model, &inputs->projection, &model->h, rows, inputs->values, inputs->stride);
}

void or_layer_inputs_join(const or_model_t *model, uint32_t row)
{
    const or_layer_inputs_t *inputs = &model->inputs;
    const uint32_t size = model->shape.layer_input;
    float *token = inputs->tokens + row * all_layers(model);
    or_tensor_read_row(inputs->embedding, (uint64_t)model->rows[row].token,
                       (uint32_t)all_layers(model), token);
    token += (size_t)model->share.layers.begin * size;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++, token += size) {
        float *input = input_of(model, i, row);
        or_scale(input, size, 1 / sqrtf((float)model->shape.width));
        model->kernels->rmsnorm(input, inputs->norm, size, model->numbers.norm_epsilon, input);
        or_scale(token, size, sqrtf((float)size));
        model->kernels->add(input, token, size);
        or_scale(input, size, 1 / sqrtf(2));
    }
}

void or_layer_inputs_gate(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    const or_activations_t *gate = &model->inputs.gate;
    multiply(model, &layer->input_gate, &model->h, rows, gate->values, gate->stride);
}

void or_layer_inputs_gelu(const or_model_t *model, uint32_t layer, uint32_t row)
{
    const or_activations_t *gate = &model->inputs.gate;
    or_gelu_gated(model->kernels, gate->values + row * gate->stride, input_of(model, layer, row),
                  model->shape.layer_input);
    or_activations_quantise(gate, model->kernels, row);
}

void or_layer_inputs_raise(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    multiply(model, &layer->input_up, &model->inputs.gate, rows, model->sums, model->width_stride);
}
