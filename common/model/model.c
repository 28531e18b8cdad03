#include "common/model/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/math.h"
#include "common/model/model_internal.h"

#define ANGLE_MAX 0x1p30 // what or_sin_cos takes
#define ROWS_DEFAULT 256u
#define ROWS_MOST 65536u

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint32_t vocab_share_max(const or_model_t *model)
{
    uint32_t each = OR_SHARDS / (uint32_t)model->ranks->size;
    uint32_t most = 0;
    for (uint32_t s = 0; s < OR_SHARDS; s += each) {
        uint32_t share = or_shard_span(s + each - 1, model->shape.vocab_size).end -
                         or_shard_span(s, model->shape.vocab_size).begin;
        most = share > most ? share : most;
    }
    return most;
}

static or_span_t units_of_shards(or_span_t shards, uint32_t units)
{
    return (or_span_t){or_shard_span(shards.begin, units).begin,
                       or_shard_span(shards.end - 1, units).end};
}

// Where the attention's output matrix is quantised, a shard must have whole blocks of its inputs:
// as many heads stay together as fill one. The heads together do, or the file would not have opened.
static uint32_t heads_in_unit(const or_model_t *model)
{
    bool quantised = false;
    for (uint32_t i = 0; i < model->shape.layers; i++) {
        quantised = quantised || or_matrix_is_quantised(&model->layers[i].output);
    }
    uint32_t heads = 1;
    while (quantised && heads * model->shape.head_dim % OR_QUANT_BLOCK != 0) {
        heads++;
    }
    return heads;
}

static or_status_t cut(or_model_t *model)
{
    or_share_t *share = &model->share;
    const or_model_shape_t *shape = &model->shape;
    or_status_t status = or_shards_of_rank(model->ranks->rank, model->ranks->size, &share->shards);
    if (status != OR_OK) {
        return status;
    }
    uint32_t group = shape->heads / shape->kv_heads;
    share->heads_unit = heads_in_unit(model);
    share->heads = units_of_shards(share->shards, shape->heads / share->heads_unit);
    share->heads.begin *= share->heads_unit;
    share->heads.end *= share->heads_unit;
    share->kv_heads.begin = share->heads.begin / group;
    share->kv_heads.end = share->heads.begin == share->heads.end
                              ? share->kv_heads.begin
                              : (share->heads.end - 1) / group + 1;
    share->ffn =
        units_of_shards(share->shards, (shape->ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT);
    share->vocab = units_of_shards(share->shards, shape->vocab_size);
    model->vocab_share_max = vocab_share_max(model);
    return OR_OK;
}

static or_status_t apply_options(or_model_t *model, const or_model_options_t *options)
{
    model->context = options->context_max != 0 ? options->context_max : model->shape.context;
    if (model->context > model->shape.context) {
        return or_fail(OR_ERR_INVALID, "a context of %u was asked for, but %s allows %u (-c)",
                       model->context, or_gguf_path(model->gguf), model->shape.context);
    }
    model->rows_max = options->rows_max != 0 ? options->rows_max : ROWS_DEFAULT;
    if (model->rows_max > ROWS_MOST) {
        return or_fail(OR_ERR_INVALID, "%u rows a pass are too many; at most %u", model->rows_max,
                       ROWS_MOST);
    }
    model->kernels = or_kernels_pick();
    if (model->kernels == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "OUTRIDER_KERNELS names kernels that cannot run here; there are %s",
                       or_kernels_names());
    }
    return OR_OK;
}

static or_status_t fill_rope(or_model_t *model)
{
    uint32_t half = model->shape.head_dim / 2;
    size_t count = (size_t)model->context * half;
    model->rope_cosine = or_zeroed(count, sizeof(float));
    model->rope_sine = or_zeroed(count, sizeof(float));
    if (model->rope_cosine == NULL || model->rope_sine == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a context of %u; ask for less (-c)",
                       model->context);
    }
    for (uint32_t i = 0; i < half; i++) {
        double frequency =
            or_pow((double)model->numbers.rope_base, -2.0 * i / model->shape.head_dim) /
            (double)model->numbers.rope_stretch;
        if (model->rope_factors != NULL) {
            frequency /= (double)model->rope_factors[i];
        }
        if (!(model->context * frequency <= ANGLE_MAX)) {
            return or_fail(OR_ERR_FORMAT,
                           "%s turns its heads by up to %g a position: see rope.freq_base, "
                           "rope.scaling and rope_freqs",
                           or_gguf_path(model->gguf), frequency);
        }
        for (uint32_t position = 0; position < model->context; position++) {
            double sine, cosine;
            or_sin_cos(position * frequency, &sine, &cosine);
            model->rope_cosine[(size_t)position * half + i] = (float)cosine;
            model->rope_sine[(size_t)position * half + i] = (float)sine;
        }
    }
    return OR_OK;
}

