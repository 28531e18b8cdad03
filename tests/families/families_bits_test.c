// Goal: every family gives the same bits however a text comes in and wherever its parts are computed: chunks, trees,
// threads, instruction sets, ranks, stages, types of weights and of the cache.
// Method: the families' small random models (family_file.h) in F32 and Q8_0. One prefill in one thread is the truth;
// everything else is compared with it by memcmp. The text is longer than the models' windows.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/families/family_file.h"
#include "tests/model/ranks_record.h"
#include "tests/support/requantize.h"

#define VOCAB 64u
#define POSITIONS 150u
#define NODES 12u // a chain of guesses behind the first positions
#define PREFIX (POSITIONS - NODES)

static const char *const families[] = {
    "cohere2/0",     "command-r/0",   "ernie4_5/0",      "exaone4/0",        "exaone4/1",
    "falcon/0",      "falcon/1",      "gemma/0",         "gemma2/0",         "gemma3/0",
    "gemma4/0",      "gemma4/1",      "gemma4-shared/0", "glm4/0",           "gpt2/0",
    "granite/0",     "llama/0",       "mistral/0",       "mistral3/0",       "olmo2/0",
    "opt/0",         "phi3/0",        "phi3/1",          "qwen2/0",          "qwen3/0",
    "smollm3/0",     "starcoder2/0",  "mixtral/0",       "mixtral/1",        "qwen2moe/0",
    "qwen3moe/0",    "olmoe/0",       "glm4moe/0",       "glm4moe/1",        "gpt-oss/0",
    "gpt-oss/1",     "deepseek-v2/1", "deepseek-v3/0",   "deepseek-v3/1",    "deepseek-heads/0",
    "glm4moelite/0", "glm4moelite/1", "phimoe/0",        "gemma4-experts/0", "gemma4-experts/1"};

#define FAMILIES (sizeof families / sizeof families[0])
#ifdef __SANITIZE_THREAD__ // ten times slower, and the threads do the same for every family
#define EVERY 6u
#else
#define EVERY 1u
#endif

static const or_model_options_t caches[] = {
    {.threads = 1},
    {.threads = 1, .cache_type_k = OR_KV_F16, .cache_type_v = OR_KV_F16},
    {.threads = 1, .cache_type_k = OR_KV_Q8_0, .cache_type_v = OR_KV_Q8_0},
};

static int32_t token_at(uint32_t i)
{
    return (int32_t)(3 + i * 37 % 61);
}

// The logits of all positions of the text, of which the last are guesses where `guesses`.
static void run(or_model_t *model, uint32_t chunk, bool guesses, float *logits)
{
    or_model_row_t rows[POSITIONS];
    or_kv_sequence_t *sequence = NULL;
    uint32_t prefix = guesses ? PREFIX : POSITIONS;
    assert_int_equal(or_model_open_sequence(model, NODES, &sequence), OR_OK);
    for (uint32_t done = 0; done < POSITIONS;) {
        uint32_t left = done < prefix ? prefix - done : POSITIONS - done;
        uint32_t count = left < chunk || done >= prefix ? left : chunk;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t slot = done + i - prefix;
            rows[i] = done < prefix ? prefix_row(sequence, token_at(done + i))
                                    : tree_row(sequence, token_at(done + i), slot,
                                               slot == 0 ? OR_KV_NO_SLOT : slot - 1);
        }
        assert_int_equal(or_model_forward(model, rows, count), OR_OK);
        assert_int_equal(or_model_logits(model, 0, count, logits + (size_t)done * VOCAB), OR_OK);
        done += count;
    }
    or_kv_sequence_close(&sequence);
}

static void play(or_model_t *model, record_t *record)
{
    static float logits[POSITIONS * VOCAB];
    run(model, 61, true, logits);
    record_bytes(record, logits, sizeof logits);
}

