// Recursive rejection of a tree (verifier/accept/accept_ratio.c) where its logits are.
//
//     bests   the best score of each row
//     sums    of each row and each block of 256 tokens: of its weights exp(score - best)
//     walk    one thread block goes from the root down and weighs only what guesses touch
//
// Every number is made as verifier/accept/residual.c makes it, from the same operations in the same order. It has less to
// keep: children share a distribution, so its tokens are the touched ones, from the first guess on. What is said here
// once is done by all lanes of a warp alike: then each has the result.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#include "common/base/math/math_inline.h"
#include "common/base/math/rng_inline.h"
#include "common/decode/sampling/weights_inline.h"

#define BLOCK 256u // tokens that share a sum
#define WARP 32u
#define THREADS 256u
#define WARPS (THREADS / WARP)
#define STAGE (WARPS * BLOCK) // weights that are looked at together
#define DIST_TOTAL 65536.0    // what the weights of a distribution add up to

static_assert(OR_CUDA_DISTRIBUTION_ENTRIES_MAX + OR_CUDA_REJECT_VOCAB_MAX / BLOCK <= STAGE,
              "all that a token is first drawn from");

OR_DEVICE uint32_t own_lane(void)
{
    return threadIdx.x % WARP;
}

OR_DEVICE uint32_t own_warp(void)
{
    return threadIdx.x / WARP;
}

// A row as a distribution, of which nothing is touched.
typedef struct {
    const float *logits;
    double temperature;
    double best; // NaN: a logit is not finite
    uint32_t vocab_size;
} distribution_t;

static uint32_t blocks_of(uint32_t vocab_size)
{
    return (vocab_size - 1) / BLOCK + 1;
}

OR_DEVICE distribution_t dist_of_row(const or_cuda_trial_t *trial, const double *bests,
                                     uint32_t row)
{
    return {trial->logits + row * trial->stride, trial->temperature, bests[row], trial->vocab_size};
}

OR_DEVICE double weight_of(const distribution_t *dist, uint32_t token)
{
    return inline_exp((double)dist->logits[token] / dist->temperature - dist->best);
}

OR_DEVICE uint32_t block_size(const distribution_t *dist, uint32_t block)
{
    uint32_t left = dist->vocab_size - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

// Write the weights [BLOCK] of a block. Called by a whole warp.
OR_DEVICE void weigh_block(const distribution_t *dist, uint32_t block, double *weights)
{
    uint32_t size = block_size(dist, block);
    for (uint32_t i = own_lane(); i < size; i += WARP) {
        weights[i] = weight_of(dist, block * BLOCK + i);
    }
    or_warp_wait();
}

// Sum in four strands, as or_sum_of_blocks does. Called by a whole warp.
OR_DEVICE double sum_in_strands(const double *x, uint32_t count)
{
    uint32_t strand = own_lane() % 4;
    uint32_t whole = count - count % 4;
    double sum = 0;
    for (uint32_t i = strand; i < whole; i += 4) {
        sum += x[i];
    }
    for (uint32_t i = whole; strand == 0 && i < count; i++) {
        sum += x[i];
    }
    sum += or_shuffle_xor(sum, 1);
    return sum + or_shuffle_xor(sum, 2);
}

// ---- of all rows ----

// Return the larger of two; a value that is not finite always stays.
OR_DEVICE float larger(float newer, float older)
{
    return newer > older || isnan(newer) ? newer : older;
}

OR_DEVICE float largest_in_row(const float *logits, uint32_t count)
{
    float best = -INFINITY;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        best = larger(isfinite(logits[i]) ? logits[i] : NAN, best);
    }
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        best = larger(or_shuffle_xor(best, mask), best);
    }
    return best;
}

OR_GLOBAL void find_bests(or_cuda_trial_t trial, double *bests)
{
    OR_SHARED(float, of_warp, WARPS);
    float best = largest_in_row(trial.logits + blockIdx.x * trial.stride, trial.vocab_size);
    if (own_lane() == 0) {
        of_warp[own_warp()] = best;
    }
    or_block_wait();
    if (threadIdx.x == 0) {
        for (uint32_t warp = 1; warp < WARPS; warp++) {
            best = larger(of_warp[warp], best);
        }
        bests[blockIdx.x] = (double)best / trial.temperature;
    }
}

