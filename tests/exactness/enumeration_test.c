// Goal: every lossless acceptance rule that can be enumerated is exact with every drafting method it
// is legal with: the distribution of the first depth + 1 tokens is the target's, to the last digit if the
// rule's arithmetic does not round, and else to 1e-12.
//
// Method: toy pairs of 3 to 5 tokens; every choice of the drafter (its real builder) and of the
// verifier (its real rules) is taken in turn (toy_world.h).
#include <stdlib.h>

#include "tests/exactness/toy_world.h"
#include "tests/support/test_support.h"

#define MODELS (6u / test_share(2)) // the gate takes half of them
#define TOLERANCE 1e-12             // where the rule's arithmetic rounds

typedef struct {
    toy_world_t *world;
    toy_case_t what;
    mpq_t accepted; // expected number, of the last case
} fixture_t;

static int setup(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    f->world = toy_world_create();
    f->what.stop = TOY_NO_STOP;
    mpq_init(f->accepted);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    mpq_clear(f->accepted);
    toy_world_destroy(&f->world);
    free(f);
    return 0;
}

// These rules solve equations. All others stay in small rationals.
static bool may_round(or_accept_rule_t rule)
{
    return rule == OR_ACCEPT_KSEQ || rule == OR_ACCEPT_OTM;
}

static void check_exact(fixture_t *f, const char *what)
{
    or_accept_rule_t rule = f->what.plan.rule;
    toy_result_t result = toy_world_run(f->world, &f->what, f->accepted);
    assert_true(may_round(rule) || !result.rounded);
    if (!(result.distance <= (result.rounded ? TOLERANCE : 0))) {
        fail_msg("%s, %s with %s, %u tokens, model %llu: the distribution is off by %g", what,
                 or_draft_method_name(f->what.plan.method), or_accept_rule_name(rule),
                 f->what.toy.vocab_size, (unsigned long long)f->what.toy.seed, result.distance);
    }
}

static void check_shapes(fixture_t *f, or_draft_method_t method, or_accept_rule_t rule,
                         uint32_t vocab_size, const char *const *shapes)
{
    for (; *shapes != NULL; shapes++) {
        f->what.plan = toy_plan(method, rule, *shapes);
        for (uint64_t seed = 1; seed <= MODELS; seed++) {
            f->what.toy = (toy_t){.seed = seed, .vocab_size = vocab_size};
            check_exact(f, *shapes);
        }
    }
}

static const char *const chains[] = {"1", "1x1", "1x1x1", NULL};
static const char *const short_chains[] = {"1", "1x1", NULL};
static const char *const bushes[] = {"2", "3", "2x1", "2x2", NULL};
static const char *const small_bushes[] = {"2", "3", "4", "2x1", NULL};
static const char *const wide[] = {"2", "4", "5", NULL};

static void chains_are_exact(void **state)
{
    static const or_accept_rule_t rules[] = {
        OR_ACCEPT_SPS,  OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_RECURSIVE, OR_ACCEPT_NAIVE,
        OR_ACCEPT_KSEQ, OR_ACCEPT_OTM,         OR_ACCEPT_BLOCK,     OR_ACCEPT_TRAVERSAL};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        check_shapes(*state, OR_DRAFT_CHAIN, rules[i], 3, chains);
        check_shapes(*state, OR_DRAFT_CHAIN, rules[i], 4, short_chains);
        check_shapes(*state, OR_DRAFT_CHAIN, rules[i], 5, short_chains);
    }
}

static void draws_with_replacement_are_exact(void **state)
{
    check_shapes(*state, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 3, bushes);
    check_shapes(*state, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 4, small_bushes);
    check_shapes(*state, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 5, wide);
    check_shapes(*state, OR_DRAFT_MCSD, OR_ACCEPT_NAIVE, 3, small_bushes);
}

static void draws_without_replacement_are_exact(void **state)
{
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 3, bushes);
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 4, bushes);
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 5, wide);
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE, 4, small_bushes);
}

static void rules_that_know_how_many_were_drawn_are_exact(void **state)
{
    static const char *const most[] = {"2", "3", NULL};
    static const char *const sequences[] = {"2x2", "3x2", NULL};
    for (or_accept_rule_t rule = OR_ACCEPT_KSEQ; rule <= OR_ACCEPT_OTM; rule++) {
        check_shapes(*state, OR_DRAFT_MCSD, rule, 3, small_bushes);
        check_shapes(*state, OR_DRAFT_MCSD, rule, 4, most);
        check_shapes(*state, OR_DRAFT_MCSD, rule, 5, most);
        check_shapes(*state, OR_DRAFT_KSEQ, rule, 3, sequences);
    }
    check_shapes(*state, OR_DRAFT_KSEQ, OR_ACCEPT_MULTI_ROUND, 3, sequences);
}

// The siblings are of several models, each with a distribution of its own.
static void draws_of_several_models_are_exact(void **state)
{
    fixture_t *f = *state;
    f->what.plan =
        (toy_plan_t){.method = OR_DRAFT_MULTI, .rule = OR_ACCEPT_MULTI_ROUND, .depth = 1};
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        for (uint32_t vocab_size = 3; vocab_size <= 5; vocab_size++) {
            for (f->what.models = 1; f->what.models <= 3; f->what.models++) {
                f->what.toy = (toy_t){.seed = seed, .vocab_size = vocab_size};
                check_exact(f, "several models");
            }
        }
    }
}

static void traversal_is_exact(void **state)
{
    static const char *const levels[] = {"2x1x1", "2x2", NULL};
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 3, bushes);
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 3, levels);
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 4, small_bushes);
    check_shapes(*state, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 5, wide);
}

