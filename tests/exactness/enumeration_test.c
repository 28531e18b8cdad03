// Goal: every acceptance rule that can be enumerated is exact with every drafting method it is legal
// with: the law of the first depth + 1 tokens is the target's, to the last digit.
//
// Method: toy pairs of 3 to 5 tokens. Every choice of the drafter (its real builder) and of the
// verifier (its real rules) is taken in turn; each tree goes through the wire's codec and the
// checks; the outcomes' probabilities are added as rationals and compared with the target's own.
// That no floating-point operation of a rule rounded is checked by the processor's flag.
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/shape.h"
#include "proto/draft_check.h"
#include "tests/exactness/enumerator.h"
#include "tests/exactness/toy.h"
#include "tests/support/test_support.h"
#include "verifier/accept.h"

#define LENGTH 4u // most tokens that are compared
#define BASE (TOY_VOCAB_MAX + 1)
#define OUTCOMES (BASE * BASE * BASE * BASE)
#define MODELS 6u
#define NO_STOP UINT32_MAX

typedef struct {
    toy_t toy;
    toy_plan_t plan;
    uint32_t stop; // a token that ends the text, or NO_STOP
    toy_drafter_t *drafter;
    enumerator_t *enumerator;
    or_token_tree_t *drafted, *judged;
    or_residual_t *residual;
    double weights[TOY_VOCAB_MAX];
    int32_t ids[TOY_VOCAB_MAX];
    mpq_t outcomes[OUTCOMES]; // by text: its digits are tokens + 1, the first one lowest
    mpq_t accepted;           // expected number
} world_t;

static int setup(void **state)
{
    world_t *w = calloc(1, sizeof *w);
    w->drafter = toy_drafter_create();
    w->enumerator = enumerator_create();
    w->stop = NO_STOP;
    or_token_tree_create(64, &w->drafted);
    or_token_tree_create(64, &w->judged);
    or_residual_create(TOY_VOCAB_MAX, &w->residual);
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_init(w->outcomes[i]);
    }
    mpq_init(w->accepted);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_t *w = *state;
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_clear(w->outcomes[i]);
    }
    mpq_clear(w->accepted);
    or_residual_destroy(&w->residual);
    or_token_tree_destroy(&w->judged);
    or_token_tree_destroy(&w->drafted);
    enumerator_destroy(&w->enumerator);
    toy_drafter_destroy(&w->drafter);
    free(w);
    return 0;
}

static uint32_t outcome_of(const int32_t *text, uint32_t length)
{
    uint32_t outcome = 0;
    for (uint32_t i = length; i-- > 0;) {
        outcome = outcome * BASE + (uint32_t)text[i] + 1;
    }
    return outcome;
}

// The rules' window on the target. The history is the root and the path: it must be the node's.
static or_status_t target_law(void *context, uint32_t node, const int32_t *history,
                              uint32_t history_count, or_law_t *law)
{
    world_t *w = context;
    fexcept_t flags;
    fegetexceptflag(&flags, FE_ALL_EXCEPT);
    assert_int_equal(history_count, or_token_tree_depths(w->judged)[node] + 1);
    assert_int_equal(history[history_count - 1], or_token_tree_tokens(w->judged)[node]);
    double all[TOY_VOCAB_MAX];
    toy_target(&w->toy, history + 1, history_count - 1, all);
    law->count = 0;
    for (uint32_t id = 0; id < w->toy.vocab_size; id++) {
        if (all[id] > 0) {
            w->ids[law->count] = (int32_t)id;
            w->weights[law->count++] = all[id];
        }
    }
    law->ids = w->ids;
    law->weights = w->weights;
    law->scores = NULL;
    fesetexceptflag(&flags, FE_ALL_EXCEPT);
    return OR_OK;
}

// The tree as it arrives at the verifier.
static void send_over_the_wire(world_t *w, const or_draws_t *draws, or_message_t *received)
{
    int32_t tokens[64];
    uint32_t back[64];
    uint32_t count = or_token_tree_count(w->drafted);
    const or_draws_t none = {0};
    bool laws = or_accept_rule_uses_laws(w->plan.rule);
    draws = laws ? draws : &none;
    or_token_tree_to_wire(w->drafted, tokens, back);
    const or_message_t message = {.type = OR_MSG_DRAFT_TREE,
                                  .body.draft_tree = {.round = 1,
                                                      .tokens = (const uint32_t *)tokens,
                                                      .back = back,
                                                      .count = count,
                                                      .law_index = draws->law_index,
                                                      .law_index_count = laws ? count : 0,
                                                      .draw_order = draws->order,
                                                      .draw_order_count = laws ? count : 0,
                                                      .laws = draws->laws,
                                                      .law_count = laws ? draws->law_count : 0}};
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_OK);
    assert_int_equal(or_message_decode(frame, bytes, received), OR_OK);
    free(frame);
    or_status_t status = or_draft_tree_check(&received->body.draft_tree, w->plan.rule, 0,
                                             w->toy.vocab_size, w->judged);
    if (status != OR_OK) {
        fail_msg("the drafter's own tree is refused: %s", or_error_text());
    }
}

