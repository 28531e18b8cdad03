// Goal: contenders are a part of the distribution of their row, in its order and to the last bit, with all of it that is within
// the window; and a draw among them is a draw from the distribution.
// Method: random contests over the rows of a pass on the emulated device, against or_sampler_distribution and the noise of the
// logits that a model on the CPU has of the same rows.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/model/gpu/gpu.h"
#include "common/model/model_draws.h"
#include "tests/model/model_fixture.h"

#define ROWS 12u
#define SLACK 1e-6 // below the window, where a contender is not wrong

typedef struct {
    model_fixture_t cpu;
    model_fixture_t gpu;
    or_kv_sequence_t *texts[2];
    or_sampler_t *sampler;
    float *logits;    // [ROWS][vocab_size]
    uint64_t *keys;   // [vocab_size]
    double *expected; // [vocab_size] a distribution's scores with noise
    uint64_t rng;
} twins_t;

static uint32_t below(twins_t *twins, uint32_t n)
{
    return (uint32_t)test_below(&twins->rng, n);
}

static int open_twins(void **state)
{
    static twins_t twins;
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    or_model_options_t options = {.threads = 1, .context_max = 64, .rows_max = ROWS};
    int32_t tokens[ROWS];
    twins = (twins_t){.rng = test_seed()};
    model_fixture_open(&twins.cpu, test_model("tales-1m-f16.gguf"), NULL, options);
    options.gpu = &choice;
    model_fixture_open(&twins.gpu, test_model("tales-1m-f16.gguf"), NULL, options);
    uint32_t vocab_size = twins.cpu.vocab_size;
    twins.logits = test_alloc((size_t)ROWS * vocab_size, sizeof *twins.logits);
    twins.keys = test_alloc(vocab_size, sizeof *twins.keys);
    twins.expected = test_alloc(vocab_size, sizeof *twins.expected);
    for (uint32_t i = 0; i < vocab_size; i++) {
        twins.keys[i] = test_random(&twins.rng);
    }
    twins.texts[0] = model_fixture_sequence(&twins.cpu, 0);
    twins.texts[1] = model_fixture_sequence(&twins.gpu, 0);
    random_tokens(&twins.rng, vocab_size, tokens, ROWS);
    model_fixture_prefill(&twins.cpu, twins.texts[0], tokens, ROWS, ROWS, twins.logits);
    model_fixture_prefill(&twins.gpu, twins.texts[1], tokens, ROWS, ROWS, NULL);
    *state = &twins;
    return 0;
}

static int close_twins(void **state)
{
    twins_t *twins = *state;
    or_kv_sequence_close(&twins->texts[0]);
    or_kv_sequence_close(&twins->texts[1]);
    free(twins->expected);
    free(twins->keys);
    free(twins->logits);
    model_fixture_close(&twins->gpu);
    model_fixture_close(&twins->cpu);
    return 0;
}

// The first `count` tokens take part.
static void know_tokens(twins_t *twins, uint32_t count)
{
    or_sampler_destroy(&twins->sampler);
    assert_int_equal(or_sampler_create(count, &twins->sampler), OR_OK);
    assert_int_equal(or_model_set_noise_keys(twins->gpu.model, twins->keys, count), OR_OK);
}

static or_sampling_t random_sampling(twins_t *twins)
{
    static const float temperatures[] = {0, 0.3F, 0.8F, 1, 2};
    static const uint32_t top_ks[] = {0, 1, 5, 40, 300, 5000};
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = temperatures[below(twins, 5)];
    sampling.top_k = top_ks[below(twins, 6)];
    sampling.top_p = below(twins, 2) == 0 ? 1 : 0.8F;
    sampling.min_p = below(twins, 2) == 0 ? 0 : 0.01F;
    return sampling;
}

static or_contest_t random_contest(twins_t *twins, const or_sampling_t *sampling)
{
    static const double windows[] = {0, 1, 4, 8};
    return (or_contest_t){.sampling = sampling,
                          .key = {test_random(&twins->rng)},
                          .place = {below(twins, 1000), below(twins, 3)},
                          .noisy = below(twins, 3) > 0,
                          .window = windows[below(twins, 4)]};
}

