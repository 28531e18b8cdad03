// Goal: a text does not depend on who shares its passes, on the size of a pass or on how often its pages
// are taken: it is, token for token, what it is alone. And whatever happens, no page is lost.
// Method: the real role and model on a network in memory. Texts of all kinds of rules, prompts, trees
// and arrivals, drawn from a seed; each alone in a verifier that shares nothing is the yardstick. Pools a
// third of what all need, and just what one needs; texts that are cancelled in every phase; two ranks, and
// exchanges between them that fail.
#include <string.h>

#include "tests/support/thread_world.h"
#include "verifier/pass/crowd_test_support.h"
#include "verifier/verifier_internal.h"

#define TEXTS 14
#define WANTED 24
#define PROMPT_MAX 90
#define PAGES_ONE                                                                                  \
    6u // what the longest text with its tree needs: 90 + 24 + 24 positions, and one to spare

static const struct {
    or_accept_rule_t rule;
    or_draft_method_t method;
    float temperature;
    uint32_t top_k;
    float penalty;
} kinds[] = {
    {OR_ACCEPT_COUPLED, OR_DRAFT_COUPLED, 0, 0, 1},
    {OR_ACCEPT_COUPLED, OR_DRAFT_COUPLED, 1, 0, 1},
    {OR_ACCEPT_SPS, OR_DRAFT_CHAIN, 1, 3, 1},
    {OR_ACCEPT_RECURSIVE, OR_DRAFT_RSD_C, 1, 0, 1},
    {OR_ACCEPT_SLRS, OR_DRAFT_CHAIN, 1, 4, 1},
    {OR_ACCEPT_COUPLED, OR_DRAFT_COUPLED, 0, 0, 1.3F},
    {OR_ACCEPT_COUPLED, OR_DRAFT_COUPLED, 0.7F, 5, 1},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static text_t alone[TEXTS], together[TEXTS];
static uint32_t plain[TEXTS][CROWD_CONTEXT]; // at temperature 0: hints

static void describe(text_t *text, uint32_t i, uint64_t *rng)
{
    static const char *owners[] = {"ada", "ada", "bob"};
    *text = (text_t){.id = 100 + i,
                     .seed = test_below(rng, 1000000),
                     .owner = owners[i % 3],
                     .rule = kinds[i % KINDS].rule,
                     .method = kinds[i % KINDS].method,
                     .sampling = or_sampling_default(),
                     .prompt_length = 1 + (uint32_t)test_below(rng, PROMPT_MAX),
                     .wanted = WANTED,
                     .arrival = (uint32_t)test_below(rng, 12)};
    text->sampling.temperature = kinds[i % KINDS].temperature;
    text->sampling.top_k = kinds[i % KINDS].top_k;
    text->sampling.repeat_penalty = kinds[i % KINDS].penalty;
    for (uint32_t p = 0; p < text->prompt_length; p++) {
        // The owners' prompts begin alike and part sooner or later.
        text->prompt[p] = p < 50 + i % 4 ? 700 + p : 300 + (uint32_t)test_below(rng, 2000);
    }
}

static int setup(void **state)
{
    const or_verifier_config_t config = {.sessions_max = 1, .no_prefix_sharing = true};
    uint64_t rng = test_seed();
    crowd_t *crowd = crowd_create(&config, 40, NULL);
    *state = NULL;
    for (uint32_t i = 0; i < TEXTS; i++) {
        describe(&alone[i], i, &rng);
        text_t hint = alone[i];
        hint.rule = OR_ACCEPT_COUPLED;
        hint.method = OR_DRAFT_COUPLED;
        hint.sampling.temperature = 0;
        crowd_run(crowd, &hint, 1);
        assert_int_equal(hint.state, TEXT_DONE);
        memcpy(plain[i], hint.tokens + hint.prompt_length, WANTED * sizeof **plain);
        alone[i].hints = plain[i];
        crowd_run(crowd, &alone[i], 1);
        if (alone[i].state != TEXT_DONE) {
            fail_msg("text %u alone: %s", i, alone[i].error);
        }
    }
    assert_int_equal(crowd_stats(crowd).pages_free, 40);
    crowd_destroy(&crowd);
    return 0;
}

// All texts at once; what they come to is compared.
static void run_together(crowd_t *crowd)
{
    memcpy(together, alone, sizeof together);
    crowd_run(crowd, together, TEXTS);
    for (uint32_t i = 0; i < TEXTS; i++) {
        assert_same_text(&together[i], &alone[i]);
        assert_int_equal(together[i].rounds, alone[i].rounds);
    }
}

// Pages that are not free when no session is left are those of texts at rest, and none where there are
// none.
static void assert_no_page_lost(crowd_t *crowd, const or_verifier_config_t *config)
{
    or_stats_t stats = crowd_stats(crowd);
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(stats.queue, 0);
    if (config->no_prefix_sharing) {
        assert_int_equal(stats.pages_free, stats.pages);
    }
}

static void a_crowd_writes_what_each_writes_alone(void **state)
{
    (void)state;
    static const uint32_t batch_rows[] = {0, 7, 40, 97, 97}, crowd_rows[] = {0, 0, 0, 0, 12};
    uint32_t accepted = 0;
    for (uint32_t i = 0; i < sizeof batch_rows / sizeof *batch_rows; i++) {
        const or_verifier_config_t config = {.sessions_max = TEXTS,
                                             .batch_rows = batch_rows[i],
                                             .crowd_rows = crowd_rows[i],
                                             .no_prefix_sharing = i == 2};
        crowd_t *crowd = crowd_create(&config, 100, NULL);
        run_together(crowd);
        assert_no_page_lost(crowd, &config);
        assert_int_equal(crowd->stats.evictions, 0);
        if (batch_rows[i] == 0) { // they did share passes
            assert_true(crowd->stats.batched > 3 * crowd->stats.passes);
        }
        crowd_destroy(&crowd);
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        accepted += alone[i].accepted;
    }
    assert_true(accepted > TEXTS * WANTED / 8); // and guesses were accepted
}

// Return the pages that all need at once.
static uint32_t pages_of_all(void)
{
    uint32_t pages = 0;
    for (uint32_t i = 0; i < TEXTS; i++) {
        pages += (alone[i].length + OR_KV_PAGE - 1) / OR_KV_PAGE;
    }
    return pages;
}

// The one that came first.
static const text_t *oldest(void)
{
    const text_t *first = &together[0];
    for (uint32_t i = 1; i < TEXTS; i++) {
        first = together[i].arrival < first->arrival ? &together[i] : first;
    }
    return first;
}

static void a_small_pool_costs_time_only(void **state)
{
    (void)state;
    const uint32_t pages[] = {pages_of_all() / 3, 2 * PAGES_ONE, PAGES_ONE};
    for (uint32_t i = 0; i < 6; i++) {
        const or_verifier_config_t config = {
            .sessions_max = TEXTS, .batch_rows = 64, .no_prefix_sharing = i % 2 == 0};
        crowd_t *crowd = crowd_create(&config, pages[i / 2], NULL);
        run_together(crowd);
        assert_no_page_lost(crowd, &config);
        assert_int_equal(crowd->stats.evictions, crowd->evictions);
        assert_true(crowd->evictions > 0);
        assert_int_equal(oldest()->evicted, 0); // it was at work all the time
        crowd_destroy(&crowd);
    }
}

// The oldest grows until it needs the whole pool. Younger ones of another owner, who is owed more rows in
// every pass, come before it and hold a page.
static void the_oldest_gets_its_pages_from_those_before_it(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 3, .no_prefix_sharing = true};
    crowd_t *crowd = crowd_create(&config, PAGES_ONE, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        together[i] = alone[0];
        together[i].id = 1 + i;
        together[i].hints = NULL;
        together[i].prompt_length = 3;
        together[i].wanted = i == 0 ? PAGES_ONE * OR_KV_PAGE - 10 : 40;
        together[i].owner = i == 1 ? "bob" : "ada";
        together[i].plain = i != 2;
        text_begin(crowd, &together[i]);
    }
    uint32_t waited = 0;
    while (together[0].state == TEXT_AT_WORK && waited < 8) {
        uint32_t rounds = together[0].rounds;
        crowd_turn(crowd, together, 3);
        waited = together[0].rounds > rounds ? 0 : waited + 1;
        for (uint32_t i = 1; i < 3; i++) {
            if (together[i].state == TEXT_DONE) {
                together[i].id += 10;
                text_begin(crowd, &together[i]);
            }
        }
    }
    assert_int_equal(together[0].state, TEXT_DONE);
    assert_int_equal(together[0].evicted, 0);
    assert_true(crowd->evictions > 0);
    crowd_destroy(&crowd);
}

