// Goal: on a device layers with a window keep the last positions only, too: with the bits of whole texts on the CPU, in the
// memory that this takes and no more, on one device, on several, and beside a rank on the CPU.
// Method: families' models beside a cache of whole texts (families_windows_support.h), whose windows end in pages that the
// device has given up. A table of functions that counts the device's memory. Ranks are threads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/families/families_windows_support.h"
#include "tests/families/family_file.h"

// Some have sinks beside their scores, windows in all layers, layers that differ, or K and V that layers share.
static const struct {
    const char *name;
    or_kv_type_t type;
} families[] = {
    {"gpt-oss/0", OR_KV_F16}, {"phi3/0", OR_KV_Q8_0},   {"gemma4-shared/0", OR_KV_Q8_0},
    {"gemma3/0", OR_KV_F32},  {"cohere2/0", OR_KV_F32}, {"exaone4/1", OR_KV_F16},
    {"gemma2/0", OR_KV_F16},  {"gemma4/0", OR_KV_F32},
};

#define FAMILIES (sizeof families / sizeof families[0])
#define SHARE 4u // of the families, in the gate

static void check(const char *name, or_kv_type_t type, uint32_t host_layers)
{
    static windows_subject_t subject;
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions(), .host_layers = host_layers};
    const or_model_options_t options = windows_options(&gpu, type, 1);
    char *path = family_file_make(name);
    print_message("%s\n", name);
    windows_open(&subject, path, &options);
    windows_trees(&subject);
    windows_shares(&subject);
    if (host_layers == 0) {
        windows_cuts(&subject);
        assert_true(subject.fixture.model->gpu->steps.replays > 0);
    }
    windows_close(&subject);
    free(path);
}

static void bounded_windows_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHARE * test_runs(1) && i < FAMILIES; i++) {
        check(families[i].name, families[i].type, 0);
    }
}

static void layers_that_are_away_keep_the_same(void **state)
{
    (void)state;
    check("gemma3/0", OR_KV_F16, 3);
}

// The ranks of a world, each on a device or on the CPU, write what one on the CPU writes.
static void ranks_give_up_the_same(void **state)
{
    (void)state;
    static const int sizes[] = {2, 2, 1}, stages[] = {1, 1, 2};
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions()};
    const or_model_options_t here = windows_options(NULL, OR_KV_F32, 1);
    const or_model_options_t there = windows_options(&gpu, OR_KV_F32, 1);
    char *path = family_file_make("gemma4/0");
    record_t expected = record_play(path, &(world_t){1, 1, here, here}, windows_play);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_world(path, &(world_t){sizes[i], stages[i], i == 1 ? here : there, there},
                    windows_play, &expected);
    }
    free(expected.bytes);
    free(path);
}

// ---- memory ----

#define SEQUENCES 8u
#define ROOM ((uint64_t)96 << 20) // less than whole texts need, and more than bounded ones

static uint64_t taken; // bytes of the device

static int count_alloc(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    taken += bytes;
    return or_gpu_functions()->alloc(cuda, bytes, at_p);
}

typedef struct {
    uint64_t taken;
    uint64_t cache;
    uint32_t pages, frames;
    uint32_t away; // layers
} cost_t;

static cost_t load(const char *path, uint32_t slack)
{
    or_gpu_functions_t functions = *or_gpu_functions();
    const or_gpu_choice_t gpu = {.functions = &functions};
    model_fixture_t fixture;
    functions.alloc = count_alloc;
    taken = 0;
    model_fixture_open(&fixture, path, NULL,
                       (or_model_options_t){.threads = 1,
                                            .rows_max = WINDOWS_CHUNK,
                                            .window_slack = slack,
                                            .sequences_max = 1,
                                            .gpu = &gpu});
    const or_kv_cache_t *cache = or_model_cache(fixture.model);
    const cost_t cost = {.taken = taken,
                         .cache = or_model_memory(fixture.model).cache,
                         .pages = or_kv_cache_pages(cache),
                         .frames = or_kv_cache_frames(cache)};
    model_fixture_close(&fixture);
    return cost;
}

