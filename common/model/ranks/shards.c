#include "common/model/ranks/shards.h"

#include "common/model/model_internal.h"

or_status_t or_shards_of_rank(int rank, int size, or_span_t *shards)
{
    if (size != 1 && size != 2 && size != 4 && size != 8) {
        return or_fail(
            OR_ERR_UNSUPPORTED,
            "a layer can be cut over 1, 2, 4 or 8 ranks, not %d; for other counts split the layers "
            "over several such groups (--pp)",
            size);
    }
    if (rank < 0 || rank >= size) {
        return or_fail(OR_ERR_INVALID, "there is no rank %d of %d", rank, size);
    }
    uint32_t each = OR_SHARDS / (uint32_t)size;
    *shards = (or_span_t){(uint32_t)rank * each, ((uint32_t)rank + 1) * each};
    return OR_OK;
}

or_status_t or_layers_of_stage(int stage, int stages, uint32_t layers, or_span_t *span)
{
    if (stages < 1 || stage < 0 || stage >= stages) {
        return or_fail(OR_ERR_INVALID, "there is no stage %d of %d", stage, stages);
    }
    if ((uint32_t)stages > layers) {
        return or_fail(OR_ERR_INVALID,
                       "the model has %u layers, which cannot be split over %d stages (--pp)",
                       layers, stages);
    }
    uint64_t s = (uint64_t)stage;
    *span = (or_span_t){(uint32_t)(s * layers / (uint64_t)stages),
                        (uint32_t)((s + 1) * layers / (uint64_t)stages)};
    return OR_OK;
}

// ---- what this rank computes ----

// Return how many heads stay together. Where the attention's output matrix is quantised, a shard must have whole
// blocks of its inputs, so as many heads stay together as fill a block in layers of both kinds.
static uint32_t heads_in_unit(const or_model_t *model)
{
    bool quantised = or_tensors_quantised(model, offsetof(or_layer_t, output));
    uint32_t heads = 1;
    while (quantised && (heads * model->shape.value_dim % OR_QUANT_BLOCK != 0 ||
                         heads * model->shape.window_head_dim % OR_QUANT_BLOCK != 0)) {
        heads++;
    }
    return heads;
}

// The KV heads of some query heads.
static or_span_t kv_heads_of(or_span_t heads, uint32_t group)
{
    uint32_t begin = heads.begin / group;
    return (or_span_t){begin, heads.begin == heads.end ? begin : (heads.end - 1) / group + 1};
}

or_span_t or_share_kv_heads(const or_share_t *share, const or_model_shape_t *shape)
{
    return kv_heads_of(share->heads, shape->heads / shape->kv_heads);
}

or_span_t or_share_ffn(const or_share_t *share, uint32_t ffn)
{
    or_span_t units =
        or_shards_units(share->shards, (ffn + OR_SHARD_FFN_UNIT - 1) / OR_SHARD_FFN_UNIT);
    uint32_t end = units.end * OR_SHARD_FFN_UNIT;
    return (or_span_t){units.begin * OR_SHARD_FFN_UNIT, end < ffn ? end : ffn};
}

static uint32_t vocab_share_max(const or_model_t *model)
{
    uint32_t each = OR_SHARDS / (uint32_t)model->ranks->size;
    uint32_t most = 0;
    for (uint32_t s = 0; s < OR_SHARDS; s += each) {
        or_span_t share = or_shards_units((or_span_t){s, s + each}, model->shape.vocab_size);
        most = or_span_length(share) > most ? or_span_length(share) : most;
    }
    return most;
}

// Check that no stage begins between a layer and the one whose K and V it attends to.
static or_status_t check_stages(const or_model_t *model, int stages)
{
    const or_model_shape_t *shape = &model->shape;
    for (int stage = 1; stage < stages; stage++) {
        or_span_t span;
        or_status_t status = or_layers_of_stage(stage, stages, shape->layers, &span);
        for (uint32_t i = span.begin; status == OR_OK && i < shape->layers; i++) {
            if (or_arch_kv_layer(shape, i) < span.begin) {
                return or_fail(
                    OR_ERR_UNSUPPORTED,
                    "layer %u of %s attends to K and V of layer %u, which --pp puts into "
                    "another stage; choose fewer stages",
                    i, or_gguf_path(model->gguf), or_arch_kv_layer(shape, i));
            }
        }
    }
    return OR_OK;
}

or_status_t or_share_cut(or_model_t *model)
{
    or_share_t *share = &model->share;
    const or_model_shape_t *shape = &model->shape;
    const or_ranks_t *ranks = model->ranks;
    int stages = or_ranks_stages(ranks);
    or_status_t status = or_shards_of_rank(ranks->rank, ranks->size, &share->shards);
    status = status != OR_OK
                 ? status
                 : or_layers_of_stage(ranks->stage, stages, shape->layers, &share->layers);
    status = status != OR_OK ? status : check_stages(model, stages);
    if (status != OR_OK) {
        return status;
    }
    share->embeds = ranks->stage == 0;
    share->has_head = ranks->stage == stages - 1;
    share->heads_unit = heads_in_unit(model);
    if (shape->heads % share->heads_unit !=
        0) { // where heads of the other kind of layers fill blocks
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: %u heads do not fill whole blocks of attn_output in all layers; "
                       "its quantised matrices need heads of as many elements",
                       or_gguf_path(model->gguf), shape->heads);
    }
    share->heads = or_shards_units(share->shards, shape->heads / share->heads_unit);
    share->heads.begin *= share->heads_unit;
    share->heads.end *= share->heads_unit;
    share->kv_heads = or_share_kv_heads(share, shape);
    share->ffn = or_share_ffn(share, shape->ffn);
    share->shared_ffn = or_share_ffn(share, shape->shared_ffn);
    share->dense_ffn = or_share_ffn(share, shape->dense_ffn);
    share->vocab = or_shards_units(share->shards, shape->vocab_size);
    model->vocab_share_max = vocab_share_max(model);
    return OR_OK;
}
