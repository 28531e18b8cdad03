// Find the tokens that may be drawn: all that are near the best score. Noise and its bits are those of
// common/decode/sampling/noise.c, and few logarithms are taken, as there: the exponent of 1 - U tells a Gumbel
// variate within 1.4.
#include "kernels/cuda/sampling/contenders.cuh"

#define LISTERS 256u // threads that list a row
#define WINDOW_SLACK                                                                               \
    1e-9 // a score that is rounded apart from the best one's is listed all the same

// ---- scores ----

typedef struct {
    or_cuda_contest_t contest;
    cut_t cut;
    const float *logits;
    const uint64_t *token_keys;
    uint32_t vocab_size;
} row_t;

OR_DEVICE row_t row_of(const contenders_t *job, uint32_t row)
{
    return {job->contests[row], job->cuts[row], job->logits + row * job->stride, job->token_keys,
            job->vocab_size};
}

// The score of a token without noise; -INFINITY of one that is not kept.
OR_DEVICE double kept_score(const row_t *row, uint32_t id)
{
    if (id >= row->vocab_size || rank_of(row->logits[id], id) < row->cut.least) {
        return -INFINITY;
    }
    double score = score_of(&row->contest, row->logits[id]);
    return score >= row->cut.floor ? score : -INFINITY;
}

OR_DEVICE double draw_uniform(const row_t *row, uint32_t id)
{
    if (!row->contest.noisy || id >= row->vocab_size) {
        return 0.5;
    }
    return uniform_of(&row->contest, row->token_keys[id]);
}

// No more than the score with noise, without a logarithm.
OR_DEVICE double least_perturbed(const row_t *row, double score, double uniform)
{
    return row->contest.noisy ? score + inline_gumbel_below(uniform) : score;
}

// The score with noise, or -INFINITY if that is below `floor`.
OR_DEVICE double perturb(const row_t *row, double score, double uniform, double floor)
{
    if (row->contest.noisy) {
        bool may_reach = score + inline_gumbel_above(uniform) >= floor;
        score = may_reach ? score + inline_gumbel(uniform) : -INFINITY;
    }
    return score >= floor ? score : -INFINITY;
}

// ---- the best ----

OR_GLOBAL void score_parts(contenders_t job)
{
    row_t row = row_of(&job, blockIdx.x);
    uint32_t first = blockIdx.y * PART + threadIdx.x;
    double scores[OWN];
    double uniforms[OWN];
    double floor = -INFINITY;
    for (uint32_t k = 0; k < OWN; k++) {
        scores[k] = kept_score(&row, first + k * THREADS);
        uniforms[k] = draw_uniform(&row, first + k * THREADS);
        double least = least_perturbed(&row, scores[k], uniforms[k]);
        floor = least > floor ? least : floor;
    }
    floor = largest_in_block<THREADS>(floor);
    double best = -INFINITY;
    for (uint32_t k = 0; k < OWN; k++) {
        double score = perturb(&row, scores[k], uniforms[k], floor);
        best = score > best ? score : best;
    }
    best = largest_in_block<THREADS>(best);
    if (threadIdx.x == 0) {
        job.bests[(size_t)blockIdx.x * job.parts + blockIdx.y] = best;
    }
}

// ---- those near it ----

OR_GLOBAL void mark_parts(contenders_t job)
{
    OR_SHARED(uint32_t, marks, PART / 32);
    row_t row = row_of(&job, blockIdx.x);
    double best = largest_of_parts<THREADS>(&job, job.bests, blockIdx.x, -(double)INFINITY);
    double floor = best - row.contest.window - WINDOW_SLACK;
    if (threadIdx.x < PART / 32) {
        marks[threadIdx.x] = 0;
    }
    or_block_wait();
    for (uint32_t i = threadIdx.x; i < PART; i += THREADS) {
        uint32_t id = blockIdx.y * PART + i;
        double score = kept_score(&row, id);
        if (score > -INFINITY && perturb(&row, score, draw_uniform(&row, id), floor) > -INFINITY) {
            or_atomic_add(&marks[i / 32], 1u << i % 32);
        }
    }
    or_block_wait();
    if (threadIdx.x < PART / 32) {
        size_t part = (size_t)blockIdx.x * job.parts + blockIdx.y;
        job.marks[part * (PART / 32) + threadIdx.x] = marks[threadIdx.x];
    }
}

