// Goal: a device is asked for memory when a model is loaded and not when texts come and go; where it has slots for so
// many texts only, all ranks know it before one of them fails; and ranks divide what is free only if they share it.
// Method: the functions of the device, which count what is taken and freed, and say that as much is free as the test wants.
// Ranks are threads (thread_world), one of which has less.
#include <stdio.h>
#include <string.h>

#include "common/model/gpu/gpu.h"
#include "tests/model/model_fixture.h"
#include "tests/support/thread_world.h"

#define MODEL "tests/model/data/llama3-q8_0.gguf"
#define SLOTS 8u
#define TEXTS 5u
#define NODES 3u
#define FREE_BYTES ((uint64_t)1 << 20)

static uint32_t calls;       // of alloc and free
static uint64_t slots_bytes; // what was asked for last

static int count_alloc(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    calls++;
    return or_gpu_functions()->alloc(cuda, bytes, at_p);
}

static void count_free(or_cuda_t *cuda, void *at)
{
    calls += at != NULL;
    or_gpu_functions()->free(cuda, at);
}

static size_t note_slots_bytes(const or_cuda_kv_t *kv, uint32_t slots_max)
{
    slots_bytes = or_gpu_functions()->slots_bytes(kv, slots_max);
    return slots_bytes;
}

// A load's last request finds room for one part more than two.
static int two_parts_free(uint32_t index, uint64_t *bytes)
{
    int status = or_gpu_functions()->free_bytes(index, bytes);
    *bytes = slots_bytes > 0 ? 5 * slots_bytes : *bytes;
    return status;
}

static int nothing_free(uint32_t index, uint64_t *bytes)
{
    int status = or_gpu_functions()->free_bytes(index, bytes);
    *bytes = slots_bytes > 0 ? 0 : *bytes;
    return status;
}

static or_gpu_functions_t counting(__typeof__(or_cuda_free_bytes) *free_bytes)
{
    or_gpu_functions_t functions = *or_gpu_functions();
    functions.alloc = count_alloc;
    functions.free = count_free;
    functions.slots_bytes = note_slots_bytes;
    functions.free_bytes = free_bytes;
    slots_bytes = 0;
    return functions;
}

static or_model_options_t options_of(const or_gpu_choice_t *gpu, uint32_t slots_max)
{
    return (or_model_options_t){.threads = 1,
                                .rows_max = NODES + 1,
                                .pages_max = 2 * TEXTS,
                                .sequences_max = TEXTS,
                                .slots_max = slots_max,
                                .gpu = gpu};
}

// ---- texts that come and go ----

static or_kv_sequence_t *open(or_model_t *model, uint32_t slots_max)
{
    or_kv_sequence_t *text = NULL;
    assert_int_equal(or_model_open_sequence(model, slots_max, &text), OR_OK);
    return text;
}

static void run_pass(or_model_t *model, or_kv_sequence_t *text)
{
    const uint32_t path[] = {0, 1, 2};
    const or_model_row_t rows[] = {prefix_row(text, 1), tree_row(text, 2, 0, OR_KV_NO_SLOT),
                                   tree_row(text, 3, 1, 0), tree_row(text, 4, 2, 1)};
    assert_int_equal(or_model_forward(model, rows, NODES + 1), OR_OK);
    assert_int_equal(or_kv_sequence_accept(text, path, NODES), OR_OK);
}

// There are as many sequences as there may be, of which some close and others take their place.
static void live(or_model_t *model, uint32_t texts)
{
    or_kv_sequence_t *open_ones[TEXTS] = {NULL};
    for (uint32_t i = 0; i < texts; i++) {
        open_ones[i] = open(model, SLOTS);
        run_pass(model, open_ones[i]);
    }
    for (uint32_t i = 0; i < 3 * texts; i++) {
        or_kv_sequence_close(&open_ones[i % texts]);
        open_ones[i % texts] = open(model, SLOTS - i % 2);
        run_pass(model, open_ones[i % texts]);
    }
    for (uint32_t i = 0; i < texts; i++) {
        or_kv_sequence_close(&open_ones[i]);
    }
}

static void a_text_takes_the_slots_that_another_had(void **state)
{
    (void)state;
    const or_gpu_functions_t functions = counting(or_gpu_functions()->free_bytes);
    const or_gpu_choice_t choice = {.functions = &functions};
    model_fixture_t fixture;
    model_fixture_open(&fixture, MODEL, NULL, options_of(&choice, 0));
    assert_int_equal(or_model_sequences_max(fixture.model), UINT32_MAX);
    or_kv_sequence_t *first = open(fixture.model, SLOTS);
    or_kv_sequence_t *second = open(fixture.model, SLOTS);
    run_pass(fixture.model, second);
    uint32_t before = calls;
    for (uint32_t i = 0; i < 4; i++) {
        or_kv_sequence_close(&first);
        or_kv_sequence_close(&second);
        second = open(fixture.model, SLOTS);
        first = open(fixture.model, SLOTS);
        run_pass(fixture.model, first);
    }
    assert_int_equal(calls, before);
    or_kv_sequence_close(&first);
    first = open(fixture.model, SLOTS + 1); // of another size, and the old ones are given back
    or_kv_sequence_close(&second);
    second = open(fixture.model, SLOTS + 1);
    run_pass(fixture.model, second);
    assert_true(calls > before);
    or_kv_sequence_close(&first);
    or_kv_sequence_close(&second);
    model_fixture_close(&fixture);
}

