// Goal: ranks with devices give the bits of one rank on the CPU, beside ranks without as well; and where one's
// device breaks, all end.
// Method: ranks are threads of this process (thread_world), each with the device's memory to itself. The fixed script of
// ranks_script runs on them and on a model alone on the CPU, and all logits are compared. Run by the emulated
// kernels everywhere, and by a GPU where there is one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu.h"
#include "tests/model/ranks_script.h"
#include "tests/support/requantize.h"
#include "tests/support/thread_world.h"

#define SKIPPED 77 // what CTest takes for it
#define BROKEN 99

static or_gpu_choice_t first_gpu(void)
{
    return (or_gpu_choice_t){.functions = or_gpu_functions()};
}

// ---- the same bits ----

typedef struct {
    int size;
    int stages;
    bool leader_on_cpu;
    bool others_on_cpu;
} case_t;

static void check(const char *path, or_kv_type_t type, play_t *play, const case_t *cases,
                  size_t count)
{
    const or_gpu_choice_t choice = first_gpu();
    const or_model_options_t cpu = {.threads = 1, .cache_type_k = type, .cache_type_v = type};
    or_model_options_t gpu = cpu;
    gpu.gpu = &choice;
    record_t expected = record_play(path, &(world_t){1, 1, cpu, cpu}, play);
    for (size_t i = 0; i < count; i++) {
        const world_t world = {cases[i].size, cases[i].stages, cases[i].leader_on_cpu ? cpu : gpu,
                               cases[i].others_on_cpu ? cpu : gpu};
        check_world(path, &world, play, &expected);
    }
    free(expected.bytes);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// For models that are large to an emulator: a pass of two tokens and a guess.
static void play_one_pass(or_model_t *model, record_t *record)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(model, 1, &sequence), OR_OK);
    const or_model_row_t rows[] = {prefix_row(sequence, 7), prefix_row(sequence, 11),
                                   tree_row(sequence, 13, 0, OR_KV_NO_SLOT)};
    size_t floats = COUNT(rows) * or_model_shape(model)->vocab_size;
    float *logits = test_alloc(floats, sizeof *logits);
    assert_int_equal(or_model_forward(model, rows, COUNT(rows)), OR_OK);
    assert_int_equal(or_model_logits(model, 0, COUNT(rows), logits), OR_OK);
    record_bytes(record, logits, floats * sizeof *logits);
    free(logits);
    or_kv_sequence_close(&sequence);
}

// 4 heads over 2 KV heads: with 8 ranks some own no head, with 4 two share a KV head.
static void ranks_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 2, .stages = 1},
                                   {.size = 4, .stages = 1},
                                   {.size = 8, .stages = 1},
                                   {.size = 1, .stages = 2},
                                   {.size = 2, .stages = 2}};
    check("tests/model/data/llama3-mixed.gguf", OR_KV_F32, play_script, cases, COUNT(cases));
    check(test_model("tales-1m-f16.gguf"), OR_KV_F16, play_one_pass, cases, 1);
}

static void ranks_with_and_without_a_gpu_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 2, .stages = 1, .leader_on_cpu = true},
                                   {.size = 4, .stages = 1, .others_on_cpu = true},
                                   {.size = 1, .stages = 2, .leader_on_cpu = true},
                                   {.size = 1, .stages = 2, .others_on_cpu = true}};
    check("tests/model/data/qwen2-bf16.gguf", OR_KV_F16, play_script, cases, COUNT(cases));
}

// 14 heads over 2 KV heads, with biases. Two heads stay together, so ranks begin and end within the heads of a KV head.
static void ranks_of_uneven_groups_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 4, .stages = 1}, {.size = 8, .stages = 1}};
    check("tests/model/data/qwen2-14-heads-q8_0.gguf", OR_KV_F32, play_script, cases, COUNT(cases));
}

// Heads of 8 dimensions, two a panel, and an FFN of 172, whose last unit is short.
static void ranks_of_an_odd_shape_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 2, .stages = 2}, {.size = 8, .stages = 1}};
    check(test_data("models/stories260K-f32.gguf"), OR_KV_F32, play_one_pass, cases, COUNT(cases));
}

