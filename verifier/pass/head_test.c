// Goal: asking the head for no more than or_head_top says gives the same distribution, bit by bit.
// Method: seeded logits with many ties and some that are -infinity; all but the greatest are taken away in
// both ways a model may do it (only the greatest left, or others as well), and the distributions are compared: ids,
// their order, scores, weights. Then the model's own head, on one rank, also with weights that are no numbers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"
#include "verifier/pass/head.h"

#define VOCAB 200

static or_sampling_t random_sampling(uint64_t *rng)
{
    static const float temperatures[] = {0, 0.3F, 1, 1e-6F, 3};
    static const uint32_t top_ks[] = {0, 1, 2, 7, 50, VOCAB - 1, VOCAB, VOCAB + 5};
    static const or_logit_bias_t bias[] = {{3, 1.5F}, {9, -INFINITY}};
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = temperatures[test_below(rng, 5)];
    sampling.top_k = top_ks[test_below(rng, 8)];
    sampling.top_p = test_below(rng, 2) == 0 ? 1 : 0.8F;
    sampling.min_p = test_below(rng, 2) == 0 ? 0 : 0.05F;
    if (test_below(rng, 4) == 0) {
        sampling.bias = bias;
        sampling.bias_count = 2;
    }
    switch (test_below(rng, 16)) {
    case 0:
        sampling.repeat_penalty = 1.2F;
        break;
    case 1:
        sampling.presence_penalty = 0.4F;
        break;
    case 2:
        sampling.frequency_penalty = -0.4F;
        break;
    default:
        break;
    }
    sampling.repeat_last_n = (int32_t)test_below(rng, 3) * 8 - 1;
    return sampling;
}

static bool is_greater(const float *logits, uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

// Keep the `top` greatest, and of the others one in `others` (0: none).
static void take_away(const float *logits, uint32_t top, uint64_t *rng, uint32_t others,
                      float *left)
{
    for (uint32_t i = 0; i < VOCAB; i++) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < VOCAB; j++) {
            before += is_greater(logits, j, i);
        }
        bool stays = before < top || (others > 0 && test_below(rng, others) == 0);
        left[i] = stays ? logits[i] : -INFINITY;
    }
}

static void assert_same_dist(const or_distribution_t *a, const or_distribution_t *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
    assert_memory_equal(a->scores, b->scores, a->count * sizeof *a->scores);
    assert_memory_equal(a->weights, b->weights, a->count * sizeof *a->weights);
}

static void the_greatest_give_the_same_distribution(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    or_sampler_t *full_sampler = NULL;
    or_sampler_t *sampler = NULL;
    uint32_t fewer = 0;
    assert_int_equal(or_sampler_create(VOCAB, &full_sampler), OR_OK);
    assert_int_equal(or_sampler_create(VOCAB, &sampler), OR_OK);
    for (uint32_t t = 0; t < 400; t++) {
        float logits[VOCAB], left[VOCAB];
        int32_t history[12];
        or_sampling_t sampling = random_sampling(&rng);
        for (uint32_t i = 0; i < VOCAB; i++) {
            logits[i] = (float)test_below(&rng, 40) / 4 - 5; // ties
            logits[i] = test_below(&rng, 20) == 0 ? -INFINITY : logits[i];
        }
        for (uint32_t i = 0; i < 12; i++) {
            history[i] = (int32_t)test_below(&rng, VOCAB);
        }
        uint32_t top = or_head_top(&sampling, VOCAB);
        assert_in_range(top, 1, VOCAB);
        fewer += top < VOCAB;
        take_away(logits, top, &rng, (uint32_t)test_below(&rng, 3), left);
        or_distribution_t full =
            or_sampler_distribution(full_sampler, &sampling, logits, history, 12);
        or_distribution_t dist = or_sampler_distribution(sampler, &sampling, left, history, 12);
        or_sampler_weigh(full_sampler, &full);
        or_sampler_weigh(sampler, &dist);
        assert_same_dist(&dist, &full);
    }
    assert_in_range(fewer, 100, 300); // both kinds were there
    or_sampler_destroy(&sampler);
    or_sampler_destroy(&full_sampler);
}

// Rows in any order, some asked for twice and with more than before: always the model's own.
static void rows_are_the_models(void **state)
{
    (void)state;
    enum { ROWS = 20 };
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    or_head_t *head = NULL;
    or_model_row_t rows[ROWS];
    uint64_t rng = test_seed();
    const or_model_options_t options = {.threads = 1, .context_max = 64};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    assert_int_equal(or_head_create(model, or_clock_monotonic(), &head), OR_OK);
    uint32_t vocab = or_model_shape(model)->vocab_size;
    float *expected = calloc(vocab, sizeof *expected);
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i] = (or_model_row_t){sequence, 300 + (int32_t)i, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        assert_int_equal(or_model_forward(model, rows, ROWS), OR_OK);
        or_head_renew(head, ROWS);
        for (uint32_t i = 0; i < 60; i++) {
            static const uint32_t tops[] = {1, 5};
            uint32_t row = (uint32_t)test_below(&rng, ROWS);
            uint32_t top = i % 3 == 2 ? vocab : tops[i % 3];
            const float *logits;
            assert_int_equal(or_head_row(head, row, top, &logits), OR_OK);
            assert_int_equal(or_model_logits(model, row, 1, expected), OR_OK);
            uint32_t right = 0;
            for (uint32_t v = 0; v < vocab; v++) {
                assert_true(logits[v] == expected[v] || logits[v] == -INFINITY);
                right += logits[v] == expected[v];
            }
            assert_true(right >= top);
        }
    }
    free(expected);
    or_head_destroy(&head);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
}

// Norm weights that are no numbers make all logits so.
static void a_row_without_numbers_is_an_error(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequence = NULL;
    or_head_t *head = NULL;
    const float *logits;
    const or_model_options_t options = {.threads = 1, .context_max = 64};
    test_gguf_load(&file, test_model("tales-1m-f16.gguf"));
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    const or_gguf_tensor_t *norm = or_gguf_find_tensor(gguf, "output_norm.weight");
    void *at = memmem(file.bytes, file.count, norm->data, norm->bytes);
    assert_non_null(at);
    memset(at, 0xFF, norm->bytes);
    or_gguf_close(&gguf);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    assert_int_equal(or_head_create(model, or_clock_monotonic(), &head), OR_OK);
    const or_model_row_t row = {sequence, 1, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
    or_head_renew(head, 1);
    assert_int_equal(or_head_row(head, 0, 1, &logits), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "no numbers"));
    or_kv_sequence_close(&sequence);
    or_head_destroy(&head);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_greatest_give_the_same_distribution),
        cmocka_unit_test(rows_are_the_models),
        cmocka_unit_test(a_row_without_numbers_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
