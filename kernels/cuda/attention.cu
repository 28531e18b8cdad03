// Attention, of which this file has the middle: softmax over all that a row sees.
#include "kernels/cuda/attention.cuh"

#include <assert.h>

#include "common/base/math/elementwise_inline.h"

#define THREADS_MIN 256u
#define THREADS_MAX 512u
#define SCORES_OF_THREAD (OR_ATTENTION_PART / WARP) // at a time, so that each warp has a part

// Each thread caps those that largest_score has it read.
OR_DEVICE void cap_scores(float *scores, uint32_t n, float cap)
{
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        scores[i] = inline_softcap(scores[i], cap);
    }
}

// The largest score of all threads. The order does not matter: NaNs are passed over, and the sign of a zero does not
// change a difference.
OR_DEVICE float largest_in_block(float largest)
{
    OR_SHARED(float, of_warps, THREADS_MAX / WARP);
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        largest = canonical_max(or_shuffle_xor(largest, mask), largest);
    }
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = largest;
    }
    or_block_wait();
    for (uint32_t w = 0; w < blockDim.x / WARP; w++) {
        largest = canonical_max(of_warps[w], largest);
    }
    return largest;
}

OR_DEVICE float largest_score(const float *scores, uint32_t n)
{
    float largest = -INFINITY;
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        largest = canonical_max(scores[i], largest);
    }
    return largest_in_block(largest);
}

// Make of some scores, at most SCORES_OF_THREAD a thread, their exponentials, also in shared memory. All are loaded before
// the first is used.
OR_DEVICE void exponentiate_stage(float *scores, uint32_t skipped, uint32_t count, float largest,
                                  float *stage)
{
    float own[SCORES_OF_THREAD];
    for (uint32_t i = 0; i < SCORES_OF_THREAD; i++) {
        uint32_t at = i * blockDim.x + threadIdx.x;
        own[i] = at >= skipped && at < count ? scores[at] : 0.0f;
    }
    for (uint32_t i = 0; i < SCORES_OF_THREAD; i++) {
        uint32_t at = i * blockDim.x + threadIdx.x;
        if (at >= skipped && at < count) {
            stage[at] = canonical_exp(own[i] - largest);
            scores[at] = stage[at];
        }
    }
}

// Return the sum of this warp's part of a stage, +0 where there is none. The first `skipped` scores are nobody's: lane 0
// begins behind them. A warp's upper half does what the lower does.
OR_DEVICE float sum_part(const float *stage, uint32_t skipped, uint32_t count)
{
    uint32_t begin = threadIdx.x / WARP * OR_ATTENTION_PART;
    uint32_t end = begin + OR_ATTENTION_PART < count ? begin + OR_ATTENTION_PART : count;
    begin = begin > skipped ? begin : skipped;
    float sum = 0.0f;
    for (uint32_t i = begin + threadIdx.x % LANES; i < end; i += LANES) {
        sum += stage[i];
    }
    return lane_sum(sum);
}

// Add to a total the sums of all parts of a stage, in order.
OR_DEVICE float add_stage(const float *stage, uint32_t skipped, uint32_t count, float total)
{
    OR_SHARED(float, of_warps, THREADS_MAX / WARP);
    or_block_wait();
    float sum = sum_part(stage, skipped, count);
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = sum;
    }
    or_block_wait();
    for (uint32_t w = 0; w < blockDim.x / WARP; w++) {
        total += of_warps[w];
    }
    return total;
}

// Make of the scores begin .. end - 1 their exponentials, and return the factor that makes the sum of all 1. Stages begin
// with parts.
OR_DEVICE float exponentiate(float *scores, uint32_t begin, uint32_t end, float largest,
                             float *stage)
{
    uint32_t most = blockDim.x * SCORES_OF_THREAD;
    float total = 0.0f;
    for (uint32_t first = begin / OR_ATTENTION_PART * OR_ATTENTION_PART; first < end;
         first += most) {
        uint32_t count = end - first < most ? end - first : most;
        uint32_t skipped = begin > first ? begin - first : 0;
        exponentiate_stage(scores + first, skipped, count, largest, stage);
        total = add_stage(stage, skipped, count, total);
    }
    return 1.0f / total;
}