// Pages that were reserved for the longest path go back with the verdict.
static void between_rounds_a_text_holds_what_it_has_written(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 1, .no_prefix_sharing = true};
    crowd_t *crowd = crowd_create(&config, 40, NULL);
    together[0] = alone[1];
    text_begin(crowd, &together[0]);
    while (together[0].state == TEXT_AT_WORK) {
        uint32_t rounds = together[0].rounds;
        crowd_turn(crowd, together, 1);
        if (together[0].rounds > rounds) {
            uint32_t held = 40 - or_kv_cache_pages_free(or_model_cache(crowd->model));
            assert_int_equal(held, (together[0].length - 1 + OR_KV_PAGE - 1) / OR_KV_PAGE);
        }
    }
    crowd_destroy(&crowd);
}

// The pool is the context where it is the smaller of the two.
static void a_text_ends_where_the_pool_does(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 2};
    crowd_t *crowd = crowd_create(&config, 2, NULL);
    text_t texts[2] = {
        {.id = 1, .owner = "", .rule = OR_ACCEPT_COUPLED, .method = OR_DRAFT_COUPLED},
        {.id = 2, .owner = "", .rule = OR_ACCEPT_COUPLED, .method = OR_DRAFT_COUPLED}};
    for (uint32_t i = 0; i < 2; i++) {
        texts[i].sampling = or_sampling_default();
        texts[i].plain = true;
        texts[i].wanted = i == 0 ? 4 : 64 - 55;
        texts[i].prompt_length = i == 0 ? 65 : 55;
    }
    assert_int_equal(or_model_context(crowd->model), 64);
    crowd_run(crowd, texts, 2);
    assert_int_equal(texts[0].state, TEXT_FAILED);
    assert_non_null(strstr(texts[0].error, "64"));
    assert_int_equal(texts[1].state, TEXT_DONE);
    assert_int_equal(texts[1].length, 64);
    crowd_destroy(&crowd);
}

