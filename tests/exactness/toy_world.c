#include "tests/exactness/toy_world.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/shape.h"
#include "coordinator/vocab/slem.h"
#include "coordinator/vocab/vocab_trees.h"
#include "proto/session/draft_check.h"
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
    // These are used between vocabularies.
    or_vocab_trees_t *trees;
    const or_vocab_pair_t *slem_pair;
    or_slem_t *slem;
    double asked[TOY_VOCAB_MAX]; // psi
    double weights[TOY_VOCAB_MAX];
    int32_t ids[TOY_VOCAB_MAX];
    mpq_t outcomes[OUTCOMES]; // by text: its digits are tokens + 1, the first one lowest
    // These hold the draws of several models.
    uint32_t dist_numbers[2 * TOY_VOCAB_MAX][TOY_VOCAB_MAX];
    or_reduced_distribution_t dists[TOY_VOCAB_MAX];
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
    assert_int_equal(or_vocab_trees_create(&w->trees), OR_OK);
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
    or_slem_destroy(&w->slem);
    or_vocab_trees_destroy(&w->trees);
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

// Give the rules the target's distribution. The history is the root and the path, and must be
// the node's.
static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    toy_world_t *w = context;
    fexcept_t flags;
    fegetexceptflag(&flags, FE_ALL_EXCEPT);
    assert_int_equal(history_count, or_token_tree_depths(w->judged)[node] + 1);
    assert_int_equal(history[history_count - 1], or_token_tree_tokens(w->judged)[node]);
    assert_true(node == 0 || history[history_count - 1] < (int32_t)TOY_VOCAB_MAX);
    double all[TOY_VOCAB_MAX];
    toy_target(&w->what->toy, history + 1, history_count - 1, all);
    dist->count = 0;
    for (uint32_t id = 0; id < w->what->toy.vocab_size; id++) {
        if (all[id] > 0) {
            w->ids[dist->count] = (int32_t)id;
            w->weights[dist->count++] = all[id];
        }
    }
    dist->ids = w->ids;
    dist->weights = w->weights;
    dist->scores = NULL;
    fesetexceptflag(&flags, FE_ALL_EXCEPT);
    return OR_OK;
}

// Give the drafter's answer to the verifier's question.
static or_status_t string_dist(void *context, uint32_t node, const or_distribution_t *q,
                               const double **psi)
{
    toy_world_t *w = context;
    fexcept_t flags;
    fegetexceptflag(&flags, FE_ALL_EXCEPT);
    toy_drafter_ask(w->drafter, node, q->ids, q->count, w->asked);
    if (w->what->faults.answered != NULL) {
        w->what->faults.answered(&w->what->toy, q->ids, q->count, w->asked);
    }
    *psi = w->asked;
    fesetexceptflag(&flags, FE_ALL_EXCEPT);
    return OR_OK;
}

static void send_message(const or_draft_tree_t *tree, or_message_t *received)
{
    const or_message_t message = {.type = OR_MSG_DRAFT_TREE, .body.draft_tree = *tree};
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_OK);
    if (or_message_decode(frame, bytes, received) != OR_OK) {
        fail_msg("a tree does not travel: %s", or_error_text());
    }
    free(frame);
}

static void plant(const toy_world_t *w, void (*fault)(const toy_t *toy, or_draft_tree_t *tree),
                  or_draft_tree_t *tree)
{
    if (fault != NULL) {
        fault(&w->what->toy, tree);
    }
}

// Encode the drafter's tree and decode it as the coordinator does.
static void send_drafted(const toy_world_t *w, const or_draws_t *draws, or_message_t *received)
{
    int32_t tokens[NODES_MAX];
    uint32_t back[NODES_MAX];
    uint32_t count = or_token_tree_count(w->drafted);
    const or_draws_t none = {0};
    bool dists = or_accept_rule_uses_distributions(w->what->plan.rule);
    draws = dists ? draws : &none;
    or_token_tree_to_wire(w->drafted, tokens, back);
    or_draft_tree_t tree = {.round = 1,
                            .tokens = (const uint32_t *)tokens,
                            .back = back,
                            .count = count,
                            .dist_index = draws->dist_index,
                            .dist_index_count = dists ? count : 0,
                            .draw_order = draws->order,
                            .draw_order_count = dists ? count : 0,
                            .dists = draws->dists,
                            .dist_count = dists ? draws->dist_count : 0};
    plant(w, w->what->faults.drafted, &tree);
    send_message(&tree, received);
}

// Send a chain of the target's tokens that was guessed by way of strings.
static void send_strings(const toy_world_t *w, const double *psi, or_message_t *received)
{
    int32_t tokens[NODES_MAX];
    uint32_t back[NODES_MAX];
    uint32_t count = or_token_tree_count(w->drafted);
    or_token_tree_to_wire(w->drafted, tokens, back);
    or_draft_tree_t tree = {.round = 1,
                            .tokens = (const uint32_t *)tokens,
                            .back = back,
                            .count = count,
                            .psi = psi,
                            .psi_count = count};
    plant(w, w->what->faults.drafted, &tree);
    send_message(&tree, received);
}

