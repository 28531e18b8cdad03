// Goal: what the texts of one owner have in common is computed once, whoever comes when, and nothing is
// shared across owners.
// Method: rows are counted (Stats) while texts with the same 400 tokens are written at once, one behind
// the other, and by several owners; each text must be what it is where nothing is shared.
#include <string.h>

#include "verifier/pass/crowd_test_support.h"

#define COMMON 400
#define TAIL 5
#define WANTED 6
#define TEXTS 32
#define PAGES 700

static text_t texts[CROWD_TEXTS], unshared[CROWD_TEXTS];

static void describe(const char *owner, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        text_t *text = &texts[i];
        *text = (text_t){.id = 1 + i,
                         .seed = i,
                         .owner = owner,
                         .rule = OR_ACCEPT_COUPLED,
                         .method = OR_DRAFT_COUPLED,
                         .sampling = or_sampling_default(),
                         .prompt_length = COMMON + TAIL,
                         .wanted = WANTED};
        for (uint32_t p = 0; p < COMMON + TAIL; p++) {
            text->prompt[p] = p < COMMON ? 300 + p : 1000 + 10 * i + p % 7;
        }
    }
}

static void assert_texts_are_right(uint32_t count)
{
    const or_verifier_config_t config = {.sessions_max = CROWD_TEXTS, .no_prefix_sharing = true};
    crowd_t *crowd = crowd_create(&config, PAGES, NULL);
    memcpy(unshared, texts, sizeof unshared);
    crowd_run(crowd, unshared, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_same_text(&texts[i], &unshared[i]);
    }
    assert_int_equal(crowd_stats(crowd).reused_rows, 0);
    assert_int_equal(crowd_stats(crowd).prefill_rows, count * (COMMON + TAIL - 1));
    crowd_destroy(&crowd);
}

static void texts_that_come_at_once_compute_it_once(void **state)
{
    (void)state;
    static const uint32_t batch_rows[] = {0, 100, 24};
    for (uint32_t i = 0; i < 3; i++) {
        const or_verifier_config_t config = {.sessions_max = CROWD_TEXTS,
                                             .batch_rows = batch_rows[i]};
        crowd_t *crowd = crowd_create(&config, PAGES, NULL);
        describe("ada", 0, TEXTS);
        crowd_run(crowd, texts, TEXTS);
        or_stats_t stats = crowd_stats(crowd);
        assert_true(stats.prefill_rows <= COMMON + TEXTS * TAIL);
        assert_int_equal(stats.prefill_rows + stats.reused_rows, TEXTS * (COMMON + TAIL - 1));
        if (i == 0) {
            assert_texts_are_right(TEXTS);
        }
        crowd_destroy(&crowd);
    }
}

// Less than a page, but all there is to compute.
static void short_prompts_are_computed_once_too(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = CROWD_TEXTS};
    crowd_t *crowd = crowd_create(&config, PAGES, NULL);
    describe("ada", 0, 8);
    for (uint32_t i = 0; i < 8; i++) {
        texts[i].prompt_length = 20;
    }
    crowd_run(crowd, texts, 8);
    assert_int_equal(crowd_stats(crowd).prefill_rows, 19);
    crowd_destroy(&crowd);
}

static void texts_that_come_later_find_it_at_rest(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 2};
    crowd_t *crowd = crowd_create(&config, PAGES, NULL);
    describe("ada", 0, 4);
    for (uint32_t i = 0; i < 4; i++) {
        crowd_run(crowd, &texts[i], 1);
    }
    or_stats_t stats = crowd_stats(crowd);
    assert_int_equal(stats.sessions, 0);
    assert_true(stats.prefill_rows <= COMMON + 4 * TAIL);
    assert_true(stats.pages_shared >= COMMON / OR_KV_PAGE);
    assert_true(stats.pages_free < stats.pages);
    assert_texts_are_right(4);
    crowd_destroy(&crowd);
}

static void other_owners_compute_it_again(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = CROWD_TEXTS};
    crowd_t *crowd = crowd_create(&config, PAGES, NULL);
    describe("ada", 0, 4);
    describe("bob", 4, 4);
    describe("", 8, 1);
    texts[8].arrival = 30; // the others are at rest
    crowd_run(crowd, texts, 9);
    or_stats_t stats = crowd_stats(crowd);
    assert_true(stats.prefill_rows >= 3 * COMMON);
    assert_true(stats.prefill_rows <= 3 * COMMON + 9 * TAIL);
    assert_texts_are_right(9);
    crowd_destroy(&crowd);
}

// The pool holds hardly one text: what is at rest goes before anybody waits or loses a page.
static void texts_at_rest_give_way(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 2};
    crowd_t *crowd =
        crowd_create(&config, 2 + (COMMON + TAIL + WANTED + CROWD_NODES) / OR_KV_PAGE, NULL);
    describe("ada", 0, 3);
    describe("bob", 1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        crowd_run(crowd, &texts[i], 1);
        assert_int_equal(texts[i].state, TEXT_DONE);
    }
    assert_int_equal(crowd_stats(crowd).evictions, 0);
    assert_texts_are_right(3);
    crowd_destroy(&crowd);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_come_at_once_compute_it_once),
        cmocka_unit_test(short_prompts_are_computed_once_too),
        cmocka_unit_test(texts_that_come_later_find_it_at_rest),
        cmocka_unit_test(other_owners_compute_it_again),
        cmocka_unit_test(texts_at_rest_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
