// The memory that a model has on a device besides its weights and its cache: for passes, contests and trees.
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

// ---- the memory of passes and contests (model_draws.h), and what travels to other ranks ----

void or_gpu_describe_rows(const or_gpu_t *gpu, size_t width, size_t stride, or_cuda_rows_t *rows)
{
    rows->stride = stride;
    rows->blocks_stride = (width + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
    rows->halves_stride = width;
    rows->halves_type = gpu->tensor_type == OR_TENSOR_F16 ? OR_CUDA_F16 : OR_CUDA_BF16;
}

// Return the most elements of a head in any layer, and the most that an FFN's middle has here.
static uint32_t head_dim_max(const or_model_t *model)
{
    const or_model_shape_t *shape = &model->shape;
    return shape->window_head_dim > shape->head_dim ? shape->window_head_dim : shape->head_dim;
}

static uint32_t ffn_max(const or_model_t *model)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        const uint32_t width = or_span_length(model->layers[i].ffn);
        most = width > most ? width : most;
    }
    return most;
}

// What attention wants for one row that sees the whole context, with the room that is usual for some more.
static size_t scores_floats(const or_model_t *model)
{
    size_t stride = or_gpu_scores_stride(model, or_gpu_steps_round(model->context));
    size_t row =
        or_span_length(model->share.heads) * or_cuda_attention_floats(stride, head_dim_max(model));
    size_t most = model->rows_max * row;
    size_t usual = most < OR_GPU_SCORES ? most : OR_GPU_SCORES;
    return row > usual ? row : usual;
}

static void describe(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    size_t heads = (size_t)or_span_length(model->share.heads) * head_dim_max(model);
    or_gpu_describe_rows(gpu, model->shape.width, model->width_stride, &gpu->h);
    or_gpu_describe_rows(gpu, heads, model->query_stride, &gpu->attended);
    or_gpu_describe_rows(gpu, ffn_max(model), model->ffn_stride, &gpu->gate);
    or_gpu_experts_describe(model);
    or_gpu_inputs_describe(model);
    or_gpu_latent_describe(model);
    gpu->scores_floats = scores_floats(model);
    gpu->tables.bytes = or_gpu_tables_bytes(model);
}

static size_t at_most(size_t rows, size_t most)
{
    return rows < most ? rows : most;
}

// Take or give all of it, as described.
static or_status_t each_part(or_model_t *model, or_quantised_rows_t quantised, or_gpu_parts_t *each)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_contests_t *contests = &gpu->contests;
    const size_t number = sizeof(float);
    const size_t block = sizeof(or_q8_block_t);
    const size_t rows = model->rows_max;
    const size_t logits_rows = at_most(rows, OR_LOGITS_ROWS);
    const size_t room = or_gpu_tensor_room(gpu, rows);
    const size_t ffn_rows = or_gpu_ffn_rows(model);
    const size_t ffn_room = or_gpu_tensor_room(gpu, ffn_rows);
    const size_t halves = gpu->tensor != NULL ? room * sizeof *gpu->h.halves : 0;
    const size_t logits =
        model->share.has_head ? or_gpu_tensor_room(gpu, logits_rows) * model->vocab_stride : 0;
    const size_t width = model->width_stride;
    const size_t gathered = model->ranks->size > 1 ? (size_t)model->ranks->size *
                                                         at_most(rows, OR_EXCHANGE_ROWS) * width
                                                   : 0;
    const size_t contest_rows = or_ranks_is_alone(model->ranks) ? OR_LOGITS_ROWS : 0;
    const size_t results =
        contest_rows > 0 ? OR_GPU_COUNTS_BYTES + contest_rows * OR_GPU_LIST_BYTES : 0;
    const or_gpu_part_t parts[] = {
        {&gpu->h.values, OR_GPU_BUFFER, room * gpu->h.stride * number},
        {&gpu->h.blocks, OR_GPU_BUFFER, quantised.h ? rows * gpu->h.blocks_stride * block : 0},
        {&gpu->h.halves, OR_GPU_BUFFER, halves * gpu->h.halves_stride},
        {&gpu->attended.values, OR_GPU_BUFFER, room * gpu->attended.stride * number},
        {&gpu->attended.blocks, OR_GPU_BUFFER,
         quantised.attended ? rows * gpu->attended.blocks_stride * block : 0},
        {&gpu->attended.halves, OR_GPU_BUFFER, halves * gpu->attended.halves_stride},
        {&gpu->gate.values, OR_GPU_BUFFER, ffn_room * gpu->gate.stride * number},
        {&gpu->gate.blocks, OR_GPU_BUFFER,
         quantised.gate ? ffn_rows * gpu->gate.blocks_stride * block : 0},
        {&gpu->gate.halves, OR_GPU_BUFFER, halves * gpu->gate.halves_stride},
        {&gpu->x, OR_GPU_BUFFER, rows * width * number},
        {&gpu->query, OR_GPU_BUFFER, room * model->query_stride * number},
        {&gpu->key, OR_GPU_BUFFER, room * model->kv_stride * number},
        {&gpu->value, OR_GPU_BUFFER, room * model->kv_stride * number},
        {&gpu->up, OR_GPU_BUFFER, ffn_room * model->ffn_stride * number},
        {&gpu->parts, OR_GPU_BUFFER, or_span_length(model->share.shards) * room * width * number},
        {&gpu->scores, OR_GPU_BUFFER, gpu->scores_floats * number},
        {&gpu->ones, OR_GPU_BUFFER, model->arch->tells_layers ? head_dim_max(model) * number : 0},
        {&gpu->logits, OR_GPU_BUFFER, logits * number},
        {&gpu->tables.device, OR_GPU_BUFFER, gpu->tables.bytes},
        {&gpu->tables.host, OR_GPU_PINNED, gpu->tables.bytes},
        {&gpu->x_host, OR_GPU_PINNED, (model->positions != NULL ? 2 : 1) * rows * width * number},
        {&model->logits, OR_GPU_PINNED, logits_rows * model->vocab_stride * number},
        {&model->gathered, OR_GPU_PINNED, gpu->peers != NULL ? 0 : gathered * number},
        {&gpu->gathered, OR_GPU_BUFFER, gathered * number},
        {&gpu->passed, OR_GPU_PINNED,
         or_ranks_stages(model->ranks) > 1 ? rows * width * number : 0},
        {&contests->keys, OR_GPU_BUFFER,
         contest_rows > 0 ? model->shape.vocab_size * sizeof(uint64_t) : 0},
        {&contests->asked, OR_GPU_BUFFER, contest_rows * sizeof(or_cuda_contest_t)},
        {&contests->scratch, OR_GPU_BUFFER,
         contest_rows > 0
             ? gpu->functions->contenders_bytes(model->shape.vocab_size, OR_LOGITS_ROWS)
             : 0},
        {&contests->results, OR_GPU_BUFFER, results},
        {&contests->asked_host, OR_GPU_PINNED, contest_rows * sizeof(or_cuda_contest_t)},
        {&contests->results_host, OR_GPU_PINNED, results},
    };
    return each(model, parts, sizeof parts / sizeof parts[0]);
}

