// Contenders: contests go up, and what comes back are counts and lists.
//
//     results     counts [OR_LOGITS_ROWS]   lists [rows][OR_CUDA_CONTENDERS_MAX]
#include <math.h>
#include <stdlib.h>

#include "common/base/math/math.h"
#include "common/model/cpu/logits.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_draws.h"

_Static_assert(OR_CONTESTS_MAX <= OR_LOGITS_ROWS, "a contest's logits stay on the device");

#define COUNTS_BYTES (OR_LOGITS_ROWS * sizeof(uint32_t))
#define LIST_BYTES (OR_CUDA_CONTENDERS_MAX * sizeof(or_cuda_contender_t))

// ---- memory ----

static or_status_t take_on_device(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_contests_t *contests = &gpu->contests;
    const struct {
        void **at_p;
        size_t bytes;
    } parts[] = {
        {&contests->keys, model->shape.vocab_size * sizeof(uint64_t)},
        {&contests->asked, OR_LOGITS_ROWS * sizeof(or_cuda_contest_t)},
        {&contests->scratch,
         gpu->functions->contenders_bytes(model->shape.vocab_size, OR_LOGITS_ROWS)},
        {&contests->results, COUNTS_BYTES + OR_LOGITS_ROWS * LIST_BYTES},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof parts / sizeof parts[0]; i++) {
        status = or_gpu_alloc_buffer(model, parts[i].bytes, parts[i].at_p);
    }
    if (status == OR_OK) {
        contests->counts = contests->results;
        contests->lists = (void *)((uint8_t *)contests->results + COUNTS_BYTES);
    }
    return status;
}

static or_status_t take_on_host(or_gpu_t *gpu)
{
    or_gpu_contests_t *contests = &gpu->contests;
    size_t entries = (size_t)OR_LOGITS_ROWS * OR_CUDA_CONTENDERS_MAX;
    void *at;
    or_status_t status =
        or_gpu_alloc_pinned(gpu, OR_LOGITS_ROWS * sizeof *contests->asked_host, &at);
    contests->asked_host = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(gpu, COUNTS_BYTES + OR_LOGITS_ROWS * LIST_BYTES, &at);
        contests->results_host = at;
    }
    contests->ids = calloc(entries, sizeof *contests->ids);
    contests->scores = calloc(entries, sizeof *contests->scores);
    if (status == OR_OK && (contests->ids == NULL || contests->scores == NULL)) {
        status =
            or_fail(OR_ERR_NO_MEMORY, "no memory for the contenders of %u rows", OR_LOGITS_ROWS);
    }
    return status;
}

or_status_t or_gpu_contests_create(or_model_t *model)
{
    if (!or_ranks_is_alone(model->ranks)) {
        return OR_OK;
    }
    or_status_t status = take_on_device(model);
    return status != OR_OK ? status : take_on_host(model->gpu);
}

void or_gpu_contests_free(or_gpu_t *gpu)
{
    or_gpu_contests_t *contests = &gpu->contests;
    free(contests->scores);
    free(contests->ids);
    or_gpu_free_pinned(gpu, contests->results_host);
    or_gpu_free_pinned(gpu, contests->asked_host);
    or_gpu_give(gpu, contests->results);
    or_gpu_give(gpu, contests->scratch);
    or_gpu_give(gpu, contests->asked);
    or_gpu_give(gpu, contests->keys);
}

// ---- a contest ----

or_cuda_contest_t or_gpu_contest_of(const or_contest_t *contest)
{
    const or_sampling_t *sampling = contest->sampling;
    return (or_cuda_contest_t){.key = contest->key.value,
                               .byte_offset = contest->place.byte_offset,
                               .zero_width = contest->place.zero_width,
                               .noisy = contest->noisy,
                               .temperature = sampling->temperature,
                               .top_k = sampling->top_k,
                               .top_p = sampling->top_p,
                               .log_min_p =
                                   sampling->min_p > 0 ? or_ln((double)sampling->min_p) : -INFINITY,
                               .window = contest->window};
}

void or_gpu_find_contenders(or_model_t *model, const or_cuda_contest_t *contests, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_contests_t *own = &gpu->contests;
    or_gpu_keep(gpu, gpu->functions->contenders(gpu->cuda, gpu->logits, model->vocab_stride,
                                                own->vocab_size, own->keys, contests, rows,
                                                own->scratch, own->lists, own->counts));
}

