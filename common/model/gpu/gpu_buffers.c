// The memory that a model has on a device besides its weights and its cache: for passes, contests and trees.
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

// ---- the memory of a pass ----

static or_status_t take_floats(or_model_t *model, size_t floats, float **at_p)
{
    void *at;
    or_status_t status = or_gpu_alloc_buffer(model, floats * sizeof **at_p, &at);
    *at_p = at;
    return status;
}

static or_status_t take_rows(or_model_t *model, size_t width, size_t stride, bool quantised,
                             or_cuda_rows_t *rows)
{
    const or_gpu_t *gpu = model->gpu;
    size_t room = or_gpu_tensor_room(gpu, model->rows_max);
    void *at;
    rows->stride = stride;
    rows->blocks_stride = (width + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
    rows->halves_stride = width;
    rows->halves_type = gpu->tensor_type == OR_TENSOR_F16 ? OR_CUDA_F16 : OR_CUDA_BF16;
    or_status_t status = take_floats(model, room * stride, &rows->values);
    if (status == OR_OK && quantised) {
        status = or_gpu_alloc_buffer(
            model, model->rows_max * rows->blocks_stride * sizeof *rows->blocks, &at);
        rows->blocks = at;
    }
    if (status == OR_OK && gpu->tensor != NULL) {
        status = or_gpu_alloc_buffer(model, room * width * sizeof *rows->halves, &at);
        rows->halves = at;
    }
    return status;
}

static or_status_t take_activations(or_model_t *model, or_quantised_rows_t quantised)
{
    or_gpu_t *gpu = model->gpu;
    const or_share_t *share = &model->share;
    size_t heads = (size_t)or_span_length(share->heads) * model->shape.head_dim;
    or_status_t status =
        take_rows(model, model->shape.width, model->width_stride, quantised.h, &gpu->h);
    status = status != OR_OK
                 ? status
                 : take_rows(model, heads, model->query_stride, quantised.attended, &gpu->attended);
    return status != OR_OK ? status
                           : take_rows(model, or_span_length(share->ffn), model->ffn_stride,
                                       quantised.gate, &gpu->gate);
}

// Scores of one row that sees the whole context, with the room that is usual for some more.
static size_t scores_floats(const or_model_t *model)
{
    size_t row = (size_t)or_span_length(model->share.heads) * or_gpu_steps_round(model->context);
    size_t most = model->rows_max * row;
    size_t usual = most < OR_GPU_SCORES ? most : OR_GPU_SCORES;
    return row > usual ? row : usual;
}

static or_status_t take_floats_of_rows(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    size_t rows = model->rows_max;
    size_t logits_rows = rows < OR_LOGITS_ROWS ? rows : OR_LOGITS_ROWS;
    size_t room = or_gpu_tensor_room(gpu, rows);
    size_t logits_room = or_gpu_tensor_room(gpu, logits_rows);
    gpu->scores_floats = scores_floats(model);
    const struct {
        float **buffer;
        size_t floats;
    } buffers[] = {
        {&gpu->x, rows * model->width_stride},
        {&gpu->query, room * model->query_stride},
        {&gpu->key, room * model->kv_stride},
        {&gpu->value, room * model->kv_stride},
        {&gpu->up, room * model->ffn_stride},
        {&gpu->parts, or_span_length(model->share.shards) * room * model->width_stride},
        {&gpu->scores, gpu->scores_floats},
        {&gpu->logits, model->share.has_head ? logits_room * model->vocab_stride : 0},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof buffers / sizeof buffers[0]; i++) {
        status = take_floats(model, buffers[i].floats, buffers[i].buffer);
    }
    return status;
}

static or_status_t take_tables(or_model_t *model)
{
    or_gpu_tables_t *tables = &model->gpu->tables;
    void *at;
    tables->bytes = or_gpu_tables_bytes(model);
    or_status_t status = or_gpu_alloc_buffer(model, tables->bytes, &at);
    tables->device = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(model->gpu, tables->bytes, &at);
        tables->host = at;
    }
    return status;
}

static or_status_t take_host_rows(or_model_t *model)
{
    size_t logits_rows = model->rows_max < OR_LOGITS_ROWS ? model->rows_max : OR_LOGITS_ROWS;
    void *at;
    or_status_t status = or_gpu_alloc_pinned(
        model->gpu, model->rows_max * model->width_stride * sizeof *model->gpu->x_host, &at);
    model->gpu->x_host = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(
            model->gpu, logits_rows * model->vocab_stride * sizeof *model->logits, &at);
        model->logits = at;
    }
    return status;
}

// ---- the memory of contests (model_draws.h) ----

