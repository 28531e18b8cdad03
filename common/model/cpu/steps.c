// The operations of a pass, listed once when a model is loaded.
#include <stdlib.h>

#include "common/model/cpu/row_ops.h"
#include "common/model/model_internal.h"

static void append(or_model_t *model, or_op_kind_t kind, or_pass_op_t step)
{
    step.on_batch = or_batch_op(kind);
    step.on_row = or_row_op(kind);
    model->steps.steps[model->steps.count++] = step;
}

static bool has_matrix(const or_layer_t *layer, size_t offset)
{
    return ((const or_matrix_t *)((const char *)layer + offset))->outputs > 0;
}

static void append_layer(or_model_t *model, uint32_t index)
{
    const or_layer_t *layer = &model->layers[index];
    for (const or_op_t *op = model->arch->layer_ops; op->kind != OR_OP_END; op++) {
        if (op->needs != 0 && !has_matrix(layer, op->needs)) {
            continue;
        }
        append(model, op->kind,
               (or_pass_op_t){.layer = layer,
                              .layer_index = index,
                              .weight = or_layer_vector(layer, op->weight),
                              .bias = or_layer_vector(layer, op->bias)});
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

// The multiply-adds that a group of operations on a row is worth, about. `before` precedes it; NULL: nothing does.
static uint64_t work_of(const or_model_t *model, const or_pass_op_t *before)
{
    bool is_ffn = before != NULL && before->on_batch == or_batch_op(OR_OP_PROJECT_UP);
    return 16ull * (is_ffn ? model->shape.ffn : model->shape.width);
}

// Find the groups of operations on rows, from the last operation to the first.
static void group(or_model_t *model)
{
    or_pass_op_t *steps = model->steps.steps;
    for (size_t i = model->steps.count; i-- > 0;) {
        bool goes_on = i + 1 < model->steps.count && steps[i + 1].on_row != NULL;
        steps[i].group = steps[i].on_row == NULL ? 0 : 1 + (goes_on ? steps[i + 1].group : 0);
        steps[i].grain = or_workers_grain(work_of(model, i > 0 ? &steps[i - 1] : NULL));
    }
}

or_status_t or_steps_create(or_model_t *model)
{
    uint32_t layers = or_span_length(model->share.layers);
    or_pass_ops_t *steps = &model->steps;
    steps->steps = calloc(layers * ops_of_layer(model->arch) + 5, sizeof *steps->steps);
    if (steps->steps == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the operations of %u layers", layers);
    }
    if (model->share.embeds) {
        append(model, OR_OP_EMBED, (or_pass_op_t){0});
    }
    if (model->inputs.embedding != NULL) {
        append(model, OR_OP_MAKE_INPUTS, (or_pass_op_t){0});
        append(model, OR_OP_PROJECT_INPUTS, (or_pass_op_t){0});
        append(model, OR_OP_JOIN_INPUTS, (or_pass_op_t){0});
    }
    for (uint32_t i = 0; i < layers; i++) {
        append_layer(model, i);
    }
    if (model->share.has_head) {
        append(model, model->arch->output_op.kind,
               (or_pass_op_t){.weight = model->output_norm, .bias = model->output_norm_bias});
    }
    group(model);
    return OR_OK;
}

void or_steps_free(or_model_t *model)
{
    free(model->steps.steps);
}
