// Goal: a way for two vocabularies to meet is chosen where there is one and refused, with the next best,
// where there is not.
// Method: the demonstration's two vocabularies, with figures and nature made up.
#include "proto/session/vocab_choice.h"

#include <string.h>

#include "common/text/text_test_support.h"
#include "tests/support/test_support.h"

// A pair of the demonstration's two vocabularies, with figures and nature made up.
typedef struct {
    or_vocab_t *draft, *target;
    or_vocab_pair_t *pair;
} world_t;

static void world_init(world_t *world)
{
    world->draft = test_load_vocab(test_model("tales-bpe-1m-f16.gguf"));
    world->target = test_load_vocab(test_model("tales-6m-f16.gguf"));
    assert_int_equal(or_vocab_pair_create(world->draft, world->target, &world->pair), OR_OK);
    assert_false(world->pair->same || world->pair->bijective);
}

static void world_fini(world_t *world)
{
    or_vocab_pair_destroy(&world->pair);
    or_vocab_destroy(&world->target);
    or_vocab_destroy(&world->draft);
}

enum { SAME = 1, BIJECTIVE = 2, LOSES_TEXT = 4 };

static or_vocab_figures_t pretend(world_t *world, unsigned nature, double of_bytes)
{
    world->pair->same = (nature & SAME) != 0;
    world->pair->bijective = (nature & (SAME | BIJECTIVE)) != 0;
    return (or_vocab_figures_t){.shared_of_target = 0.25,
                                .shared_of_text = of_bytes,
                                .shared_of_bytes = of_bytes,
                                .draft_injective = (nature & LOSES_TEXT) == 0,
                                .target_injective = true};
}

static void the_best_way_is_chosen(void **state)
{
    (void)state;
    static const struct {
        unsigned nature;
        double of_bytes;
        uint32_t rule;
        float temperature;
        or_vocab_method_t expected;
        const char *why;
    } cases[] = {
        {SAME, 1, OR_ACCEPT_COUPLED, 1, OR_VOCAB_SAME, "the same"},
        {SAME, 1, OR_ACCEPT_SPS, 1, OR_VOCAB_SAME, "the same"},
        {SAME | LOSES_TEXT, 1, OR_ACCEPT_GREEDY, 0, OR_VOCAB_SAME, "the same"},
        {SAME, 1, OR_ACCEPT_SLRS, 1, OR_VOCAB_SLRS, "slrs"},
        {BIJECTIVE, 1, OR_ACCEPT_COUPLED, 0, OR_VOCAB_TLI, "other ids"},
        {BIJECTIVE | LOSES_TEXT, 0.01, OR_ACCEPT_NAIVE, 1, OR_VOCAB_TLI, "other ids"},
        {0, 0.96, OR_ACCEPT_COUPLED, 0, OR_VOCAB_TLI, "1015 tokens are in both"},
        {0, 0.9, OR_ACCEPT_COUPLED, 1, OR_VOCAB_TLI, "90.0 %"},
        {0, 0.9, OR_ACCEPT_COUPLED, 0, OR_VOCAB_SLEM, "90.0 %"},
        {0, 0.7, OR_ACCEPT_COUPLED, 1, OR_VOCAB_SLEM, "as text"},
        {0, 0.1, OR_ACCEPT_COUPLED, 0, OR_VOCAB_SLEM, "10.0 %"},
        {0, 0.1, OR_ACCEPT_GREEDY, 0, OR_VOCAB_SLEM, "25.0 %"},
        {0, 0.1, OR_ACCEPT_NAIVE, 1, OR_VOCAB_SLEM, "as text"},
        {0, 0.1, OR_ACCEPT_TYPICAL, 1, OR_VOCAB_SLEM, "as text"},
        {0, 0.01, OR_ACCEPT_COUPLED, 1, OR_VOCAB_SLEM, "as text"},
        {LOSES_TEXT, 0.1, OR_ACCEPT_COUPLED, 0, OR_VOCAB_TLI, "10.0 %"},
        {0, 0.1, OR_ACCEPT_TRAVERSAL, 0, OR_VOCAB_TLI, "traversal needs the distribution"},
        {0, 0.1, OR_ACCEPT_SLRS, 1, OR_VOCAB_SLRS, "slrs"},
    };
    world_t world;
    world_init(&world);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[256] = "";
        or_vocab_method_t method = OR_VOCAB_AUTO;
        or_vocab_figures_t figures = pretend(&world, cases[i].nature, cases[i].of_bytes);
        or_status_t status = or_vocab_choose(world.pair, &figures, cases[i].rule,
                                             cases[i].temperature, &method, why, sizeof why);
        if (status != OR_OK || method != cases[i].expected || strstr(why, cases[i].why) == NULL) {
            fail_msg("case %zu: %s, \"%s\"", i, or_vocab_method_name(method),
                     status == OR_OK ? why : or_error_text());
        }
        assert_int_equal(or_vocab_choice_check(world.pair, &figures, OR_VOCAB_AUTO, cases[i].rule),
                         OR_OK);
        assert_int_equal(or_vocab_choice_check(world.pair, &figures, method, cases[i].rule), OR_OK);
    }
    world_fini(&world);
}

