// Goal: our enumeration would notice the mistakes between vocabularies that are easy to make and hard
// to see in the text.
// Method: plant each mistake in what travels (toy_world.h), between hand-made vocabularies and random
// models. Without it the distribution is exact; with it the distribution must be off by more than 0.001
// for one of the models.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/exactness/toy_vocabs.h"
#include "tests/exactness/toy_world.h"
#include "tests/support/test_support.h"

#define MODELS 3u
#define SEEN 0.001   // total variation from the target's distribution
#define TINY 0x1p-30 // in the place of a psi of 0, with which no guess may travel

typedef struct {
    toy_world_t *world;
    toy_vocabs_t vocabs[TOY_VOCABS];
    mpq_t accepted;
} fixture_t;

static int setup(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    f->world = toy_world_create();
    for (uint32_t i = 0; i < TOY_VOCABS; i++) {
        f->vocabs[i] = toy_vocabs_open(i);
    }
    mpq_init(f->accepted);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    mpq_clear(f->accepted);
    for (uint32_t i = 0; i < TOY_VOCABS; i++) {
        toy_vocabs_close(&f->vocabs[i]);
    }
    toy_world_destroy(&f->world);
    free(f);
    return 0;
}

// Return the largest distance from the target's distribution, with one guess a round.
static double distance(fixture_t *f, or_vocab_method_t method, bool restricted,
                       const toy_faults_t *faults)
{
    double largest = 0;
    or_accept_rule_t rule = method == OR_VOCAB_SLRS ? OR_ACCEPT_SLRS : OR_ACCEPT_SPS;
    toy_case_t what = {.plan = toy_plan(OR_DRAFT_CHAIN, rule, "1"),
                       .stop = TOY_NO_STOP,
                       .vocab_method = method,
                       .faults = *faults};
    for (uint32_t i = 0; i < TOY_VOCABS * MODELS; i++) {
        what.toy = (toy_t){.seed = 1 + i / TOY_VOCABS,
                           .vocab_size = TOY_STRINGS,
                           .pair = f->vocabs[i % TOY_VOCABS].pair,
                           .draft_size = TOY_STRINGS,
                           .restricted = restricted,
                           .root = TOY_ROOT};
        largest = fmax(largest, toy_world_run(f->world, &what, f->accepted).distance);
    }
    return largest;
}

static void check_seen(fixture_t *f, or_vocab_method_t method, bool restricted,
                       const toy_faults_t *faults)
{
    const toy_faults_t none = {0};
    double seen = distance(f, method, restricted, faults);
    print_message("off by %.4f\n", seen);
    assert_true(distance(f, method, method == OR_VOCAB_TLI, &none) == 0);
    assert_true(seen > SEEN);
}

// ---- union ----

static void drop_outside_guess(const toy_t *toy, or_draft_tree_t *tree)
{
    if (tree->count > 0 && tree->tokens[0] >= or_vocab_size(toy->pair->target)) {
        tree->count = tree->dist_index_count = tree->draw_order_count = tree->dist_count = 0;
    }
}

static void an_outside_guess_dropped_instead_of_rejected_is_seen(void **state)
{
    const toy_faults_t faults = {.forwarded = drop_outside_guess};
    check_seen(*state, OR_VOCAB_UNION, false, &faults);
}

// ---- tli ----

static void ship_unrestricted(const toy_t *toy, or_draft_tree_t *tree)
{
    static uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    static or_reduced_distribution_t dist;
    uint32_t count = toy_draft(toy, NULL, 0, tokens, weights);
    dist = (or_reduced_distribution_t){tokens, weights, count};
    // A token that the drafter would not have guessed at all cannot travel with this
    // distribution.
    if (or_distribution_find(&dist, tree->tokens[0]) < count) {
        tree->dists = &dist;
    }
}