// A warp for each block.
OR_GLOBAL void sum_blocks(or_cuda_trial_t trial, const double *bests, uint32_t blocks, double *sums)
{
    OR_SHARED(double, stage, STAGE);
    uint32_t row = blockIdx.x;
    uint32_t block = blockIdx.y * WARPS + own_warp();
    if (block >= blocks) {
        return;
    }
    distribution_t dist = dist_of_row(&trial, bests, row);
    double *weights = stage + own_warp() * BLOCK;
    weigh_block(&dist, block, weights);
    double sum = sum_in_strands(weights, block_size(&dist, block));
    if (own_lane() == 0) {
        sums[(size_t)row * blocks + block] = sum;
    }
}

// ---- a node ----

typedef struct {
    const or_cuda_trial_t *trial;
    uint32_t number;
    distribution_t q; // the target's distribution
    double *sums;     // [blocks] of it, without what is touched
    uint32_t blocks;
    const uint32_t *tokens; // of the distribution that the children were drawn from
    const uint32_t *weights;
    uint32_t entries; // 0: there are no children
    uint32_t inside;  // those first of them that the target has, which are touched
} node_t;

typedef struct {
    double m[OR_CUDA_DISTRIBUTION_ENTRIES_MAX];        // of the touched tokens
    double original[OR_CUDA_DISTRIBUTION_ENTRIES_MAX]; // in q, where the factor was 1
    double s[OR_CUDA_DISTRIBUTION_ENTRIES_MAX];        // what is left of the distribution; 0: drawn
    double stage[STAGE];
    uint64_t digest;
    int32_t token; // that follows
} shared_t;

OR_DEVICE node_t node_at(const or_cuda_trial_t *trial, uint32_t number, const double *bests,
                         uint32_t blocks, double *sums)
{
    const or_cuda_node_t *node = &trial->nodes[number];
    node_t at = {};
    at.trial = trial;
    at.number = number;
    at.q = dist_of_row(trial, bests, node->row);
    at.sums = sums + (size_t)node->row * blocks;
    at.blocks = blocks;
    if (node->first_child != 0) {
        or_cuda_distribution_t dist = trial->dists[node->dist];
        at.tokens = trial->tokens + dist.first;
        at.weights = trial->weights + dist.first;
        at.entries = dist.count;
        at.inside = dist.count;
    }
    while (at.inside > 0 && at.tokens[at.inside - 1] >= trial->vocab_size) {
        at.inside--;
    }
    return at;
}

// Write the weights [BLOCK] of a block, with 0 for touched tokens. Called by a whole warp.
OR_DEVICE void weigh_untouched(const node_t *node, uint32_t block, double *weights)
{
    weigh_block(&node->q, block, weights);
    for (uint32_t i = own_lane(); i < node->inside; i += WARP) {
        if (node->tokens[i] / BLOCK == block) {
            weights[node->tokens[i] % BLOCK] = 0;
        }
    }
    or_warp_wait();
}

// Read the distribution and take its tokens out of their blocks. A block's first token has a warp sum the block anew.
// Called by all threads.
OR_DEVICE void touch(const node_t *node, shared_t *shared)
{
    for (uint32_t i = threadIdx.x; i < node->entries; i += THREADS) {
        shared->s[i] = node->weights[i];
        shared->original[i] = i < node->inside ? weight_of(&node->q, node->tokens[i]) : 0;
    }
    double *weights = shared->stage + own_warp() * BLOCK;
    for (uint32_t i = own_warp(); i < node->inside; i += WARPS) {
        uint32_t block = node->tokens[i] / BLOCK;
        if (i == 0 || node->tokens[i - 1] / BLOCK != block) {
            weigh_untouched(node, block, weights);
            double sum = sum_in_strands(weights, block_size(&node->q, block));
            or_warp_wait(); // before they are others
            if (own_lane() == 0) {
                node->sums[block] = sum;
            }
        }
    }
}

// ---- what is left of the target's distribution, by the first warp ----

typedef struct {
    shared_t *shared;
    double s_total; // |s|
    double untouched_sum;
    double factor; // of all that is untouched
    double total;  // |m|
} residual_t;

// |m| of the first `touched` touched tokens and all others, and everything scaled by a power of two so that it lies in [1/2, 1).
OR_DEVICE void sum_and_scale(residual_t *residual, uint32_t touched)
{
    double *m = residual->shared->m;
    int exponent;
    double total = residual->untouched_sum * residual->factor;
    for (uint32_t i = 0; i < touched; i++) {
        total += m[i];
    }
    residual->total = frexp(total, &exponent);
    double scale = ldexp(1.0, -exponent);
    residual->factor *= scale;
    or_warp_wait();
    for (uint32_t i = own_lane(); i < touched; i += WARP) {
        m[i] *= scale;
    }
    or_warp_wait();
}