// Shares that begin inside a super-block.
static void ranks_of_super_blocks_give_the_same_bits(void **state)
{
    (void)state;
    static const case_t cases[] = {{.size = 4, .stages = 1}};
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), OR_TENSOR_Q4_K);
    check(path, OR_KV_F32, play_one_pass, cases, COUNT(cases));
    free(path);
}

// ---- what breaks ----

static uint32_t calls_left; // that go well, of a rank that is not the leader

static bool goes_well(void)
{
    calls_left -= calls_left > 0;
    return calls_left > 0;
}

static int wait_or_not(or_cuda_t *cuda)
{
    return goes_well() ? or_gpu_functions()->wait(cuda) : BROKEN;
}

static int alloc_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc(cuda, bytes, at_p) : BROKEN;
}

static int alloc_pinned_or_not(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return goes_well() ? or_gpu_functions()->alloc_pinned(cuda, bytes, at_p) : BROKEN;
}

// A pass of two tokens; nothing is committed if it fails.
static or_status_t run_pass(or_model_t *model)
{
    or_kv_sequence_t *sequence = NULL;
    assert_int_equal(or_model_open_sequence(model, 2, &sequence), OR_OK);
    const or_model_row_t rows[] = {prefix_row(sequence, 1), prefix_row(sequence, 2)};
    float *logits = test_alloc((size_t)2 * or_model_shape(model)->vocab_size, sizeof *logits);
    or_status_t status = or_model_forward(model, rows, 2);
    assert_int_equal(or_kv_sequence_length(sequence), status == OR_OK ? 2 : 0);
    status = status != OR_OK ? status : or_model_logits(model, 0, 2, logits);
    free(logits);
    or_kv_sequence_close(&sequence);
    return status;
}

static or_status_t live(const char *path, const or_model_options_t *options)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    or_status_t status = or_model_load(gguf, options, &model);
    status = status != OR_OK ? status : run_pass(model);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

// The leader's life beside a rank with these functions: that one ends with `expected`, the leader because it is gone.
// False if all goes well.
static bool ends_all(const or_gpu_functions_t *functions, int size, int stages,
                     or_status_t expected)
{
    const char *path = "tests/model/data/llama3-q8_0.gguf";
    const or_gpu_choice_t choice = first_gpu();
    const or_gpu_choice_t breaks = {.functions = functions};
    or_model_options_t options = {.threads = 1, .rows_max = 4, .pages_max = 2, .gpu = &breaks};
    thread_world_t *world = thread_world_create(size, stages);
    thread_world_follow(world, path, &options);
    options.gpu = &choice;
    options.ranks = thread_world_ranks(world, 0);
    or_status_t status = live(path, &options);
    assert_true(status == OR_OK || status == OR_ERR_UNREACHABLE);
    assert_int_equal(thread_world_join(world), status == OR_OK ? OR_OK : expected);
    assert_true(status == OR_OK || expected != OR_ERR_IO ||
                strstr(or_error_text(), "the GPU: ") != NULL);
    thread_world_destroy(&world);
    return status != OR_OK;
}

// At each of its calls in turn, a rank of a group and one of a stage.
static void check_failures(const or_gpu_functions_t *functions, or_status_t expected)
{
    for (uint32_t n = calls_left = 1; ends_all(functions, 2, 1, expected); calls_left = ++n) {
    }
    for (uint32_t n = calls_left = 1; ends_all(functions, 1, 2, expected); calls_left = ++n) {
    }
}

static void one_that_breaks_ends_all(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.wait = wait_or_not;
    check_failures(&functions, OR_ERR_IO);
}

static void one_without_memory_ends_all(void **state)
{
    (void)state;
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc = alloc_or_not;
    functions.alloc_pinned = alloc_pinned_or_not;
    check_failures(&functions, OR_ERR_NO_MEMORY);
}

int main(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_same_bits),
        cmocka_unit_test(ranks_with_and_without_a_gpu_give_the_same_bits),
        cmocka_unit_test(ranks_of_uneven_groups_give_the_same_bits),
        cmocka_unit_test(ranks_of_an_odd_shape_give_the_same_bits),
        cmocka_unit_test(ranks_of_super_blocks_give_the_same_bits),
        cmocka_unit_test(one_that_breaks_ends_all),
        cmocka_unit_test(one_without_memory_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
