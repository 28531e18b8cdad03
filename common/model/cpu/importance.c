#include "common/model/cpu/importance.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/inline.h"
#include "common/model/arch/tensors_internal.h"
#include "common/model/model_internal.h"

#define COLUMNS 64u // that a worker takes at least

struct or_importance {
    or_model_t *model;
    or_importance_entry_t *entries; // by the place of their matrix
    uint32_t count;
};

// ---- entries ----

static int by_matrix(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)((const or_importance_entry_t *)a)->matrix;
    uintptr_t right = (uintptr_t)((const or_importance_entry_t *)b)->matrix;
    return left < right ? -1 : left > right;
}

static const or_importance_entry_t *find(const or_importance_t *importance,
                                         const or_matrix_t *matrix)
{
    const or_importance_entry_t key = {.matrix = matrix};
    return bsearch(&key, importance->entries, importance->count, sizeof key, by_matrix);
}

static or_status_t add_entry(or_importance_t *importance, const char *name,
                             const or_gguf_tensor_t *tensor, const or_matrix_t *matrix)
{
    or_importance_entry_t *entry = &importance->entries[importance->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->inputs = (uint32_t)tensor->dims[0];
    entry->matrices = (uint32_t)tensor->dims[2];
    entry->matrix = matrix;
    entry->sums = calloc((size_t)entry->inputs * entry->matrices, sizeof *entry->sums);
    entry->counts = calloc(entry->matrices, sizeof *entry->counts);
    return entry->sums != NULL && entry->counts != NULL
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for the importance of %s", name);
}

// All parts of a fused tensor read the same rows: the first stands for it.
static or_status_t add_layer(or_importance_t *importance, uint32_t index)
{
    const or_model_t *model = importance->model;
    const char *layer = (const char *)&model->layers[index];
    or_status_t status = OR_OK;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors;
         status == OR_OK && t->suffix != NULL; t++) {
        or_gguf_tensor_t tensor;
        if (t->outputs != OR_DIM_ONE && (t->fused == NULL || t->part == 0) &&
            or_tensor_find_part(model, index, t, &tensor)) {
            status = add_entry(importance, or_tensor_name(index, t->suffix).text, &tensor,
                               (const or_matrix_t *)(layer + t->offset));
        }
    }
    return status;
}

static or_status_t add_head(or_importance_t *importance)
{
    const or_model_t *model = importance->model;
    const char *name = model->arch->head;
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(model->gguf, name);
    if (tensor == NULL) {
        name = model->arch->embedding;
        tensor = or_gguf_find_tensor(model->gguf, name);
    }
    return add_entry(importance, name, tensor, &model->head);
}

static size_t rows_of_table(const or_arch_t *arch)
{
    size_t count = 0;
    while (arch->layer_tensors[count].suffix != NULL) {
        count++;
    }
    return count;
}

static or_status_t add_entries(or_importance_t *importance, bool with_head)
{
    const or_model_t *model = importance->model;
    size_t most = model->shape.layers * rows_of_table(model->arch) + 1;
    importance->entries = calloc(most, sizeof *importance->entries);
    if (importance->entries == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the importance of %u layers",
                       model->shape.layers);
    }
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < model->shape.layers; i++) {
        status = add_layer(importance, i);
    }
    status = status == OR_OK && with_head ? add_head(importance) : status;
    qsort(importance->entries, importance->count, sizeof *importance->entries, by_matrix);
    return status;
}

or_status_t or_importance_create(or_model_t *model, bool with_head, or_importance_t **importance_p)
{
    if (model->gpu != NULL || !or_ranks_is_alone(model->ranks)) {
        return or_fail(OR_ERR_UNSUPPORTED, "importance is collected on the CPU, by one rank");
    }
    or_importance_t *importance = calloc(1, sizeof *importance);
    if (importance == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to collect importance");
    }
    importance->model = model;
    or_status_t status = add_entries(importance, with_head);
    if (status != OR_OK) {
        or_importance_destroy(&importance);
        return status;
    }
    model->importance = importance;
    *importance_p = importance;
    return OR_OK;
}

