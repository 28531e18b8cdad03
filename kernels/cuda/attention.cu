// Attention, of which this file has the middle: softmax over all that a row sees.
#include "kernels/cuda/attention.cuh"

#include <assert.h>

#define THREADS_MIN 256u
#define THREADS_MAX 1024u
#define PARTS_MAX (THREADS_MAX / LANES)            // at a time
#define SCORES_OF_LANE (OR_ATTENTION_PART / LANES) // in a part

// The order does not matter: NaNs are passed over, and the sign of a zero does not change a difference.
OR_DEVICE float largest_score(const float *scores, uint32_t n)
{
    OR_SHARED(float, of_warps, THREADS_MAX / WARP);
    float largest = -INFINITY;
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        largest = canonical_max(scores[i], largest);
    }
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        largest = canonical_max(or_shuffle_xor(largest, mask), largest);
    }
    of_warps[threadIdx.x / WARP] = largest;
    or_block_wait();
    for (uint32_t w = 0; w < blockDim.x / WARP; w++) {
        largest = canonical_max(of_warps[w], largest);
    }
    return largest;
}

// Make of the scores of a part their exponentials, and return their sum. Half a warp takes a part, a lane what the lane
// has of a lane sum. All its scores are loaded before the first is used.
OR_DEVICE float exponentiate_part(float *scores, uint32_t count, float largest)
{
    uint32_t lane = threadIdx.x % LANES;
    float own[SCORES_OF_LANE];
    for (uint32_t i = 0; i < SCORES_OF_LANE; i++) {
        own[i] = i * LANES + lane < count ? scores[i * LANES + lane] : 0.0f;
    }
    float sum = 0.0f;
    for (uint32_t i = 0; i < SCORES_OF_LANE; i++) {
        if (i * LANES + lane < count) {
            own[i] = canonical_exp(own[i] - largest);
            scores[i * LANES + lane] = own[i];
            sum += own[i];
        }
    }
    return lane_sum(sum);
}

// Make of each score its exponential, and return the factor that makes the sum of all 1.
OR_DEVICE float exponentiate(float *scores, uint32_t n, float largest)
{
    OR_SHARED(float, stages, 2 * PARTS_MAX);
    uint32_t parts = blockDim.x / LANES; // at a time
    uint32_t part = threadIdx.x / LANES;
    float *stage = stages;
    float total = 0.0f;
    for (uint32_t first = 0; first < n; first += parts * OR_ATTENTION_PART) {
        uint32_t begin = first + part * OR_ATTENTION_PART;
        uint32_t left = begin < n ? n - begin : 0;
        uint32_t count = left < OR_ATTENTION_PART ? left : OR_ATTENTION_PART;
        float sum = exponentiate_part(scores + begin, count, largest);
        if (threadIdx.x % LANES == 0) {
            stage[part] = sum;
        }
        or_block_wait();
        for (uint32_t p = 0; p < parts; p++) { // +0 where there is no part
            total += stage[p];
        }
        stage = stage == stages ? stages + PARTS_MAX : stages;
    }
    return 1.0f / total;
}

OR_GLOBAL void weigh_rows(attention_t a)
{
    float *scores = scores_of(&a, blockIdx.x, blockIdx.y);
    uint32_t n = seen_by(&a, blockIdx.x);
    float factor = exponentiate(scores, n, largest_score(scores, n));
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        scores[i] *= factor;
    }
}

// As many threads as parts can be taken at a time.
static int launch_weights(or_cuda_t *cuda, const attention_t *a)
{
    uint32_t threads = (a->parts * LANES + WARP - 1) / WARP * WARP;
    threads = threads < THREADS_MIN ? THREADS_MIN : threads;
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    return or_launch(cuda, weigh_rows, dim3(a->rows, a->heads.count), dim3(threads), 0, *a);
}

static int attend(or_cuda_t *cuda, const attention_t *a, const query_t *query,
                  const or_cuda_rows_t *to)
{
    int status = or_cuda_attention_scores(cuda, a, query);
    if (status != OR_CUDA_OK) {
        return status;
    }
    status = launch_weights(cuda, a);
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
    attention_t a = {*kv,
                     layer,
                     seen,
                     rows,
                     *heads,
                     scores,
                     scores_stride,
                     scores + (size_t)rows * heads->count * scores_stride,
                     (uint32_t)((scores_stride + OR_ATTENTION_PART - 1) / OR_ATTENTION_PART)};
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
