// The filters of common/decode/sampling/sampler.c, as the cut of each row: top-k, top-p, min-p, and the one token of temperature
// 0. Weights, their sums and the order in which they are added are the sampler's; what would take more than
// OR_CUDA_CONTENDERS_MAX tokens in order, or sums over a row with gaps, is left to it.
#include "kernels/cuda/sampling/selection.cuh"

#include "common/base/math/math_inline.h"

OR_DEVICE bool is_greedy(const or_cuda_contest_t *contest)
{
    return contest->temperature == 0.0f;
}

OR_DEVICE bool has_top_p(const or_cuda_contest_t *contest)
{
    return contest->top_p < 1.0f && !is_greedy(contest);
}

OR_DEVICE bool is_filtered(const or_cuda_contest_t *contest)
{
    return is_greedy(contest) || contest->top_k > 0 || has_top_p(contest) ||
           contest->log_min_p > -INFINITY;
}

// Is top-p a part of the whole row's mass?
OR_DEVICE bool is_weighed(const or_cuda_contest_t *contest, uint32_t tokens)
{
    return has_top_p(contest) && (contest->top_k == 0 || contest->top_k >= tokens);
}

// ---- parts ----

OR_GLOBAL void survey_parts(contenders_t job)
{
    OR_SHARED(uint32_t, finite, 1);
    if (!is_filtered(&job.contests[blockIdx.x])) {
        return;
    }
    if (threadIdx.x == 0) {
        *finite = 0;
    }
    or_block_wait();
    const float *logits = job.logits + blockIdx.x * job.stride;
    uint64_t leader = 0;
    uint32_t own = 0;
    for (uint32_t k = 0; k < OWN; k++) {
        uint32_t id = blockIdx.y * PART + k * THREADS + threadIdx.x;
        uint64_t rank = id < job.vocab_size ? rank_of(logits[id], id) : 0;
        leader = rank > leader ? rank : leader;
        own += rank > 0 ? 1 : 0;
    }
    or_atomic_add(finite, own);
    leader = largest_in_block<THREADS>(leader);
    if (threadIdx.x == 0) {
        size_t part = (size_t)blockIdx.x * job.parts + blockIdx.y;
        job.leaders[part] = leader;
        job.finite[part] = *finite;
    }
}

// Weigh the parts of each row. The masses of a row with gaps are not used.
OR_GLOBAL void weigh_parts(contenders_t job)
{
    OR_SHARED(double, weights, PART);
    uint32_t row = blockIdx.x;
    const or_cuda_contest_t contest = job.contests[row];
    if (!is_weighed(&contest, job.vocab_size)) {
        return;
    }
    const float *logits = job.logits + row * job.stride;
    uint64_t leader = largest_of_parts<THREADS>(&job, job.leaders, row, (uint64_t)0);
    double best = score_of(&contest, logit_of(leader));
    for (uint32_t i = threadIdx.x; i < PART; i += THREADS) {
        uint32_t id = blockIdx.y * PART + i;
        weights[i] = id < job.vocab_size ? inline_exp(score_of(&contest, logits[id]) - best) : 0;
    }
    or_block_wait();
    if (threadIdx.x < MASSES) {
        uint32_t block = blockIdx.y * MASSES + threadIdx.x;
        job.masses[(size_t)row * job.parts * MASSES + block] =
            or_sum(weights + threadIdx.x * OR_SUM_BLOCK, or_sum_block_size(job.vocab_size, block));
    }
}

// ---- rows ----

typedef struct {
    or_cuda_contest_t contest;
    const float *logits;
    uint32_t vocab_size;
    const double *masses;
    uint64_t leader;
    uint32_t finite;
} mass_row_t;

OR_DEVICE mass_row_t read_row(const contenders_t *job, uint32_t row)
{
    uint32_t finite = 0;
    for (uint32_t part = 0; part < job->parts; part++) {
        finite += job->finite[(size_t)row * job->parts + part];
    }
    return {job->contests[row],
            job->logits + row * job->stride,
            job->vocab_size,
            job->masses + (size_t)row * job->parts * MASSES,
            largest_of_parts<CUTTERS>(job, job->leaders, row, (uint64_t)0),
            finite};
}