OR_DEVICE uint32_t count_marks(const uint32_t *marks, uint32_t words)
{
    uint32_t count = 0;
    for (uint32_t word = 0; word < words; word++) {
        for (uint32_t left = marks[word]; left != 0; left &= left - 1) {
            count++;
        }
    }
    return count;
}

// Marks of tokens from `id` on, into `to`.
OR_DEVICE void list_marks(const uint32_t *marks, uint32_t words, uint32_t id, const float *logits,
                          or_cuda_contender_t *to)
{
    for (uint32_t word = 0; word < words; word++, id += 32) {
        for (uint32_t bit = 0; marks[word] != 0 && bit < 32; bit++) {
            if (marks[word] >> bit & 1) {
                *to++ = {(int32_t)(id + bit), logits[id + bit]};
            }
        }
    }
}

// A thread lists a run of a row's words behind what those before it do.
OR_GLOBAL void list_rows(contenders_t job, or_cuda_contender_t *list, uint32_t *counts)
{
    OR_SHARED(uint32_t, of_threads, LISTERS);
    uint32_t row = blockIdx.x;
    uint32_t words = job.parts * (PART / 32);
    uint32_t run = (words - 1) / LISTERS + 1;
    uint32_t first = threadIdx.x * run < words ? threadIdx.x * run : words;
    uint32_t own = words - first < run ? words - first : run;
    const uint32_t *marks = job.marks + (size_t)row * words + first;

    of_threads[threadIdx.x] = count_marks(marks, own);
    or_block_wait();
    uint32_t before = 0;
    uint32_t count = 0;
    for (uint32_t thread = 0; thread < LISTERS; thread++) {
        before += thread < threadIdx.x ? of_threads[thread] : 0;
        count += of_threads[thread];
    }
    bool many = count == 0 || count > OR_CUDA_CONTENDERS_MAX || job.cuts[row].unknown != 0;
    if (!many) {
        list_marks(marks, own, first * 32, job.logits + row * job.stride,
                   list + (size_t)row * OR_CUDA_CONTENDERS_MAX + before);
    }
    if (threadIdx.x == 0) {
        counts[row] = many ? OR_CUDA_CONTENDERS_MANY : count;
    }
}

// ---- all of it ----

static uint32_t parts_of(uint32_t vocab_size)
{
    return (vocab_size - 1) / PART + 1;
}

// The next `count` elements of the scratch memory, which begins at a multiple of 8 bytes.
template <typename T> static T *take(uintptr_t *scratch, size_t count)
{
    T *taken = (T *)*scratch;
    *scratch += (count * sizeof(T) + 7) / 8 * 8;
    return taken;
}

// Returns where the scratch memory ends.
static uintptr_t lay_out(contenders_t *job, uintptr_t scratch)
{
    size_t parts = (size_t)job->rows * job->parts;
    job->leaders = take<uint64_t>(&scratch, parts);
    job->finite = take<uint32_t>(&scratch, parts);
    job->masses = take<double>(&scratch, parts * MASSES);
    job->cuts = take<cut_t>(&scratch, job->rows);
    job->bests = take<double>(&scratch, parts);
    job->marks = take<uint32_t>(&scratch, parts * (PART / 32));
    return scratch;
}

size_t or_cuda_contenders_bytes(uint32_t vocab_size, uint32_t rows)
{
    contenders_t job = {};
    job.rows = rows;
    job.parts = vocab_size > 0 ? parts_of(vocab_size) : 0;
    return lay_out(&job, 0);
}

int or_cuda_contenders(or_cuda_t *cuda, const float *logits, size_t stride, uint32_t vocab_size,
                       const uint64_t *token_keys, const or_cuda_contest_t *contests, uint32_t rows,
                       void *scratch, or_cuda_contender_t *list, uint32_t *counts)
{
    if (rows == 0 || vocab_size == 0) {
        return OR_CUDA_OK;
    }
    contenders_t job = {};
    job.logits = logits;
    job.stride = stride;
    job.vocab_size = vocab_size;
    job.rows = rows;
    job.parts = parts_of(vocab_size);
    job.token_keys = token_keys;
    job.contests = contests;
    lay_out(&job, (uintptr_t)scratch);

    dim3 parts(rows, job.parts);
    int status = or_cuda_cut(cuda, &job);
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, score_parts, parts, dim3(THREADS), 0, job);
    }
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, mark_parts, parts, dim3(THREADS), 0, job);
    }
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, list_rows, dim3(rows), dim3(LISTERS), 0, job, list, counts);
    }
    return status;
}
