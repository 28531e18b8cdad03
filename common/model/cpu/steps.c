// The operations of a pass, listed once when a model is loaded.
#include <stdlib.h>

#include "common/model/model_internal.h"

static const or_op_t embed_op = {.kind = OR_OP_EMBED};

static const float *vector_at(const or_layer_t *layer, size_t offset)
{
    return offset == 0 ? NULL : *(float *const *)((const char *)layer + offset);
}

static void append_layer(or_model_t *model, uint32_t index)
{
    const or_layer_t *layer = &model->layers[index];
    for (const or_op_t *op = model->arch->layer_ops; op->kind != OR_OP_END; op++) {
        model->steps.steps[model->steps.count++] = (or_pass_op_t){
            op, layer, index, vector_at(layer, op->weight), vector_at(layer, op->bias)};
    }
}

static size_t ops_of_layer(const or_arch_t *arch)
{
    size_t count = 0;
    while (arch->layer_ops[count].kind != OR_OP_END) {
        count++;
    }
    return count;
}

or_status_t or_steps_create(or_model_t *model)
{
    uint32_t layers = or_span_length(model->share.layers);
    or_pass_ops_t *steps = &model->steps;
    steps->steps = calloc(layers * ops_of_layer(model->arch) + 2, sizeof *steps->steps);
    if (steps->steps == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the operations of %u layers", layers);
    }
    if (model->share.embeds) {
        steps->steps[steps->count++] = (or_pass_op_t){.op = &embed_op};
    }
    for (uint32_t i = 0; i < layers; i++) {
        append_layer(model, i);
    }
    if (model->share.has_head) {
        steps->steps[steps->count++] = (or_pass_op_t){.op = &model->arch->output_op,
                                                      .weight = model->output_norm,
                                                      .bias = model->output_norm_bias};
    }
    return OR_OK;
}

void or_steps_free(or_model_t *model)
{
    free(model->steps.steps);
}
