// Goal: where layers with a window keep the last positions only, texts are the same: those that share prefixes, that are
// at rest, evicted or cut back, in pools with few pages and few frames; and every text comes to its end.
// Method: the demonstration model, every other layer of which is given a window, so that it is another function. Texts
// alone, with a cache that keeps everything, are the truth.
#include <string.h>

#include "common/model/model_internal.h"
#include "verifier/pass/crowd_test_support.h"

#define WINDOW 64u
#define SLACK 32u
#define PAGES 700u
#define PROMPT 300u
#define WANTED 6u
#define TEXTS 9u

static text_t texts[CROWD_TEXTS], alone[CROWD_TEXTS];

// Take the model's cache away and give it another one, of so many frames; 0: of whole texts.
static void give_windows(crowd_t *crowd, uint32_t pages, uint32_t frames)
{
    or_model_t *model = crowd->model;
    for (uint32_t i = 1; i < model->shape.layers; i += 2) {
        model->layers[i].window = WINDOW;
    }
    model->shape.window = WINDOW;
    model->window_slack = SLACK;
    or_kv_cache_destroy(&model->cache);
    assert_int_equal(or_cache_create(model, &(or_cache_room_t){pages, frames}), OR_OK);
}

// Texts of which each has the first tokens of the one before: all of its prompt but the end, half of it, or little.
static void describe(void)
{
    static const uint32_t common[] = {0, PROMPT - 5, 150, PROMPT - 5, 40};
    for (uint32_t i = 0; i < TEXTS; i++) {
        text_t *text = &texts[i];
        const text_t *before = &texts[i > 0 ? i - 1 : 0];
        *text = (text_t){.id = 1 + i,
                         .seed = i,
                         .owner = "ada",
                         .rule = OR_ACCEPT_COUPLED,
                         .method = OR_DRAFT_COUPLED,
                         .sampling = or_sampling_default(),
                         .prompt_length = PROMPT + 7 * i,
                         .wanted = WANTED + 10 * i};
        for (uint32_t p = 0; p < text->prompt_length; p++) {
            text->prompt[p] = p < common[i % 5] ? before->prompt[p] : 300 + (p * 37 + i) % 1000;
        }
    }
}

static void write_alone(void)
{
    const or_verifier_config_t config = {.sessions_max = 1, .no_prefix_sharing = true};
    memcpy(alone, texts, sizeof alone);
    for (uint32_t i = 0; i < TEXTS; i++) {
        crowd_t *crowd = crowd_create(&config, PAGES, NULL);
        give_windows(crowd, PAGES, 0);
        crowd_run(crowd, &alone[i], 1);
        crowd_destroy(&crowd);
    }
}

typedef struct {
    uint32_t pages, frames, sessions, batch_rows;
    bool in_turn; // each text comes when the one before has ended
} case_t;

// Write the texts, compare them, and return the figures.
static or_stats_t write_all(const case_t *c)
{
    const or_verifier_config_t config = {
        .sessions_max = c->sessions, .batch_rows = c->batch_rows, .crowd_rows = c->batch_rows};
    crowd_t *crowd = crowd_create(&config, PAGES, NULL);
    give_windows(crowd, c->pages, c->frames);
    for (uint32_t i = 0; i < TEXTS && c->in_turn; i++) {
        crowd_run(crowd, &texts[i], 1);
    }
    if (!c->in_turn) {
        crowd_run(crowd, texts, TEXTS);
    }
    or_stats_t stats = crowd_stats(crowd);
    for (uint32_t i = 0; i < TEXTS; i++) {
        assert_int_equal(texts[i].state, TEXT_DONE);
        assert_same_text(&texts[i], &alone[i]);
    }
    crowd_destroy(&crowd);
    return stats;
}

static void texts_are_the_same(void **state)
{
    (void)state;
    static const case_t cases[] = {
        {PAGES, PAGES, CROWD_TEXTS, 0, false},
        {PAGES, PAGES, CROWD_TEXTS, 48, false},
        {PAGES, PAGES, 2, 0, true},
        {PAGES, 40, CROWD_TEXTS, 48, false},
        {PAGES, 14, CROWD_TEXTS, 48, false},
        {30, 30, CROWD_TEXTS, 48, false},
        {PAGES, 14, 2, 48, true},
    };
    describe();
    write_alone();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        or_stats_t stats = write_all(&cases[i]);
        print_message("%u pages, %u frames: %u rows read, %u shared, %u evictions\n",
                      cases[i].pages, cases[i].frames, (unsigned)stats.prefill_rows,
                      (unsigned)stats.reused_rows, (unsigned)stats.evictions);
        assert_true(stats.reused_rows > 0);
        bool is_scarce = !cases[i].in_turn && cases[i].frames < 40;
        assert_int_equal(stats.evictions > 0, is_scarce);
    }
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