static or_status_t take_contests_on_device(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_contests_t *contests = &gpu->contests;
    const struct {
        void **at_p;
        size_t bytes;
    } parts[] = {
        {&contests->keys, model->shape.vocab_size * sizeof(uint64_t)},
        {&contests->asked, OR_LOGITS_ROWS * sizeof(or_cuda_contest_t)},
        {&contests->scratch,
         gpu->functions->contenders_bytes(model->shape.vocab_size, OR_LOGITS_ROWS)},
        {&contests->results, OR_GPU_COUNTS_BYTES + OR_LOGITS_ROWS * OR_GPU_LIST_BYTES},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof parts / sizeof parts[0]; i++) {
        status = or_gpu_alloc_buffer(model, parts[i].bytes, parts[i].at_p);
    }
    if (status == OR_OK) {
        contests->counts = contests->results;
        contests->lists = (void *)((uint8_t *)contests->results + OR_GPU_COUNTS_BYTES);
    }
    return status;
}

static or_status_t take_contests_on_host(or_gpu_t *gpu)
{
    or_gpu_contests_t *contests = &gpu->contests;
    size_t entries = (size_t)OR_LOGITS_ROWS * OR_CUDA_CONTENDERS_MAX;
    void *at;
    or_status_t status =
        or_gpu_alloc_pinned(gpu, OR_LOGITS_ROWS * sizeof *contests->asked_host, &at);
    contests->asked_host = at;
    if (status == OR_OK) {
        status =
            or_gpu_alloc_pinned(gpu, OR_GPU_COUNTS_BYTES + OR_LOGITS_ROWS * OR_GPU_LIST_BYTES, &at);
        contests->results_host = at;
    }
    contests->ids = calloc(entries, sizeof *contests->ids);
    contests->scores = calloc(entries, sizeof *contests->scores);
    if (status == OR_OK && (contests->ids == NULL || contests->scores == NULL)) {
        status =
            or_fail(OR_ERR_NO_MEMORY, "no memory for the contenders of %u rows", OR_LOGITS_ROWS);
    }
    return status;
}

static or_status_t create_contests(or_model_t *model)
{
    if (!or_ranks_is_alone(model->ranks)) {
        return OR_OK;
    }
    or_status_t status = take_contests_on_device(model);
    return status != OR_OK ? status : take_contests_on_host(model->gpu);
}

static void free_contests(or_gpu_t *gpu)
{
    or_gpu_contests_t *contests = &gpu->contests;
    free(contests->scores);
    free(contests->ids);
    or_gpu_free_pinned(gpu, contests->results_host);
    or_gpu_free_pinned(gpu, contests->asked_host);
    or_gpu_give(gpu, contests->results);
    or_gpu_give(gpu, contests->scratch);
    or_gpu_give(gpu, contests->asked);
    or_gpu_give(gpu, contests->keys);
}

// ---- the embedding ----
//
// The embedding on a device, as panels that or_cuda_embed reads: for passes whose tokens only the device knows.
//
// Where the head is the embedding, and floats, it serves as both. Else there is a copy: of floats as they are, of a
// quantised one as F32, so that its rows have the bits that or_tensor_read_row gives them on the host.

static bool head_embeds(const or_model_t *model)
{
    return or_ranks_is_alone(model->ranks) && !model->head.quantised && !model->head.by_rows &&
           or_gguf_find_tensor(model->gguf, model->arch->head) == NULL;
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
    if (gpu->embedding != NULL || matrix.bytes > or_gpu_free_bytes(gpu) / ROOM_PART) {
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
    size_t pages = (model->context + OR_KV_PAGE - 1) / OR_KV_PAGE;
    return sizeof(or_gpu_growth_asked_t) + pages * sizeof(uint32_t);
}

static or_status_t take_growth_on_device(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_growth_t *growth = &gpu->growth;
    void *at[5] = {0};
    const size_t bytes[] = {
        asked_bytes(model),
        (size_t)OR_CUDA_GROWTH_MAX * OR_CUDA_GROWTH_MAX * sizeof *growth->chains,
        gpu->functions->grow_bytes(OR_CUDA_GROWTH_MAX),
        sizeof *growth->grown,
        model->shape.vocab_size * sizeof *growth->widths,
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof bytes / sizeof bytes[0]; i++) {
        status = or_gpu_alloc_buffer(model, bytes[i], &at[i]);
    }
    growth->asked = at[0];
    growth->chains = at[1];
    growth->scratch = at[2];
    growth->grown = at[3];
    growth->widths = at[4];
    return status;
}

static or_status_t take_growth_on_host(or_model_t *model)
{
    or_gpu_growth_t *growth = &model->gpu->growth;
    void *at;
    or_status_t status = or_gpu_alloc_pinned(model->gpu, asked_bytes(model), &at);
    growth->asked_host = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(model->gpu, sizeof *growth->grown_host, &at);
        growth->grown_host = at;
    }
    growth->ids = calloc(OR_CUDA_GROWTH_CONTENDERS, sizeof *growth->ids);
    growth->scores = calloc(OR_CUDA_GROWTH_CONTENDERS, sizeof *growth->scores);
    return status == OR_OK && (growth->ids == NULL || growth->scores == NULL)
               ? or_fail(OR_ERR_NO_MEMORY, "no memory for the contenders of a tree")
               : status;
}

