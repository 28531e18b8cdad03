// Goal: 1, 2, 4 and 8 ranks, in one stage or two, give the same bits, prefix and tree, for every type and
// shape of weights; what cannot be is refused.
// Method: ranks are threads of this process (thread_world) that follow their leader. A fixed script runs on
// it and on a model alone; all logits are recorded and compared.
#include <stdlib.h>
#include <string.h>

#include "tests/model/model_types.h"
#include "tests/model/ranks_record.h"
#include "tests/model/ranks_script.h"
#include "tests/support/requantize.h"
#include "tests/support/thread_world.h"

static void check_model(const char *path)
{
    check_worlds(path, &(or_model_options_t){.threads = 1}, play_script);
}

// 4 heads over 2 KV heads: with 8 ranks some own no head, with 4 two share a KV head.
static void ranks_give_the_same_bits(void **state)
{
    (void)state;
    check_model(test_model("tales-1m-f16.gguf"));
}

// Heads of 8 dimensions (two a panel), and an FFN of 172: the last unit is short.
static void ranks_of_an_odd_shape_give_the_same_bits(void **state)
{
    (void)state;
    check_model(test_data("models/stories260K-f32.gguf"));
}

static void ranks_give_the_same_bits_with_any_weights(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < model_types_count; i++) {
        char *copy = model_of_type(model_types[i]);
        check_model(copy);
        free(copy);
    }
}

// Types of blocks, of which these shapes have whole ones.
static void check_types(const char *path)
{
    const or_tensor_type_t types[] = {OR_TENSOR_F32, OR_TENSOR_Q8_0, OR_TENSOR_Q5_1};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char *copy = test_requantize(path, types[i]);
        check_model(copy);
        free(copy);
    }
}

// 14 heads of 16 dimensions over 2 KV heads, with biases. Quantised, two heads stay together: 7
// units for 8 shards.
static void ranks_of_qwen2_give_the_same_bits(void **state)
{
    (void)state;
    check_types("tests/model/data/qwen2-14-heads-q8_0.gguf");
}

// Four heads of 8 dimensions stay together where the output matrix is quantised: 2 units, for 8
// heads in all. Its FFN of 172 is no whole number of blocks and stays F32: types are mixed.
static void ranks_of_an_odd_shape_give_the_same_bits_quantised(void **state)
{
    (void)state;
    check_types(test_data("models/stories260K-f32.gguf"));
    check_model("tests/model/data/llama3-mixed.gguf");
}

static void ranks_give_the_same_bits_with_small_caches(void **state)
{
    (void)state;
    check_worlds(
        test_model("tales-1m-f16.gguf"),
        &(or_model_options_t){.threads = 1, .cache_type_k = OR_KV_Q8_0, .cache_type_v = OR_KV_F16},
        play_script);
}

// -- what cannot be --

static or_status_t gather_fails(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    (void)ranks, (void)send, (void)bytes, (void)recv;
    return or_fail(OR_ERR_UNREACHABLE, "a rank is gone");
}

static or_status_t gather_own(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    for (int i = 0; i < ranks->size; i++) {
        memmove((char *)recv + (size_t)i * bytes, send, bytes);
    }
    return OR_OK;
}

static or_status_t broadcast_nothing(const or_ranks_t *ranks, void *data, size_t bytes)
{
    (void)ranks, (void)data, (void)bytes;
    return OR_OK;
}

static void a_lost_rank_commits_nothing(void **state)
{
    (void)state;
    or_ranks_t ranks = {.rank = 0,
                        .size = 2,
                        .all_gather = gather_fails,
                        .gather_world = gather_own,
                        .broadcast = broadcast_nothing};
    model_fixture_t fixture;
    model_fixture_open(&fixture, test_model("tales-1m-f16.gguf"), NULL,
                       (or_model_options_t){.ranks = &ranks, .threads = 1});
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 2);
    const or_model_row_t rows[] = {prefix_row(sequence, 1),
                                   tree_row(sequence, 2, 0, OR_KV_NO_SLOT)};
    float logits[1];
    assert_int_equal(or_model_forward(fixture.model, rows, 2), OR_ERR_UNREACHABLE);
    assert_int_equal(or_kv_sequence_length(sequence), 0);
    assert_int_equal(or_kv_sequence_accept(sequence, (uint32_t[]){0}, 1), OR_ERR_INVALID);
    assert_int_equal(or_model_logits(fixture.model, 0, 1, logits), OR_ERR_INVALID);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
}

static void three_ranks_are_refused(void **state)
{
    (void)state;
    or_ranks_t ranks = {.rank = 0, .size = 3, .all_gather = gather_fails};
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    or_model_options_t options = {.ranks = &ranks};
    assert_int_equal(or_model_load(gguf, &options, &model), OR_ERR_UNSUPPORTED);
    assert_null(model);
    or_gguf_close(&gguf);
}

// Every rank says so; none waits for another.
static void other_options_are_refused(void **state)
{
    (void)state;
    const char *path = test_model("tales-1m-f16.gguf");
    thread_world_t *world = thread_world_create(2, 1);
    thread_world_follow(world, path, &(or_model_options_t){.threads = 1, .rows_max = 8});
    or_model_options_t options = {
        .threads = 1, .rows_max = 16, .ranks = thread_world_ranks(world, 0)};
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_ERR_MISMATCH);
    assert_non_null(strstr(or_error_text(), "rank 1"));
    assert_int_equal(thread_world_join(world), OR_ERR_MISMATCH);
    thread_world_destroy(&world);
    or_gguf_close(&gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_same_bits),
        cmocka_unit_test(ranks_of_an_odd_shape_give_the_same_bits),
        cmocka_unit_test(ranks_give_the_same_bits_with_any_weights),
        cmocka_unit_test(ranks_of_qwen2_give_the_same_bits),
        cmocka_unit_test(ranks_of_an_odd_shape_give_the_same_bits_quantised),
        cmocka_unit_test(ranks_give_the_same_bits_with_small_caches),
        cmocka_unit_test(a_lost_rank_commits_nothing),
        cmocka_unit_test(three_ranks_are_refused),
        cmocka_unit_test(other_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