static void check_full(or_model_t *model, uint32_t texts)
{
    or_kv_sequence_t *open_ones[TEXTS] = {NULL};
    or_kv_sequence_t *more = NULL;
    for (uint32_t i = 0; i < texts; i++) {
        open_ones[i] = open(model, SLOTS);
    }
    assert_int_equal(or_model_open_sequence(model, SLOTS, &more), OR_ERR_FULL);
    more = open(model, 0); // this needs none
    or_kv_sequence_close(&more);
    or_kv_sequence_close(&open_ones[0]);
    assert_int_equal(or_model_open_sequence(model, SLOTS + 1, &more), OR_ERR_INVALID);
    open_ones[0] = open(model, SLOTS);
    for (uint32_t i = 0; i < texts; i++) {
        or_kv_sequence_close(&open_ones[i]);
    }
}

static void check_reserved(__typeof__(or_cuda_free_bytes) *free_bytes, uint32_t texts)
{
    const or_gpu_functions_t functions = counting(free_bytes);
    const or_gpu_choice_t choice = {.functions = &functions};
    model_fixture_t fixture;
    model_fixture_open(&fixture, MODEL, NULL, options_of(&choice, SLOTS));
    assert_int_equal(or_model_sequences_max(fixture.model), texts);
    uint32_t before = calls;
    live(fixture.model, texts);
    check_full(fixture.model, texts);
    assert_int_equal(calls, before);
    model_fixture_close(&fixture);
}

static void slots_are_taken_by_the_load(void **state)
{
    (void)state;
    check_reserved(or_gpu_functions()->free_bytes, TEXTS);
    check_reserved(two_parts_free, 2);
    check_reserved(nothing_free, 1);
}

// ---- ranks ----

static int describe_as(uint8_t name, uint32_t index, or_cuda_description_t *description)
{
    int status = or_gpu_functions()->describe(index, description);
    memset(description->uuid, name, sizeof description->uuid);
    return status;
}

static int describe_one(uint32_t index, or_cuda_description_t *description)
{
    return describe_as(1, index, description);
}

static int describe_other(uint32_t index, or_cuda_description_t *description)
{
    return describe_as(2, index, description);
}

static void check_ranks(int size, int stages, const or_gpu_choice_t *leaders,
                        const or_gpu_choice_t *others)
{
    thread_world_t *world = thread_world_create(size, stages);
    or_model_options_t options = options_of(others, SLOTS);
    thread_world_follow(world, MODEL, &options);
    or_model_options_t own = options_of(leaders, SLOTS);
    own.ranks = thread_world_ranks(world, 0);
    model_fixture_t fixture;
    model_fixture_open(&fixture, MODEL, NULL, own);
    assert_int_equal(or_model_sequences_max(fixture.model), 2);
    live(fixture.model, 2);
    check_full(fixture.model, 2);
    model_fixture_close(&fixture);
    assert_int_equal(thread_world_join(world), OR_OK);
    thread_world_destroy(&world);
}

static void ranks_agree_on_the_least(void **state)
{
    (void)state;
    const or_gpu_choice_t usual = {.functions = or_gpu_functions()};
    or_gpu_functions_t functions = counting(two_parts_free);
    functions.describe = describe_other; // which it need not share
    const or_gpu_choice_t small = {.functions = &functions};
    check_ranks(2, 1, &usual, &small);
    slots_bytes = 0;
    check_ranks(1, 2, NULL, &small);
    slots_bytes = 0;
    check_ranks(2, 1, &small, NULL);
}

// ---- devices ----

static int as_many_free(uint32_t index, uint64_t *bytes)
{
    *bytes = FREE_BYTES;
    return or_gpu_functions()->free_bytes(index, &(uint64_t){0});
}

// Check which part of the pages and slots that the leader's device has room for ranks on these two take.
static void check_shares(int size, int stages, __typeof__(or_cuda_describe) *others, uint32_t part)
{
    or_gpu_functions_t functions[] = {*or_gpu_functions(), *or_gpu_functions()};
    functions[0].describe = describe_one;
    functions[1].describe = others;
    functions[0].slots_bytes = note_slots_bytes;
    functions[0].free_bytes = functions[1].free_bytes = as_many_free;
    const or_gpu_choice_t choices[] = {{.functions = &functions[0]}, {.functions = &functions[1]}};
    or_model_options_t options = {.threads = 1,
                                  .rows_max = 1,
                                  .context_max = 2 * OR_KV_PAGE,
                                  .sequences_max = 1u << 20,
                                  .slots_max = SLOTS,
                                  .gpu = &choices[1]};
    thread_world_t *world = thread_world_create(size, stages);
    thread_world_follow(world, MODEL, &options);
    options.gpu = &choices[0];
    options.ranks = thread_world_ranks(world, 0);
    model_fixture_t fixture;
    model_fixture_open(&fixture, MODEL, NULL, options);
    uint64_t pages = or_kv_cache_pages(or_model_cache(fixture.model));
    uint64_t page_bytes = or_model_memory(fixture.model).cache / pages;
    assert_true(pages > 4);
    assert_int_equal(pages, FREE_BYTES / 2 / part / page_bytes);
    uint32_t texts = or_model_sequences_max(fixture.model);
    assert_true(texts > 1);
    assert_int_equal(texts, FREE_BYTES / 2 / part / slots_bytes);
    model_fixture_close(&fixture);
    assert_int_equal(thread_world_join(world), OR_OK);
    thread_world_destroy(&world);
}

static void ranks_divide_what_they_share(void **state)
{
    (void)state;
    check_shares(2, 1, describe_one, 2);
    check_shares(2, 1, describe_other, 1);
    check_shares(1, 2, describe_one, 2);
    check_shares(2, 2, describe_other, 3);
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_takes_the_slots_that_another_had),
        cmocka_unit_test(slots_are_taken_by_the_load),
        cmocka_unit_test(ranks_agree_on_the_least),
        cmocka_unit_test(ranks_divide_what_they_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
