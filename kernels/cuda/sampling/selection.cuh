// selection - the best tokens of a row, by one thread block of CUTTERS threads: which is the k-th, and few of them in
// order.
//
// The search is for a place in a list of counts that the threads have, in order. The k-th belongs to the first thread
// whose count, with those before it, reaches k.
#pragma once

#include "kernels/cuda/sampling/contenders.cuh"
#include "kernels/cuda/sampling/sort.cuh"

#define CUTTERS 512u // threads that cut a row
#define AHEAD 16u    // logits that a thread loads at once
#define DIGIT 11u    // bits that are looked at together
#define BINS (1u << DIGIT)
#define ORDER_BITS 32u // of a rank, in its upper half

// The sum of the counts of the threads before this one, and the sum of all.
typedef struct {
    uint32_t before;
    uint32_t all;
} counted_t;

OR_DEVICE counted_t count_threads(uint32_t own)
{
    OR_SHARED(uint32_t, of_threads, CUTTERS);
    counted_t counted = {0, 0};
    of_threads[threadIdx.x] = own;
    or_block_wait();
    for (uint32_t thread = 0; thread < CUTTERS; thread++) {
        counted.before += thread < threadIdx.x ? of_threads[thread] : 0;
        counted.all += of_threads[thread];
    }
    or_block_wait();
    return counted;
}

// The threads' shares of `count` neighbours, in order.
typedef struct {
    uint32_t first;
    uint32_t end;
} share_t;

OR_DEVICE share_t share_of(uint32_t count)
{
    uint32_t each = (count + CUTTERS - 1) / CUTTERS;
    uint32_t first = threadIdx.x * each < count ? threadIdx.x * each : count;
    return {first, count - first < each ? count : first + each};
}

// The state of a search: among the tokens whose order begins with `digits`, the k-th is wanted.
typedef struct {
    uint32_t digits;
    uint32_t k;     // from 1 on
    uint32_t equal; // how many these tokens are
} search_t;

OR_DEVICE uint32_t order_of(uint64_t rank)
{
    return (uint32_t)(rank >> ORDER_BITS);
}

// Go on with the tokens of one bin, counted from the last on.
OR_DEVICE search_t find_bin(const uint32_t *bins, uint32_t count, const search_t *search,
                            uint32_t bits)
{
    OR_SHARED(search_t, found, 1);
    share_t share = share_of(count);
    uint32_t own = 0;
    for (uint32_t i = share.first; i < share.end; i++) {
        own += bins[count - 1 - i];
    }
    uint32_t before = count_threads(own).before;
    for (uint32_t i = share.first; i < share.end; i++) {
        uint32_t bin = count - 1 - i;
        if (before < search->k && search->k <= before + bins[bin]) {
            *found = {search->digits << bits | bin, search->k - before, bins[bin]};
        }
        before += bins[bin];
    }
    or_block_wait();
    return *found;
}

// Call use(rank) for every token in any order, and perhaps for some of rank 0.
template <typename use_t>
OR_DEVICE void visit_tokens(const float *logits, uint32_t vocab_size, use_t use)
{
    for (uint32_t first = threadIdx.x; first < vocab_size; first += AHEAD * CUTTERS) {
        float own[AHEAD]; // all on their way before the first is used
        for (uint32_t k = 0; k < AHEAD; k++) {
            uint32_t id = first + k * CUTTERS;
            own[k] = id < vocab_size ? logits[id] : NAN;
        }
        for (uint32_t k = 0; k < AHEAD; k++) {
            use(rank_of(own[k], first + k * CUTTERS));
        }
    }
}

// Count how often each next digit of `bits` occurs.
OR_DEVICE void count_digits(const float *logits, uint32_t vocab_size, uint32_t digits,
                            uint32_t above, uint32_t bits, uint32_t *bins)
{
    uint32_t shift = ORDER_BITS - above - bits;
    for (uint32_t bin = threadIdx.x; bin < BINS; bin += CUTTERS) {
        bins[bin] = 0;
    }
    or_block_wait();
    visit_tokens(logits, vocab_size, [=](uint64_t rank) {
        uint32_t order = order_of(rank);
        if (above == 0 || order >> (ORDER_BITS - above) == digits) {
            or_atomic_add(&bins[order >> shift & ((1u << bits) - 1)], 1);
        }
    });
    or_block_wait();
}

// Return the rank of the k-th of the tokens with one order.
OR_DEVICE uint64_t find_equal(const float *logits, uint32_t vocab_size, uint32_t order, uint32_t k)
{
    OR_SHARED(uint64_t, found, 1);
    share_t share = share_of(vocab_size);
    uint32_t own = 0;
    for (uint32_t id = share.first; id < share.end; id++) {
        own += order_of(rank_of(logits[id], id)) == order ? 1 : 0;
    }
    uint32_t place = count_threads(own).before;
    for (uint32_t id = share.first; id < share.end; id++) {
        uint64_t rank = rank_of(logits[id], id);
        if (order_of(rank) == order && ++place == k) {
            *found = rank;
        }
    }
    or_block_wait();
    return *found;
}

// The rank of the k-th best token, 1 <= k <= how many are finite: digit by digit of the order, from the top.
OR_DEVICE uint64_t find_rank(const float *logits, uint32_t vocab_size, uint32_t k)
{
    OR_SHARED(uint32_t, bins, BINS);
    search_t search = {0, k, 0};
    for (uint32_t above = 0; above < ORDER_BITS; above += DIGIT) {
        uint32_t bits = ORDER_BITS - above < DIGIT ? ORDER_BITS - above : DIGIT;
        count_digits(logits, vocab_size, search.digits, above, bits, bins);
        search = find_bin(bins, 1u << bits, &search, bits);
    }
    if (search.k == search.equal) {
        return (uint64_t)search.digits << ORDER_BITS;
    }
    return find_equal(logits, vocab_size, search.digits, search.k);
}

// Gather the `count` tokens from `least` on, best first, into ranks[OR_CUDA_CONTENDERS_MAX] in shared memory.
OR_DEVICE void gather_best(const float *logits, uint32_t vocab_size, uint64_t least, uint32_t count,
                           uint64_t *ranks)
{
    OR_SHARED(uint32_t, gathered, 1);
    if (threadIdx.x == 0) {
        *gathered = 0;
    }
    or_block_wait();
    visit_tokens(logits, vocab_size, [=](uint64_t rank) {
        if (rank >= least) {
            ranks[or_atomic_add(gathered, 1)] = rank;
        }
    });
    uint32_t width = width_of_sort(count);
    for (uint32_t i = count + threadIdx.x; i < width; i += CUTTERS) {
        ranks[i] = 0;
    }
    or_block_wait();
    sort_in_block<CUTTERS>(ranks, width, [](uint64_t a, uint64_t b) { return a > b; });
}