// The oldest has 5 pages of 8 and the youngest 2. The one between them wants 4, but the oldest gives none.
static void nobody_gives_pages_in_vain(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {130, 100, 34};
    const or_verifier_config_t config = {.sessions_max = 3, .no_prefix_sharing = true};
    crowd_t *crowd = crowd_create(&config, 8, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        together[i] = alone[0];
        text_reset(&together[i]);
        together[i].id = 1 + i;
        together[i].hints = NULL;
        together[i].plain = true;
        together[i].arrival = i;
        together[i].prompt_length = lengths[i];
        for (uint32_t p = 0; p < lengths[i]; p++) {
            together[i].prompt[p] = 700 + p;
        }
    }
    crowd_run(crowd, together, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(together[i].state, TEXT_DONE);
    }
    assert_int_equal(crowd->evictions, 0);
    assert_int_equal(crowd->stats.evictions, 0);
    crowd_destroy(&crowd);
}

// In whatever phase: its prefix half computed, its tree in the queue, between rounds, waiting for psi.
static void what_is_cancelled_is_free_in_the_same_turn(void **state)
{
    (void)state;
    const or_verifier_config_t config = {
        .sessions_max = 3, .batch_rows = 16, .no_prefix_sharing = true};
    crowd_t *crowd = crowd_create(&config, 60, NULL);
    for (uint32_t turns = 0; turns < 24; turns++) {
        memcpy(together, &alone[turns % 7], 3 * sizeof *together);
        for (uint32_t i = 0; i < 3; i++) {
            text_begin(crowd, &together[i]);
        }
        for (uint32_t i = 0; i < turns; i++) {
            crowd_turn(crowd, together, 3);
        }
        for (uint32_t i = 0; i < 3; i++) {
            text_cancel(crowd, &together[i]);
        }
        crowd_turn(crowd, NULL, 0);
        assert_int_equal(or_kv_cache_pages_free(or_model_cache(crowd->model)), 60);
        or_stats_t stats = crowd_stats(crowd);
        assert_int_equal(stats.sessions, 0);
        assert_int_equal(stats.queue, 0);
    }
    crowd_destroy(&crowd);
}

