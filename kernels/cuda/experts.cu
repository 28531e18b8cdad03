// Experts, but for the products with their matrices: which ones a row takes, the order of entries, activations and sums.
#include "kernels/cuda/cuda_experts.h"

#include <assert.h>

#include "common/base/math/elementwise_inline.h"
#include "common/base/math/mix_inline.h"
#include "kernels/cuda/rows.cuh"

#define WARP 32u
#define NONE UINT32_MAX
#define WEIGHTS_SUM_LEAST 1e-20f // as on the CPU: sigmoids may all be 0

// ---- the choice ----
//
// A warp has a row, a lane every 32nd expert. So a lane's experts that are taken are bits of a word.

static_assert(OR_CUDA_EXPERTS_MAX <= WARP * 32, "a bit for each expert of a lane");

typedef struct {
    float value;
    uint32_t expert; // NONE: there is none
} best_t;

OR_DEVICE bool is_better(best_t best, best_t than)
{
    return best.expert != NONE && (than.expert == NONE || best.value > than.value ||
                                   (best.value == than.value && best.expert < than.expert));
}

OR_DEVICE float value_for_choice(const or_cuda_choice_t *choice, const float *values,
                                 uint32_t expert)
{
    bool biased = choice->sigmoid && choice->choice_bias;
    return values[expert] + (biased ? choice->choice_bias[expert] : 0.0f);
}

// The best expert that was not taken yet. The CPU goes through them by number and takes one for a better one only, so the
// first stays where it is no number.
OR_DEVICE uint32_t find_best(const or_cuda_choice_t *choice, const float *values, uint32_t taken)
{
    best_t best = {0.0f, NONE};
    uint32_t first = NONE;
    for (uint32_t k = 0, expert = threadIdx.x; expert < choice->experts; k++, expert += WARP) {
        if ((taken >> k & 1) == 0) {
            best_t other = {value_for_choice(choice, values, expert), expert};
            first = expert < first ? expert : first;
            best = !isnan(other.value) && is_better(other, best) ? other : best;
        }
    }
    first = least_in_warp(first);
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        best_t other = {or_shuffle_xor(best.value, mask), or_shuffle_xor(best.expert, mask)};
        best = is_better(other, best) ? other : best;
    }
    return isnan(value_for_choice(choice, values, first)) ? first : best.expert;
}

// ---- groups ----

// Return the number of the largest of `count` numbers that are not taken, as or_experts_choose finds it.
OR_DEVICE uint32_t largest_left(const float *numbers, uint32_t count, const bool *taken,
                                uint32_t without)
{
    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++) {
        bool left = i != without && !(taken && taken[i]);
        if (left && (best == count || numbers[i] > numbers[best])) {
            best = i;
        }
    }
    return best;
}

OR_DEVICE float rank_of_group(const float *numbers, uint32_t count, bool by_two)
{
    uint32_t best = largest_left(numbers, count, nullptr, NONE);
    return by_two ? numbers[best] + numbers[largest_left(numbers, count, nullptr, best)]
                  : numbers[best];
}

// Return, as bits of this lane's experts, those whose groups are not taken. A lane ranks every 32nd group, and the first one
// chooses among them, as they are few.
OR_DEVICE uint32_t leave_groups_out(const or_cuda_choice_t *choice, const float *values)
{
    OR_SHARED(float, numbers, OR_CUDA_EXPERTS_MAX);
    OR_SHARED(float, ranks, OR_CUDA_EXPERTS_MAX);
    OR_SHARED(bool, taken, OR_CUDA_EXPERTS_MAX);
    uint32_t each = choice->experts / choice->groups;
    for (uint32_t i = threadIdx.x; i < choice->experts; i += WARP) {
        numbers[i] = value_for_choice(choice, values, i);
    }
    or_warp_wait();
    for (uint32_t g = threadIdx.x; g < choice->groups; g += WARP) {
        ranks[g] = rank_of_group(numbers + g * each, each, choice->sigmoid);
        taken[g] = false;
    }
    or_warp_wait();
    for (uint32_t i = 0; threadIdx.x == 0 && i < choice->groups_used; i++) {
        taken[largest_left(ranks, choice->groups, taken, NONE)] = true;
    }
    or_warp_wait();
    uint32_t out = 0;
    for (uint32_t k = 0, expert = threadIdx.x; expert < choice->experts; k++, expert += WARP) {
        out |= taken[expert / each] ? 0 : 1u << k;
    }
    return out;
}

