// Attention, of which this file has the middle: softmax over all that a row sees.
#include "kernels/cuda/attention.cuh"

#include <assert.h>

#define THREADS 256u
#define STAGE 1024u // scores in shared memory at a time; a multiple of LANES

// The order does not matter: NaNs are passed over, and the sign of a zero does not change a difference.
OR_DEVICE float largest_score(const float *scores, uint32_t n)
{
    OR_SHARED(float, of_warps, THREADS / WARP);
    float largest = -INFINITY;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        largest = canonical_max(scores[i], largest);
    }
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        largest = canonical_max(or_shuffle_xor(largest, mask), largest);
    }
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = largest;
    }
    or_block_wait();
    for (uint32_t w = 0; w < THREADS / WARP; w++) {
        largest = canonical_max(of_warps[w], largest);
    }
    return largest;
}

// Go on with a lane's chain.
OR_DEVICE float add_lane(const float *stage, uint32_t count, uint32_t lane, float sum)
{
    for (uint32_t i = lane; i < count; i += LANES) {
        sum += stage[i];
    }
    return sum;
}

// Make of each score e, its exponential, and return the factor that makes the sum of all 1. The first warp adds
// up one stage, its upper half as the lower, while the others fill the next.
OR_DEVICE float exponentiate(float *scores, uint32_t n, float largest)
{
    OR_SHARED(float, stages, 2 * STAGE);
    OR_SHARED(float, factor, 1);
    bool adds = threadIdx.x < WARP;
    float *stage = stages;
    float sum = 0.0f;
    for (uint32_t first = 0; first < n; first += STAGE) {
        uint32_t count = n - first < STAGE ? n - first : STAGE;
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            stage[i] = canonical_exp(scores[first + i] - largest);
            scores[first + i] = stage[i];
        }
        or_block_wait();
        if (adds) {
            sum = add_lane(stage, count, threadIdx.x % LANES, sum);
        }
        stage = stage == stages ? stages + STAGE : stages;
    }
    if (adds) {
        float total = lane_sum(sum);
        if (threadIdx.x == 0) {
            *factor = 1.0f / total;
        }
    }
    or_block_wait();
    return *factor;
}

OR_GLOBAL void weigh_rows(attention_t a)
{
    const or_cuda_seen_t *seen = &a.seen[blockIdx.x];
    float *scores = scores_of(&a, blockIdx.x, blockIdx.y);
    uint32_t n = seen->committed + seen->chain_count;
    float factor = exponentiate(scores, n, largest_score(scores, n));
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        scores[i] *= factor;
    }
}

static int attend(or_cuda_t *cuda, const attention_t *a, const query_t *query,
                  const or_cuda_rows_t *to)
{
    int status = or_cuda_attention_scores(cuda, a, query);
    if (status != OR_CUDA_OK) {
        return status;
    }
    status = or_launch(cuda, weigh_rows, dim3(a->rows, a->heads.count), dim3(THREADS), 0, *a);
    if (status != OR_CUDA_OK) {
        return status;
    }
    return or_cuda_attention_values(cuda, a, to);
}

int or_cuda_attention(or_cuda_t *cuda, const or_cuda_kv_t *kv, uint32_t layer,
                      const or_cuda_seen_t *seen, uint32_t rows, const float *query,
                      size_t query_stride, const or_cuda_heads_t *heads, float scale, float *scores,
                      size_t scores_stride, const or_cuda_rows_t *to)
{
    if (rows == 0 || heads->count == 0) {
        return OR_CUDA_OK;
    }
    assert(heads->group <= OR_CUDA_GROUP_MAX);
    assert(heads->first + heads->count <= kv->kv_heads * heads->group);
    attention_t a = {*kv, layer, seen, rows, *heads, scores, scores_stride};
    query_t queries = {query, query_stride, scale};
    // Blocks that reach over heads are made when these are whole.
    bool straddles = to->blocks && kv->head_dim % OR_QUANT_BLOCK != 0;
    or_cuda_rows_t sums = *to;
    sums.blocks = straddles ? NULL : to->blocks;
    int status = attend(cuda, &a, &queries, &sums);
    if (status != OR_CUDA_OK || !straddles) {
        return status;
    }
    return or_cuda_quantize(cuda, to, heads->count * kv->head_dim, rows);
}