// Retokenise the text, as the coordinator does; the result goes on to the verifier.
static void retokenise(toy_world_t *w, or_message_t *message)
{
    const toy_t *toy = &w->what->toy;
    assert_int_equal(or_draft_tree_check(&message->body.draft_tree, w->what->plan.rule, toy->root,
                                         or_vocab_size(toy->pair->draft), w->judged),
                     OR_OK);
    or_message_fini(message);
    if (w->slem_pair != toy->pair) {
        or_slem_destroy(&w->slem);
        assert_int_equal(or_slem_create(toy->pair, &w->slem), OR_OK);
        w->slem_pair = toy->pair;
    }
    assert_int_equal(or_slem_translate(w->slem, &toy->root, 1, w->judged, NODES_MAX,
                                       w->what->plan.depth, w->drafted),
                     OR_OK);
    send_drafted(w, NULL, message);
}

// Translate the drafter's tree to the target's ids.
static void translate(toy_world_t *w, or_message_t *message)
{
    const toy_case_t *what = w->what;
    or_message_t received = *message;
    or_draft_tree_t translated;
    if (or_vocab_map_tree(w->trees, what->toy.pair, what->vocab_method, what->plan.rule,
                          &received.body.draft_tree, &translated) != OR_OK) {
        fail_msg("the drafter's tree is not translated: %s", or_error_text());
    }
    plant(w, what->faults.forwarded, &translated);
    send_message(&translated, message);
    or_message_fini(&received);
}

// Return the number of ids that the target does not have and a tree may have.
static uint32_t outside_ids(const toy_world_t *w)
{
    switch (w->what->vocab_method) {
    case OR_VOCAB_UNION:
        return or_vocab_size(w->what->toy.pair->draft);
    case OR_VOCAB_SLRS:
        return 1;
    default:
        return 0;
    }
}

// Check a tree as the verifier does when it arrives.
static void check_arrived(toy_world_t *w, const or_draft_tree_t *tree)
{
    const toy_t *toy = &w->what->toy;
    uint32_t ids = toy->pair != NULL ? or_vocab_size(toy->pair->target) : toy->vocab_size;
    if (or_draft_tree_check(tree, w->what->plan.rule, toy->root, ids + outside_ids(w), w->judged) !=
            OR_OK ||
        or_draft_outside_check(tree, w->judged, ids) != OR_OK) {
        fail_msg("the drafter's own tree is refused: %s", or_error_text());
    }
}

// Draw one guess at the root from each of several models, whose distributions all differ.
static const or_draws_t *draft_from_models(toy_world_t *w)
{
    or_chooser_t *chooser = enumerator_chooser(w->enumerator);
    or_token_tree_reset(w->drafted, 0);
    for (uint32_t i = 0; i < w->what->models; i++) {
        toy_t model = w->what->toy;
        uint32_t *tokens = w->dist_numbers[2 * i];
        uint32_t *weights = w->dist_numbers[2 * i + 1];
        double shares[TOY_VOCAB_MAX];
        model.seed += (uint64_t)i << 32;
        uint32_t count = toy_draft(&model, NULL, 0, tokens, weights);
        for (uint32_t j = 0; j < count; j++) {
            shares[j] = weights[j];
        }
        uint32_t index = chooser->draw(chooser, (or_choice_t){OR_RNG_DRAFT, 0, i}, shares, count);
        assert_int_equal(or_token_tree_add(w->drafted, 0, (int32_t)tokens[index], NULL), OR_OK);
        w->dists[i] = (or_reduced_distribution_t){tokens, weights, count};
        w->counting[i] = i;
    }
    w->draws = (or_draws_t){w->counting, w->counting, w->dists, w->what->models};
    return &w->draws;
}

// Draft the tree of the choices that are due, as it arrives at the verifier.
static void draft(toy_world_t *w, or_message_t *received)
{
    const toy_case_t *what = w->what;
    or_chooser_t *chooser = enumerator_chooser(w->enumerator);
    if (what->vocab_method == OR_VOCAB_SLRS) {
        const double *psi =
            toy_drafter_draft_strings(w->drafter, &what->toy, &what->plan, chooser, w->drafted);
        send_strings(w, psi, received);
    } else if (what->plan.method == OR_DRAFT_MULTI) {
        send_drafted(w, draft_from_models(w), received);
    } else {
        const or_draws_t *draws =
            toy_drafter_draft(w->drafter, &what->toy, &what->plan, chooser, w->drafted);
        send_drafted(w, draws, received);
    }
    if (what->vocab_method == OR_VOCAB_SLEM) {
        retokenise(w, received);
    } else if (what->vocab_method == OR_VOCAB_TLI || what->vocab_method == OR_VOCAB_UNION) {
        translate(w, received);
    }
    check_arrived(w, &received->body.draft_tree);
}

// Run one round with the choices that are due; returns the length of the text it wrote.
static uint32_t run_round(toy_world_t *w, int32_t *text, bool *ended, bool *rounded)
{
    or_message_t received;
    const toy_case_t *what = w->what;
    draft(w, &received);
    const or_draws_t draws = or_draft_tree_draws(&received.body.draft_tree);
    const uint32_t widths[TOY_VOCAB_MAX] = {0};
    int32_t history[16] = {what->toy.root};
    const or_accept_job_t job = {.tree = w->judged,
                                 .draws = &draws,
                                 .dist = target_dist,
                                 .dist_context = w,
                                 .psi = received.body.draft_tree.psi,
                                 .string_dist = string_dist,
                                 .string_context = w,
                                 .chooser = enumerator_chooser(w->enumerator),
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

// Return half the sum of all differences between the outcomes and the target's distribution, which is
// subtracted from them.
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
