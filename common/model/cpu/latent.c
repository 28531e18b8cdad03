#include "common/model/cpu/latent.h"

#include <string.h>

#include "common/base/parts.h"
#include "common/model/latent_sizes.h"

// ---- memory ----

static bool each_array(or_model_t *model, or_parts_t *each)
{
    or_latent_t *latent = &model->latent;
    const size_t heads = or_latent_heads(model), rows = model->rows_max;
    const or_part_t parts[] = {
        OR_PART(latent->heads, rows * latent->heads_stride),
        OR_PART(latent->raised, heads * rows * latent->raised_stride),
        OR_PART(latent->sums, rows * heads * model->shape.head_dim),
        OR_PART(latent->matrices, heads),
        OR_PART(latent->products, heads),
        OR_PART(latent->spans, heads),
    };
    return each(parts, sizeof parts / sizeof *parts);
}

bool or_latent_create(or_model_t *model)
{
    or_latent_t *latent = &model->latent;
    const or_model_shape_t *shape = &model->shape;
    const or_latent_quantised_t quantised = or_latent_quantised(model);
    const size_t entries = (size_t)or_latent_heads(model) * model->rows_max;
    const size_t panels = or_span_length(model->layers[0].query.panels);
    latent->heads_stride = or_row_stride(panels * OR_PANEL);
    latent->raised_stride = or_row_stride(or_latent_raised(model));
    return each_array(model, or_parts_take) &&
           or_activations_init(&latent->entries, entries, or_latent_entry(model),
                               quantised.entries) == OR_OK &&
           (shape->query_latent == 0 ||
            or_activations_init(&latent->query_latent, model->rows_max, shape->query_latent,
                                quantised.query_latent) == OR_OK);
}

void or_latent_free(or_model_t *model)
{
    each_array(model, or_parts_free);
    or_activations_fini(&model->latent.entries);
    or_activations_fini(&model->latent.query_latent);
}

// ---- what h is projected to ----

static void observe(const or_model_t *model, const or_matrix_t *matrix, uint32_t head,
                    const or_activations_t *x, or_span_t rows)
{
    if (model->importance != NULL) {
        or_importance_add(
            model->importance, matrix, head,
            &(or_importance_rows_t){.x = x, .first = rows.begin, .count = or_span_length(rows)});
    }
}

void or_latent_project(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    or_latent_t *latent = &model->latent;
    const bool has_latent = model->shape.query_latent > 0;
    const or_product_t products[] = {
        or_product_here(&layer->key, model->key, model->kv_stride),
        has_latent ? or_product_here(&layer->query_latent, latent->query_latent.values,
                                     latent->query_latent.stride)
                   : or_product_here(&layer->query, latent->heads, latent->heads_stride),
    };
    for (uint32_t i = 0; i < 2; i++) {
        observe(model, products[i].matrix, 0, &model->h, (or_span_t){0, rows});
    }
    or_products_run(model->kernels, model->workers, &model->h, 0, rows, products, 2);
}

void or_latent_norm_query(const or_model_t *model, const float *weight, uint32_t row)
{
    const or_activations_t *query = &model->latent.query_latent;
    if (weight != NULL) {
        float *values = query->values + row * query->stride;
        model->kernels->rmsnorm(values, weight, model->shape.query_latent,
                                model->numbers.norm_epsilon, values);
        or_activations_quantise(query, model->kernels, row);
    }
}

void or_latent_raise_query(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    or_latent_t *latent = &model->latent;
    if (model->shape.query_latent > 0) {
        const or_product_t product =
            or_product_here(&layer->query, latent->heads, latent->heads_stride);
        observe(model, &layer->query, 0, &latent->query_latent, (or_span_t){0, rows});
        or_products_run(model->kernels, model->workers, &latent->query_latent, 0, rows, &product,
                        1);
    }
}

void or_latent_norm_key(const or_model_t *model, const float *weight, uint32_t row)
{
    float *key = model->key + row * model->kv_stride;
    if (or_latent_has_key(model)) {
        model->kernels->rmsnorm(key, weight, model->shape.latent, model->numbers.norm_epsilon, key);
    }
}

// ---- products of heads ----

// All rows of a pass, of one layer.
typedef struct {
    or_model_t *model;
    const or_layer_t *layer;
    uint32_t rows;
} pass_t;

static float *entry_of(const pass_t *pass, uint32_t head, uint32_t row)
{
    const or_activations_t *entries = &pass->model->latent.entries;
    return entries->values + ((size_t)head * pass->rows + row) * entries->stride;
}

static const float *raised_of(const pass_t *pass, uint32_t head, uint32_t row)
{
    const or_latent_t *latent = &pass->model->latent;
    return latent->raised + ((size_t)head * pass->rows + row) * latent->raised_stride;
}

