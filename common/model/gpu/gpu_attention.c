// Attention of a layer on a device: its heads, its K and V, and rows as far as there is room for their scores.
#include "common/base/inline.h"
#include "common/model/gpu/gpu_internal.h"

// This rank's heads in a layer; it may have none.
static or_cuda_heads_t own_heads(const or_model_t *model, const or_layer_t *layer)
{
    const or_share_t *share = &model->share;
    return (or_cuda_heads_t){.count = or_span_length(share->heads),
                             .group = layer->group,
                             .first = share->heads.begin - layer->kv_heads.begin * layer->group};
}

static bool has_sinks(const or_arch_t *arch)
{
    const or_arch_tensor_t *tensor = arch->layer_tensors;
    while (tensor->suffix != NULL && tensor->offset != offsetof(or_layer_t, sinks)) {
        tensor++;
    }
    return tensor->suffix != NULL;
}

size_t or_gpu_scores_stride(const or_model_t *model, uint32_t positions)
{
    size_t scores = (size_t)positions + (has_sinks(model->arch) ? 1 : 0);
    return (scores + OR_KV_BLOCK - 1) / OR_KV_BLOCK * OR_KV_BLOCK;
}

// Attend with some heads, of which `skipped` of this rank's come before.
static void attend_heads(or_model_t *model, const or_layer_t *layer, uint32_t skipped,
                         const or_cuda_heads_t *heads, const or_gpu_queries_t *queries,
                         uint32_t rows, const or_cuda_rows_t *to)
{
    or_gpu_t *gpu = model->gpu;
    const or_cuda_kv_t kv = or_gpu_kv_of_layer(model, layer->kv_layer);
    const float *sinks = layer->sinks; // of all ranks' heads
    size_t stride = or_gpu_scores_stride(model, gpu->positions_max);
    size_t floats = or_cuda_attention_floats(stride, layer->head_dim);
    size_t rows_max = gpu->scores_floats / (heads->count * floats);
    const or_cuda_attention_t how = {
        .scale = model->numbers.attention_scale,
        .softcap = model->numbers.attention_softcap,
        .window = layer->window,
        .sinks = sinks != NULL ? sinks + model->share.heads.begin + skipped : NULL,
    };
    for (uint32_t first = 0; first < rows; first += (uint32_t)rows_max) {
        uint32_t some = rows - first < rows_max ? rows - first : (uint32_t)rows_max;
        const or_cuda_rows_t sums = or_gpu_rows_from(to, first);
        or_gpu_keep(gpu, gpu->functions->attention(gpu->cuda, &kv, 0, gpu->seen + first, some,
                                                   queries->values + first * queries->stride,
                                                   queries->stride, heads, &how, gpu->scores,
                                                   stride, &sums));
    }
}

void or_gpu_attend(or_model_t *model, const or_layer_t *layer, const or_gpu_queries_t *queries,
                   uint32_t rows, const or_cuda_rows_t *to)
{
    const or_cuda_heads_t heads = own_heads(model, layer);
    if (heads.group <= OR_CUDA_GROUP_MAX && heads.count > 0) {
        attend_heads(model, layer, 0, &heads, queries, rows, to);
    }
    // More share the one KV head of latent attention: they come some after the others.
    for (uint32_t h = 0; heads.group > OR_CUDA_GROUP_MAX && h < heads.count;
         h += OR_CUDA_GROUP_MAX) {
        const uint32_t some = or_min_u32(heads.count - h, OR_CUDA_GROUP_MAX);
        const size_t place = (size_t)h * layer->head_dim;
        const or_gpu_queries_t theirs = {queries->values + place, queries->stride};
        or_cuda_rows_t sums = *to;
        sums.values += place;
        attend_heads(model, layer, h, &(or_cuda_heads_t){.count = some, .group = some}, &theirs,
                     rows, &sums);
    }
}
