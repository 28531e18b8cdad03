// Experts on a device, as cpu/experts.h has them. Each step is for all entries together, however they are spread over the
// experts, so that what is launched depends on the number of rows alone and can be recorded.
//
//     h ──▶ logits ──▶ chosen        of all rows of a pass
//     entries ──▶ gate, up ──▶ gate ──▶ products ──▶ parts      of some rows after the others
//     h ──▶ shared gate, up ──▶ gate ──▶ parts                  before, of the expert that all rows take: it is added last
//     parts ──▶ the tree of shards and ranks
#include "common/model/gpu/gpu_internal.h"

_Static_assert(OR_EXPERTS_MAX <= OR_CUDA_EXPERTS_MAX, "a device chooses among as many experts");

// The most rows that are computed together, and the most floats of their entries' products, unless one row needs more.
#define ROWS_MOST 256u
#define PRODUCTS_MOST ((size_t)32 << 20)

// ---- sizes ----

static size_t products_of_row(const or_model_t *model)
{
    return (size_t)model->shape.experts_used * or_span_length(model->share.shards) *
           model->width_stride;
}

static uint32_t rows_together(const or_model_t *model)
{
    uint32_t rows = model->rows_max < ROWS_MOST ? model->rows_max : ROWS_MOST;
    size_t most = PRODUCTS_MOST / products_of_row(model);
    most = most > 0 ? most : 1;
    return rows < most ? rows : (uint32_t)most;
}

size_t or_gpu_ffn_rows(const or_model_t *model)
{
    return model->arch->has_experts
               ? (size_t)model->gpu->experts.rows_max * model->shape.experts_used
               : model->rows_max;
}

// The most entries of an expert that are multiplied together: about as many as it has of some rows, in the kernels' sizes.
static uint32_t group_rows(const or_model_t *model, uint32_t rows)
{
    uint32_t each = rows * model->shape.experts_used / model->shape.experts;
    uint32_t most = each < 4 ? 8 : each < 12 ? 16 : 32;
    return rows < most ? rows : most;
}

// ---- memory ----

void or_gpu_experts_describe(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_experts_t *experts = &gpu->experts;
    const uint32_t shared = or_experts_common_ffn_max(model);
    if (model->arch->has_experts) {
        experts->rows_max = rows_together(model);
        experts->logits_stride = or_row_stride(model->shape.experts);
        or_gpu_describe_rows(gpu, model->shape.width, model->width_stride, &experts->h);
        or_gpu_describe_rows(gpu, shared, or_row_stride(shared), &experts->shared_gate);
    }
}

typedef struct {
    bool h, shared_gate;
} quantised_t;

// Are the rows read by quantised matrices in some layer?
static quantised_t quantised_rows(const or_model_t *model)
{
    quantised_t quantised = {0};
    for (uint32_t i = 0; model->layers != NULL && i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        quantised.h = quantised.h || layer->expert_gate.quantised || layer->expert_up.quantised;
        quantised.shared_gate = quantised.shared_gate || layer->shared_down.quantised;
    }
    return quantised;
}

or_status_t or_gpu_experts_each(or_model_t *model, or_gpu_parts_t *each)
{
    or_gpu_experts_t *experts = &model->gpu->experts;
    or_cuda_entries_t *of = &experts->entries;
    const quantised_t quantised = quantised_rows(model);
    const size_t number = sizeof(float); // and of integers
    const size_t block = sizeof(or_q8_block_t);
    const size_t rows = model->rows_max;
    const size_t chosen = rows * model->shape.experts_used * number;
    const size_t entries = experts->rows_max * (size_t)model->shape.experts_used;
    const size_t shared = or_experts_common_ffn_max(model) > 0 ? rows : 0;
    const or_gpu_part_t parts[] = {
        {&experts->logits, OR_GPU_BUFFER, rows * experts->logits_stride * number},
        {&experts->chosen, OR_GPU_BUFFER, chosen},
        {&experts->weights, OR_GPU_BUFFER, chosen},
        {&experts->taken, OR_GPU_BUFFER, or_span_length(model->share.layers) * number},
        {&of->rows, OR_GPU_BUFFER, entries * number},
        {&of->experts, OR_GPU_BUFFER, entries * number},
        {&of->weights, OR_GPU_BUFFER, entries * number},
        {&of->places, OR_GPU_BUFFER, entries * number},
        {&of->groups, OR_GPU_BUFFER, (model->shape.experts + entries) * sizeof *of->groups},
        {&experts->h.values, OR_GPU_BUFFER, entries * experts->h.stride * number},
        {&experts->h.blocks, OR_GPU_BUFFER,
         quantised.h ? entries * experts->h.blocks_stride * block : 0},
        {&experts->products, OR_GPU_BUFFER, experts->rows_max * products_of_row(model) * number},
        {&experts->shared_gate.values, OR_GPU_BUFFER,
         shared * experts->shared_gate.stride * number},
        {&experts->shared_gate.blocks, OR_GPU_BUFFER,
         quantised.shared_gate ? shared * experts->shared_gate.blocks_stride * block : 0},
        {&experts->shared_up, OR_GPU_BUFFER, shared * experts->shared_gate.stride * number},
        {&experts->shared_weights, OR_GPU_BUFFER, shared * number},
    };
    return model->arch->has_experts ? each(model, parts, sizeof parts / sizeof parts[0]) : OR_OK;
}

