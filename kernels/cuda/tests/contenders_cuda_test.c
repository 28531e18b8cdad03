// Goal: the contenders of a row are those that the CPU's distribution and noise say, so that a draw among them is the draw.
// Method: rows of logits of every kind (flat, peaked, ties, none finite), with every setting alone and together. What is
// listed is compared with or_sampler_distribution and or_noise_gumbel token by token, and or_noise_argmax over it
// with that over the whole distribution. Rows that are left to the host must be those that have to be.
#include "kernels/cuda/tests/cuda_test_support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/math.h"
#include "common/decode/sampling/noise.h"
#include "common/decode/sampling/sampler.h"
#include "kernels/cuda/cuda_kernels.h"

#define SLACK 1e-8 // how far behind the window a token may be listed
#define ROWS 8u    // at a time

// ---- rows ----

typedef enum {
    FLAT,
    NARROW,
    WIDE,
    PEAKED,
    TIES,
    ZEROS,
    BROKEN,
    MASKED,
    INFINITE,
    NONE,
    LOGIT_KINDS
} logit_kind_t;

static float draw_logit(uint64_t *random, logit_kind_t kind)
{
    static const float broken[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f};
    float uniform = (float)test_uniform(random);
    switch (kind) {
    case FLAT:
        return 1.5f;
    case NARROW:
        return uniform;
    case WIDE:
        return 40 * uniform - 20;
    case PEAKED:
        return test_below(random, 50) == 0 ? 10 + 10 * uniform : 8 * uniform - 12;
    case TIES:
        return (float)test_below(random, 4) - 2;
    case ZEROS:
        return test_below(random, 2) == 0 ? 0.0f : -0.0f;
    case BROKEN:
        return test_below(random, 9) > 0 ? 5 * uniform : broken[test_below(random, 6)];
    case MASKED:
        return test_below(random, 4) > 0 ? -INFINITY : 5 * uniform;
    case INFINITE:
        return INFINITY;
    default:
        return test_below(random, 2) == 0 ? -INFINITY : NAN;
    }
}

typedef struct {
    uint32_t vocab_size;
    size_t stride;
    float *logits; // [ROWS][stride]
    uint64_t *token_keys;
    or_sampling_t sampling[ROWS];
    or_cuda_contest_t contests[ROWS];
    or_sampler_t *sampler;
    double *noisy;             // [vocab_size] scores of a row's distribution, with noise
    or_cuda_contender_t *list; // [ROWS][OR_CUDA_CONTENDERS_MAX], what the device says
    uint32_t counts[ROWS];
} batch_t;

static void *allocate(size_t count, size_t bytes)
{
    void *at = calloc(count, bytes);
    assert_non_null(at);
    return at;
}

static batch_t *batch_create(uint64_t *random, uint32_t vocab_size)
{
    batch_t *batch = allocate(1, sizeof *batch);
    batch->vocab_size = vocab_size;
    batch->stride = vocab_size + test_below(random, 20);
    batch->logits = allocate(ROWS * batch->stride, sizeof *batch->logits);
    batch->token_keys = allocate(vocab_size, sizeof *batch->token_keys);
    batch->noisy = allocate(vocab_size, sizeof *batch->noisy);
    batch->list = allocate((size_t)ROWS * OR_CUDA_CONTENDERS_MAX, sizeof *batch->list);
    assert_int_equal(or_sampler_create(vocab_size, &batch->sampler), OR_OK);
    for (uint32_t id = 0; id < vocab_size; id++) {
        batch->token_keys[id] = test_random(random);
    }
    return batch;
}

static void batch_destroy(batch_t *batch)
{
    or_sampler_destroy(&batch->sampler);
    free(batch->logits);
    free(batch->token_keys);
    free(batch->noisy);
    free(batch->list);
    free(batch);
}

// One time in `rarity` something else than `common`.
static float sometimes(uint64_t *random, uint32_t rarity, float common, float rare)
{
    return test_below(random, rarity) == 0 ? rare : common;
}

static void draw_row(uint64_t *random, batch_t *batch, uint32_t row, logit_kind_t kind)
{
    static const float temperatures[] = {0.0f, 0.05f, 0.3f, 0.8f, 1.0f, 1.0f, 1.7f, 50.0f};
    static const double windows[] = {0, 0, 0, 1e-12, 0.1, 2, 6, 20, 1e9};
    for (uint32_t id = 0; id < batch->vocab_size; id++) {
        batch->logits[row * batch->stride + id] = draw_logit(random, kind);
    }
    or_sampling_t *sampling = &batch->sampling[row];
    *sampling = or_sampling_default();
    sampling->temperature = temperatures[test_below(random, 8)];
    batch->contests[row] = (or_cuda_contest_t){.key = test_random(random),
                                               .byte_offset = (uint32_t)test_below(random, 1000),
                                               .zero_width = (uint32_t)test_below(random, 3),
                                               .noisy = test_below(random, 5) > 0,
                                               .window = windows[test_below(random, 9)]};
}