static void free_growth(or_gpu_t *gpu)
{
    or_gpu_growth_t *growth = &gpu->growth;
    free(growth->scores);
    free(growth->ids);
    or_gpu_free_pinned(gpu, growth->grown_host);
    or_gpu_free_pinned(gpu, growth->asked_host);
    or_gpu_give(gpu, growth->widths);
    or_gpu_give(gpu, growth->grown);
    or_gpu_give(gpu, growth->scratch);
    or_gpu_give(gpu, growth->chains);
    or_gpu_give(gpu, growth->asked);
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
    status = take_growth_on_device(model);
    status = status != OR_OK ? status : take_growth_on_host(model);
    if (status != OR_OK) {
        free_growth(gpu);
        free_embedding(gpu);
        model->buffer_bytes = before;
    }
    return status == OR_ERR_NO_MEMORY ? OR_OK : status;
}

// Recordings do not have what ranks say to each other, nor layers that come over.
static bool could_grow(const or_model_t *model)
{
    return or_model_has_contenders(model) && model->gpu->layers.away == 0;
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

// ---- what travels to other ranks ----

static or_status_t take_sums(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    size_t rows = model->rows_max < OR_EXCHANGE_ROWS ? model->rows_max : OR_EXCHANGE_ROWS;
    size_t bytes =
        (size_t)model->ranks->size * rows * model->width_stride * sizeof *model->gathered;
    void *at = NULL;
    or_status_t status = gpu->peers != NULL ? OR_OK : or_gpu_alloc_pinned(gpu, bytes, &at);
    model->gathered = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_buffer(model, bytes, &at);
        gpu->gathered = at;
    }
    return status;
}

static or_status_t take_passed(or_model_t *model)
{
    size_t row_bytes = model->width_stride * sizeof *model->gpu->passed;
    void *at;
    or_status_t status = or_gpu_alloc_pinned(model->gpu, model->rows_max * row_bytes, &at);
    model->gpu->passed = at;
    return status;
}

static or_status_t create_exchange(or_model_t *model)
{
    or_status_t status = model->ranks->size > 1 ? take_sums(model) : OR_OK;
    return status != OR_OK || or_ranks_stages(model->ranks) == 1 ? status : take_passed(model);
}

static void free_exchange(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_free_pinned(gpu, gpu->passed);
    or_gpu_give(gpu, gpu->gathered);
    or_gpu_free_pinned(gpu, model->gathered);
    model->gathered = NULL;
}

// ---- all of it ----

or_status_t or_gpu_buffers_create(or_model_t *model, or_quantised_rows_t quantised)
{
    model->gpu->embedding = head_embeds(model) ? &model->head : NULL;
    or_status_t status = take_activations(model, quantised);
    status = status != OR_OK ? status : take_floats_of_rows(model);
    status = status != OR_OK ? status : take_tables(model);
    status = status != OR_OK ? status : take_host_rows(model);
    status = status != OR_OK ? status : create_exchange(model);
    return status != OR_OK ? status : create_contests(model);
}

void or_gpu_buffers_free(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu == NULL) {
        return;
    }
    or_gpu_steps_forget(model);
    free_growth(gpu);
    free_embedding(gpu);
    free_contests(gpu);
    free_exchange(model);
    or_gpu_free_pinned(gpu, model->logits);
    model->logits = NULL;
    or_gpu_free_pinned(gpu, gpu->x_host);
    or_gpu_free_pinned(gpu, gpu->tables.host);
    void *buffers[] = {gpu->tables.device,
                       gpu->logits,
                       gpu->scores,
                       gpu->parts,
                       gpu->up,
                       gpu->value,
                       gpu->key,
                       gpu->query,
                       gpu->x,
                       gpu->gate.halves,
                       gpu->gate.blocks,
                       gpu->gate.values,
                       gpu->attended.halves,
                       gpu->attended.blocks,
                       gpu->attended.values,
                       gpu->h.halves,
                       gpu->h.blocks,
                       gpu->h.values};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        or_gpu_give(gpu, buffers[i]);
    }
}
