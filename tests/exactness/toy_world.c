#include "tests/exactness/toy_world.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/shape.h"
#include "proto/draft_check.h"
#include "tests/exactness/enumerator.h"
#include "tests/support/test_support.h"

#define BASE (TOY_VOCAB_MAX + 1)
#define OUTCOMES (BASE * BASE * BASE * BASE)
#define NODES_MAX 64u

struct toy_world {
    const toy_case_t *what; // being enumerated
    toy_drafter_t *drafter;
    enumerator_t *enumerator;
    or_token_tree_t *drafted, *judged;
    or_residual_t *residual;
    or_traversal_t *traversal;
    double weights[TOY_VOCAB_MAX];
    int32_t ids[TOY_VOCAB_MAX];
    mpq_t outcomes[OUTCOMES]; // by text: its digits are tokens + 1, the first one lowest
    // The draws of several models.
    uint32_t law_numbers[2 * TOY_VOCAB_MAX][TOY_VOCAB_MAX];
    or_reduced_law_t laws[TOY_VOCAB_MAX];
    uint32_t counting[TOY_VOCAB_MAX];
    or_draws_t draws;
};

toy_world_t *toy_world_create(void)
{
    toy_world_t *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->drafter = toy_drafter_create();
    w->enumerator = enumerator_create();
    assert_int_equal(or_token_tree_create(NODES_MAX, &w->drafted), OR_OK);
    assert_int_equal(or_token_tree_create(NODES_MAX, &w->judged), OR_OK);
    assert_int_equal(or_residual_create(TOY_VOCAB_MAX, &w->residual), OR_OK);
    assert_int_equal(or_traversal_create(NODES_MAX, &w->traversal), OR_OK);
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_init(w->outcomes[i]);
    }
    return w;
}