// These methods choose where to grow while they grow.
static void grown_trees_are_exact(void **state)
{
    static const or_draft_method_t methods[] = {OR_DRAFT_DYSPEC, OR_DRAFT_DYSPEC_T,
                                                OR_DRAFT_SEQUOIA};
    static const or_accept_rule_t rules[] = {OR_ACCEPT_RECURSIVE, OR_ACCEPT_TRAVERSAL};
    fixture_t *f = *state;
    for (uint32_t i = 0; i < 3 * 2 * 2 * MODELS; i++) {
        f->what.toy = (toy_t){.seed = 1 + i / 12, .vocab_size = 4};
        f->what.plan = (toy_plan_t){.method = methods[i % 3],
                                    .rule = rules[i / 3 % 2],
                                    .nodes = 3,
                                    .depth = 2,
                                    .calibrated = i / 6 % 2 == 1,
                                    .threshold = 0.05F};
        check_exact(f, "3 nodes");
        f->what.toy.vocab_size = 3;
        f->what.plan.depth = f->what.plan.nodes = 3;
        check_exact(f, "3 nodes, 3 levels");
    }
}

// The tokens' distribution is exact whatever the beam's values turn out to be.
static void stochastic_beams_are_exact(void **state)
{
    static const char *const beams[] = {"2x1", "2x2", "3x2", NULL};
    static const char *const long_beams[] = {"2x3", NULL};
    fixture_t *f = *state;
    for (uint64_t set = 0; set < 4; set++) {
        toy_world_set_uniforms(f->world, set);
        check_shapes(f, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 3, beams);
        check_shapes(f, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 4, beams);
        check_shapes(f, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 3, long_beams);
        check_shapes(f, OR_DRAFT_RSD_S, OR_ACCEPT_NAIVE, 3, beams);
        check_shapes(f, OR_DRAFT_RSD_S, OR_ACCEPT_TRAVERSAL, 3, beams);
        check_shapes(f, OR_DRAFT_RSD_S, OR_ACCEPT_TRAVERSAL, 3, long_beams);
    }
}

// A budget below the shape's size cuts by node count, before anything is drawn.
static void cut_trees_are_exact(void **state)
{
    fixture_t *f = *state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        f->what.toy = (toy_t){.seed = seed, .vocab_size = 4};
        for (uint32_t nodes = 0; nodes <= 5; nodes++) {
            static const or_accept_rule_t rules[] = {OR_ACCEPT_RECURSIVE, OR_ACCEPT_TRAVERSAL};
            for (int i = 0; i < 2; i++) {
                f->what.plan = toy_plan(OR_DRAFT_RSD_C, rules[i], "2x2");
                f->what.plan.nodes = nodes;
                check_exact(f, "2x2, cut");
                f->what.plan = toy_plan(OR_DRAFT_RSD_S, rules[i], "3x2");
                f->what.plan.nodes = nodes;
                check_exact(f, "3x2, cut");
            }
        }
        f->what.toy.vocab_size = 3;
        for (uint32_t nodes = 0; nodes <= 5; nodes++) {
            f->what.plan = toy_plan(OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, "2x2");
            f->what.plan.nodes = nodes;
            check_exact(f, "2x2, cut");
            f->what.plan.rule = OR_ACCEPT_KSEQ;
            check_exact(f, "2x2, cut");
        }
    }
}

// Nothing comes after an end token, not even if it was a guess with children.
static void an_end_inside_a_tree_is_exact(void **state)
{
    fixture_t *f = *state;
    for (uint32_t stop = 0; stop < 3; stop++) {
        f->what.stop = stop;
        check_shapes(f, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 3, bushes);
        check_shapes(f, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 3, small_bushes);
        check_shapes(f, OR_DRAFT_CHAIN, OR_ACCEPT_SPS, 3, short_chains);
        check_shapes(f, OR_DRAFT_MCSD, OR_ACCEPT_KSEQ, 3, small_bushes);
        check_shapes(f, OR_DRAFT_CHAIN, OR_ACCEPT_BLOCK, 3, chains);
        check_shapes(f, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 3, bushes);
    }
    f->what.stop = TOY_NO_STOP;
}

static void assert_accepted(const fixture_t *f, unsigned long expected)
{
    assert_int_equal(mpq_cmp_ui(f->accepted, expected, 1), 0);
}

// If the drafter is the target, everything is accepted. The same holds for one of k = V guesses.
static void certain_acceptance_is_certain(void **state)
{
    fixture_t *f = *state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        f->what.toy = (toy_t){.seed = seed, .vocab_size = 4, .same = true};
        f->what.plan = toy_plan(OR_DRAFT_CHAIN, OR_ACCEPT_SPS, "1x1x1");
        check_exact(f, "p = q");
        assert_accepted(f, 3);
        f->what.plan.rule = OR_ACCEPT_BLOCK;
        check_exact(f, "p = q");
        assert_accepted(f, 3);
        f->what.plan = toy_plan(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, "2x2");
        check_exact(f, "p = q");
        assert_accepted(f, 2);
        f->what.plan.rule = OR_ACCEPT_TRAVERSAL;
        check_exact(f, "p = q");
        assert_accepted(f, 2);
        f->what.plan = toy_plan(OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, "3");
        check_exact(f, "p = q");
        assert_accepted(f, 1);
        uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
        f->what.toy = (toy_t){.seed = seed, .vocab_size = 3};
        f->what.plan = toy_plan(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, "3");
        check_exact(f, "k = V");
        if (toy_draft(&f->what.toy, NULL, 0, tokens, weights) == 3) {
            assert_accepted(f, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chains_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_with_replacement_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_without_replacement_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(rules_that_know_how_many_were_drawn_are_exact, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(draws_of_several_models_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(traversal_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(grown_trees_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(stochastic_beams_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_trees_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_inside_a_tree_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(certain_acceptance_is_certain, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