// ---- weights ----

// softmax of kernels.h over n values, at most 32 times as many as the warp has lanes, in place. Maxima of any order are one.
OR_DEVICE void softmax_in_warp(float *values, uint32_t n)
{
    uint32_t lane = threadIdx.x;
    float largest = -INFINITY;
    for (uint32_t i = lane; i < n; i += WARP) {
        largest = canonical_max(values[i], largest);
    }
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        largest = canonical_max(or_shuffle_xor(largest, mask), largest);
    }
    for (uint32_t i = lane; i < n; i += WARP) {
        values[i] = canonical_exp(values[i] - largest);
    }
    or_warp_wait();
    float total = 0.0f;
    for (uint32_t begin = 0; begin < n; begin += OR_ATTENTION_PART) {
        uint32_t end = begin + OR_ATTENTION_PART < n ? begin + OR_ATTENTION_PART : n;
        float sum = 0.0f;
        for (uint32_t i = begin + lane % LANES; i < end; i += LANES) {
            sum += values[i];
        }
        total += lane_sum(sum);
    }
    float factor = 1.0f / total;
    or_warp_wait(); // all have read what others now write
    for (uint32_t i = lane; i < n; i += WARP) {
        values[i] *= factor;
    }
    or_warp_wait();
}

// Write a row's weights, once its experts are in order.
OR_DEVICE void write_weights(const or_cuda_choice_t *choice, const float *values,
                             const uint32_t *experts, float *weights)
{
    float sum = WEIGHTS_SUM_LEAST;
    for (uint32_t i = 0; i < choice->used; i++) {
        sum += values[experts[i]];
    }
    for (uint32_t i = threadIdx.x; i < choice->used; i += WARP) {
        float weight = values[experts[i]];
        weights[i] = (choice->normalised ? weight / sum : weight) * choice->scale;
    }
}

template <bool GROUPED>
OR_GLOBAL void choose_rows(or_cuda_choice_t choice, const float *logits, size_t stride,
                           uint32_t *chosen, float *weights)
{
    OR_SHARED(float, values, OR_CUDA_EXPERTS_MAX);
    OR_SHARED(uint32_t, taken_experts, OR_CUDA_EXPERTS_MAX); // best first
    OR_SHARED(uint32_t, experts, OR_CUDA_EXPERTS_MAX);       // the same, ascending
    uint32_t lane = threadIdx.x;
    logits += blockIdx.x * stride;
    chosen += (size_t)blockIdx.x * choice.used;
    weights += (size_t)blockIdx.x * choice.used;
    for (uint32_t i = lane; i < choice.experts; i += WARP) {
        float logit = choice.logit_bias ? logits[i] + choice.logit_bias[i] : logits[i];
        values[i] = choice.sigmoid ? inline_sigmoid((double)logit) : logit;
    }
    or_warp_wait();
    uint32_t taken = 0;
    if constexpr (GROUPED) {
        taken = leave_groups_out(&choice, values);
    }
    for (uint32_t i = 0; i < choice.used; i++) {
        uint32_t best = find_best(&choice, values, taken);
        taken |= best % WARP == lane ? 1u << best / WARP : 0;
        if (lane == 0) {
            taken_experts[i] = best;
        }
    }
    or_warp_wait();
    for (uint32_t i = lane; i < choice.used; i += WARP) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < choice.used; j++) {
            place += taken_experts[j] < taken_experts[i] ? 1 : 0;
        }
        experts[place] = chosen[place] = taken_experts[i];
    }
    if (!choice.sigmoid) {
        softmax_in_warp(values, choice.experts);
    }
    or_warp_wait();
    write_weights(&choice, values, experts, weights);
}