// Multiply each head's entries with its matrix. The workers take panels of all heads together.
static void raise_entries(const pass_t *pass, const or_matrix_t *matrix)
{
    or_model_t *model = pass->model;
    or_latent_t *latent = &model->latent;
    const uint32_t heads = or_latent_heads(model);
    for (uint32_t h = 0; h < heads; h++) {
        const or_span_t span = {h * pass->rows, (h + 1) * pass->rows};
        latent->spans[h] = span;
        latent->matrices[h] = or_matrix_expert(matrix, model->share.heads.begin + h);
        latent->products[h] = or_product_here(&latent->matrices[h],
                                              latent->raised + span.begin * latent->raised_stride,
                                              latent->raised_stride);
        observe(model, matrix, model->share.heads.begin + h, &latent->entries, span);
    }
    or_products_run_each(model->kernels, model->workers, &latent->entries, latent->products,
                         latent->spans, heads);
}

typedef void move_t(const pass_t *pass, uint32_t head, uint32_t row);

typedef struct {
    const pass_t *pass;
    move_t *move;
} moving_t;

static void move_rows(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const moving_t *moving = context;
    for (uint32_t row = begin; row < end; row++) {
        for (uint32_t h = 0; h < or_latent_heads(moving->pass->model); h++) {
            moving->move(moving->pass, h, row);
        }
    }
}

static void move_all(const pass_t *pass, move_t *move)
{
    moving_t moving = {pass, move};
    const uint64_t work = (uint64_t)or_latent_heads(pass->model) * pass->model->shape.head_dim;
    or_workers_run(pass->model->workers, pass->rows, or_workers_grain(work), move_rows, &moving);
}

static void quantise_entry(const pass_t *pass, uint32_t head, uint32_t row)
{
    or_activations_quantise(&pass->model->latent.entries, pass->model->kernels,
                            (size_t)head * pass->rows + row);
}

// ---- queries ----

static float *query_of(const pass_t *pass, uint32_t head, uint32_t row)
{
    const or_model_t *model = pass->model;
    return model->query + row * model->query_stride + (size_t)head * model->shape.head_dim;
}

static void split_query(const pass_t *pass, uint32_t head, uint32_t row)
{
    const or_model_t *model = pass->model;
    const or_latent_t *latent = &model->latent;
    const uint32_t plain = or_latent_plain(model), query_dim = model->shape.query_dim;
    const size_t place =
        or_matrix_place(&pass->layer->query, (model->share.heads.begin + head) * query_dim);
    const float *from = latent->heads + row * latent->heads_stride + place;
    memcpy(entry_of(pass, head, row), from, plain * sizeof *from);
    memcpy(query_of(pass, head, row) + model->shape.latent, from + plain,
           or_latent_rotated(model) * sizeof *from);
    quantise_entry(pass, head, row);
}

static void take_query(const pass_t *pass, uint32_t head, uint32_t row)
{
    memcpy(query_of(pass, head, row), raised_of(pass, head, row),
           pass->model->shape.latent * sizeof(float));
}

static void copy_values(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const or_model_t *model = context;
    const uint32_t latent = model->shape.latent;
    for (uint32_t row = begin; row < end; row++) {
        float *value = model->value + row * model->kv_stride;
        memcpy(value, model->key + row * model->kv_stride, latent * sizeof *value);
        memset(value + latent, 0, or_latent_rotated(model) * sizeof *value);
    }
}

void or_latent_absorb(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    const pass_t pass = {model, layer, rows};
    if (or_latent_has_key(model)) {
        or_workers_run(model->workers, rows, or_workers_grain(model->shape.head_dim), copy_values,
                       model);
    }
    move_all(&pass, split_query);
    raise_entries(&pass, &layer->key_up);
    move_all(&pass, take_query);
}

// ---- values ----

static void take_sums(const pass_t *pass, uint32_t head, uint32_t row)
{
    const or_model_t *model = pass->model;
    const size_t head_dim = model->shape.head_dim;
    memcpy(entry_of(pass, head, row),
           model->latent.sums + (row * (size_t)or_latent_heads(model) + head) * head_dim,
           model->shape.latent * sizeof(float));
    quantise_entry(pass, head, row);
}

static void take_values(const pass_t *pass, uint32_t head, uint32_t row)
{
    const or_activations_t *attended = &pass->model->attended;
    const uint32_t size = pass->model->shape.value_dim;
    memcpy(attended->values + row * attended->stride + (size_t)head * size,
           raised_of(pass, head, row), size * sizeof(float));
    if (head + 1 == or_latent_heads(pass->model)) { // the row is whole
        or_activations_quantise(attended, pass->model->kernels, row);
    }
}

void or_latent_raise_values(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    const pass_t pass = {model, layer, rows};
    move_all(&pass, take_sums);
    raise_entries(&pass, &layer->value_up);
    move_all(&pass, take_values);
}