// Gemma 3's model has six layers, of which five have windows. Whole texts take six pages for each 32 positions, bounded ones
// a page and the frames of a window, and a table that says where each layer lies.
static void memory_is_what_it_says(void **state)
{
    (void)state;
    const uint32_t context = 4096;
    char *path = family_file_make_with("gemma3/0", ".context_length", context);
    const cost_t whole = load(path, context), bounded = load(path, 1);
    assert_int_equal(whole.frames, 0);
    assert_int_equal(whole.pages, context / OR_KV_PAGE);
    assert_int_equal(bounded.pages, whole.pages);
    assert_int_equal(bounded.frames, (64 + 1 + WINDOWS_CHUNK) / OR_KV_PAGE + 1 + 3);
    const uint64_t layer = whole.cache / whole.pages / 6;
    assert_true(bounded.cache == layer * (bounded.pages + 5 * bounded.frames));
    assert_true(whole.taken - bounded.taken ==
                whole.cache - bounded.cache - 6 * sizeof(or_cuda_kv_layer_t));
    free(path);
}

static or_status_t try_load(const char *path, uint64_t device_bytes, uint32_t slack, cost_t *cost)
{
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions(), .host_layers = OR_GPU_LAYERS_FIT};
    const or_model_options_t options = {.threads = 1,
                                        .rows_max = WINDOWS_CHUNK,
                                        .window_slack = slack,
                                        .sequences_max = SEQUENCES,
                                        .gpu = &gpu};
    char text[32];
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    snprintf(text, sizeof text, "%llu", (unsigned long long)device_bytes);
    setenv("OR_EMULATED_MEMORY", text, 1);
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    or_status_t status = or_model_load(gguf, &options, &model);
    if (status == OR_OK) {
        const or_kv_cache_t *cache = or_model_cache(model);
        *cost = (cost_t){.pages = or_kv_cache_pages(cache),
                         .frames = or_kv_cache_frames(cache),
                         .away = or_model_memory(model).host_layers};
    }
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

static int forget_limit(void **state)
{
    (void)state;
    return unsetenv("OR_EMULATED_MEMORY");
}

static bool is_emulated(void)
{
    or_cuda_description_t description;
    assert_int_equal(or_gpu_functions()->describe(0, &description), OR_CUDA_OK);
    return strstr(description.name, "emulated") != NULL;
}

// With less and less memory there are fewer frames, and in the end those of one text, while the context is whole. Layers
// make room for no more than that.
static void long_contexts_find_room(void **state)
{
    (void)state;
    const uint32_t context = 65536, frames_each = (64 + 1 + WINDOWS_CHUNK) / OR_KV_PAGE + 1 + 3;
    cost_t cost = {0}, before = {.pages = UINT32_MAX, .frames = SEQUENCES * frames_each};
    if (!is_emulated()) {
        skip();
    }
    char *path = family_file_make_with("gemma3/0", ".context_length", context);
    assert_int_equal(try_load(path, ROOM, context, &cost), OR_ERR_NO_MEMORY);
    for (uint64_t bytes = ROOM; try_load(path, bytes, 1, &cost) == OR_OK; bytes -= bytes / 32) {
        assert_in_range(cost.pages, context / OR_KV_PAGE, before.pages);
        assert_in_range(cost.frames, frames_each, before.frames);
        assert_true(cost.away == 0 || cost.frames == frames_each);
        before = cost;
    }
    assert_int_equal(before.pages, context / OR_KV_PAGE);
    assert_int_equal(before.frames, frames_each);
    free(path);
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded_windows_change_no_bit),
        cmocka_unit_test(layers_that_are_away_keep_the_same),
        cmocka_unit_test(ranks_give_up_the_same),
        cmocka_unit_test(memory_is_what_it_says),
        cmocka_unit_test_teardown(long_contexts_find_room, forget_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