static or_status_t fill_ones(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    float ones[OR_CUDA_HEAD_DIM_MAX];
    for (uint32_t i = 0; i < OR_CUDA_HEAD_DIM_MAX; i++) {
        ones[i] = 1;
    }
    if (gpu->ones != NULL) {
        or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->ones, ones,
                                                head_dim_max(model) * sizeof *ones)); // waits
    }
    return or_gpu_check(gpu);
}

static or_status_t create_contests(or_model_t *model)
{
    or_gpu_contests_t *contests = &model->gpu->contests;
    size_t entries = (size_t)OR_LOGITS_ROWS * OR_CUDA_CONTENDERS_MAX;
    if (contests->results == NULL) {
        return OR_OK;
    }
    contests->counts = contests->results;
    contests->lists = (void *)((uint8_t *)contests->results + OR_GPU_COUNTS_BYTES);
    contests->ids = calloc(entries, sizeof *contests->ids);
    contests->scores = calloc(entries, sizeof *contests->scores);
    return contests->ids != NULL && contests->scores != NULL
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for the contenders of %u rows",
                         OR_LOGITS_ROWS);
}

// ---- the embedding ----
//
// The embedding on a device, as panels that or_cuda_embed reads: for passes whose tokens only the device knows.
//
// Where the head is the embedding, and floats, it serves as both. Else there is a copy: of floats as they are, of a
// quantised one as F32, so that its rows have the bits that or_tensor_read_row gives them on the host.

static bool head_embeds(const or_model_t *model)
{
    return model->positions == NULL && or_ranks_is_alone(model->ranks) && !model->head.quantised &&
           !model->head.by_rows && or_gguf_find_tensor(model->gguf, model->arch->head) == NULL;
}

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

