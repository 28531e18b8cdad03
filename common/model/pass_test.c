// Goal: a pass that cannot be planned takes no page, copies none and leaves no slot, whichever row is to
// blame; one that can takes what its prefix rows need.
// Method: a small pool, sequences that share its pages, and every count of pages after each pass.
#include <string.h>

#include "common/model/model_internal.h"
#include "tests/support/test_support.h"

#define POOL 4u

typedef struct {
    or_gguf_t *gguf;
    or_model_t *model;
    or_kv_sequence_t *one, *two; // of 40 tokens, the first 32 shared
} fixture_t;

static or_model_row_t prefix_row(or_kv_sequence_t *sequence)
{
    return (or_model_row_t){sequence, 5, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
}

static void open_fixture(fixture_t *f)
{
    *f = (fixture_t){0};
    const or_model_options_t options = {.threads = 1, .rows_max = 80, .pages_max = POOL};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &f->gguf), OR_OK);
    assert_int_equal(or_model_load(f->gguf, &options, &f->model), OR_OK);
    assert_int_equal(or_model_open_sequence(f->model, 4, &f->one), OR_OK);
    assert_int_equal(or_model_open_sequence(f->model, 4, &f->two), OR_OK);
    or_model_row_t rows[40];
    for (uint32_t i = 0; i < 40; i++) {
        rows[i] = prefix_row(f->one);
    }
    assert_int_equal(or_model_forward(f->model, rows, 40), OR_OK);
    or_kv_sequence_share(f->two, f->one, 40);
    assert_int_equal(or_kv_cache_pages_free(f->model->cache), 1);
}

static void close_fixture(fixture_t *f)
{
    or_kv_sequence_close(&f->two);
    or_kv_sequence_close(&f->one);
    assert_int_equal(or_kv_cache_pages_free(f->model->cache), POOL);
    or_model_destroy(&f->model);
    or_gguf_close(&f->gguf);
}

// Rows of both, which were cut inside a page they share.
static void a_pass_copies_for_all_or_for_none(void **state)
{
    (void)state;
    fixture_t f;
    open_fixture(&f);
    or_kv_sequence_truncate(f.one, 20);
    or_kv_sequence_truncate(f.two, 20);
    assert_int_equal(or_kv_cache_pages_free(f.model->cache), 3);
    or_model_row_t rows[80];
    for (uint32_t i = 0; i < 80; i++) { // up to 60 positions each
        rows[i] = prefix_row(i % 2 == 0 ? f.one : f.two);
    }
    assert_int_equal(or_model_forward(f.model, rows, 80), OR_ERR_FULL);
    assert_non_null(strstr(or_error_text(), "3 of its 4 pages are free"));
    assert_int_equal(or_kv_cache_pages_free(f.model->cache), 3);
    assert_int_equal(or_kv_cache_pages_shared(f.model->cache), 1);
    assert_int_equal(or_model_forward(f.model, rows, 2), OR_OK);
    assert_int_equal(or_kv_cache_pages_free(f.model->cache), 2);
    assert_int_equal(or_kv_cache_pages_shared(f.model->cache), 0);
    assert_int_equal(or_kv_sequence_length(f.one), 21);
    assert_int_equal(or_kv_sequence_length(f.two), 21);
    close_fixture(&f);
}

static void a_bad_row_leaves_no_trace(void **state)
{
    (void)state;
    fixture_t f;
    open_fixture(&f);
    assert_int_equal(or_kv_sequence_reserve(f.two, 60), OR_OK);
    const or_model_row_t bad[] = {{f.two, 5, 4, OR_KV_NO_SLOT},  // no such slot
                                  {f.two, 5, 1, 2},              // no such parent
                                  {f.two, 5, 0, OR_KV_NO_SLOT}}; // taken by the row before
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        or_model_row_t rows[40] = {{f.two, 5, 0, OR_KV_NO_SLOT}};
        for (uint32_t r = 1; r < 39; r++) {
            rows[r] = prefix_row(f.one);
        }
        rows[39] = bad[i];
        assert_int_equal(or_model_forward(f.model, rows, 40), OR_ERR_INVALID);
        assert_int_equal(or_kv_cache_pages_free(f.model->cache), 1);
        assert_int_equal(or_kv_sequence_pages(f.one), 2);
        assert_int_equal(or_kv_sequence_pages(f.two), 2);
        assert_int_equal(or_kv_sequence_length(f.one), 40);
        assert_int_equal(or_kv_sequence_accept(f.two, (uint32_t[]){0}, 1), OR_ERR_INVALID);
    }
    close_fixture(&f);
}

// Tree rows alone need no page, however full the pool is.
static void trees_need_no_pages(void **state)
{
    (void)state;
    fixture_t f;
    open_fixture(&f);
    assert_int_equal(or_kv_sequence_reserve(f.one, 96), OR_OK);
    assert_int_equal(or_kv_cache_pages_free(f.model->cache), 0);
    or_kv_sequence_truncate(f.two, 20);
    const or_model_row_t rows[] = {{f.two, 5, 0, OR_KV_NO_SLOT}, {f.two, 6, 1, 0}};
    assert_int_equal(or_kv_cache_pages_free(f.model->cache), 1);
    assert_int_equal(or_kv_sequence_reserve(f.two, 21), OR_OK);
    assert_int_equal(or_model_forward(f.model, rows, 2), OR_OK);
    assert_int_equal(or_kv_cache_pages_free(f.model->cache), 0);
    assert_int_equal(or_kv_sequence_accept(f.two, (uint32_t[]){0, 1}, 2), OR_OK);
    assert_int_equal(or_kv_sequence_length(f.two), 22);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_copies_for_all_or_for_none),
        cmocka_unit_test(a_bad_row_leaves_no_trace),
        cmocka_unit_test(trees_need_no_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
