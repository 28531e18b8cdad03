// Listing the best children of rows that were run, and telling the host of these rows.
#include "kernels/cuda/sampling/growth.cuh"
#include "kernels/cuda/sampling/sort.cuh"

#define LISTERS 256u // threads that list a row's children

OR_DEVICE void tell_row(const or_cuda_growth_t *growth, const or_cuda_guess_t *guess,
                        const or_cuda_contender_t *list, uint32_t count, const told_t *told,
                        or_cuda_grown_t *grown)
{
    if (threadIdx.x == 0) {
        uint32_t parent = least_of(guess->parent, OR_CUDA_GROWTH_MAX);
        grown->rows[told->rows] = {guess->token, growth->guesses[parent].slot, guess->slot,
                                   told->contenders, count};
    }
    for (uint32_t i = threadIdx.x; i < count; i += LISTERS) {
        grown->contenders[told->contenders + i] = list[i];
    }
}

// ---- scores and weights ----

typedef struct {
    double score;
    uint32_t at; // in the row's list
} candidate_t;

OR_DEVICE double draw_score(const or_cuda_contest_t *contest, const uint64_t *token_keys,
                            or_cuda_contender_t token)
{
    double score = score_of(contest, token.logit);
    return contest->noisy ? score + inline_gumbel(uniform_of(contest, token_keys[token.id]))
                          : score;
}

// Fill in `candidates` as far as they are sorted; returns the best score.
OR_DEVICE double score_candidates(const or_cuda_contest_t *contest, const uint64_t *token_keys,
                                  const or_cuda_contender_t *list, uint32_t count,
                                  candidate_t *candidates)
{
    double best = -INFINITY;
    for (uint32_t i = threadIdx.x; i < width_of_sort(count); i += LISTERS) {
        double score = i < count ? draw_score(contest, token_keys, list[i]) : -INFINITY;
        candidates[i] = {score, i};
        best = score > best ? score : best;
    }
    return largest_in_block<LISTERS>(best);
}

// The sum of exp((score - best) / tau) within the window, told to each thread of the first warp.
OR_DEVICE double weigh_candidates(const candidate_t *candidates, uint32_t count, double best,
                                  double window, double tau)
{
    OR_SHARED(double, parts, OR_CUDA_CONTENDERS_MAX);
    for (uint32_t i = threadIdx.x; i < count; i += LISTERS) {
        double score = candidates[i].score;
        parts[i] = score >= best - window ? inline_exp((score - best) / tau) : 0;
    }
    or_block_wait();
    double total = 0;
    for (uint32_t i = 0; threadIdx.x < WARP && i < count; i++) { // in order, as on the host
        total += parts[i];
    }
    return total;
}

OR_DEVICE void sort_candidates(candidate_t *candidates, uint32_t count)
{
    or_block_wait();
    sort_in_block<LISTERS>(candidates, width_of_sort(count),
                           [](const candidate_t &a, const candidate_t &b) {
                               return a.score > b.score || (a.score == b.score && a.at < b.at);
                           });
}

// Child `rank` of a row. A weight that is no number makes none.
OR_DEVICE void list_child(const or_cuda_contender_t *list, const uint32_t *widths,
                          const candidate_t *candidate, double weight, uint32_t rank,
                          children_t *children)
{
    bool is_child = weight <= 0 && weight > -INFINITY;
    int32_t id = is_child ? list[candidate->at].id : 0;
    children->weights[rank] = is_child ? weight : -INFINITY;
    children->ids[rank] = id;
    children->widths[rank] = is_child ? widths[id] : 0;
}

OR_GLOBAL void list_children(const or_cuda_growth_t *growth, const uint64_t *token_keys,
                             const uint32_t *widths, const or_cuda_contender_t *list,
                             const uint32_t *counts, children_t *children, or_cuda_grown_t *grown)
{
    OR_SHARED(candidate_t, candidates, OR_CUDA_CONTENDERS_MAX);
    uint32_t row = blockIdx.x;
    if (row >= batch_count_of(growth)) {
        return;
    }
    told_t told = told_with(grown, counts, row);
    uint32_t count = counts[row];
    if (!has_room(&told, count)) {
        return;
    }
    const or_cuda_guess_t *guess = &growth->guesses[batch_place(growth, row)];
    or_cuda_contest_t contest = growth->contest;
    contest.byte_offset = guess->byte_offset;
    contest.zero_width = guess->zero_width;
    list += (size_t)row * OR_CUDA_CONTENDERS_MAX;
    tell_row(growth, guess, list, count, &told, grown);

    double best = score_candidates(&contest, token_keys, list, count, candidates);
    double total = weigh_candidates(candidates, count, best, contest.window, growth->tau);
    sort_candidates(candidates, count);
    if (threadIdx.x < CHILDREN) {
        bool is_there = threadIdx.x < count && threadIdx.x < growth->width;
        double score = is_there ? candidates[threadIdx.x].score : -INFINITY;
        double weight = score >= best - contest.window
                            ? (score - best) / growth->tau - inline_ln(total)
                            : -INFINITY;
        list_child(list, widths, &candidates[threadIdx.x], weight, threadIdx.x, &children[row]);
    }
}

int or_cuda_list_children(or_cuda_t *cuda, const or_cuda_growth_t *growth, uint32_t rows,
                          const uint64_t *token_keys, const uint32_t *widths,
                          const or_cuda_contender_t *list, const uint32_t *counts,
                          children_t *children, or_cuda_grown_t *grown)
{
    return or_launch(cuda, list_children, dim3(rows), dim3(LISTERS), 0, growth, token_keys, widths,
                     list, counts, children, grown);
}