static bool allocate_scratch(or_model_t *model)
{
    uint32_t threads = or_workers_count(model->workers);
    size_t head_dim = model->shape.head_dim;
    size_t group = model->shape.heads / model->shape.kv_heads;
    // A path and the page before it, but no more than the context holds.
    size_t blocks = OR_TREE_POSITIONS_MAX / OR_KV_BLOCK + 1;
    size_t most = model->context / OR_KV_BLOCK + 1;
    size_t gathered = (blocks < most ? blocks : most) * head_dim * OR_KV_BLOCK;
    model->scratch = or_zeroed(threads, sizeof *model->scratch);
    for (uint32_t i = 0; model->scratch != NULL && i < threads; i++) {
        or_attention_scratch_t *scratch = &model->scratch[i];
        scratch->scores = or_zeroed(group * model->score_stride, sizeof(float));
        scratch->keys = or_zeroed(gathered, sizeof(float));
        scratch->values = or_zeroed(gathered, sizeof(float));
        scratch->chain = or_zeroed(OR_TREE_POSITIONS_MAX, sizeof(uint32_t));
        scratch->next_chain = or_zeroed(OR_TREE_POSITIONS_MAX, sizeof(uint32_t));
        if (scratch->scores == NULL || scratch->keys == NULL || scratch->values == NULL ||
            scratch->chain == NULL || scratch->next_chain == NULL) {
            return false;
        }
    }
    return model->scratch != NULL;
}

// What quantised matrices read is kept in that form too.
static or_status_t allocate_activations(or_model_t *model)
{
    const or_model_shape_t *shape = &model->shape;
    bool h = or_matrix_is_quantised(&model->head);
    bool attended = false;
    bool gate = false;
    for (uint32_t i = 0; i < shape->layers; i++) {
        const or_layer_t *layer = &model->layers[i];
        h = h || or_matrix_is_quantised(&layer->query) || or_matrix_is_quantised(&layer->key) ||
            or_matrix_is_quantised(&layer->value) || or_matrix_is_quantised(&layer->gate) ||
            or_matrix_is_quantised(&layer->up);
        attended = attended || or_matrix_is_quantised(&layer->output);
        gate = gate || or_matrix_is_quantised(&layer->down);
    }
    uint32_t rows = model->rows_max;
    or_status_t status = or_activations_init(&model->h, rows, shape->width, h);
    status = status != OR_OK
                 ? status
                 : or_activations_init(&model->attended, rows,
                                       (size_t)shape->heads * shape->head_dim, attended);
    return status != OR_OK ? status : or_activations_init(&model->gate, rows, shape->ffn, gate);
}

// Sizes are bounded by arch.c and apply_options, so that no product here overflows.
static or_status_t allocate_buffers(or_model_t *model)
{
    const or_model_shape_t *shape = &model->shape;
    size_t rows = model->rows_max;
    size_t ranks = (size_t)model->ranks->size;
    bool alone = ranks == 1;
    size_t logits_rows = rows < OR_LOGITS_ROWS ? rows : OR_LOGITS_ROWS;
    model->width_stride = round_up(shape->width, OR_PANEL);
    model->query_stride = round_up((size_t)shape->heads * shape->head_dim, OR_PANEL);
    model->kv_stride = round_up((size_t)shape->kv_heads * shape->head_dim, OR_PANEL);
    model->ffn_stride = round_up(shape->ffn, OR_PANEL);
    model->vocab_stride = round_up(shape->vocab_size, OR_PANEL);
    model->score_stride = round_up(model->context, OR_KV_BLOCK);
    const struct {
        float **buffer;
        size_t floats; // 0: not needed
    } buffers[] = {
        {&model->x, rows * model->width_stride},
        {&model->query, rows * model->query_stride},
        {&model->key, rows * model->kv_stride},
        {&model->value, rows * model->kv_stride},
        {&model->up, rows * model->ffn_stride},
        {&model->parts, OR_SHARDS * rows * model->width_stride},
        {&model->gathered, alone ? 0 : ranks * rows * model->width_stride},
        {&model->logits, logits_rows * model->vocab_stride},
        {&model->logits_sent, alone ? 0 : logits_rows * model->vocab_share_max},
        {&model->logits_received, alone ? 0 : ranks * logits_rows * model->vocab_share_max},
    };
    bool ok = allocate_scratch(model) && allocate_activations(model) == OR_OK;
    for (size_t i = 0; ok && i < sizeof buffers / sizeof buffers[0]; i++) {
        if (buffers[i].floats > 0) {
            *buffers[i].buffer = or_zeroed(buffers[i].floats, sizeof(float));
            ok = *buffers[i].buffer != NULL;
        }
    }
    model->rows = ok ? or_zeroed(rows, sizeof *model->rows) : NULL;
    return model->rows != NULL
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY,
                         "no memory for passes of %u rows; ask for fewer, or a shorter context",
                         model->rows_max);
}