// Such a distribution travels only if the message has ids for it.
static void guesses_of_the_restricted_distribution_shipped_with_the_whole_are_seen(void **state)
{
    const toy_faults_t faults = {.drafted = ship_unrestricted};
    check_seen(*state, OR_VOCAB_UNION, true, &faults);
}

// ---- slrs ----

// Return the drafter's own probability of a token of the target, as if its text were that token.
static double own_probability(const toy_t *toy, int32_t token)
{
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    uint32_t count = toy_draft(toy, NULL, 0, tokens, weights);
    for (uint32_t i = 0; i < count; i++) {
        if (toy->pair->to_target[tokens[i]] == token) {
            return (double)weights[i] / OR_DISTRIBUTION_TOTAL;
        }
    }
    return 0;
}

// Return the longest token of the target that a token of the drafter begins with, as if nothing
// followed.
static int32_t longest_in(const toy_t *toy, uint32_t draft_token)
{
    uint32_t length, longest = 0;
    int32_t found = OR_TOKEN_NONE;
    const char *text = or_vocab_bytes(toy->pair->draft, (int32_t)draft_token, &length);
    for (int32_t id = 0; id < (int32_t)TOY_STRINGS; id++) {
        uint32_t bytes;
        const char *string = or_vocab_bytes(toy->pair->target, id, &bytes);
        if (bytes > longest && bytes <= length && memcmp(string, text, bytes) == 0) {
            longest = bytes;
            found = id;
        }
    }
    return found;
}

static double probability_without_look_ahead(const toy_t *toy, int32_t token)
{
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    uint32_t count = toy_draft(toy, NULL, 0, tokens, weights);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += longest_in(toy, tokens[i]) == token ? (double)weights[i] / OR_DISTRIBUTION_TOTAL : 0;
    }
    return sum;
}

static void ship_psi(const toy_t *toy, or_draft_tree_t *tree,
                     double (*probability)(const toy_t *toy, int32_t token))
{
    static double psi;
    psi = fmax(probability(toy, (int32_t)tree->tokens[0]), TINY);
    tree->psi = &psi;
}

static void ship_own(const toy_t *toy, or_draft_tree_t *tree)
{
    ship_psi(toy, tree, own_probability);
}

static void ship_without_look_ahead(const toy_t *toy, or_draft_tree_t *tree)
{
    ship_psi(toy, tree, probability_without_look_ahead);
}

static void answer_own(const toy_t *toy, const int32_t *ids, uint32_t count, double *psi)
{
    for (uint32_t i = 0; i < count; i++) {
        psi[i] = own_probability(toy, ids[i]);
    }
}

static void answer_without_look_ahead(const toy_t *toy, const int32_t *ids, uint32_t count,
                                      double *psi)
{
    for (uint32_t i = 0; i < count; i++) {
        psi[i] = probability_without_look_ahead(toy, ids[i]);
    }
}

static void p_in_the_place_of_psi_is_seen(void **state)
{
    const toy_faults_t faults = {.drafted = ship_own, .answered = answer_own};
    check_seen(*state, OR_VOCAB_SLRS, false, &faults);
}

static void psi_without_look_ahead_is_seen(void **state)
{
    const toy_faults_t faults = {.drafted = ship_without_look_ahead,
                                 .answered = answer_without_look_ahead};
    check_seen(*state, OR_VOCAB_SLRS, false, &faults);
}

static void a_residual_against_p_is_seen(void **state)
{
    const toy_faults_t faults = {.answered = answer_own};
    check_seen(*state, OR_VOCAB_SLRS, false, &faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outside_guess_dropped_instead_of_rejected_is_seen),
        cmocka_unit_test(guesses_of_the_restricted_distribution_shipped_with_the_whole_are_seen),
        cmocka_unit_test(p_in_the_place_of_psi_is_seen),
        cmocka_unit_test(psi_without_look_ahead_is_seen),
        cmocka_unit_test(a_residual_against_p_is_seen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