int or_cuda_choose_experts(or_cuda_t *cuda, const or_cuda_choice_t *choice, const float *logits,
                           size_t stride, uint32_t rows, uint32_t *chosen, float *weights)
{
    assert(choice->experts <= OR_CUDA_EXPERTS_MAX && choice->used <= choice->experts);
    if (rows == 0 || choice->used == 0) {
        return OR_CUDA_OK;
    }
    assert(choice->groups == 0 || choice->experts % choice->groups == 0);
    return or_launch(cuda, choice->groups > 0 ? choose_rows<true> : choose_rows<false>, dim3(rows),
                     dim3(WARP), 0, *choice, logits, stride, chosen, weights);
}

#define MIXED 2u // experts of a row

// A thread has a row: experts are few.
OR_GLOBAL void mix_rows(uint32_t experts, float scale, const float *logits, size_t stride,
                        uint32_t rows, uint32_t *chosen, float *weights)
{
    uint32_t row = blockIdx.x * WARP + threadIdx.x;
    if (row < rows) {
        float *own = weights + (size_t)row * MIXED;
        inline_mix(logits + row * stride, experts, chosen + (size_t)row * MIXED, own);
        for (uint32_t i = 0; i < MIXED; i++) {
            own[i] *= scale;
        }
    }
}

int or_cuda_mix_experts(or_cuda_t *cuda, uint32_t experts, float scale, const float *logits,
                        size_t stride, uint32_t rows, uint32_t *chosen, float *weights)
{
    assert(experts >= MIXED);
    if (rows == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, mix_rows, dim3((rows - 1) / WARP + 1), dim3(WARP), 0, experts, scale,
                     logits, stride, rows, chosen, weights);
}

// ---- entries ----

// Return the sum of `own` over the threads before this one; sums [threads] of it and those before stay in scratch.
OR_DEVICE uint32_t sum_before(uint32_t own, uint32_t *scratch)
{
    scratch[threadIdx.x] = own;
    or_block_wait();
    for (uint32_t step = 1; step < blockDim.x; step *= 2) {
        uint32_t before = threadIdx.x >= step ? scratch[threadIdx.x - step] : 0;
        or_block_wait();
        scratch[threadIdx.x] += before;
        or_block_wait();
    }
    return scratch[threadIdx.x] - own;
}

// Return how many experts have entries; before [experts] is the number up to each.
OR_DEVICE uint32_t count_taken(const uint32_t *before, uint32_t experts)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < experts; i++) {
        taken += before[i] > (i > 0 ? before[i - 1] : 0) ? 1 : 0;
    }
    return taken;
}

// One block, in which a thread has an expert. It looks at all entries to find its own.
OR_GLOBAL void group_entries(uint32_t used, const uint32_t *chosen, const float *weights,
                             uint32_t entries, uint32_t group_rows, uint32_t groups_max, bool adds,
                             or_cuda_entries_t to)
{
    OR_SHARED(uint32_t, entries_before, OR_CUDA_EXPERTS_MAX);
    OR_SHARED(uint32_t, groups_before, OR_CUDA_EXPERTS_MAX);
    uint32_t expert = threadIdx.x;
    uint32_t count = 0;
    for (uint32_t i = 0; i < entries; i++) {
        count += chosen[i] == expert ? 1 : 0;
    }
    uint32_t first = sum_before(count, entries_before);
    uint32_t first_group = sum_before((count + group_rows - 1) / group_rows, groups_before);
    for (uint32_t i = 0, place = first; place < first + count; i++) {
        if (chosen[i] == expert) {
            to.rows[place] = i / used;
            to.experts[place] = expert;
            to.weights[place] = weights[i];
            to.places[i] = place++;
        }
    }
    for (uint32_t done = 0; done < count; done += group_rows) {
        uint32_t left = count - done;
        to.groups[first_group + done / group_rows] = {expert, first + done,
                                                      left < group_rows ? left : group_rows};
    }
    for (uint32_t i = groups_before[blockDim.x - 1] + threadIdx.x; i < groups_max;
         i += blockDim.x) {
        to.groups[i] = {0, 0, 0};
    }
    if (threadIdx.x == blockDim.x - 1) {
        *to.taken = count_taken(entries_before, blockDim.x) + (adds ? *to.taken : 0);
    }
}