// ---- the choice ----

void or_gpu_route(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_experts_t *experts = &gpu->experts;
    if (or_experts_is_dense(layer)) {
        return;
    }
    const or_cuda_choice_t choice = {.experts = model->shape.experts,
                                     .used = model->shape.experts_used,
                                     .sigmoid = model->shape.routes_by_sigmoid,
                                     .normalised = model->shape.normalises_experts,
                                     .scale = model->numbers.expert_scale,
                                     .groups = model->shape.expert_groups,
                                     .groups_used = model->shape.expert_groups_used,
                                     .logit_bias = layer->logit_bias,
                                     .choice_bias = layer->router_bias};
    or_gpu_project(model, &layer->router, &gpu->h, rows, experts->logits, experts->logits_stride);
    if (model->arch->mixes_sparsely) {
        or_gpu_keep(gpu, gpu->functions->mix_experts(gpu->cuda, choice.experts, choice.scale,
                                                     experts->logits, experts->logits_stride, rows,
                                                     experts->chosen, experts->weights));
        return;
    }
    or_gpu_keep(gpu, gpu->functions->choose_experts(gpu->cuda, &choice, experts->logits,
                                                    experts->logits_stride, rows, experts->chosen,
                                                    experts->weights));
}

static uint64_t bytes_of_layer(const or_layer_t *layer)
{
    return layer->expert_gate.bytes + layer->expert_up.bytes + layer->expert_down.bytes;
}

or_model_reads_t or_gpu_experts_read(const or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_model_reads_t reads = {0};
    for (uint32_t i = 0; model->arch->has_experts && i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        uint32_t taken = 0;
        or_gpu_keep(
            gpu, gpu->functions->download(gpu->cuda, &taken, gpu->experts.taken + i, sizeof taken));
        or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
        reads.experts += taken;
        reads.weights += taken * (bytes_of_layer(layer) / model->shape.experts);
    }
    return reads;
}

// ---- the expert that all rows take ----

static uint32_t units_of(uint32_t ffn)
{
    return (ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT;
}

static const float *shared_weights(or_model_t *model, const or_layer_t *layer, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    if (layer->shared_router == NULL) {
        return NULL;
    }
    or_gpu_keep(gpu, gpu->functions->weigh_shared(gpu->cuda, gpu->h.values, gpu->h.stride,
                                                  layer->shared_router, model->shape.width, rows,
                                                  gpu->experts.shared_weights));
    return gpu->experts.shared_weights;
}

// Leave its products in gpu->parts.
static void run_shared(or_model_t *model, const or_layer_t *layer, uint32_t rows,
                       size_t part_stride)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_rows_t *gate = &gpu->experts.shared_gate;
    const or_gpu_projection_t projections[] = {
        {&layer->shared_gate, gate->values, gate->stride},
        {&layer->shared_up, gpu->experts.shared_up, gate->stride}};
    const or_cuda_expert_rows_t what = {.weights = shared_weights(model, layer, rows),
                                        .clamps = model->arch->clamps_experts};
    or_gpu_project_all(model, &gpu->h, projections, 2, NULL, rows);
    or_gpu_keep(gpu, gpu->functions->activate_experts(
                         gpu->cuda, &what, gate, gpu->experts.shared_up, gate->stride,
                         or_experts_common_ffn_here(model, layer), rows));
    or_gpu_multiply_shards(model, &layer->shared_down,
                           units_of(or_experts_common_ffn(model, layer)), OR_SHARD_FFN_UNIT, gate,
                           NULL, rows, gpu->parts, part_stride);
}

// ---- experts ----

// The rows of a pass that are computed together.
typedef struct {
    or_model_t *model;
    const or_layer_t *layer;
    uint32_t index; // of the layer
    uint32_t first, count;
    or_cuda_groups_t groups; // expert_bytes are each matrix's
    uint32_t group_rows;
} tile_t;

static uint32_t entries_of(const tile_t *tile)
{
    return tile->count * tile->model->shape.experts_used;
}

static void group_entries(const tile_t *tile)
{
    or_gpu_t *gpu = tile->model->gpu;
    const or_model_shape_t *shape = &tile->model->shape;
    const size_t done = (size_t)tile->first * shape->experts_used;
    or_cuda_entries_t to = gpu->experts.entries;
    to.taken = gpu->experts.taken + tile->index;
    or_gpu_keep(gpu, gpu->functions->group_entries(gpu->cuda, shape->experts, shape->experts_used,
                                                   gpu->experts.chosen + done,
                                                   gpu->experts.weights + done, tile->count,
                                                   tile->group_rows, tile->first > 0, &to));
}