// Return or_sum_of_blocks of the row's weights, in the first thread only.
OR_DEVICE double sum_of_row(const mass_row_t *row)
{
    OR_SHARED(double, stage, CUTTERS);
    double sum = 0;
    uint32_t blocks = (row->vocab_size - 1) / OR_SUM_BLOCK + 1;
    for (uint32_t first = 0; first < blocks; first += CUTTERS) {
        uint32_t count = blocks - first < CUTTERS ? blocks - first : CUTTERS;
        if (threadIdx.x < count) {
            stage[threadIdx.x] = row->masses[first + threadIdx.x];
        }
        or_block_wait();
        for (uint32_t i = 0; threadIdx.x == 0 && i < count; i++) {
            sum += stage[i];
        }
        or_block_wait();
    }
    return sum;
}

// Return how many of the best `count` have the wanted mass. More than count means that not even these have it, and
// they are not `all`.
OR_DEVICE uint32_t count_mass(const double *weights, uint32_t count, uint32_t all, double wanted)
{
    double mass = weights[0];
    uint32_t kept = 1;
    while (kept < count && mass < wanted) {
        mass += weights[kept++];
    }
    return mass < wanted && kept < all ? count + 1 : kept;
}

// The cut of top-p among the best `count` tokens, those from `least` on, which with `ranked` are all; 0 where it is
// behind them.
OR_DEVICE uint64_t find_mass(const mass_row_t *row, uint64_t least, uint32_t count, bool ranked)
{
    OR_SHARED(uint64_t, ranks, OR_CUDA_CONTENDERS_MAX);
    OR_SHARED(double, weights, OR_CUDA_CONTENDERS_MAX);
    OR_SHARED(uint32_t, kept, 1);
    gather_best(row->logits, row->vocab_size, least, count, ranks);
    double best = score_of(&row->contest, logit_of(row->leader));
    for (uint32_t i = threadIdx.x; i < count; i += CUTTERS) {
        weights[i] = inline_exp(score_of(&row->contest, logit_of(ranks[i])) - best);
    }
    or_block_wait();
    double total = ranked ? 0 : sum_of_row(row);
    if (threadIdx.x == 0) {
        total = ranked ? or_sum_of_blocks(weights, count) : total;
        *kept = count_mass(weights, count, ranked ? count : row->finite,
                           (double)row->contest.top_p * total);
    }
    or_block_wait();
    return *kept <= count ? ranks[*kept - 1] : 0;
}

// Top-k, then top-p, then min-p; some token is finite.
OR_DEVICE cut_t cut_row(const mass_row_t *row)
{
    const or_cuda_contest_t *contest = &row->contest;
    double floor = score_of(contest, logit_of(row->leader)) + contest->log_min_p;
    bool ranked = contest->top_k > 0 && contest->top_k < row->finite;
    uint32_t most = row->finite < OR_CUDA_CONTENDERS_MAX ? row->finite : OR_CUDA_CONTENDERS_MAX;
    uint32_t k = ranked ? contest->top_k : has_top_p(contest) ? most : 0;
    bool gaps = !ranked && row->finite < row->vocab_size;
    if (has_top_p(contest) && (k > most || gaps)) {
        return {1, floor, 1};
    }
    uint64_t least = k > 0 ? find_rank(row->logits, row->vocab_size, k) : 1;
    if (has_top_p(contest)) {
        least = find_mass(row, least, k, ranked);
    }
    return {least, floor, least == 0 ? 1u : 0u};
}

OR_GLOBAL void cut_rows(contenders_t job)
{
    cut_t cut = {1, -INFINITY, 0};
    if (is_filtered(&job.contests[blockIdx.x])) {
        mass_row_t row = read_row(&job, blockIdx.x);
        if (row.finite > 0) {
            cut = is_greedy(&row.contest) ? cut_t{row.leader, -INFINITY, 0} : cut_row(&row);
        }
    }
    if (threadIdx.x == 0) {
        job.cuts[blockIdx.x] = cut;
    }
}

int or_cuda_cut(or_cuda_t *cuda, const contenders_t *job)
{
    dim3 parts(job->rows, job->parts);
    int status = or_launch(cuda, survey_parts, parts, dim3(THREADS), 0, *job);
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, weigh_parts, parts, dim3(THREADS), 0, *job);
    }
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, cut_rows, dim3(job->rows), dim3(CUTTERS), 0, *job);
    }
    return status;
}