static void a_verifier_of_two_ranks_says_the_same(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = TEXTS, .batch_rows = 64};
    const uint32_t pages = pages_of_all() / 3;
    const or_model_options_t options = crowd_model_options(pages, NULL);
    thread_world_t *world = thread_world_create(2, 1);
    thread_world_follow(world, test_model(CROWD_MODEL), &options);
    crowd_t *crowd = crowd_create(&config, pages, thread_world_ranks(world, 0));
    run_together(crowd);
    assert_int_equal(crowd_stats(crowd).ranks, 2);
    crowd_destroy(&crowd);
    assert_int_equal(thread_world_join(world), OR_OK);
    thread_world_destroy(&world);
}

static or_status_t lose(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    (void)ranks;
    (void)send;
    (void)bytes;
    (void)recv;
    return or_fail(OR_ERR_IO, "rank 1 is lost");
}

// No rank may go on alone: in the middle of a pass, or while its logits are collected.
static void ranks_out_of_step_end_the_verifier_and_no_text(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 2};
    const or_model_options_t options = crowd_model_options(40, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        thread_world_t *world = thread_world_create(2, 1);
        thread_world_follow(world, test_model(CROWD_MODEL), &options);
        or_ranks_t *leader = (or_ranks_t *)thread_world_ranks(world, 0);
        crowd_t *crowd = crowd_create(&config, 40, leader);
        memcpy(together, alone, 2 * sizeof *together);
        text_begin(crowd, &together[0]);
        text_begin(crowd, &together[1]);
        crowd_turn(crowd, together, 2);
        assert_null(or_verifier_broken(crowd->verifier));
        *(i == 0 ? &leader->all_gather : &leader->collect) = lose;
        for (uint32_t turn = 0; turn < 8; turn++) {
            crowd_turn(crowd, together, 2);
        }
        assert_non_null(or_verifier_broken(crowd->verifier));
        assert_non_null(strstr(or_verifier_broken(crowd->verifier), "rank 1 is lost"));
        assert_int_equal(or_verifier_turn(crowd->verifier), OR_TIME_NEVER);
        // Another verifier goes on with them.
        assert_int_equal(together[0].state, TEXT_AT_WORK);
        assert_int_equal(together[1].state, TEXT_AT_WORK);
        thread_world_join(world); // the other rank waits for us in the pass
        crowd_destroy(&crowd);
        thread_world_destroy(&world);
    }
}

// A long prompt takes its share of the passes and no more: rounds of the others go on beside it.
static void a_long_prompt_does_not_stall_the_others(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 2, .batch_rows = 64};
    crowd_t *crowd = crowd_create(&config, 60, NULL);
    memcpy(together, alone, sizeof *together);
    text_t *small = &together[0];
    text_t big = alone[1];
    big.wanted = 4;
    big.prompt_length = 480;
    for (uint32_t i = 0; i < big.prompt_length; i++) {
        big.prompt[i] = 900 + i;
    }
    text_begin(crowd, small);
    while (small->rounds == 0) {
        crowd_turn(crowd, small, 1);
    }
    uint32_t before = small->rounds;
    text_begin(crowd, &big);
    uint32_t turns = 0;
    for (; small->state == TEXT_AT_WORK; turns++) {
        crowd_turn(crowd, small, 1);
    }
    assert_int_equal(small->rounds - before, turns);
    assert_same_text(small, &alone[0]);
    crowd_destroy(&crowd);
}