// One round with the choices that are due: what was written.
static uint32_t run_round(world_t *w, int32_t *text, bool *ended)
{
    or_message_t received;
    or_chooser_t *chooser = enumerator_chooser(w->enumerator);
    send_over_the_wire(w, toy_drafter_draft(w->drafter, &w->toy, &w->plan, chooser, w->drafted),
                       &received);
    const or_draws_t draws = or_draft_tree_draws(&received.body.draft_tree);
    const uint32_t widths[TOY_VOCAB_MAX] = {0};
    int32_t history[16] = {0};
    const or_accept_job_t job = {.tree = w->judged,
                                 .draws = &draws,
                                 .law = target_law,
                                 .law_context = w,
                                 .chooser = chooser,
                                 .residual = w->residual,
                                 .history = history,
                                 .history_count = 1,
                                 .widths = widths,
                                 .stop_ids = &w->stop,
                                 .stop_count = w->stop != NO_STOP};
    or_acceptance_t acceptance;
    feclearexcept(FE_INEXACT);
    assert_int_equal(or_accept(w->plan.rule, &job, &acceptance), OR_OK);
    assert_false(fetestexcept(FE_INEXACT));
    for (uint32_t i = 0; i < acceptance.accepted_count; i++) {
        text[i] = or_token_tree_tokens(w->judged)[acceptance.accepted[i]];
    }
    text[acceptance.accepted_count] = acceptance.next;
    *ended = acceptance.stopped;
    or_message_fini(&received);
    return acceptance.accepted_count + 1;
}

// Spread the probability of a text over what the target writes after it, up to `length` tokens.
static void add_continuations(world_t *w, int32_t *text, uint32_t written, bool ended,
                              uint32_t length, const mpq_t probability)
{
    if (written >= length || ended) {
        uint32_t outcome = outcome_of(text, written < length ? written : length);
        mpq_add(w->outcomes[outcome], w->outcomes[outcome], probability);
        return;
    }
    double weights[TOY_VOCAB_MAX];
    mpq_t total, part;
    mpq_inits(total, part, NULL);
    toy_target(&w->toy, text, written, weights);
    for (uint32_t id = 0; id < w->toy.vocab_size; id++) {
        mpq_set_d(part, weights[id]);
        mpq_add(total, total, part);
    }
    for (uint32_t id = 0; id < w->toy.vocab_size; id++) {
        if (weights[id] > 0) {
            mpq_set_d(part, weights[id]);
            mpq_div(part, part, total);
            mpq_mul(part, part, probability);
            text[written] = (int32_t)id;
            add_continuations(w, text, written + 1, id == w->stop, length, part);
        }
    }
    mpq_clears(total, part, NULL);
}

static void forget_outcomes(world_t *w)
{
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_set_ui(w->outcomes[i], 0, 1);
    }
}

// Half the sum of all differences between the outcomes and the target's law, which is taken off
// them.
static double distance_from_target(world_t *w, uint32_t length)
{
    int32_t text[16];
    mpq_t minus_one, total;
    mpq_inits(minus_one, total, NULL);
    mpq_set_si(minus_one, -1, 1);
    add_continuations(w, text, 0, false, length, minus_one);
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_abs(w->outcomes[i], w->outcomes[i]);
        mpq_add(total, total, w->outcomes[i]);
    }
    double distance = mpq_sgn(total) == 0 ? 0 : mpq_get_d(total) / 2;
    mpq_clears(minus_one, total, NULL);
    return distance;
}

// Enumerate one round of plan and pair; w->accepted is the expected number of accepted guesses.
static void check_exact(world_t *w, const char *what)
{
    uint32_t length = w->plan.depth + 1;
    assert_true(length <= LENGTH);
    mpq_t weighted;
    mpq_init(weighted);
    mpq_set_ui(w->accepted, 0, 1);
    forget_outcomes(w);
    do {
        int32_t text[16];
        bool ended;
        enumerator_begin(w->enumerator);
        uint32_t written = run_round(w, text, &ended);
        mpq_set_ui(weighted, written - 1, 1);
        mpq_mul(weighted, weighted, enumerator_probability(w->enumerator));
        mpq_add(w->accepted, w->accepted, weighted);
        add_continuations(w, text, written, ended, length, enumerator_probability(w->enumerator));
    } while (enumerator_advance(w->enumerator));
    double distance = distance_from_target(w, length);
    if (distance != 0) {
        fail_msg("%s, %s with %s, %u tokens, model %llu: the law is off by %g", what,
                 or_draft_method_name(w->plan.method), or_accept_rule_name(w->plan.rule),
                 w->toy.vocab_size, (unsigned long long)w->toy.seed, distance);
    }
    mpq_clear(weighted);
}