void toy_world_destroy(toy_world_t **world_p)
{
    toy_world_t *w = *world_p;
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_clear(w->outcomes[i]);
    }
    or_traversal_destroy(&w->traversal);
    or_residual_destroy(&w->residual);
    or_token_tree_destroy(&w->judged);
    or_token_tree_destroy(&w->drafted);
    enumerator_destroy(&w->enumerator);
    toy_drafter_destroy(&w->drafter);
    free(w);
    *world_p = NULL;
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
    toy_world_t *w = context;
    fexcept_t flags;
    fegetexceptflag(&flags, FE_ALL_EXCEPT);
    assert_int_equal(history_count, or_token_tree_depths(w->judged)[node] + 1);
    assert_int_equal(history[history_count - 1], or_token_tree_tokens(w->judged)[node]);
    double all[TOY_VOCAB_MAX];
    toy_target(&w->what->toy, history + 1, history_count - 1, all);
    law->count = 0;
    for (uint32_t id = 0; id < w->what->toy.vocab_size; id++) {
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
static void send_over_the_wire(toy_world_t *w, const or_draws_t *draws, or_message_t *received)
{
    int32_t tokens[64];
    uint32_t back[64];
    uint32_t count = or_token_tree_count(w->drafted);
    const or_draws_t none = {0};
    bool laws = or_accept_rule_uses_laws(w->what->plan.rule);
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
    or_status_t status = or_draft_tree_check(&received->body.draft_tree, w->what->plan.rule, 0,
                                             w->what->toy.vocab_size, w->judged);
    if (status != OR_OK) {
        fail_msg("the drafter's own tree is refused: %s", or_error_text());
    }
}

// One guess at the root from each of several models, whose laws all differ.
static const or_draws_t *draft_from_models(toy_world_t *w)
{
    or_chooser_t *chooser = enumerator_chooser(w->enumerator);
    or_token_tree_reset(w->drafted, 0);
    for (uint32_t i = 0; i < w->what->models; i++) {
        toy_t model = w->what->toy;
        uint32_t *tokens = w->law_numbers[2 * i];
        uint32_t *weights = w->law_numbers[2 * i + 1];
        double shares[TOY_VOCAB_MAX];
        model.seed += (uint64_t)i << 32;
        uint32_t count = toy_draft(&model, NULL, 0, tokens, weights);
        for (uint32_t j = 0; j < count; j++) {
            shares[j] = weights[j];
        }
        uint32_t index = chooser->draw(chooser, (or_choice_t){OR_RNG_DRAFT, 0, i}, shares, count);
        assert_int_equal(or_token_tree_add(w->drafted, 0, (int32_t)tokens[index], NULL), OR_OK);
        w->laws[i] = (or_reduced_law_t){tokens, weights, count};
        w->counting[i] = i;
    }
    w->draws = (or_draws_t){w->counting, w->counting, w->laws, w->what->models};
    return &w->draws;
}

// One round with the choices that are due: what was written.
static uint32_t run_round(toy_world_t *w, int32_t *text, bool *ended, bool *rounded)
{
    or_message_t received;
    const toy_case_t *what = w->what;
    or_chooser_t *chooser = enumerator_chooser(w->enumerator);
    const or_draws_t *drawn =
        what->plan.method == OR_DRAFT_MULTI
            ? draft_from_models(w)
            : toy_drafter_draft(w->drafter, &what->toy, &what->plan, chooser, w->drafted);
    send_over_the_wire(w, drawn, &received);
    const or_draws_t draws = or_draft_tree_draws(&received.body.draft_tree);
    const uint32_t widths[TOY_VOCAB_MAX] = {0};
    int32_t history[16] = {0};
    const or_accept_job_t job = {.tree = w->judged,
                                 .draws = &draws,
                                 .law = target_law,
                                 .law_context = w,
                                 .chooser = chooser,
                                 .residual = w->residual,
                                 .traversal = w->traversal,
                                 .lenience = what->lenience,
                                 .typical_epsilon = what->typical_epsilon,
                                 .typical_delta = what->typical_delta,
                                 .history = history,
                                 .history_count = 1,
                                 .widths = widths,
                                 .stop_ids = &what->stop,
                                 .stop_count = what->stop != TOY_NO_STOP};
    or_acceptance_t acceptance;
    feclearexcept(FE_INEXACT);
    assert_int_equal(or_accept(what->plan.rule, &job, &acceptance), OR_OK);
    *rounded = *rounded || fetestexcept(FE_INEXACT) != 0;
    for (uint32_t i = 0; i < acceptance.accepted_count; i++) {
        text[i] = or_token_tree_tokens(w->judged)[acceptance.accepted[i]];
    }
    text[acceptance.accepted_count] = acceptance.next;
    *ended = acceptance.stopped;
    or_message_fini(&received);
    return acceptance.accepted_count + 1;
}

// Spread the probability of a text over what the target writes after it, up to `length` tokens.
static void add_continuations(toy_world_t *w, int32_t *text, uint32_t written, bool ended,
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
    toy_target(&w->what->toy, text, written, weights);
    for (uint32_t id = 0; id < w->what->toy.vocab_size; id++) {
        mpq_set_d(part, weights[id]);
        mpq_add(total, total, part);
    }
    for (uint32_t id = 0; id < w->what->toy.vocab_size; id++) {
        if (weights[id] > 0) {
            mpq_set_d(part, weights[id]);
            mpq_div(part, part, total);
            mpq_mul(part, part, probability);
            text[written] = (int32_t)id;
            add_continuations(w, text, written + 1, id == w->what->stop, length, part);
        }
    }
    mpq_clears(total, part, NULL);
}

static void forget_outcomes(toy_world_t *w)
{
    for (uint32_t i = 0; i < OUTCOMES; i++) {
        mpq_set_ui(w->outcomes[i], 0, 1);
    }
}

// Half the sum of all differences between the outcomes and the target's law, which is taken off
// them.
static double distance_from_target(toy_world_t *w, uint32_t length)
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

toy_result_t toy_world_run(toy_world_t *w, const toy_case_t *what, mpq_t accepted)
{
    uint32_t length = what->plan.depth + 1;
    toy_result_t result = {0};
    assert_true(length <= TOY_COMPARED);
    mpq_t weighted;
    mpq_init(weighted);
    w->what = what;
    mpq_set_ui(accepted, 0, 1);
    forget_outcomes(w);
    do {
        int32_t text[16];
        bool ended;
        enumerator_begin(w->enumerator);
        uint32_t written = run_round(w, text, &ended, &result.rounded);
        mpq_set_ui(weighted, written - 1, 1);
        mpq_mul(weighted, weighted, enumerator_probability(w->enumerator));
        mpq_add(accepted, accepted, weighted);
        add_continuations(w, text, written, ended, length, enumerator_probability(w->enumerator));
    } while (enumerator_advance(w->enumerator));
    result.distance = distance_from_target(w, length);
    mpq_clear(weighted);
    return result;
}

void toy_world_set_uniforms(toy_world_t *w, uint64_t uniform_set)
{
    enumerator_set_uniforms(w->enumerator, uniform_set);
}

toy_plan_t toy_plan(or_draft_method_t method, or_accept_rule_t rule, const char *shape)
{
    toy_plan_t plan = {.method = method, .rule = rule};
    assert_int_equal(or_shape_parse(shape, &plan.shape), OR_OK);
    if (method == OR_DRAFT_CHAIN) {
        plan.depth = plan.nodes = plan.shape.count;
        return plan;
    }
    plan.depth = or_shape_levels(&plan.shape, method, TOY_COMPARED - 1);
    plan.nodes = or_shape_nodes(&plan.shape, method, plan.depth);
    return plan;
}
