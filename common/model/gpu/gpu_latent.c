// Latent attention on a device (cpu/latent.h). The heads' own matrices are multiplied as experts are: each head's rows are a group.
//
//     heads ──gather──▶ entries ──key_up──▶ raised ──copy──▶ query      its rotated part is copied from heads
//     sums  ──gather──▶ entries ──value_up──▶ raised ──copy──▶ attended
#include "common/model/gpu/gpu_internal.h"
#include "common/model/latent_sizes.h"

// ---- memory ----

void or_gpu_latent_describe(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_latent_t *latent = &gpu->latent;
    const or_model_shape_t *shape = &model->shape;
    const uint32_t heads = or_latent_heads(model), entry = or_latent_entry(model);
    if (!model->arch->has_latent) {
        return;
    }
    const size_t panels = or_span_length(model->layers[0].query.panels);
    latent->heads_stride = or_row_stride(panels * OR_PANEL);
    latent->raised_stride = or_row_stride(or_latent_raised(model));
    or_gpu_describe_rows(gpu, shape->query_latent, or_row_stride(shape->query_latent),
                         &latent->query_latent);
    or_gpu_describe_rows(gpu, entry, or_row_stride(entry), &latent->entries);
    or_gpu_describe_rows(gpu, 0, (size_t)heads * shape->head_dim, &latent->sums);
    or_gpu_describe_rows(gpu, (size_t)heads * shape->value_dim,
                         or_row_stride((size_t)heads * shape->value_dim), &gpu->attended);
}

or_status_t or_gpu_latent_each(or_model_t *model, or_gpu_parts_t *each)
{
    or_gpu_latent_t *latent = &model->gpu->latent;
    const or_latent_quantised_t quantised = or_latent_quantised(model);
    const size_t number = sizeof(float), block = sizeof(or_q8_block_t);
    const size_t rows = model->rows_max, heads = or_latent_heads(model), entries = heads * rows;
    const size_t query_rows = model->shape.query_latent > 0 ? rows : 0;
    const or_gpu_part_t parts[] = {
        {&latent->query_latent.values, OR_GPU_BUFFER,
         query_rows * latent->query_latent.stride * number},
        {&latent->query_latent.blocks, OR_GPU_BUFFER,
         quantised.query_latent ? query_rows * latent->query_latent.blocks_stride * block : 0},
        {&latent->heads, OR_GPU_BUFFER, rows * latent->heads_stride * number},
        {&latent->entries.values, OR_GPU_BUFFER, entries * latent->entries.stride * number},
        {&latent->entries.blocks, OR_GPU_BUFFER,
         quantised.entries ? entries * latent->entries.blocks_stride * block : 0},
        {&latent->raised, OR_GPU_BUFFER, entries * latent->raised_stride * number},
        {&latent->sums.values, OR_GPU_BUFFER, rows * latent->sums.stride * number},
        {&latent->groups, OR_GPU_BUFFER, heads * sizeof *latent->groups},
    };
    return model->arch->has_latent ? each(model, parts, sizeof parts / sizeof parts[0]) : OR_OK;
}

// ---- what h is projected to ----

or_status_t or_gpu_latent_project(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_latent_t *latent = &gpu->latent;
    const or_layer_t *layer = place->layer;
    const bool has_latent = model->shape.query_latent > 0;
    const or_gpu_projection_t heads = {&layer->query, latent->heads, latent->heads_stride};
    const or_gpu_projection_t query = {&layer->query_latent, latent->query_latent.values,
                                       latent->query_latent.stride};
    const or_gpu_projection_t projections[] = {{&layer->key, gpu->key, model->kv_stride},
                                               has_latent ? query : heads};
    or_gpu_project_all(model, &gpu->h, projections, 2, NULL, rows);
    return OR_OK;
}

or_status_t or_gpu_latent_norm_query(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_rows_t *query = &gpu->latent.query_latent;
    const float *weight = or_layer_vector(place->layer, place->op->weight);
    if (weight != NULL) { // else the file has none
        or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, query->values, query->stride, weight,
                                                 model->shape.query_latent,
                                                 model->numbers.norm_epsilon, rows, query));
    }
    return OR_OK;
}

