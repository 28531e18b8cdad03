#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

// Zeroed memory, counted; NULL if there is none.
static void *take(or_model_t *model, size_t count, size_t size)
{
    void *memory = or_zeroed(count, size);
    model->buffer_bytes += memory != NULL ? count * size : 0;
    return memory;
}

// The memory of one worker's attention, in reverse freed by free_scratch.
static bool create_worker_scratch(or_model_t *model, or_attention_scratch_t *scratch)
{
    size_t head_dim = model->shape.head_dim;
    size_t block = head_dim * OR_KV_BLOCK;
    size_t queries = or_attention_queries_max(model) * head_dim;
    // A path and the page before it, but no more than the context holds.
    size_t blocks = OR_TREE_POSITIONS_MAX / OR_KV_BLOCK + 1;
    size_t most = model->context / OR_KV_BLOCK + 1;
    size_t gathered = (blocks < most ? blocks : most) * block;
    scratch->queries = take(model, queries, sizeof(float));
    scratch->scores = take(model, or_attention_scores_max(model), sizeof(float));
    scratch->sums = take(model, queries, sizeof(float));
    scratch->decoded_keys = take(model, block, sizeof(float));
    scratch->decoded_values = take(model, block, sizeof(float));
    scratch->keys.blocks = take(model, gathered, sizeof(float));
    scratch->keys.chain = take(model, OR_TREE_POSITIONS_MAX, sizeof(uint32_t));
    scratch->values.blocks = take(model, gathered, sizeof(float));
    scratch->values.chain = take(model, OR_TREE_POSITIONS_MAX, sizeof(uint32_t));
    scratch->chain = take(model, OR_TREE_POSITIONS_MAX, sizeof(uint32_t));
    scratch->slot_key = take(model, head_dim, sizeof(float));
    return scratch->queries != NULL && scratch->scores != NULL && scratch->sums != NULL &&
           scratch->decoded_keys != NULL && scratch->decoded_values != NULL &&
           scratch->keys.blocks != NULL && scratch->keys.chain != NULL &&
           scratch->values.blocks != NULL && scratch->values.chain != NULL &&
           scratch->chain != NULL && scratch->slot_key != NULL;
}

static bool create_scratch(or_model_t *model)
{
    uint32_t threads = or_workers_count(model->workers);
    model->tiles = take(model, model->rows_max, sizeof *model->tiles);
    model->scratch = take(model, threads, sizeof *model->scratch);
    bool all = model->tiles != NULL && model->scratch != NULL;
    for (uint32_t i = 0; all && i < threads; i++) {
        all = create_worker_scratch(model, &model->scratch[i]);
    }
    return all;
}

static or_quantised_rows_t quantised_rows(const or_model_t *model)
{
    or_quantised_rows_t rows = {.h = model->head.quantised};
    for (uint32_t i = 0; i < or_span_length(model->share.layers); i++) {
        const or_layer_t *layer = &model->layers[i];
        rows.h = rows.h || layer->query.quantised || layer->key.quantised ||
                 layer->value.quantised || layer->gate.quantised || layer->up.quantised;
        rows.attended = rows.attended || layer->output.quantised;
        rows.gate = rows.gate || layer->down.quantised;
    }
    return rows;
}

// Activations that quantised matrices read are kept in quantised form too.
static bool create_activations(or_model_t *model, or_quantised_rows_t quantised)
{
    const struct {
        or_activations_t *activations;
        size_t width;
        bool quantised;
    } all[] = {
        {&model->h, model->shape.width, quantised.h},
        {&model->attended, (size_t)or_span_length(model->share.heads) * model->shape.head_dim,
         quantised.attended},
        {&model->gate, or_span_length(model->share.ffn), quantised.gate},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (or_activations_init(all[i].activations, model->rows_max, all[i].width,
                                all[i].quantised) != OR_OK) {
            return false;
        }
        model->buffer_bytes += all[i].activations->bytes;
    }
    return true;
}

// Room for whole panels, as the matrix that writes these outputs has them.
static size_t product_stride(or_span_t outputs)
{
    return or_row_stride((size_t)or_span_length(or_panels_of(outputs)) * OR_PANEL);
}

