#include "tests/exactness/text_distribution.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/math/math.h"
#include "common/text/tokenizer.h"
#include "tests/exactness/chi_square.h"
#include "tests/support/test_support.h"

#define BATCH 16u // texts that are generated at a time

static or_sampling_t sampling_of_dist(void)
{
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 1;
    sampling.top_k = TEXT_DIST_CHOICES;
    return sampling;
}

// The state that is needed to read a distribution.
typedef struct {
    const sim_model_t *model;
    or_kv_sequence_t *kv;
    or_sampler_t *sampler;
    float *logits;
    int32_t *prompt;
    size_t prompt_count;
} reader_t;

static reader_t open_reader(const sim_model_t *model, const char *prompt)
{
    reader_t reader = {.model = model};
    uint32_t vocab_size = or_vocab_size(model->vocab);
    assert_int_equal(or_model_open_sequence(model->model, 1, &reader.kv), OR_OK);
    assert_int_equal(or_sampler_create(vocab_size, &reader.sampler), OR_OK);
    assert_int_equal(or_tokenize(model->vocab, prompt, strlen(prompt), OR_TOKENIZE_BOS,
                                 &reader.prompt, &reader.prompt_count),
                     OR_OK);
    reader.logits = calloc(vocab_size, sizeof *reader.logits);
    assert_non_null(reader.logits);
    return reader;
}

static void close_reader(reader_t *reader)
{
    free(reader->logits);
    free(reader->prompt);
    or_sampler_destroy(&reader->sampler);
    or_kv_sequence_close(&reader->kv);
}

// The target's distribution after the prompt and `text`.
typedef struct {
    int32_t ids[TEXT_DIST_CHOICES];
    double probabilities[TEXT_DIST_CHOICES];
} next_t;

static next_t dist_after(const reader_t *reader, const int32_t *text, uint32_t length)
{
    const or_sampling_t sampling = sampling_of_dist();
    or_model_t *model = reader->model->model;
    size_t count = reader->prompt_count + length;
    or_kv_sequence_truncate(reader->kv, 0);
    for (size_t i = 0; i < count; i++) {
        int32_t id = i < reader->prompt_count ? reader->prompt[i] : text[i - reader->prompt_count];
        or_model_row_t row = {reader->kv, id, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        assert_int_equal(or_model_forward(model, &row, 1), OR_OK);
    }
    assert_int_equal(or_model_logits(model, 0, 1, reader->logits), OR_OK);
    or_distribution_t dist =
        or_sampler_distribution(reader->sampler, &sampling, reader->logits, NULL, 0);
    next_t next = {{0}, {0}};
    double total = 0;
    assert_int_equal(dist.count, TEXT_DIST_CHOICES);
    for (uint32_t i = 0; i < TEXT_DIST_CHOICES; i++) {
        next.ids[i] = dist.ids[i];
        next.probabilities[i] = or_exp(dist.scores[i] - dist.scores[0]);
        total += next.probabilities[i];
    }
    for (uint32_t i = 0; i < TEXT_DIST_CHOICES; i++) {
        next.probabilities[i] /= total;
    }
    return next;
}

text_distribution_t text_dist_of(const sim_model_t *model, const char *prompt)
{
    text_distribution_t dist;
    reader_t reader = open_reader(model, prompt);
    for (uint32_t cell = 0; cell < TEXT_DIST_CELLS; cell++) {
        uint32_t digits = cell;
        dist.probabilities[cell] = 1;
        for (uint32_t i = 0; i < TEXT_DIST_LENGTH; i++) {
            next_t next = dist_after(&reader, dist.texts[cell], i);
            uint32_t choice = digits % TEXT_DIST_CHOICES;
            digits /= TEXT_DIST_CHOICES;
            dist.texts[cell][i] = next.ids[choice];
            dist.probabilities[cell] *= next.probabilities[choice];
        }
    }
    close_reader(&reader);
    return dist;
}

static void count_texts(const text_distribution_t *dist, const sim_result_t *results,
                        uint32_t *observed, const char *what)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t cell = 0;
        if (results[i].count != TEXT_DIST_LENGTH) {
            fail_msg("%s: %u tokens (%s)", what, results[i].count, results[i].error);
        }
        while (memcmp(dist->texts[cell], results[i].tokens, sizeof dist->texts[cell]) != 0) {
            assert_true(++cell < TEXT_DIST_CELLS);
        }
        observed[cell]++;
    }
}

void text_dist_check(const text_distribution_t *dist, const sim_config_t *config,
                     const or_generate_request_t *drafting, const char *prompt, uint32_t seeds,
                     const char *what)
{
    static sim_result_t results[BATCH];
    or_generate_request_t requests[BATCH];
    uint32_t observed[TEXT_DIST_CELLS] = {0};
    double expected[TEXT_DIST_CELLS];
    uint64_t accepted = 0;
    seeds = (seeds + BATCH - 1) / BATCH * BATCH;
    for (uint32_t seed = 0; seed < seeds; seed += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++) {
            requests[i] = *drafting;
            requests[i].prompt = (const uint8_t *)prompt;
            requests[i].prompt_bytes = (uint32_t)strlen(prompt);
            requests[i].max_tokens = TEXT_DIST_LENGTH;
            requests[i].ignore_end = true;
            requests[i].sampling = sampling_of_dist();
            requests[i].seed = seed + i;
        }
        sim_t *sim = sim_create(config);
        sim_generate_all(sim, requests, BATCH, 600, results);
        sim_destroy(sim);
        count_texts(dist, results, observed, what);
        for (uint32_t i = 0; i < BATCH; i++) {
            accepted += results[i].stats.accepted;
        }
    }
    for (uint32_t cell = 0; cell < TEXT_DIST_CELLS; cell++) {
        expected[cell] = dist->probabilities[cell] * seeds;
    }
    chi_square_t test = {0};
    chi_square_add(&test, observed, expected, TEXT_DIST_CELLS);
    print_message("%s: chi-square %.1f, %u degrees, %u texts, %llu guesses accepted\n", what,
                  test.statistic, test.degrees, seeds, (unsigned long long)accepted);
    assert_true(accepted > 0); // else nothing was tried
    assert_true(chi_square_fits(&test));
}