static void what_cannot_be_is_refused_with_the_next_best(void **state)
{
    (void)state;
    static const struct {
        unsigned nature;
        double of_bytes;
        or_vocab_method_t method;
        uint32_t rule;
        const char *advice;
    } cases[] = {
        {0, 0.9, OR_VOCAB_SAME, OR_ACCEPT_COUPLED, "next best choice is --vocab-map tli"},
        {0, 0.01, OR_VOCAB_SAME, OR_ACCEPT_COUPLED, "--vocab-map slem"},
        {0, 0.01, OR_VOCAB_TLI, OR_ACCEPT_COUPLED, "1.0 %"},
        {0, 0.01, OR_VOCAB_TLI, OR_ACCEPT_NAIVE, "next best choice is --vocab-map slem"},
        {0, 0.01, OR_VOCAB_UNION, OR_ACCEPT_SPS, "--vocab-map slem --accept coupled"},
        {0, 0.01, OR_VOCAB_AUTO, OR_ACCEPT_BLOCK, "--vocab-map slem --accept coupled"},
        {LOSES_TEXT, 0.9, OR_VOCAB_SLEM, OR_ACCEPT_COUPLED, "the drafter's tokenizer"},
        {LOSES_TEXT, 0.9, OR_VOCAB_SLEM, OR_ACCEPT_COUPLED, "--vocab-map tli"},
        {LOSES_TEXT, 0.9, OR_VOCAB_SLRS, OR_ACCEPT_SLRS, "--vocab-map tli --accept coupled"},
        {LOSES_TEXT, 0.01, OR_VOCAB_AUTO, OR_ACCEPT_COUPLED, "use another drafter"},
        {LOSES_TEXT, 0.01, OR_VOCAB_TLI, OR_ACCEPT_SPS, "use another drafter"},
    };
    world_t world;
    world_init(&world);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        or_vocab_figures_t figures = pretend(&world, cases[i].nature, cases[i].of_bytes);
        assert_int_equal(
            or_vocab_choice_check(world.pair, &figures, cases[i].method, cases[i].rule),
            OR_ERR_UNSUPPORTED);
        if (strstr(or_error_text(), cases[i].advice) == NULL) {
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, or_error_text(), cases[i].advice);
        }
    }
    or_vocab_figures_t figures = pretend(&world, LOSES_TEXT, 0.01);
    or_vocab_method_t method = OR_VOCAB_AUTO;
    char why[64] = "";
    assert_int_equal(
        or_vocab_choose(world.pair, &figures, OR_ACCEPT_COUPLED, 0, &method, why, sizeof why),
        OR_ERR_UNSUPPORTED);
    assert_int_equal(method, OR_VOCAB_AUTO);
    figures = pretend(&world, 0, 0.9); // what the rule forbids is another mistake
    assert_int_equal(or_vocab_choice_check(world.pair, &figures, OR_VOCAB_SLEM, OR_ACCEPT_SPS),
                     OR_ERR_INVALID);
    world_fini(&world);
}

// However much of a text they cover: punctuation and digits are no vocabulary.
static void a_few_tokens_are_no_overlap(void **state)
{
    (void)state;
    enum { FEW = 63 };
    world_t world;
    world_init(&world);
    or_vocab_figures_t figures = pretend(&world, 0, 0.9);
    uint32_t left = FEW;
    for (uint32_t id = 0; id < or_vocab_size(world.target); id++) {
        bool prints = or_vocab_widths(world.target)[id] > 0;
        if (prints && world.pair->to_draft[id] != OR_TOKEN_NONE) {
            world.pair->to_draft[id] = left > 0 ? world.pair->to_draft[id] : OR_TOKEN_NONE;
            left -= left > 0;
        }
    }
    assert_int_equal(or_vocab_choice_check(world.pair, &figures, OR_VOCAB_TLI, OR_ACCEPT_COUPLED),
                     OR_ERR_UNSUPPORTED);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_way_is_chosen),
        cmocka_unit_test(what_cannot_be_is_refused_with_the_next_best),
        cmocka_unit_test(a_few_tokens_are_no_overlap),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
