// Goal: a cache that keeps the last positions only, of layers with a window, changes no bit: in chunks, in trees, behind
// cuts and shared prefixes, on several ranks and in stages. It takes the memory that it says.
// Method: families' models beside a cache of whole texts (families_windows_support.h), with every cache type. Ranks repeat
// what the leader gives up.
#include <stdlib.h>

#include "tests/families/families_windows_support.h"
#include "tests/families/family_file.h"

static const char *const families[] = {"cohere2/0", "exaone4/1", "gemma2/0",
                                       "gemma3/0",  "gemma4/0",  "gemma4-shared/0",
                                       "gpt-oss/0", "phi3/0",    "gemma4-experts/1"};

#define FAMILIES (sizeof families / sizeof families[0])

static const or_kv_type_t types[] = {OR_KV_F32, OR_KV_F16, OR_KV_Q8_0};

#define TYPES (sizeof types / sizeof types[0])

static void check(const char *path, or_kv_type_t type, uint32_t threads)
{
    static windows_subject_t subject;
    static const uint32_t chunks[] = {1, 7, WINDOWS_CHUNK};
    const or_model_options_t options = windows_options(NULL, type, threads);
    windows_open(&subject, path, &options);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        windows_chunks(&subject, chunks[i]);
    }
    windows_trees(&subject);
    windows_cuts(&subject);
    windows_shares(&subject);
    windows_close(&subject);
}

static void bounded_windows_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        char *path = family_file_make(families[i]);
        print_message("%s\n", families[i]);
        for (size_t t = 0; t < TYPES; t++) {
            check(path, types[t], t == 0 ? 3 : 1);
        }
        free(path);
    }
}

static void ranks_give_up_the_same(void **state)
{
    (void)state;
    const or_model_options_t bounded = {.threads = 1, .rows_max = WINDOWS_CHUNK, .window_slack = 1};
    for (size_t i = 0; i < FAMILIES; i++) {
        char *path = family_file_make(families[i]);
        check_worlds(path, &bounded, windows_play);
        free(path);
    }
}

// Gemma 3's model has six layers, of which five have windows: its cache takes one layer's pages, and frames.
static void memory_is_what_it_says(void **state)
{
    (void)state;
    model_fixture_t fixture;
    char *path = family_file_make("gemma3/0");
    model_fixture_open(
        &fixture, path, NULL,
        (or_model_options_t){
            .threads = 1, .rows_max = WINDOWS_CHUNK, .window_slack = 1, .sequences_max = 1});
    const or_model_shape_t *shape = or_model_shape(fixture.model);
    assert_int_equal(shape->window, 64);
    assert_int_equal(shape->window_layers, 5);
    uint64_t layer = 2ull * sizeof(float) * OR_KV_PAGE * shape->kv_heads * shape->head_dim;
    uint32_t pages = or_kv_cache_pages(or_model_cache(fixture.model));
    uint32_t frames = or_kv_cache_frames(or_model_cache(fixture.model));
    assert_int_equal(pages, shape->context / OR_KV_PAGE);
    assert_in_range(frames, 1, pages - 1);
    or_model_memory_t memory = or_model_memory(fixture.model);
    assert_true(memory.cache == layer * (pages + 5 * frames));
    assert_true(memory.windows == layer * 5 * frames);
    // A text as long as Gemma 3's own, and of the usual options.
    or_model_shape_t large = *shape;
    large.context = 131072;
    large.window = 1024;
    uint64_t all = large.context / OR_KV_PAGE;
    uint64_t kept = (1024 + 256 + 256) / OR_KV_PAGE + 3;
    assert_true(or_model_cache_bytes(&large) == layer * (all + 5 * kept));
    model_fixture_close(&fixture);
    // A budget holds more positions than ten pages of whole texts.
    const or_model_options_t budget = {
        .threads = 1, .rows_max = WINDOWS_CHUNK, .window_slack = 1, .cache_bytes = 60 * layer};
    model_fixture_open(&fixture, path, NULL, budget);
    assert_int_equal(or_kv_cache_pages(or_model_cache(fixture.model)), 25);
    assert_int_equal(or_kv_cache_frames(or_model_cache(fixture.model)), 7);
    assert_true(or_model_memory(fixture.model).cache == budget.cache_bytes);
    model_fixture_close(&fixture);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded_windows_change_no_bit),
        cmocka_unit_test(ranks_give_up_the_same),
        cmocka_unit_test(memory_is_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