// All of it where there is but one stage: scores are read and written once. `stage_scores` are those of its first place;
// the one at `end` is the sink's, if there are any.
template <bool CAPPED>
OR_DEVICE void weigh_stage(const attention_t *a, float *stage_scores, uint32_t skipped,
                           uint32_t end, float *stage)
{
    float own[SCORES_OF_THREAD];
    float largest = -INFINITY;
    uint32_t count = a->how.sinks ? end + 1 : end;
    for (uint32_t i = 0; i < SCORES_OF_THREAD; i++) {
        uint32_t at = i * blockDim.x + threadIdx.x;
        own[i] = at >= skipped && at < end ? stage_scores[at] : -INFINITY;
    }
    for (uint32_t i = 0; i < SCORES_OF_THREAD; i++) {
        uint32_t at = i * blockDim.x + threadIdx.x;
        if (CAPPED && at >= skipped && at < end) {
            own[i] = inline_softcap(own[i], a->how.softcap);
        }
        if (at == end && count > end) {
            own[i] = a->how.sinks[blockIdx.y];
        }
        largest = canonical_max(own[i], largest);
    }
    largest = largest_in_block(largest);
    for (uint32_t i = 0; i < SCORES_OF_THREAD; i++) {
        own[i] = canonical_exp(own[i] - largest);
        stage[i * blockDim.x + threadIdx.x] = own[i];
    }
    float factor = 1.0f / add_stage(stage, skipped, count, 0.0f);
    for (uint32_t i = 0; i < SCORES_OF_THREAD; i++) {
        uint32_t at = i * blockDim.x + threadIdx.x;
        if (at >= skipped && at < end) {
            stage_scores[at] = own[i] * factor;
        }
    }
}

// CAPPED: scores are capped, which takes registers that other models do without.
template <bool CAPPED> OR_GLOBAL void weigh_rows(attention_t a)
{
    or_begin_after();
    OR_SHARED_DYNAMIC(float, stage);
    float *scores = scores_of(&a, blockIdx.x, blockIdx.y);
    uint32_t first = first_seen_by(&a, blockIdx.x);
    uint32_t end = seen_by(&a, blockIdx.x);
    uint32_t part = first / OR_ATTENTION_PART * OR_ATTENTION_PART;
    if (end - part < blockDim.x * SCORES_OF_THREAD) {
        weigh_stage<CAPPED>(&a, scores + part, first - part, end - part, stage);
        return;
    }
    if constexpr (CAPPED) {
        cap_scores(scores + first, end - first, a.how.softcap);
    }
    uint32_t sinks = a.how.sinks ? 1 : 0; // behind the scores of positions
    if (sinks > 0) {
        if (threadIdx.x == 0) {
            scores[end] = a.how.sinks[blockIdx.y];
        }
        or_block_wait();
    }
    float largest = largest_score(scores + first, end + sinks - first);
    float factor = exponentiate(scores, first, end + sinks, largest, stage);
    for (uint32_t i = first + threadIdx.x; i < end; i += blockDim.x) {
        scores[i] *= factor;
    }
}

// A warp for each part that a row may attend to, as far as a block may have them at a time.
static int launch_weights(or_cuda_t *cuda, const attention_t *a)
{
    uint32_t parts = a->parts;
    if (a->how.window > 0 && a->how.window / OR_ATTENTION_PART + 2 < parts) {
        parts = a->how.window / OR_ATTENTION_PART + 2;
    }
    uint32_t threads = parts < THREADS_MAX / WARP ? parts * WARP : THREADS_MAX;
    threads = threads > THREADS_MIN ? threads : THREADS_MIN;
    return or_launch_early(cuda, a->how.softcap > 0 ? weigh_rows<true> : weigh_rows<false>,
                           dim3(a->rows, a->heads.count), dim3(threads),
                           threads * SCORES_OF_THREAD * sizeof(float), *a);
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
                      size_t query_stride, const or_cuda_heads_t *heads,
                      const or_cuda_attention_t *attention, float *scores, size_t scores_stride,
                      const or_cuda_rows_t *to)
{
    if (rows == 0 || heads->count == 0) {
        return OR_CUDA_OK;
    }
    assert(heads->group <= OR_CUDA_GROUP_MAX);
    assert(heads->first + heads->count <= kv->kv_heads * heads->group);
    attention_t a = {with_page_bytes(kv),
                     layer,
                     seen,
                     rows,
                     *heads,
                     *attention,
                     scores,
                     scores_stride,
                     scores + (size_t)rows * heads->count * scores_stride,
                     (uint32_t)((scores_stride + OR_ATTENTION_PART - 1) / OR_ATTENTION_PART)};
    query_t queries = {query, query_stride};
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