or_status_t or_gpu_latent_raise_query(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    const or_gpu_latent_t *latent = &model->gpu->latent;
    if (model->shape.query_latent > 0) {
        or_gpu_project(model, &place->layer->query, &latent->query_latent, rows, latent->heads,
                       latent->heads_stride);
    }
    return OR_OK;
}

or_status_t or_gpu_latent_norm_key(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_rows_t key = {.values = gpu->key, .stride = model->kv_stride};
    if (or_latent_has_key(model)) {
        or_gpu_keep(gpu, gpu->functions->rmsnorm(gpu->cuda, key.values, key.stride,
                                                 or_layer_vector(place->layer, place->op->weight),
                                                 model->shape.latent, model->numbers.norm_epsilon,
                                                 rows, &key));
    }
    return OR_OK;
}

// ---- products of heads ----

// Copy n floats of each of `heads` heads.
static void copy_heads(or_model_t *model, or_cuda_head_rows_t from, uint32_t n, uint32_t heads,
                       uint32_t rows, or_cuda_head_rows_t to)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->copy_heads(gpu->cuda, &from, n, heads, rows, &to));
}

// Multiply n floats of each head with the head's matrix, into latent->raised, and return these products.
static or_cuda_head_rows_t raise_heads(or_model_t *model, const or_matrix_t *matrix,
                                       or_cuda_head_rows_t from, uint32_t n, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_latent_t *latent = &gpu->latent;
    const uint32_t heads = or_latent_heads(model);
    const or_gpu_projection_t projection = {matrix, latent->raised, latent->raised_stride};
    const or_cuda_groups_t groups = {.groups = latent->groups, .count = heads};
    or_gpu_keep(gpu,
                gpu->functions->gather_heads(gpu->cuda, &from, n, heads, rows, &latent->entries));
    or_gpu_keep(gpu, gpu->functions->group_heads(gpu->cuda, model->share.heads.begin, heads, rows,
                                                 latent->groups));
    or_gpu_project_all(model, &latent->entries, &projection, 1, &groups, rows);
    return (or_cuda_head_rows_t){latent->raised, latent->raised_stride,
                                 rows * latent->raised_stride};
}

or_status_t or_gpu_latent_absorb(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_latent_t *latent = &gpu->latent;
    const or_model_shape_t *shape = &model->shape;
    const uint32_t count = or_latent_heads(model), plain = or_latent_plain(model);
    if (!or_latent_has_key(model)) {
        return OR_OK;
    }
    const uint32_t first = model->share.heads.begin * shape->query_dim;
    const or_cuda_head_rows_t heads = {latent->heads + or_matrix_place(&place->layer->query, first),
                                       latent->heads_stride, shape->query_dim};
    const or_cuda_head_rows_t rotated = {heads.values + plain, heads.row_stride, heads.head_stride};
    const or_cuda_head_rows_t query = {gpu->query, model->query_stride, shape->head_dim};
    const or_cuda_head_rows_t rotates = {query.values + shape->latent, query.row_stride,
                                         query.head_stride};
    const or_cuda_head_rows_t key = {gpu->key, model->kv_stride, 0};
    const or_cuda_head_rows_t value = {gpu->value, model->kv_stride, 0}; // the rest stays 0
    copy_heads(model, key, shape->latent, 1, rows, value);
    copy_heads(model, rotated, or_latent_rotated(model), count, rows, rotates);
    copy_heads(model, raise_heads(model, &place->layer->key_up, heads, plain, rows), shape->latent,
               count, rows, query);
    return OR_OK;
}

or_status_t or_gpu_latent_raise_values(or_model_t *model, const or_gpu_op_t *place, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_model_shape_t *shape = &model->shape;
    const uint32_t count = or_latent_heads(model);
    const or_cuda_head_rows_t sums = {gpu->latent.sums.values, gpu->latent.sums.stride,
                                      shape->head_dim};
    const or_cuda_head_rows_t attended = {gpu->attended.values, gpu->attended.stride,
                                          shape->value_dim};
    copy_heads(model, raise_heads(model, &place->layer->value_up, sums, shape->latent, rows),
               shape->value_dim, count, rows, attended);
    if (gpu->attended.blocks != NULL) {
        or_gpu_keep(gpu, gpu->functions->quantize(gpu->cuda, &gpu->attended,
                                                  count * shape->value_dim, rows));
    }
    return OR_OK;
}