static or_status_t copy_embedding(or_model_t *model)
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
    // What a model with learned positions adds to a row only the host can.
    if (gpu->embedding != NULL || model->positions != NULL ||
        matrix.bytes > or_gpu_free_bytes(gpu) / ROOM_PART) {
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

static void free_embedding(or_gpu_t *gpu)
{
    if (gpu->embedding == &gpu->embedding_copy) {
        gpu->embedding = NULL;
    }
    or_gpu_give(gpu, gpu->embedding_copy.memory);
    gpu->embedding_copy = (or_matrix_t){0};
}

// ---- the memory of trees (model_growth.h) ----

static size_t asked_bytes(const or_model_t *model)
{
    const uint32_t pages = model->context / OR_KV_PAGE + 1;
    return sizeof(or_gpu_growth_asked_t) + or_gpu_page_table_bytes(pages, model->window_slack > 0);
}

static or_status_t each_growth_part(or_model_t *model, or_gpu_parts_t *each)
{
    or_gpu_growth_t *growth = &model->gpu->growth;
    const size_t most = OR_CUDA_GROWTH_MAX;
    const or_gpu_part_t parts[] = {
        {&growth->asked, OR_GPU_BUFFER, asked_bytes(model)},
        {&growth->chains, OR_GPU_BUFFER, most * most * sizeof *growth->chains},
        {&growth->scratch, OR_GPU_BUFFER, model->gpu->functions->grow_bytes(OR_CUDA_GROWTH_MAX)},
        {&growth->grown, OR_GPU_BUFFER, sizeof *growth->grown},
        {&growth->widths, OR_GPU_BUFFER, model->shape.vocab_size * sizeof *growth->widths},
        {&growth->asked_host, OR_GPU_PINNED, asked_bytes(model)},
        {&growth->grown_host, OR_GPU_PINNED, sizeof *growth->grown_host},
    };
    return each(model, parts, sizeof parts / sizeof parts[0]);
}

static or_status_t create_growth(or_model_t *model)
{
    or_gpu_growth_t *growth = &model->gpu->growth;
    or_status_t status = each_growth_part(model, or_gpu_take_parts);
    growth->ids = calloc(OR_CUDA_GROWTH_CONTENDERS, sizeof *growth->ids);
    growth->scores = calloc(OR_CUDA_GROWTH_CONTENDERS, sizeof *growth->scores);
    return status == OR_OK && (growth->ids == NULL || growth->scores == NULL)
               ? or_fail(OR_ERR_NO_MEMORY, "no memory for the contenders of a tree")
               : status;
}

static void free_growth(or_model_t *model)
{
    or_gpu_growth_t *growth = &model->gpu->growth;
    free(growth->scores);
    free(growth->ids);
    each_growth_part(model, or_gpu_give_parts);
    *growth = (or_gpu_growth_t){0};
}

// All that a tree needs, or nothing of it.
static or_status_t take_growth(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    uint64_t before = model->buffer_bytes;
    or_status_t status = copy_embedding(model);
    if (status != OR_OK || gpu->embedding == NULL) {
        return status;
    }
    status = create_growth(model);
    if (status != OR_OK) {
        free_growth(model);
        free_embedding(gpu);
        model->buffer_bytes = before;
    }
    return status == OR_ERR_NO_MEMORY ? OR_OK : status;
}

// Recordings do not have what ranks say to each other, nor layers that come over, nor what the host reads for a token.
static bool could_grow(const or_model_t *model)
{
    return or_model_has_contenders(model) && model->gpu->layers.away == 0 &&
           model->inputs.embedding == NULL;
}

or_status_t or_model_prepare_growth(or_model_t *model, const uint32_t *widths, uint32_t count)
{
    or_gpu_t *gpu = model->gpu;
    if (!could_grow(model)) {
        return OR_OK;
    }
    or_status_t status = gpu->growth_tried ? OR_OK : take_growth(model);
    gpu->growth_tried = true;
    if (status != OR_OK || gpu->growth.widths == NULL) {
        return status;
    }
    uint32_t known = count < model->shape.vocab_size ? count : model->shape.vocab_size;
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->growth.widths, widths,
                                            known * sizeof *widths)); // waits
    return or_gpu_check(gpu);
}

// ---- all of it ----

or_status_t or_gpu_buffers_create(or_model_t *model, or_quantised_rows_t quantised)
{
    model->gpu->embedding = head_embeds(model) ? &model->head : NULL;
    describe(model);
    or_status_t status = each_part(model, quantised, or_gpu_take_parts);
    status = status != OR_OK ? status : or_gpu_experts_each(model, or_gpu_take_parts);
    status = status != OR_OK ? status : or_gpu_inputs_each(model, or_gpu_take_parts);
    status = status != OR_OK ? status : or_gpu_latent_each(model, or_gpu_take_parts);
    status = status != OR_OK ? status : fill_ones(model);
    return status != OR_OK ? status : create_contests(model);
}

void or_gpu_buffers_free(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu == NULL) {
        return;
    }
    or_gpu_steps_forget(model);
    free_growth(model);
    free_embedding(gpu);
    free(gpu->contests.scores);
    free(gpu->contests.ids);
    or_gpu_latent_each(model, or_gpu_give_parts);
    or_gpu_inputs_each(model, or_gpu_give_parts);
    or_gpu_experts_each(model, or_gpu_give_parts);
    each_part(model, (or_quantised_rows_t){0}, or_gpu_give_parts);
}