// Run a text on a model that is loaded in this way.
static void run_loaded(const char *path, const char *kernels, const or_model_options_t *options,
                       uint32_t chunk, bool guesses, float *logits)
{
    model_fixture_t fixture;
    memset(logits, 0xAA, POSITIONS * VOCAB * sizeof *logits);
    model_fixture_open(&fixture, path, kernels, *options);
    run(fixture.model, chunk, guesses, logits);
    model_fixture_close(&fixture);
}

static void check_ways(const char *path, const or_model_options_t *options)
{
    static float truth[POSITIONS * VOCAB], logits[POSITIONS * VOCAB];
    const struct {
        uint32_t threads, chunk;
        bool guesses, plainest;       // the reference's instructions
    } ways[] = {{1, 1, false, false}, // alone, and beside 1, 7 and 63 others
                {2, 2, false, false},
                {1, 64, true, false},
                {3, POSITIONS, false, false},
                {3, 8, true, true}};
    run_loaded(path, NULL, options, POSITIONS, false, truth);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        or_model_options_t way = *options;
        way.threads = ways[i].threads;
        run_loaded(path, ways[i].plainest ? "ref" : NULL, &way, ways[i].chunk, ways[i].guesses,
                   logits);
        assert_same_bits(truth, logits, POSITIONS * VOCAB);
    }
}

typedef void check_t(const char *path, const or_model_options_t *options);

// Weights and caches in turn, of which the gate takes every other one.
static void check_family(size_t family, check_t *check)
{
    static const struct {
        bool quantised;
        size_t cache;
    } pairs[] = {{false, 0}, {true, 1}, {true, 0}, {false, 2}};
    char *path = family_file_make(families[family]);
    char *quantised = test_requantize(path, OR_TENSOR_Q8_0);
    print_message("%s\n", families[family]);
    for (size_t i = family % test_share(2); i < sizeof pairs / sizeof pairs[0];
         i += test_share(2)) {
        check(pairs[i].quantised ? quantised : path, &caches[pairs[i].cache]);
    }
    free(quantised);
    free(path);
}

static void texts_come_in_any_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i += EVERY) {
        check_family(i, check_ways);
    }
}

// The text as two sequences of one pass, which has more rows than experts take together.
static void check_together(const char *path, const or_model_options_t *options)
{
    static float truth[POSITIONS * VOCAB], logits[2 * POSITIONS * VOCAB];
    or_model_row_t rows[2 * POSITIONS];
    or_kv_sequence_t *sequences[2] = {NULL, NULL};
    or_model_options_t longer = *options;
    model_fixture_t fixture;
    longer.rows_max = 2 * POSITIONS;
    run_loaded(path, NULL, options, POSITIONS, false, truth);
    model_fixture_open(&fixture, path, NULL, longer);
    for (uint32_t i = 0; i < 2 * POSITIONS; i++) {
        or_kv_sequence_t **sequence = &sequences[i / POSITIONS];
        if (*sequence == NULL) {
            assert_int_equal(or_model_open_sequence(fixture.model, 1, sequence), OR_OK);
        }
        rows[i] = prefix_row(*sequence, token_at(i % POSITIONS));
    }
    assert_int_equal(or_model_forward(fixture.model, rows, 2 * POSITIONS), OR_OK);
    assert_int_equal(or_model_logits(fixture.model, 0, 2 * POSITIONS, logits), OR_OK);
    assert_same_bits(truth, logits, POSITIONS * VOCAB);
    assert_same_bits(truth, logits + POSITIONS * VOCAB, POSITIONS * VOCAB);
    or_kv_sequence_close(&sequences[0]);
    or_kv_sequence_close(&sequences[1]);
    model_fixture_close(&fixture);
}

static void texts_run_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i += EVERY) {
        check_family(i, check_together);
    }
}

static void check_ranks(const char *path, const or_model_options_t *options)
{
    check_worlds(path, options, play);
}

static void ranks_and_stages_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i += EVERY) {
        check_family(i, check_ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_in_any_way),
        cmocka_unit_test(texts_run_together),
        cmocka_unit_test(ranks_and_stages_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