int or_cuda_group_entries(or_cuda_t *cuda, uint32_t experts, uint32_t used, const uint32_t *chosen,
                          const float *weights, uint32_t rows, uint32_t group_rows, bool adds,
                          const or_cuda_entries_t *to)
{
    assert(experts <= OR_CUDA_EXPERTS_MAX);
    uint32_t entries = rows * used;
    if (entries == 0) {
        return OR_CUDA_OK;
    }
    uint32_t threads = (experts + WARP - 1) / WARP * WARP;
    return or_launch(cuda, group_entries, dim3(1), dim3(threads), 0, used, chosen, weights, entries,
                     group_rows, or_cuda_groups_max(experts, entries, group_rows), adds, *to);
}

#define BLOCK_PIECES ((uint32_t)(sizeof(or_q8_block_t) / sizeof(uint4)))

OR_GLOBAL void gather_rows(or_cuda_rows_t from, const uint32_t *rows, uint32_t n, or_cuda_rows_t to)
{
    uint32_t i = row_element();
    size_t row = rows[blockIdx.x];
    if (to.values && i < n) {
        to.values[blockIdx.x * to.stride + i] = from.values[row * from.stride + i];
    }
    uint32_t pieces = (n + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK * BLOCK_PIECES;
    if (to.blocks && i < pieces) {
        const uint4 *of_row = (const uint4 *)(from.blocks + row * from.blocks_stride);
        ((uint4 *)(to.blocks + blockIdx.x * to.blocks_stride))[i] = of_row[i];
    }
}

int or_cuda_gather(or_cuda_t *cuda, const or_cuda_rows_t *from, const uint32_t *rows, uint32_t n,
                   uint32_t entries, const or_cuda_rows_t *to)
{
    if (entries == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    uint32_t pieces = (n + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK * BLOCK_PIECES;
    return or_launch(cuda, gather_rows, row_grid(entries, n > pieces ? n : pieces),
                     dim3(ROW_THREADS), 0, *from, rows, n, *to);
}

// ---- the middle ----

OR_DEVICE float biased(const or_cuda_expert_rows_t *what, const float *bias, uint32_t row,
                       uint32_t i, float value)
{
    return bias ? value + bias[what->experts[row] * what->bias_stride + i] : value;
}

OR_GLOBAL void activate_expert_rows(or_cuda_expert_rows_t what, or_cuda_rows_t gate,
                                    const float *up, size_t up_stride, uint32_t n)
{
    uint32_t row = blockIdx.x;
    uint32_t i = row_element();
    float value = 0.0f;
    if (i < n) {
        float g = biased(&what, what.gate_bias, row, i, gate.values[row * gate.stride + i]);
        float u = biased(&what, what.up_bias, row, i, up[row * up_stride + i]);
        value = what.clamps ? canonical_swiglu(inline_clamped_gate(g), inline_clamped_up(u))
                            : canonical_swiglu(g, u);
        value *= what.weights ? what.weights[row] : 1.0f;
    }
    write_in_warp(&gate, row, n, i, value);
}

int or_cuda_activate_experts(or_cuda_t *cuda, const or_cuda_expert_rows_t *what,
                             const or_cuda_rows_t *gate, const float *up, size_t up_stride,
                             uint32_t n, uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, activate_expert_rows, row_grid(rows, n), dim3(ROW_THREADS), 0, *what,
                     *gate, up, up_stride, n);
}

#define STAGE 2048u // products in shared memory at a time

// The sum is one chain of doubles, which the first thread walks; the products are exact.
OR_GLOBAL void weigh_shared_rows(const float *h, size_t stride, const float *router, uint32_t n,
                                 float *weights)
{
    OR_SHARED(double, stage, STAGE);
    h += blockIdx.x * stride;
    double logit = 0;
    for (uint32_t first = 0; first < n; first += STAGE) {
        uint32_t count = n - first < STAGE ? n - first : STAGE;
        for (uint32_t i = threadIdx.x; i < count; i += ROW_THREADS) {
            stage[i] = (double)h[first + i] * (double)router[first + i];
        }
        or_block_wait();
        for (uint32_t i = 0; threadIdx.x == 0 && i < count; i++) {
            logit += stage[i];
        }
        or_block_wait();
    }
    if (threadIdx.x == 0) {
        weights[blockIdx.x] = inline_sigmoid(logit);
    }
}

int or_cuda_weigh_shared(or_cuda_t *cuda, const float *h, size_t stride, const float *router,
                         uint32_t n, uint32_t rows, float *weights)
{
    if (rows == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, weigh_shared_rows, dim3(rows), dim3(ROW_THREADS), 0, h, stride, router,
                     n, weights);
}

// ---- the sum ----

OR_GLOBAL void sum_entry_rows(or_cuda_entry_products_t products, bool adds, float *sums,
                              size_t part_stride, size_t stride, uint32_t n)
{
    uint32_t i = row_element();
    if (i >= n) {
        return;
    }
    const float *of_shard = products.values + blockIdx.z * products.part_stride + i;
    const uint32_t *places = products.places + (size_t)blockIdx.x * products.used;
    float *at = sums + blockIdx.z * part_stride + blockIdx.x * stride + i;
    float sum = 0.0f;
    for (uint32_t k = 0; k < products.used; k++) {
        sum += of_shard[places[k] * products.stride];
    }
    *at = adds ? sum + *at : sum;
}

int or_cuda_sum_entries(or_cuda_t *cuda, const or_cuda_entry_products_t *products, bool adds,
                        float *sums, size_t part_stride, size_t stride, uint32_t shards, uint32_t n,
                        uint32_t rows)
{
    if (rows == 0 || n == 0 || shards == 0) {
        return OR_CUDA_OK;
    }
    dim3 grid = row_grid(rows, n);
    return or_launch(cuda, sum_entry_rows, dim3(grid.x, grid.y, shards), dim3(ROW_THREADS), 0,
                     *products, adds, sums, part_stride, stride, n);
}

OR_GLOBAL void bias_expert_rows(const uint32_t *chosen, const float *weights, uint32_t used,
                                const float *bias, float *sums, size_t stride, uint32_t n)
{
    uint32_t i = row_element();
    if (i >= n) {
        return;
    }
    chosen += (size_t)blockIdx.x * used;
    weights += (size_t)blockIdx.x * used;
    float *at = sums + blockIdx.x * stride + i;
    float sum = *at;
    for (uint32_t k = 0; k < used; k++) {
        sum += weights[k] * bias[(size_t)chosen[k] * n + i];
    }
    *at = sum;
}

int or_cuda_bias_experts(or_cuda_t *cuda, const uint32_t *chosen, const float *weights,
                         uint32_t used, const float *bias, float *sums, size_t stride, uint32_t n,
                         uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, bias_expert_rows, row_grid(rows, n), dim3(ROW_THREADS), 0, chosen,
                     weights, used, bias, sums, stride, n);
}