static void draw_filters(uint64_t *random, or_sampling_t *sampling)
{
    static const uint32_t top_k[] = {1, 2, 40, 1000, 1024, 1025, 5000, 100000};
    sampling->top_k = test_below(random, 2) == 0 ? top_k[test_below(random, 8)] : 0;
    // Sixteenths, where masses of ties are met exactly.
    float sixteenths = (float)test_below(random, 17) / 16;
    sampling->top_p =
        sometimes(random, 2, 1, sometimes(random, 2, sixteenths, (float)test_uniform(random)));
    sampling->min_p = sometimes(random, 3, 0, 0.3f * (float)test_uniform(random));
}

static void ask_device(batch_t *batch)
{
    size_t bytes = ROWS * batch->stride * sizeof(float);
    for (uint32_t row = 0; row < ROWS; row++) {
        const or_sampling_t *sampling = &batch->sampling[row];
        or_cuda_contest_t *contest = &batch->contests[row];
        contest->temperature = sampling->temperature;
        contest->top_k = sampling->top_k;
        contest->top_p = sampling->top_p;
        contest->log_min_p = sampling->min_p > 0 ? or_ln((double)sampling->min_p) : -INFINITY;
    }
    void *logits = cuda_test_upload(test_device, batch->logits, bytes);
    void *keys = cuda_test_upload(test_device, batch->token_keys,
                                  batch->vocab_size * sizeof *batch->token_keys);
    void *contests = cuda_test_upload(test_device, batch->contests, sizeof batch->contests);
    void *scratch =
        cuda_test_upload(test_device, NULL, or_cuda_contenders_bytes(batch->vocab_size, ROWS));
    size_t list_bytes = (size_t)ROWS * OR_CUDA_CONTENDERS_MAX * sizeof *batch->list;
    void *list = cuda_test_upload(test_device, NULL, list_bytes);
    void *counts = cuda_test_upload(test_device, NULL, sizeof batch->counts);
    cuda_test_ok(or_cuda_contenders(test_device, logits, batch->stride, batch->vocab_size, keys,
                                    contests, ROWS, scratch, list, counts));
    cuda_test_download(test_device, batch->list, list, list_bytes);
    cuda_test_download(test_device, batch->counts, counts, sizeof batch->counts);
    void *all[] = {logits, keys, contests, scratch, list, counts};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        or_cuda_free(test_device, all[i]);
    }
}

// ---- what the CPU says ----

static or_noise_place_t place_of(const or_cuda_contest_t *contest)
{
    return (or_noise_place_t){contest->byte_offset, contest->zero_width};
}

// Fill in `noisy` by id, -INFINITY for what the distribution has not; returns the best.
static double score_dist(const batch_t *batch, const or_cuda_contest_t *contest,
                         const or_distribution_t *dist)
{
    double best = -INFINITY;
    for (uint32_t id = 0; id < batch->vocab_size; id++) {
        batch->noisy[id] = -INFINITY;
    }
    for (uint32_t i = 0; i < dist->count; i++) {
        uint64_t token_key = batch->token_keys[dist->ids[i]];
        double noise = contest->noisy ? or_noise_gumbel((or_rng_key_t){contest->key},
                                                        place_of(contest), token_key)
                                      : 0;
        batch->noisy[dist->ids[i]] = dist->scores[i] + noise;
        best = fmax(best, dist->scores[i] + noise);
    }
    return best;
}

static uint32_t count_finite(const batch_t *batch, uint32_t row)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < batch->vocab_size; id++) {
        count += isfinite(batch->logits[row * batch->stride + id]) ? 1 : 0;
    }
    return count;
}

// Is it for the host to say what the filters keep?
static bool is_undecided(const batch_t *batch, uint32_t row)
{
    or_sampling_t sampling = batch->sampling[row];
    uint32_t finite = count_finite(batch, row);
    if (finite == 0 || sampling.temperature == 0 || sampling.top_p >= 1) {
        return finite == 0;
    }
    if (sampling.top_k > 0 && sampling.top_k < finite) {
        return sampling.top_k > OR_CUDA_CONTENDERS_MAX;
    }
    sampling.min_p = 0;
    or_distribution_t dist = or_sampler_distribution(batch->sampler, &sampling,
                                                     batch->logits + row * batch->stride, NULL, 0);
    return finite < batch->vocab_size || dist.count > OR_CUDA_CONTENDERS_MAX;
}

