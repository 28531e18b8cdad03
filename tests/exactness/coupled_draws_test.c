// Goal: coupled draws are samples of the target's own distribution.
// Method: make 10^5 draws over 50 contexts of the demonstration target on running text, with
// other seeds and places each time. Compare them with the softmax of its logits (chi-square,
// false alarm 1e-6). The same draws must be refused against a distribution that is slightly off.
#include <math.h>
#include <stdlib.h>

#include "common/decode/sampling/noise.h"
#include "common/decode/sampling/sampler.h"
#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "tests/exactness/chi_square.h"
#include "tests/support/test_support.h"

#define CONTEXTS 50
#define DRAWS 2000 // a context
#define FIRST 4    // tokens before the first context
#define VOCAB_MAX 8192

static const char text[] =
    "Once upon a time there was a little girl named Lily. She loved to play in the garden with her "
    "dog. One day they found a small red ball under the big tree. The dog was very happy and ran "
    "away with it. Lily laughed and said, \"Come back!\" Then her mother called them for dinner.";

static float logits[(CONTEXTS + FIRST) * VOCAB_MAX];
static uint32_t observed[VOCAB_MAX];
static double expected[VOCAB_MAX];

// Read the logits after each of the first tokens of the text; returns the vocabulary's size.
static uint32_t read_contexts(const or_gguf_t *gguf, const or_vocab_t *vocab)
{
    const or_model_options_t options = {.threads = 1};
    or_model_row_t rows[CONTEXTS + FIRST];
    or_model_t *model;
    or_kv_sequence_t *sequence;
    int32_t *ids;
    size_t count;
    assert_int_equal(or_tokenize(vocab, text, sizeof text - 1, OR_TOKENIZE_BOS, &ids, &count),
                     OR_OK);
    assert_true(count >= CONTEXTS + FIRST);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    uint32_t vocab_size = or_model_shape(model)->vocab_size;
    assert_true(vocab_size <= VOCAB_MAX);
    assert_int_equal(or_model_open_sequence(model, 0, &sequence), OR_OK);
    for (uint32_t i = 0; i < CONTEXTS + FIRST; i++) {
        rows[i] = (or_model_row_t){sequence, ids[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    assert_int_equal(or_model_forward(model, rows, CONTEXTS + FIRST), OR_OK);
    assert_int_equal(or_model_logits(model, 0, CONTEXTS + FIRST, logits), OR_OK);
    or_kv_sequence_close(&sequence);
    or_model_destroy(&model);
    free(ids);
    return vocab_size;
}

// Compute the expected counts of the distribution at a temperature, with the C library's own
// arithmetic.
static void expect_softmax(const float *row, uint32_t vocab_size, double temperature)
{
    double best = row[0];
    double total = 0;
    for (uint32_t i = 1; i < vocab_size; i++) {
        best = fmax(best, (double)row[i]);
    }
    for (uint32_t i = 0; i < vocab_size; i++) {
        expected[i] = exp(((double)row[i] - best) / temperature);
        total += expected[i];
    }
    for (uint32_t i = 0; i < vocab_size; i++) {
        expected[i] *= DRAWS / total;
    }
}

static void draw_many(const or_distribution_t *dist, uint32_t context, const uint64_t *token_keys)
{
    for (uint32_t i = 0; i < VOCAB_MAX; i++) {
        observed[i] = 0;
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        or_rng_key_t key = or_noise_key(1000 * context + i % 50, i % 2);
        or_noise_place_t place = {3 * (i / 50), i % 3};
        observed[or_noise_argmax(key, place, dist->ids, dist->scores, dist->count, token_keys)]++;
    }
}

static void draws_fit_the_targets_distribution(void **state)
{
    (void)state;
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_sampler_t *sampler;
    assert_int_equal(or_gguf_open(test_model("tales-6m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    uint32_t vocab_size = read_contexts(gguf, vocab);
    assert_int_equal(or_sampler_create(vocab_size, &sampler), OR_OK);
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 1;
    chi_square_t right = {0, 0};
    chi_square_t wrong = {0, 0};
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        const float *row = logits + (size_t)(c + FIRST) * vocab_size;
        or_distribution_t dist = or_sampler_distribution(sampler, &sampling, row, NULL, 0);
        draw_many(&dist, c, or_vocab_noise_keys(vocab));
        expect_softmax(row, vocab_size, 1);
        chi_square_add(&right, observed, expected, vocab_size);
        expect_softmax(row, vocab_size, 1.1);
        chi_square_add(&wrong, observed, expected, vocab_size);
    }
    print_message("chi-square %.1f over %u degrees; %.1f over %u against temperature 1.1\n",
                  right.statistic, right.degrees, wrong.statistic, wrong.degrees);
    assert_true(right.degrees > 1000);
    assert_true(chi_square_fits(&right));
    assert_false(chi_square_fits(&wrong));
    or_sampler_destroy(&sampler);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_fit_the_targets_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
