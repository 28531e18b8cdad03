// attention - what the three steps of attention on a GPU share.
//
//     scores   attention_scores.cu    lanes are positions     a page's K meets up to 16 queries at once
//     softmax  attention.cu           a block for a query     a warp for a part, whose sum is 16 chains
//     values   attention_values.cu    lanes are dimensions    V is staged for the queries of eight warps
//     parts    attention_values.cu    where blocks took a part of the values each: adds up their sums
//
// A *query* is one head of one row. What one step leaves to the next lies in the scores of each, by position.
// Rows of one sequence that follow each other see the same pages. One block takes a *run* of such rows, with
// one KV head and the query heads that share it. What else a row sees, the slots of its ancestors, is its
// own. Which rows are met together changes no bit.
#pragma once

#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/rows.cuh"

#define WARP 32u // lanes; also positions in a page

typedef struct {
    or_cuda_kv_t kv;
    uint32_t layer;
    const or_cuda_seen_t *seen;
    uint32_t rows;
    or_cuda_heads_t heads;
    or_cuda_attention_t how;
    float *scores;
    size_t scores_stride;
    float *sums; // [rows][heads.count][parts][head_dim] of each part, for blocks that take one each
    uint32_t parts;
} attention_t;

// The query head at a place of a KV head's group, and whether it is there.
OR_DEVICE uint32_t head_of(const attention_t *a, uint32_t kv_head, uint32_t place)
{
    return kv_head * a->heads.group + place - a->heads.first;
}

OR_DEVICE bool has_head(const attention_t *a, uint32_t kv_head, uint32_t place)
{
    return head_of(a, kv_head, place) <
           a->heads.count; // one before the first is far behind the last
}

// Return the scores of query head `head` in row `row`.
OR_DEVICE float *scores_of(const attention_t *a, uint32_t row, uint32_t head)
{
    return a->scores + ((size_t)row * a->heads.count + head) * a->scores_stride;
}

// Return the sums of a part of it.
OR_DEVICE float *sums_of(const attention_t *a, uint32_t row, uint32_t head, uint32_t part)
{
    size_t query = (size_t)row * a->heads.count + head;
    return a->sums + (query * a->parts + part) * a->kv.head_dim;
}

// Return how many positions a row sees.
OR_DEVICE uint32_t seen_by(const attention_t *a, uint32_t row)
{
    return a->seen[row].committed + a->seen[row].chain_count;
}

// Return the first position that a row attends to.
OR_DEVICE uint32_t first_seen_by(const attention_t *a, uint32_t row)
{
    uint32_t window = a->how.window;
    uint32_t seen = window > 0 ? seen_by(a, row) : 0;
    return seen > window ? seen - window : 0;
}

typedef struct {
    const float *values;
    size_t stride;
} query_t;

// The first step and the last, as or_cuda_attention is told; neither rows nor heads are none.
int or_cuda_attention_scores(or_cuda_t *cuda, const attention_t *a, const query_t *query);
int or_cuda_attention_values(or_cuda_t *cuda, const attention_t *a, const or_cuda_rows_t *to);

// ---- runs ----

typedef struct {
    uint32_t first;
    uint32_t rows;         // 0: the block of a row before takes this one, too
    uint32_t committed;    // the most that one of the rows sees of the pages
    uint32_t first_seen;   // the first position that one of the rows attends to
    const uint32_t *pages; // or frames
} run_t;

// The numbers of a row's pages, or frames.
OR_DEVICE const uint32_t *pages_of_row(const attention_t *a, uint32_t row)
{
    return pages_of(&a->kv, &a->seen[row].table);
}

// The rows from `first` on that see the same pages; it begins anew at each multiple of rows_max, which is less
// than a warp. Each lane looks at one row.
OR_DEVICE run_t find_run(const attention_t *a, uint32_t first, uint32_t rows_max)
{
    run_t run = {first, 0, 0, 0, pages_of_row(a, first)};
    if (first % rows_max != 0 && pages_of_row(a, first - 1) == run.pages) {
        return run;
    }
    uint32_t lane = threadIdx.x % WARP;
    uint32_t row = first + lane;
    bool belongs =
        lane < rows_max - first % rows_max && row < a->rows && pages_of_row(a, row) == run.pages;
    run.rows = least_in_warp(belongs ? WARP : lane);
    run.committed = largest_in_warp(lane < run.rows ? a->seen[row].committed : 0);
    if (a->how.window > 0) {
        run.first_seen = least_in_warp(lane < run.rows ? first_seen_by(a, row) : UINT32_MAX);
    }
    return run;
}