static void assert_draw(const batch_t *batch, uint32_t row, const or_distribution_t *dist)
{
    const or_cuda_contest_t *contest = &batch->contests[row];
    static int32_t ids[OR_CUDA_CONTENDERS_MAX];
    static double scores[OR_CUDA_CONTENDERS_MAX];
    for (uint32_t i = 0; i < batch->counts[row]; i++) {
        or_cuda_contender_t token = batch->list[(size_t)row * OR_CUDA_CONTENDERS_MAX + i];
        ids[i] = token.id;
        scores[i] = (double)token.logit / (double)contest->temperature;
    }
    or_rng_key_t key = {contest->key};
    int32_t expected = or_noise_argmax(key, place_of(contest), dist->ids, dist->scores, dist->count,
                                       batch->token_keys);
    assert_int_equal(
        or_noise_argmax(key, place_of(contest), ids, scores, batch->counts[row], batch->token_keys),
        expected);
}

// Everything that is listed is within the window, and all that is within is listed.
static void assert_listed(const batch_t *batch, uint32_t row, double best)
{
    const or_cuda_contender_t *list = batch->list + (size_t)row * OR_CUDA_CONTENDERS_MAX;
    const float *logits = batch->logits + row * batch->stride;
    double window = batch->contests[row].window;
    uint32_t at = 0;
    for (uint32_t id = 0; id < batch->vocab_size; id++) {
        if (at < batch->counts[row] && list[at].id == (int32_t)id) {
            assert_true(batch->noisy[id] >= best - window - SLACK);
            assert_memory_equal(&list[at].logit, &logits[id], sizeof *logits);
            at++;
        } else {
            assert_false(batch->noisy[id] > -INFINITY && batch->noisy[id] >= best - window);
        }
    }
    assert_int_equal(at, batch->counts[row]);
}

// Return how many scores of `noisy` are within a window.
static uint32_t count_within(const batch_t *batch, double floor)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < batch->vocab_size; id++) {
        count += batch->noisy[id] > -INFINITY && batch->noisy[id] >= floor ? 1 : 0;
    }
    return count;
}

// Returns whether the device decided the row.
static bool check_row(batch_t *batch, uint32_t row)
{
    const or_cuda_contest_t *contest = &batch->contests[row];
    if (is_undecided(batch, row)) {
        assert_int_equal(batch->counts[row], OR_CUDA_CONTENDERS_MANY);
        return false;
    }
    or_distribution_t dist = or_sampler_distribution(batch->sampler, &batch->sampling[row],
                                                     batch->logits + row * batch->stride, NULL, 0);
    double best = score_dist(batch, contest, &dist);
    if (batch->counts[row] == OR_CUDA_CONTENDERS_MANY) {
        assert_true(count_within(batch, best - contest->window - SLACK) > OR_CUDA_CONTENDERS_MAX);
        return false;
    }
    assert_listed(batch, row, best);
    if (contest->temperature > 0 && contest->noisy) {
        assert_draw(batch, row, &dist);
    }
    return true;
}

static const uint32_t vocab_sizes[] = {1, 7, 300, 4096, 33000};

// Rows of each kind; returns how many of `runs` batches' rows the device decided.
static uint32_t check_batches(uint64_t *random, uint32_t vocab_size, bool filters, uint32_t runs)
{
    batch_t *batch = batch_create(random, vocab_size);
    uint32_t decided = 0;
    for (uint32_t run = 0; run < runs; run++) {
        for (uint32_t row = 0; row < ROWS; row++) {
            draw_row(random, batch, row, (logit_kind_t)((run * ROWS + row) % LOGIT_KINDS));
            if (filters) {
                draw_filters(random, &batch->sampling[row]);
            }
        }
        ask_device(batch);
        for (uint32_t row = 0; row < ROWS; row++) {
            decided += check_row(batch, row) ? 1 : 0;
        }
    }
    batch_destroy(batch);
    return decided;
}

static void check_sizes(bool filters)
{
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < sizeof vocab_sizes / sizeof *vocab_sizes; i++) {
        uint32_t runs = test_runs(vocab_sizes[i] < 10000 ? 25 : 3);
        uint32_t decided = check_batches(&random, vocab_sizes[i], filters, runs);
        assert_true(decided > runs * ROWS / 3);
    }
}

static void contenders_are_those_of_the_cpu(void **state)
{
    (void)state;
    check_sizes(false);
}

static void filters_are_those_of_the_cpu(void **state)
{
    (void)state;
    check_sizes(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contenders_are_those_of_the_cpu),
        cmocka_unit_test(filters_are_those_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
