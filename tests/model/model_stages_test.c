// Goal: layers split over stages give the same bits as one process, whatever the split.
// Method: stages and ranks are threads (tests/support/thread_world.h); the leader's logits of a
// prefix, a tree, and a step behind an accepted path are compared with those of a model alone.
#include <stdlib.h>
#include <string.h>

#include "common/model/ranks/ranks.h"
#include "tests/model/model_fixture.h"
#include "tests/support/requantize.h"
#include "tests/support/thread_world.h"

#define PREFIX 45u
#define NODES 6u
#define ROWS (PREFIX + NODES + 1)

// All logits of one life, into `out` [ROWS][vocab_size].
static void run_passes(model_fixture_t *fixture, float *out)
{
    static const uint32_t parents[NODES] = {OR_KV_NO_SLOT, 0, 0, 2, 3, OR_KV_NO_SLOT};
    uint32_t vocab_size = fixture->vocab_size;
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, NODES);
    or_model_row_t rows[PREFIX + NODES];
    for (uint32_t i = 0; i < PREFIX; i++) {
        rows[i] = prefix_row(sequence, (int32_t)(i * 37 % vocab_size));
    }
    for (uint32_t i = 0; i < NODES; i++) {
        rows[PREFIX + i] = tree_row(sequence, (int32_t)((100 + i) % vocab_size), i, parents[i]);
    }
    model_fixture_pass(fixture, rows, PREFIX + NODES, out);
    assert_int_equal(or_kv_sequence_accept(sequence, (const uint32_t[]){0, 2, 3}, 3), OR_OK);
    const or_model_row_t step = prefix_row(sequence, (int32_t)(400 % vocab_size));
    model_fixture_pass(fixture, &step, 1, out + (size_t)(PREFIX + NODES) * vocab_size);
    or_kv_sequence_close(&sequence);
}

static void check_world(const char *path, int size, int stages, const float *expected,
                        uint32_t vocab_size)
{
    size_t floats = (size_t)ROWS * vocab_size;
    float *out = test_alloc(floats, sizeof *out);
    thread_world_t *world = thread_world_create(size, stages);
    or_model_options_t options = {.threads = 1};
    thread_world_follow(world, path, &options);
    options.ranks = thread_world_ranks(world, 0);
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, options);
    run_passes(&fixture, out);
    model_fixture_close(&fixture);
    if (thread_world_join(world) != OR_OK) {
        fail_msg("%d ranks in %d stages: %s", size, stages, or_error_text());
    }
    thread_world_destroy(&world);
    assert_same_bits(out, expected, floats);
    free(out);
}

static void check_model(const char *path)
{
    model_fixture_t alone;
    model_fixture_open(&alone, path, NULL, (or_model_options_t){.threads = 1});
    uint32_t vocab_size = alone.vocab_size;
    int layers = (int)or_model_shape(alone.model)->layers;
    float *expected = test_alloc((size_t)ROWS * vocab_size, sizeof *expected);
    run_passes(&alone, expected);
    model_fixture_close(&alone);
    static const struct {
        int size, stages;
    } worlds[] = {{1, 2}, {2, 2}, {4, 2}, {1, 3}, {1, 4}, {2, 4}};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        if (worlds[i].stages <= layers) {
            check_world(path, worlds[i].size, worlds[i].stages, expected, vocab_size);
        }
    }
    free(expected);
}

// Six layers, and two with a tied head.
static void stages_give_the_same_bits(void **state)
{
    (void)state;
    check_model(test_model("tales-6m-f16.gguf"));
    check_model("tests/model/data/llama3-mixed.gguf");
}

// Five layers; an FFN of 172, heads of 8 dimensions.
static void stages_of_an_odd_shape_give_the_same_bits(void **state)
{
    (void)state;
    check_model(test_data("models/stories260K-f32.gguf"));
}

static void check_quantised(const char *floats)
{
    char *path = test_requantize(floats, OR_TENSOR_Q8_0);
    check_model(path);
    free(path);
}

static void stages_give_the_same_bits_quantised(void **state)
{
    (void)state;
    check_quantised(test_model("tales-6m-f16.gguf"));
}

static void stages_of_an_odd_shape_give_the_same_bits_quantised(void **state)
{
    (void)state;
    check_quantised(test_data("models/stories260K-f32.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_give_the_same_bits),
        cmocka_unit_test(stages_of_an_odd_shape_give_the_same_bits),
        cmocka_unit_test(stages_give_the_same_bits_quantised),
        cmocka_unit_test(stages_of_an_odd_shape_give_the_same_bits_quantised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