static or_status_t ask(or_model_t *model, const or_contest_t *contests, uint32_t count)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_functions_t *f = gpu->functions;
    or_gpu_contests_t *own = &gpu->contests;
    for (uint32_t i = 0; i < count; i++) {
        own->asked_host[i] = or_gpu_contest_of(&contests[i]);
    }
    or_gpu_keep(gpu,
                f->upload(gpu->cuda, own->asked, own->asked_host, count * sizeof *own->asked_host));
    or_gpu_find_contenders(model, own->asked, count);
    or_gpu_keep(gpu, f->download(gpu->cuda, own->results_host, own->results,
                                 COUNTS_BYTES + count * LIST_BYTES));
    or_gpu_keep(gpu, f->wait(gpu->cuda));
    return or_gpu_check(gpu);
}

// ---- its answer as a distribution ----

// Does or_sampler_distribution have the best token first? Else ids ascend, as they do in the list. (They do as well where so many
// logits are no numbers that top-k keeps all others; then only the rounding of a drafter's sums is another.)
static bool is_ranked(const or_sampling_t *sampling, uint32_t vocab_size)
{
    return (sampling->top_k > 0 && sampling->top_k < vocab_size) || sampling->top_p < 1;
}

static int best_first(const void *a, const void *b)
{
    const or_cuda_contender_t *x = a;
    const or_cuda_contender_t *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

or_distribution_t or_gpu_distribution_of(const or_gpu_t *gpu, const or_sampling_t *sampling,
                                         or_cuda_contender_t *list, uint32_t count, int32_t *ids,
                                         double *scores)
{
    if (is_ranked(sampling, gpu->contests.vocab_size)) {
        qsort(list, count, sizeof *list, best_first);
    }
    double temperature = (double)sampling->temperature;
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = list[i].id;
        scores[i] = temperature > 0 ? (double)list[i].logit / temperature : 0;
    }
    return (or_distribution_t){.ids = ids, .scores = scores, .count = count};
}

static or_distribution_t dist_of_row(const or_gpu_t *gpu, uint32_t row,
                                     const or_sampling_t *sampling)
{
    const or_gpu_contests_t *contests = &gpu->contests;
    uint32_t count = ((const uint32_t *)contests->results_host)[row];
    if (count > OR_CUDA_CONTENDERS_MAX) {
        return (or_distribution_t){.count = 0};
    }
    size_t place = (size_t)row * OR_CUDA_CONTENDERS_MAX;
    or_cuda_contender_t *lists = (or_cuda_contender_t *)(contests->results_host + COUNTS_BYTES);
    return or_gpu_distribution_of(gpu, sampling, lists + place, count, contests->ids + place,
                                  contests->scores + place);
}

// ---- for callers (model_draws.h) ----

bool or_model_has_contenders(const or_model_t *model)
{
    return model->gpu != NULL && model->gpu->contests.vocab_size > 0;
}

or_status_t or_model_set_noise_keys(or_model_t *model, const uint64_t *keys, uint32_t count)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu == NULL || !or_ranks_is_alone(model->ranks)) {
        return OR_OK;
    }
    uint32_t vocab_size = count < model->shape.vocab_size ? count : model->shape.vocab_size;
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->contests.keys, keys,
                                            vocab_size * sizeof *keys)); // waits
    gpu->contests.vocab_size = vocab_size;
    return or_gpu_check(gpu);
}

or_status_t or_model_contenders(or_model_t *model, uint32_t first, uint32_t count,
                                const or_contest_t *contests, or_distribution_t *dists)
{
    or_status_t status = or_logits_check(model, first, count);
    if (status == OR_OK && count > OR_CONTESTS_MAX) {
        status = or_fail(OR_ERR_INVALID, "contenders of %u rows at once: at most %u", count,
                         OR_CONTESTS_MAX);
    }
    if (status != OR_OK) {
        return status;
    }
    or_gpu_multiply_head(model, first, count);
    status = ask(model, contests, count);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        dists[i] = dist_of_row(model->gpu, i, contests[i].sampling);
    }
    return status;
}

uint64_t or_model_whole_rows(const or_model_t *model)
{
    return model->gpu != NULL ? model->gpu->whole_rows : 0;
}