// Copy the entries' rows of h, in the form that the layer's matrices read.
static void gather_entries(const tile_t *tile)
{
    or_gpu_t *gpu = tile->model->gpu;
    const or_layer_t *layer = tile->layer;
    const or_cuda_rows_t from = or_gpu_rows_from(&gpu->h, tile->first);
    or_cuda_rows_t to = gpu->experts.h;
    if (layer->expert_gate.quantised && layer->expert_up.quantised) {
        to.values = NULL;
    }
    if (!layer->expert_gate.quantised && !layer->expert_up.quantised) {
        to.blocks = NULL;
    }
    or_gpu_keep(gpu, gpu->functions->gather(gpu->cuda, &from, gpu->experts.entries.rows,
                                            tile->model->shape.width, entries_of(tile), &to));
}

// The part of an expert's biases that is here; NULL: the family has none.
static const float *biases_here(const or_model_t *model, const float *biases)
{
    return biases != NULL ? biases + model->share.ffn.begin : NULL;
}

static void make_gates(const tile_t *tile)
{
    or_model_t *model = tile->model;
    or_gpu_t *gpu = model->gpu;
    const or_layer_t *layer = tile->layer;
    const or_gpu_projection_t projections[] = {
        {&layer->expert_gate, gpu->gate.values, gpu->gate.stride},
        {&layer->expert_up, gpu->up, model->ffn_stride}};
    const or_cuda_expert_rows_t what = {.experts = gpu->experts.entries.experts,
                                        .weights = gpu->experts.entries.weights,
                                        .gate_bias = biases_here(model, layer->expert_gate_bias),
                                        .up_bias = biases_here(model, layer->expert_up_bias),
                                        .bias_stride = model->shape.ffn,
                                        .clamps = model->arch->clamps_experts};
    or_gpu_project_all(model, &gpu->experts.h, projections, 2, &tile->groups, tile->group_rows);
    or_gpu_keep(gpu, gpu->functions->activate_experts(
                         gpu->cuda, &what, &gpu->gate, gpu->up, model->ffn_stride,
                         or_span_length(model->share.ffn), entries_of(tile)));
}

// Sum the products of each row's entries, and of the shared expert if there is one, into gpu->parts.
static void sum_entries(const tile_t *tile, size_t part_stride)
{
    or_model_t *model = tile->model;
    or_gpu_t *gpu = model->gpu;
    const size_t stride = model->width_stride;
    const bool dense = or_experts_is_dense(tile->layer);
    const or_cuda_entry_products_t products = {.values = gpu->experts.products,
                                               .part_stride = entries_of(tile) * stride,
                                               .stride = stride,
                                               .places = gpu->experts.entries.places,
                                               .used = dense ? 0 : model->shape.experts_used};
    if (!dense) {
        or_gpu_multiply_shards(model, &tile->layer->expert_down, units_of(model->shape.ffn),
                               OR_SHARD_FFN_UNIT, &gpu->gate, &tile->groups, tile->group_rows,
                               gpu->experts.products, products.part_stride);
    }
    or_gpu_keep(gpu, gpu->functions->sum_entries(
                         gpu->cuda, &products, or_experts_common_ffn(model, tile->layer) > 0,
                         gpu->parts + tile->first * stride, part_stride, stride,
                         or_span_length(model->share.shards), model->shape.width, tile->count));
}

static void run_tile(tile_t *tile)
{
    const or_model_t *model = tile->model;
    tile->group_rows = group_rows(model, tile->count);
    tile->groups.groups = model->gpu->experts.entries.groups;
    tile->groups.count =
        or_cuda_groups_max(model->shape.experts, entries_of(tile), tile->group_rows);
    group_entries(tile);
    gather_entries(tile);
    make_gates(tile);
}

or_status_t or_gpu_run_experts(or_model_t *model, const or_layer_t *layer, uint32_t index,
                               uint32_t rows, bool over, float *to)
{
    const size_t part_stride = rows * model->width_stride;
    const uint32_t together = or_experts_is_dense(layer) ? rows : model->gpu->experts.rows_max;
    if (or_experts_common_ffn(model, layer) > 0) {
        run_shared(model, layer, rows, part_stride);
    }
    for (uint32_t first = 0; first < rows; first += together) {
        tile_t tile = {.model = model, .layer = layer, .index = index, .first = first};
        tile.count = rows - first < together ? rows - first : together;
        if (!or_experts_is_dense(layer)) {
            run_tile(&tile);
        }
        sum_entries(&tile, part_stride);
    }
    return or_gpu_add_shards(model, part_stride, rows, over, to);
}

void or_gpu_bias_experts(or_model_t *model, const or_layer_t *layer, uint32_t rows, float *sums)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu,
                gpu->functions->bias_experts(gpu->cuda, gpu->experts.chosen, gpu->experts.weights,
                                             model->shape.experts_used, layer->expert_down_bias,
                                             sums, model->width_stride, model->shape.width, rows));
}