void or_importance_destroy(or_importance_t **importance_p)
{
    or_importance_t *importance = *importance_p;
    if (importance == NULL) {
        return;
    }
    for (uint32_t i = 0; i < importance->count; i++) {
        free(importance->entries[i].sums);
        free(importance->entries[i].counts);
    }
    importance->model->importance = NULL;
    free(importance->entries);
    free(importance);
    *importance_p = NULL;
}

uint32_t or_importance_count(const or_importance_t *importance)
{
    return importance->count;
}

const or_importance_entry_t *or_importance_entry(const or_importance_t *importance, uint32_t i)
{
    return &importance->entries[i];
}

// ---- sums ----

typedef struct {
    const or_importance_rows_t *rows;
    double *sums; // [inputs]
    uint32_t inputs;
} addition_t;

static float weight_of(const or_importance_rows_t *rows, uint32_t i)
{
    return rows->weights != NULL ? rows->weights[i] : 1;
}

// A row that was multiplied with 0 has nothing to say: it is neither added nor counted.
static uint64_t rows_that_count(const or_importance_rows_t *rows)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        count += weight_of(rows, i) != 0;
    }
    return count;
}

static void add_row(double *sums, const float *x, float weight, uint32_t count)
{
    double inverse = 1 / (double)weight;
    for (uint32_t i = 0; i < count; i++) {
        double value = (double)x[i] * inverse;
        sums[i] += value * value;
    }
}

static void add_columns(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const addition_t *addition = context;
    const or_importance_rows_t *rows = addition->rows;
    uint32_t from = begin * COLUMNS;
    uint32_t to = or_min_u32(end * COLUMNS, addition->inputs);
    for (uint32_t i = 0; i < rows->count; i++) {
        size_t row = rows->first + (rows->places != NULL ? rows->places[i] : i);
        if (weight_of(rows, i) != 0) {
            add_row(addition->sums + from, rows->x->values + row * rows->x->stride + from,
                    weight_of(rows, i), to - from);
        }
    }
}

void or_importance_add(or_importance_t *importance, const or_matrix_t *matrix, uint32_t expert,
                       const or_importance_rows_t *rows)
{
    const or_importance_entry_t *entry = find(importance, matrix);
    if (entry == NULL || rows->count == 0) {
        return;
    }
    addition_t addition = {rows, entry->sums + (size_t)expert * entry->inputs, entry->inputs};
    or_workers_run(importance->model->workers, (entry->inputs + COLUMNS - 1) / COLUMNS,
                   or_workers_grain((uint64_t)COLUMNS * rows->count), add_columns, &addition);
    entry->counts[expert] += rows_that_count(rows);
}

// ---- experts ----

void or_importance_add_chosen(or_importance_t *importance, const or_layer_t *layer, uint32_t first)
{
    if (importance == NULL) {
        return;
    }
    const or_model_t *model = importance->model;
    const or_experts_t *experts = &model->experts;
    for (uint32_t e = 0; e < model->shape.experts; e++) {
        const or_span_t group = experts->groups[e];
        const or_importance_rows_t before = {.x = &model->h,
                                             .first = first,
                                             .count = or_span_length(group),
                                             .places = experts->rows + group.begin};
        const or_importance_rows_t middle = {.x = &model->gate,
                                             .first = group.begin,
                                             .count = or_span_length(group),
                                             .weights = experts->entry_weights + group.begin};
        or_importance_add(importance, &layer->expert_gate, e, &before);
        or_importance_add(importance, &layer->expert_up, e, &before);
        or_importance_add(importance, &layer->expert_down, e, &middle);
    }
}

void or_importance_add_shared(or_importance_t *importance, const or_layer_t *layer, uint32_t first,
                              uint32_t count)
{
    float weights[OR_PART_SUM_ROWS];
    if (importance == NULL) {
        return;
    }
    const or_model_t *model = importance->model;
    const or_importance_rows_t before = {.x = &model->h, .first = first, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = or_experts_shared_weight(model, layer, first + i);
    }
    const or_importance_rows_t middle = {
        .x = &model->experts.shared_gate, .count = count, .weights = weights};
    or_importance_add(importance, &layer->shared_gate, 0, &before);
    or_importance_add(importance, &layer->shared_up, 0, &before);
    or_importance_add(importance, &layer->shared_down, 0, &middle);
}