// M = q, before anything is touched.
OR_DEVICE void open_residual(residual_t *residual, const node_t *node, shared_t *shared)
{
    residual->shared = shared;
    residual->s_total = DIST_TOTAL;
    residual->untouched_sum = sum_in_strands(node->sums, node->blocks);
    residual->factor = 1;
    sum_and_scale(residual, 0);
}

// The same, after touch().
OR_DEVICE void take_touched(residual_t *residual, const node_t *node)
{
    for (uint32_t i = own_lane(); i < node->inside; i += WARP) {
        residual->shared->m[i] = residual->shared->original[i] * residual->factor;
    }
    residual->untouched_sum = sum_in_strands(node->sums, node->blocks);
    or_warp_wait();
}

OR_DEVICE void restore(residual_t *residual, const node_t *node)
{
    residual->factor = 1;
    for (uint32_t i = own_lane(); i < node->inside; i += WARP) {
        residual->shared->m[i] = residual->shared->original[i];
    }
    or_warp_wait();
    sum_and_scale(residual, node->inside);
}

// M = N[[M - S]+]; if nothing is left M = q again.
OR_DEVICE void subtract(residual_t *residual, const node_t *node)
{
    shared_t *shared = residual->shared;
    or_warp_wait(); // all have looked at M
    for (uint32_t i = own_lane(); i < node->inside; i += WARP) {
        double left = shared->m[i] * residual->s_total - shared->s[i] * residual->total;
        shared->m[i] = left > 0 ? left : 0;
    }
    residual->factor *= residual->s_total;
    or_warp_wait();
    sum_and_scale(residual, node->inside);
    if (!(residual->total > 0)) {
        restore(residual, node);
    }
}

// S(x) = 0, S = N[S]
OR_DEVICE void take_out(residual_t *residual, uint32_t index)
{
    residual->s_total -= residual->shared->s[index];
    or_warp_wait();
    residual->shared->s[index] = 0;
    or_warp_wait();
}

// ---- choices ----

OR_DEVICE double uniform(const node_t *node, or_rng_purpose_t purpose, uint32_t draw)
{
    return or_rng_uniform(
        inline_rng_draw({node->trial->key}, purpose, node->trial->round, node->number, draw));
}

OR_DEVICE void note(shared_t *shared, double weighed)
{
    if (threadIdx.x == 0) {
        shared->digest = (shared->digest ^ bits_of_double(weighed)) * OR_CUDA_DIGEST_FACTOR;
    }
}

// or_keyed_chooser's draw, from the stage.
OR_DEVICE uint32_t draw_index(double uniform, shared_t *shared, uint32_t count)
{
    double total = inline_weights_total(shared->stage, count);
    note(shared, total);
    return inline_weights_pick(shared->stage, count, uniform * total);
}

// u < M(x) / S(x)?
OR_DEVICE bool accepts(const residual_t *residual, const node_t *node, uint32_t index,
                       uint32_t tested)
{
    shared_t *shared = residual->shared;
    double numerator = index < node->inside ? shared->m[index] * residual->s_total : 0;
    double denominator = residual->total * shared->s[index];
    note(shared, numerator);
    note(shared, denominator);
    return numerator >= denominator ||
           uniform(node, OR_RNG_ACCEPT, tested) * denominator < numerator;
}

// y ~ M: a touched token or a block of the others, then one of the block.
OR_DEVICE int32_t draw_rest(const residual_t *residual, const node_t *node)
{
    shared_t *shared = residual->shared;
    uint32_t touched = node->inside;
    uint32_t count = touched + node->blocks;
    for (uint32_t i = own_lane(); i < count; i += WARP) {
        shared->stage[i] = i < touched ? shared->m[i] : node->sums[i - touched] * residual->factor;
    }
    or_warp_wait();
    uint32_t group = draw_index(uniform(node, OR_RNG_RESIDUAL, 0), shared, count);
    if (group < touched) {
        return (int32_t)node->tokens[group];
    }
    uint32_t block = group - touched;
    or_warp_wait(); // all have drawn
    weigh_untouched(node, block, shared->stage);
    uint32_t size = block_size(&node->q, block);
    uint32_t place = draw_index(uniform(node, OR_RNG_RESIDUAL, 1), shared, size);
    return (int32_t)(block * BLOCK + place);
}

