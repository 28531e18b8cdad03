#include <string.h>

#include "common/model/model_internal.h"

// One pass: the operations of steps.c one after the other, each for all rows together. Operations on single rows that
// follow each other are one loop, in which a row goes through all of them:
//
//     embed norm | project | bias rotate store | attend | sum | add norm | project | silu | sum | add norm | project ...
//
// A loop is over rows, or over panels of weights; the workers meet between loops. Rows that quantised weights read are
// quantised where they are made. x of a stage's first layer is the embedding, or comes from the stage before; x of its
// last goes to the head, or on.

typedef struct {
    const or_model_t *model;
    const or_pass_op_t *steps; // on rows, a group of them
} row_steps_t;

static void run_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const row_steps_t *all = context;
    for (uint32_t row = begin; row < end; row++) {
        for (uint32_t i = 0; i < all->steps->group; i++) {
            all->steps[i].on_row(all->model, &all->steps[i], row);
        }
    }
}

static void quantise_attended_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const or_model_t *model = context;
    for (uint32_t i = begin; i < end; i++) {
        or_activations_quantise(&model->attended, model->kernels, i);
    }
}

// Add the sums of `count` ranks (1, 2, 4 or 8) in the fixed tree, into the first's.
static void add_ranks(const or_model_t *model, float *sums, size_t floats, uint32_t count)
{
    for (uint32_t step = 1; step < count; step *= 2) {
        for (uint32_t rank = 0; rank < count; rank += 2 * step) {
            float *sum = sums + rank * floats;
            model->kernels->add(sum, sum + step * floats, (uint32_t)floats);
        }
    }
}

// Every rank has summed its own aligned subtree; gathered, the tree is finished everywhere alike.
static or_status_t exchange(or_model_t *model, uint32_t rows)
{
    const or_ranks_t *ranks = model->ranks;
    or_status_t status = OR_OK;
    for (uint32_t first = 0; status == OR_OK && first < rows; first += OR_EXCHANGE_ROWS) {
        uint32_t count = rows - first < OR_EXCHANGE_ROWS ? rows - first : OR_EXCHANGE_ROWS;
        size_t floats = count * model->width_stride;
        float *mine = model->sums + first * model->width_stride;
        status = ranks->all_gather(ranks, mine, floats * sizeof *mine, model->gathered);
        if (status == OR_OK) {
            add_ranks(model, model->gathered, floats, (uint32_t)ranks->size);
            memcpy(mine, model->gathered, floats * sizeof *mine);
        }
    }
    return status;
}

// Tell whoever collects importance what a matrix reads.
static void observe(const or_model_t *model, const or_matrix_t *matrix, const or_activations_t *x,
                    uint32_t rows)
{
    if (model->importance != NULL) {
        or_importance_add(model->importance, matrix, 0,
                          &(or_importance_rows_t){.x = x, .count = rows});
    }
}

// sums = matrix * from, cut into shards along the inputs.
static or_status_t sum_shards(or_model_t *model, const or_matrix_t *matrix, uint32_t units,
                              uint32_t unit_size, const or_activations_t *from, uint32_t rows)
{
    const or_span_t shards = model->share.shards;
    or_span_t inputs[OR_SHARDS];
    for (uint32_t s = shards.begin; s < shards.end; s++) {
        inputs[s - shards.begin] = or_shard_inputs(s, units, unit_size, matrix->inputs.end);
    }
    or_product_t product =
        or_product(matrix, 0, model->shape.width, model->sums, model->width_stride);
    observe(model, matrix, from, rows);
    or_shard_sum_run(model->kernels, model->workers, model->shard_scratch, from, rows, &product,
                     inputs, or_span_length(shards));
    return model->ranks->size == 1 ? OR_OK : exchange(model, rows);
}

// ---- operations on all rows ----

static or_status_t project_qkv(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    const or_layer_t *layer = step->layer;
    const or_product_t products[] = {
        or_product_here(&layer->query, model->query, model->query_stride),
        or_product_here(&layer->key, model->key, model->kv_stride),
        or_product_here(&layer->value, model->value, model->kv_stride),
    };
    const uint32_t count = layer->key.outputs == 0 ? 1 : layer->value.outputs == 0 ? 2 : 3;
    for (uint32_t i = 0; i < count; i++) {
        observe(model, products[i].matrix, &model->h, rows);
    }
    or_products_run(model->kernels, model->workers, &model->h, 0, rows, products, count);
    return OR_OK;
}

static or_status_t project_latent(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    or_latent_project(model, step->layer, rows);
    return OR_OK;
}

static or_status_t raise_query(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    or_latent_raise_query(model, step->layer, rows);
    return OR_OK;
}

static or_status_t absorb(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    or_latent_absorb(model, step->layer, rows);
    return OR_OK;
}

static or_status_t raise_values(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    or_latent_raise_values(model, step->layer, rows);
    return OR_OK;
}

static or_status_t attend(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    or_attention_run(model, step->layer_index, rows);
    if (model->attended.blocks != NULL && model->head_sums == model->attended.values) {
        or_workers_run(model->workers, rows, or_workers_grain(4ull * model->shape.width),
                       quantise_attended_rows, model);
    }
    return OR_OK;
}