// Pages for the sequences asked for. Untouched pages cost nothing, but a promise of more than the
// machine has would be kept at the worst moment: at most a quarter of it, and never less than one
// full context.
static uint32_t choose_pages(const or_model_t *model, const or_model_options_t *options,
                             uint32_t kv_heads)
{
    uint64_t pages_each = round_up(model->context, OR_KV_PAGE) / OR_KV_PAGE;
    uint64_t page_bytes =
        2 * sizeof(float) * OR_KV_PAGE * model->shape.layers * kv_heads * model->shape.head_dim;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t affordable = memory / 4 / (page_bytes > 0 ? page_bytes : 1);
    uint64_t wanted = pages_each * (options->sequences_max > 0 ? options->sequences_max : 2);
    wanted = wanted < affordable ? wanted : affordable;
    wanted = wanted > pages_each ? wanted : pages_each;
    return wanted < UINT32_MAX ? (uint32_t)wanted : UINT32_MAX;
}

static or_status_t create_cache(or_model_t *model, const or_model_options_t *options)
{
    uint32_t kv_heads = model->share.kv_heads.end - model->share.kv_heads.begin;
    uint32_t pages =
        options->pages_max > 0 ? options->pages_max : choose_pages(model, options, kv_heads);
    return or_kv_cache_create(model->shape.layers, kv_heads, model->shape.head_dim, pages,
                              &model->cache);
}

or_status_t or_model_load(const or_gguf_t *gguf, const or_model_options_t *options,
                          or_model_t **model_p)
{
    or_model_t *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a model");
    }
    model->gguf = gguf;
    model->ranks = options->ranks != NULL ? options->ranks : or_ranks_single();
    or_status_t status = or_arch_find(gguf, &model->arch);
    status =
        status != OR_OK ? status : or_arch_read(model->arch, gguf, &model->shape, &model->numbers);
    status = status != OR_OK ? status : apply_options(model, options);
    status = status != OR_OK ? status : or_tensors_load(model);
    status = status != OR_OK ? status : cut(model);
    status = status != OR_OK ? status : fill_rope(model);
    status = status != OR_OK ? status : or_workers_create(options->threads, &model->workers);
    status = status != OR_OK ? status : allocate_buffers(model);
    status = status != OR_OK ? status : create_cache(model, options);
    if (status != OR_OK) {
        or_model_destroy(&model);
        return status;
    }
    *model_p = model;
    return OR_OK;
}

static void free_scratch(or_model_t *model)
{
    for (uint32_t i = 0; model->scratch != NULL && i < or_workers_count(model->workers); i++) {
        free(model->scratch[i].next_chain);
        free(model->scratch[i].chain);
        free(model->scratch[i].values);
        free(model->scratch[i].keys);
        free(model->scratch[i].scores);
    }
    free(model->scratch);
}

void or_model_destroy(or_model_t **model_p)
{
    or_model_t *model = *model_p;
    if (model == NULL) {
        return;
    }
    or_kv_cache_destroy(&model->cache);
    float *buffers[] = {
        model->logits_received, model->logits_sent, model->logits,    model->gathered,
        model->parts,           model->up,          model->value,     model->key,
        model->query,           model->x,           model->rope_sine, model->rope_cosine};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        free(buffers[i]);
    }
    or_activations_fini(&model->gate);
    or_activations_fini(&model->attended);
    or_activations_fini(&model->h);
    free(model->rows);
    free_scratch(model);
    or_workers_destroy(&model->workers);
    or_tensors_free(model);
    free(model);
    *model_p = NULL;
}

const or_model_shape_t *or_model_shape(const or_model_t *model)
{
    return &model->shape;
}

uint32_t or_model_context(const or_model_t *model)
{
    return model->context;
}

uint32_t or_model_rows_max(const or_model_t *model)
{
    return model->rows_max;
}

const char *or_model_kernels(const or_model_t *model)
{
    return model->kernels->name;
}

or_status_t or_model_open_sequence(or_model_t *model, uint32_t slots_max,
                                   or_kv_sequence_t **sequence_p)
{
    if (slots_max > OR_TREE_POSITIONS_MAX) {
        return or_fail(OR_ERR_INVALID, "%u slots for tree nodes: at most %u are possible",
                       slots_max, OR_TREE_POSITIONS_MAX);
    }
    return or_kv_sequence_open(model->cache, model->context, slots_max, sequence_p);
}