// Passes until `count` texts with prompts of 96 tokens each have their first verdict.
static uint64_t passes_of(uint32_t count)
{
    const or_verifier_config_t config = {
        .sessions_max = 2, .batch_rows = 128, .crowd_rows = 16, .no_prefix_sharing = true};
    crowd_t *crowd = crowd_create(&config, 60, NULL);
    for (uint32_t i = 0; i < count; i++) {
        together[i] = alone[i];
        text_reset(&together[i]);
        together[i].plain = true;
        together[i].wanted = 1;
        together[i].prompt_length = 96;
        for (uint32_t k = 0; k < 96; k++) {
            together[i].prompt[k] = 100 * (i + 1) + k;
        }
        text_begin(crowd, &together[i]);
    }
    crowd_run(crowd, together, count);
    uint64_t passes = crowd_stats(crowd).passes;
    crowd_destroy(&crowd);
    return passes;
}

// A text alone gets the whole of a pass for its prompt, two share small ones.
static void texts_that_share_get_small_passes(void **state)
{
    (void)state;
    assert_int_equal(passes_of(1), 1);
    assert_in_range(passes_of(2), 7, 12); // 96 rows by 16, and then the other alone
}

// As if passes had taken 10 ms: here they take no time at all.
static void slow_down(crowd_t *crowd)
{
    or_linger_t *linger = &crowd->verifier->linger;
    int64_t busy_ns = linger->busy_ns;
    for (uint32_t i = 0; i < 20; i++) {
        or_linger_passed(linger, 1, 10 * OR_NS_PER_MS);
        or_linger_passed(linger, 2, 10 * OR_NS_PER_MS);
    }
    linger->busy_ns = busy_ns;
}

// One answers at once, the other a turn later. Passes that take long wait for it: all are of both. Each writes what it writes
// alone.
static void a_pass_waits_for_who_is_soon_back(void **state)
{
    (void)state;
    const or_verifier_config_t config = {.sessions_max = 2};
    crowd_t *crowd = crowd_create(&config, 0, NULL);
    uint64_t rng = 5;
    for (uint32_t i = 0; i < 2; i++) {
        describe(&together[i], 0, &rng);
        together[i].id = 100 + i;
        together[i].plain = true;
        together[i].slow = i == 1;
        together[i].wanted = 60;
        text_begin(crowd, &together[i]);
    }
    or_stats_t before = {0};
    for (uint32_t turn = 0; turn < 100; turn++) {
        before = turn == 20 ? crowd->verifier->stats : before;
        slow_down(crowd);
        crowd_turn(crowd, together, 2);
    }
    const or_stats_t *after = &crowd->verifier->stats;
    assert_in_range(after->passes - before.passes, 35, 41);
    assert_int_equal(after->batched - before.batched, 2 * (after->passes - before.passes));
    for (uint32_t turn = 0; turn < 100; turn++) { // to their ends
        crowd_turn(crowd, together, 2);
    }
    crowd_destroy(&crowd);
    crowd = crowd_create(&config, 0, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        alone[i] = together[i];
        alone[i].slow = false;
        crowd_run(crowd, &alone[i], 1);
        assert_same_text(&alone[i], &together[i]);
    }
    crowd_destroy(&crowd);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_writes_what_each_writes_alone),
        cmocka_unit_test(a_small_pool_costs_time_only),
        cmocka_unit_test(the_oldest_gets_its_pages_from_those_before_it),
        cmocka_unit_test(between_rounds_a_text_holds_what_it_has_written),
        cmocka_unit_test(a_text_ends_where_the_pool_does),
        cmocka_unit_test(nobody_gives_pages_in_vain),
        cmocka_unit_test(what_is_cancelled_is_free_in_the_same_turn),
        cmocka_unit_test(a_verifier_of_two_ranks_says_the_same),
        cmocka_unit_test(ranks_out_of_step_end_the_verifier_and_no_text),
        cmocka_unit_test(a_long_prompt_does_not_stall_the_others),
        cmocka_unit_test(texts_that_share_get_small_passes),
        cmocka_unit_test(a_pass_waits_for_who_is_soon_back),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