static void choose_strides(or_model_t *model)
{
    const or_share_t *share = &model->share;
    uint32_t head_dim = model->shape.head_dim;
    model->width_stride = or_row_stride(model->shape.width);
    model->query_stride =
        product_stride((or_span_t){share->heads.begin * head_dim, share->heads.end * head_dim});
    model->kv_stride = product_stride(
        (or_span_t){share->kv_heads.begin * head_dim, share->kv_heads.end * head_dim});
    model->ffn_stride = product_stride(share->ffn);
    model->vocab_stride = product_stride(share->vocab);
}

// Create the buffers in which logits travel from the ranks that have a head to the leader.
static bool create_collected(or_model_t *model)
{
    size_t rows = model->rows_max < OR_LOGITS_ROWS ? model->rows_max : OR_LOGITS_ROWS;
    size_t floats = rows * model->vocab_share_max;
    if (or_ranks_is_alone(model->ranks)) {
        return true;
    }
    if (model->share.has_head) {
        model->logits_sent = take(model, floats, sizeof(float));
    }
    if (or_ranks_is_leader(model->ranks)) {
        model->logits_received = take(model, (size_t)model->ranks->size * floats, sizeof(float));
    }
    return (!model->share.has_head || model->logits_sent != NULL) &&
           (!or_ranks_is_leader(model->ranks) || model->logits_received != NULL);
}

// Sizes are bounded by arch.c and apply_options, so that no product here overflows.
static bool create_rows(or_model_t *model)
{
    const or_share_t *share = &model->share;
    size_t rows = model->rows_max;
    size_t ranks = (size_t)model->ranks->size;
    size_t logits_rows = rows < OR_LOGITS_ROWS ? rows : OR_LOGITS_ROWS;
    size_t exchanged = rows < OR_EXCHANGE_ROWS ? rows : OR_EXCHANGE_ROWS;
    const struct {
        float **buffer;
        size_t floats; // 0: not needed
    } buffers[] = {
        {&model->x, rows * model->shape.width},
        {&model->query, rows * model->query_stride},
        {&model->key, rows * model->kv_stride},
        {&model->value, rows * model->kv_stride},
        {&model->up, rows * model->ffn_stride},
        {&model->sums, rows * model->width_stride},
        {&model->shard_scratch, or_workers_count(model->workers) * (size_t)OR_SHARD_SUM_FLOATS},
        {&model->gathered, ranks == 1 ? 0 : ranks * exchanged * model->width_stride},
        {&model->logits, share->has_head ? logits_rows * model->vocab_stride : 0},
    };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        if (buffers[i].floats > 0) {
            *buffers[i].buffer = take(model, buffers[i].floats, sizeof(float));
            if (*buffers[i].buffer == NULL) {
                return false;
            }
        }
    }
    return true;
}

or_status_t or_buffers_create(or_model_t *model)
{
    const or_quantised_rows_t quantised = quantised_rows(model);
    choose_strides(model);
    model->rows = take(model, model->rows_max, sizeof *model->rows);
    bool shared = model->rows != NULL && create_collected(model);
    if (shared && model->gpu != NULL) {
        return or_gpu_buffers_create(model, quantised);
    }
    return shared && create_scratch(model) && create_activations(model, quantised) &&
                   create_rows(model)
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY,
                         "no memory for passes of %u rows; ask for fewer, or a shorter context",
                         model->rows_max);
}

static void free_scratch(or_model_t *model)
{
    for (uint32_t i = 0; model->scratch != NULL && i < or_workers_count(model->workers); i++) {
        or_attention_scratch_t *scratch = &model->scratch[i];
        free(scratch->slot_key);
        free(scratch->chain);
        free(scratch->values.chain);
        free(scratch->values.blocks);
        free(scratch->keys.chain);
        free(scratch->keys.blocks);
        free(scratch->decoded_values);
        free(scratch->decoded_keys);
        free(scratch->sums);
        free(scratch->scores);
        free(scratch->queries);
    }
    free(model->scratch);
    free(model->tiles);
}

void or_buffers_free(or_model_t *model)
{
    or_gpu_buffers_free(model);
    free(model->rows);
    float *buffers[] = {model->logits_received,
                        model->logits_sent,
                        model->logits,
                        model->gathered,
                        model->shard_scratch,
                        model->sums,
                        model->up,
                        model->value,
                        model->key,
                        model->query,
                        model->x};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        free(buffers[i]);
    }
    or_activations_fini(&model->gate);
    or_activations_fini(&model->attended);
    or_activations_fini(&model->h);
    free_scratch(model);
}