// ---- the walk ----

// or_distribution_find: where a child's token is.
OR_DEVICE uint32_t find_in_dist(const node_t *node, uint32_t token)
{
    uint32_t low = 0;
    uint32_t high = node->entries;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (node->tokens[middle] < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Apply the rule at a node. Called by the first warp.
OR_DEVICE int32_t try_children(const node_t *node, residual_t *residual)
{
    const or_cuda_node_t *nodes = node->trial->nodes;
    uint32_t tested = 0;
    for (uint32_t child = nodes[node->number].first_child; child != 0;
         child = nodes[child].next_sibling) {
        uint32_t index = find_in_dist(node, (uint32_t)nodes[child].token);
        if (accepts(residual, node, index, tested)) {
            return nodes[child].token;
        }
        subtract(residual, node);
        take_out(residual, index);
        tested++;
    }
    return draw_rest(residual, node);
}

// Draw the token after a node. Called by all threads.
OR_DEVICE int32_t token_after(const node_t *node, shared_t *shared)
{
    residual_t residual = {};
    bool is_first_warp = own_warp() == 0;
    if (is_first_warp) {
        open_residual(&residual, node, shared);
    }
    or_block_wait();
    touch(node, shared);
    or_block_wait();
    if (is_first_warp) {
        take_touched(&residual, node);
        int32_t token = try_children(node, &residual);
        if (threadIdx.x == 0) {
            shared->token = token;
        }
    }
    or_block_wait();
    return shared->token;
}

OR_DEVICE bool is_stop(const or_cuda_trial_t *trial, int32_t token)
{
    for (uint32_t i = 0; i < trial->stop_count; i++) {
        if (trial->stop_ids[i] == (uint32_t)token) {
            return true;
        }
    }
    return false;
}

// Return the child that carries the token; 0 if the walk ends there. Called by all threads.
OR_DEVICE uint32_t child_after(const or_cuda_trial_t *trial, uint32_t node, int32_t token)
{
    uint32_t child = is_stop(trial, token) ? 0 : trial->nodes[node].first_child;
    while (child != 0 && trial->nodes[child].token != token) {
        child = trial->nodes[child].next_sibling;
    }
    return child;
}

OR_GLOBAL void walk_tree(or_cuda_trial_t trial, const double *bests, uint32_t blocks, double *sums,
                         or_cuda_path_t *path)
{
    OR_SHARED(shared_t, shared, 1);
    uint32_t accepted_count = 0;
    int32_t token = 0;
    uint32_t number = 0;
    bool decided;
    if (threadIdx.x == 0) {
        shared->digest = 0;
    }
    do {
        node_t node = node_at(&trial, number, bests, blocks, sums);
        decided = !isnan(node.q.best);
        token = decided ? token_after(&node, shared) : token;
        number = decided ? child_after(&trial, number, token) : 0;
        if (number != 0 && threadIdx.x == 0) {
            path->accepted[accepted_count] = number;
        }
        accepted_count += number != 0;
    } while (number != 0);
    if (threadIdx.x == 0) {
        path->decided = decided;
        path->stopped = is_stop(&trial, token);
        path->next = token;
        path->accepted_count = accepted_count;
        path->digest = shared->digest;
    }
}

// ---- launches (scratch: bests [rows], sums [rows][blocks]) ----

int or_cuda_reject(or_cuda_t *cuda, const or_cuda_trial_t *trial, void *scratch,
                   or_cuda_path_t *path)
{
    uint32_t blocks = blocks_of(trial->vocab_size);
    double *bests = (double *)scratch;
    double *sums = bests + trial->rows;
    int status = or_launch(cuda, find_bests, dim3(trial->rows), dim3(THREADS), 0, *trial, bests);
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, sum_blocks, dim3(trial->rows, (blocks - 1) / WARPS + 1),
                           dim3(THREADS), 0, *trial, bests, blocks, sums);
    }
    return status != OR_CUDA_OK ? status
                                : or_launch(cuda, walk_tree, dim3(1), dim3(THREADS), 0, *trial,
                                            bests, blocks, sums, path);
}

size_t or_cuda_reject_bytes(uint32_t vocab_size, uint32_t rows)
{
    return rows * (blocks_of(vocab_size) + (size_t)1) * sizeof(double);
}