static or_status_t sum_output(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    uint32_t unit = model->share.heads_unit;
    return sum_shards(model, &step->layer->output, model->shape.heads / unit,
                      unit * step->layer->value_dim, &model->attended, rows);
}

static or_status_t project_up(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    const or_layer_t *layer = step->layer;
    const or_product_t gated[] = {
        or_product_here(&layer->gate, model->gate.values, model->gate.stride),
        or_product_here(&layer->up, model->up, model->ffn_stride),
    };
    const or_product_t plain = or_product_here(&layer->up, model->gate.values, model->gate.stride);
    bool has_gate = model->arch->has_gate;
    observe(model, &layer->gate, &model->h, rows);
    observe(model, &layer->up, &model->h, rows);
    or_products_run(model->kernels, model->workers, &model->h, 0, rows, has_gate ? gated : &plain,
                    has_gate ? 2 : 1);
    return OR_OK;
}

static or_status_t sum_down(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    uint32_t units = (step->layer->ffn_size + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
    return sum_shards(model, &step->layer->down, units, OR_SHARD_FFN_UNIT, &model->gate, rows);
}

static or_status_t route(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    if (or_experts_is_dense(step->layer)) {
        return OR_OK;
    }
    observe(model, &step->layer->router, &model->h, rows);
    or_experts_route(model, step->layer, rows);
    return or_streamed_experts(model->streamed, model->experts.chosen,
                               rows * model->shape.experts_used);
}

static or_status_t sum_experts(or_model_t *model, const or_layer_t *layer, or_experts_part_t part,
                               uint32_t rows)
{
    or_experts_run(model, layer, part, rows);
    return model->ranks->size == 1 ? OR_OK : exchange(model, rows);
}

static or_status_t sum_all_experts(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    return sum_experts(model, step->layer, OR_EXPERTS_BOTH, rows);
}

static or_status_t sum_chosen(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    return sum_experts(model, step->layer, OR_EXPERTS_CHOSEN, rows);
}

static or_status_t sum_shared(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    return sum_experts(model, step->layer, OR_EXPERTS_SHARED, rows);
}

static or_status_t project_inputs(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    (void)step;
    or_layer_inputs_project(model, rows);
    return OR_OK;
}

static or_status_t gate_input(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    observe(model, &step->layer->input_gate, &model->h, rows);
    or_layer_inputs_gate(model, step->layer, rows);
    return OR_OK;
}

static or_status_t raise_input(or_model_t *model, const or_pass_op_t *step, uint32_t rows)
{
    observe(model, &step->layer->input_up, &model->inputs.gate, rows);
    or_layer_inputs_raise(model, step->layer, rows);
    return OR_OK;
}

static const or_batch_op_t batch_ops[OR_OP_KINDS] = {
    [OR_OP_PROJECT_QKV] = project_qkv,   [OR_OP_ATTEND] = attend,
    [OR_OP_SUM_OUTPUT] = sum_output,     [OR_OP_PROJECT_UP] = project_up,
    [OR_OP_SUM_DOWN] = sum_down,         [OR_OP_ROUTE] = route,
    [OR_OP_EXPERTS] = sum_all_experts,   [OR_OP_CHOSEN] = sum_chosen,
    [OR_OP_SHARED] = sum_shared,         [OR_OP_PROJECT_LATENT] = project_latent,
    [OR_OP_RAISE_QUERY] = raise_query,   [OR_OP_ABSORB] = absorb,
    [OR_OP_RAISE_VALUES] = raise_values, [OR_OP_PROJECT_INPUTS] = project_inputs,
    [OR_OP_GATE_INPUT] = gate_input,     [OR_OP_RAISE_INPUT] = raise_input,
};

or_batch_op_t or_batch_op(or_op_kind_t kind)
{
    return batch_ops[kind];
}

// ---- a pass ----

static or_status_t run_steps(or_model_t *model, uint32_t rows)
{
    const or_pass_op_t *step = model->steps.steps;
    const or_pass_op_t *end = step + model->steps.count;
    or_status_t status = OR_OK;
    while (status == OR_OK && step < end) {
        if (step->on_batch != NULL) { // only these read matrices, and take long
            if (model->between != NULL) {
                model->between(model->between_context);
            }
            status = or_streamed_enter(model->streamed, step->layer_index);
            status = status != OR_OK ? status : step->on_batch(model, step, rows);
            step++;
        } else {
            or_workers_run(model->workers, rows, step->grain, run_rows,
                           &(row_steps_t){model, step});
            step += step->group;
        }
    }
    return status;
}

// x of all rows comes from the stage before, or goes to the next one.
or_status_t or_forward_run(or_model_t *model, uint32_t count)
{
    const or_ranks_t *ranks = model->ranks;
    model->experts.read = (or_model_reads_t){0};
    size_t bytes = (size_t)count * model->shape.width * sizeof *model->x;
    or_status_t status = or_streamed_expect(model->streamed, count);
    if (status == OR_OK && !model->share.embeds) {
        status = ranks->take_over(ranks, model->x, bytes);
    }
    status = status != OR_OK ? status : run_steps(model, count);
    or_streamed_leave(model->streamed);
    if (status == OR_OK && model->share.has_head) {
        observe(model, &model->head, &model->h,
                count); // of all rows, whichever logits are asked for
    }
    return status != OR_OK || model->share.has_head ? status
                                                    : ranks->pass_on(ranks, model->x, bytes);
}