// Scores of the whole distribution as the contest compares them; returns the best.
static double expect(twins_t *twins, const or_contest_t *contest, const or_distribution_t *dist)
{
    double best = -INFINITY;
    for (uint32_t i = 0; i < dist->count; i++) {
        double noise = contest->noisy ? or_noise_gumbel(contest->key, contest->place,
                                                        twins->keys[dist->ids[i]])
                                      : 0;
        twins->expected[i] = dist->scores[i] + noise;
        best = fmax(best, twins->expected[i]);
    }
    return best;
}

static int32_t draw(const twins_t *twins, const or_contest_t *contest,
                    const or_distribution_t *dist)
{
    return or_noise_argmax(contest->key, contest->place, dist->ids, dist->scores, dist->count,
                           twins->keys);
}

static void check_row(twins_t *twins, uint32_t row, const or_contest_t *contest,
                      const or_distribution_t *found)
{
    const float *logits = twins->logits + (size_t)row * twins->cpu.vocab_size;
    or_distribution_t dist =
        or_sampler_distribution(twins->sampler, contest->sampling, logits, NULL, 0);
    if (found->count == 0) {
        assert_true(dist.count > OR_CUDA_CONTENDERS_MAX || contest->sampling->top_p < 1);
        return;
    }
    double floor = expect(twins, contest, &dist) - contest->window;
    uint32_t next = 0;
    for (uint32_t i = 0; i < dist.count; i++) {
        if (next < found->count && found->ids[next] == dist.ids[i]) {
            assert_memory_equal(&found->scores[next], &dist.scores[i], sizeof *dist.scores);
            assert_true(twins->expected[i] >= floor - SLACK);
            next++;
        } else {
            assert_true(twins->expected[i] < floor);
        }
    }
    assert_int_equal(next, found->count);
    if (contest->noisy) {
        assert_int_equal(draw(twins, contest, found), draw(twins, contest, &dist));
    }
}

// Some rows at once; returns how many could be told.
static uint32_t check(twins_t *twins)
{
    or_sampling_t samplings[ROWS];
    or_contest_t contests[ROWS];
    or_distribution_t dists[ROWS];
    uint32_t told = 0;
    uint32_t first = below(twins, ROWS);
    uint32_t count = 1 + below(twins, ROWS - first);
    for (uint32_t i = 0; i < count; i++) {
        samplings[i] = random_sampling(twins);
        contests[i] = random_contest(twins, &samplings[i]);
    }
    assert_int_equal(or_model_contenders(twins->gpu.model, first, count, contests, dists), OR_OK);
    for (uint32_t i = 0; i < count; i++) {
        check_row(twins, first + i, &contests[i], &dists[i]);
        told += dists[i].count > 0;
    }
    return told;
}

static void contenders_are_part_of_the_distribution(void **state)
{
    twins_t *twins = *state;
    uint64_t whole = or_model_whole_rows(twins->gpu.model);
    uint32_t told = 0;
    know_tokens(twins, twins->cpu.vocab_size);
    for (uint32_t i = test_runs(30); i > 0; i--) {
        told += check(twins);
    }
    know_tokens(twins, 100); // a model may have rows that are no tokens
    for (uint32_t i = test_runs(30); i > 0; i--) {
        told += check(twins);
    }
    assert_true(told > 60);
    assert_int_equal(or_model_whole_rows(twins->gpu.model), whole);
    or_sampler_destroy(&twins->sampler);
}

static void what_is_not_there_is_refused(void **state)
{
    twins_t *twins = *state;
    const or_sampling_t sampling = or_sampling_default();
    or_contest_t contests[ROWS + 1];
    or_distribution_t dists[ROWS + 1];
    for (uint32_t i = 0; i <= ROWS; i++) {
        contests[i] = random_contest(twins, &sampling);
    }
    assert_true(or_model_has_contenders(twins->gpu.model));
    assert_int_equal(or_model_contenders(twins->gpu.model, 0, ROWS + 1, contests, dists),
                     OR_ERR_INVALID);
    assert_int_equal(or_model_contenders(twins->gpu.model, ROWS, 1, contests, dists),
                     OR_ERR_INVALID);
    assert_int_equal(or_model_set_noise_keys(twins->cpu.model, twins->keys, 1), OR_OK);
    assert_false(or_model_has_contenders(twins->cpu.model));
    assert_int_equal(or_model_whole_rows(twins->cpu.model), 0);
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contenders_are_part_of_the_distribution),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, open_twins, close_twins);
}