// A plan as the command line says it.
static toy_plan_t plan_of(or_draft_method_t method, or_accept_rule_t rule, const char *shape_text)
{
    toy_plan_t plan = {.method = method, .rule = rule};
    assert_int_equal(or_shape_parse(shape_text, &plan.shape), OR_OK);
    if (method == OR_DRAFT_CHAIN) {
        plan.depth = plan.nodes = plan.shape.count;
        return plan;
    }
    plan.depth = or_shape_levels(&plan.shape, method, LENGTH);
    plan.nodes = or_shape_nodes(&plan.shape, method, plan.depth);
    return plan;
}

static void check_shapes(world_t *w, or_draft_method_t method, or_accept_rule_t rule,
                         uint32_t vocab_size, const char *const *shapes)
{
    for (; *shapes != NULL; shapes++) {
        w->plan = plan_of(method, rule, *shapes);
        for (uint64_t seed = 1; seed <= MODELS; seed++) {
            w->toy = (toy_t){.seed = seed, .vocab_size = vocab_size};
            check_exact(w, *shapes);
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
    static const or_accept_rule_t rules[] = {OR_ACCEPT_SPS, OR_ACCEPT_MULTI_ROUND,
                                             OR_ACCEPT_RECURSIVE, OR_ACCEPT_NAIVE};
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

// Whatever the beam's values turn out to be, the tokens' law is exact.
static void stochastic_beams_are_exact(void **state)
{
    static const char *const beams[] = {"2x1", "2x2", "3x2", NULL};
    static const char *const long_beams[] = {"2x3", NULL};
    world_t *w = *state;
    for (uint64_t set = 0; set < 4; set++) {
        enumerator_set_uniforms(w->enumerator, set);
        check_shapes(w, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 3, beams);
        check_shapes(w, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 4, beams);
        check_shapes(w, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 3, long_beams);
        check_shapes(w, OR_DRAFT_RSD_S, OR_ACCEPT_NAIVE, 3, beams);
    }
}

// A budget below the shape's cuts by node count, before anything is drawn.
static void cut_trees_are_exact(void **state)
{
    world_t *w = *state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        w->toy = (toy_t){.seed = seed, .vocab_size = 4};
        for (uint32_t nodes = 0; nodes <= 5; nodes++) {
            w->plan = plan_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, "2x2");
            w->plan.nodes = nodes;
            check_exact(w, "2x2, cut");
            w->plan = plan_of(OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, "3x2");
            w->plan.nodes = nodes;
            check_exact(w, "3x2, cut");
        }
        w->toy.vocab_size = 3;
        for (uint32_t nodes = 0; nodes <= 5; nodes++) {
            w->plan = plan_of(OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, "2x2");
            w->plan.nodes = nodes;
            check_exact(w, "2x2, cut");
        }
    }
}

// Nothing comes after an end token, also where it was a guess with children.
static void an_end_inside_a_tree_is_exact(void **state)
{
    world_t *w = *state;
    for (uint32_t stop = 0; stop < 3; stop++) {
        w->stop = stop;
        check_shapes(w, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 3, bushes);
        check_shapes(w, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 3, small_bushes);
        check_shapes(w, OR_DRAFT_CHAIN, OR_ACCEPT_SPS, 3, short_chains);
    }
    w->stop = NO_STOP;
}

static void assert_accepted(const world_t *w, unsigned long expected)
{
    assert_int_equal(mpq_cmp_ui(w->accepted, expected, 1), 0);
}

// Where the drafter is the target, everything is accepted; so is one of k = V guesses.
static void certain_acceptance_is_certain(void **state)
{
    world_t *w = *state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        w->toy = (toy_t){.seed = seed, .vocab_size = 4, .same = true};
        w->plan = plan_of(OR_DRAFT_CHAIN, OR_ACCEPT_SPS, "1x1x1");
        check_exact(w, "p = q");
        assert_accepted(w, 3);
        w->plan = plan_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, "2x2");
        check_exact(w, "p = q");
        assert_accepted(w, 2);
        w->plan = plan_of(OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, "3");
        check_exact(w, "p = q");
        assert_accepted(w, 1);
        uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
        w->toy = (toy_t){.seed = seed, .vocab_size = 3};
        w->plan = plan_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, "3");
        check_exact(w, "k = V");
        if (toy_draft(&w->toy, NULL, 0, tokens, weights) == 3) {
            assert_accepted(w, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chains_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_with_replacement_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_without_replacement_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(stochastic_beams_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_trees_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_inside_a_tree_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(certain_acceptance_is_certain, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
