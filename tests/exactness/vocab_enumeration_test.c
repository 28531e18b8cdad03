// Goal: between vocabularies that differ, tli and union are exact with every ratio rule, slem with
// naive, slrs with its own, and they accept what docs/algorithms.md section 4 gives (Timor et al. 2025,
// sections 2 and 3):
//
//     union    sum_I min(q, p)        tli     sum_I min(q, p / p(I)), never less than union
//     slem     sum q psi              slrs    sum min(q, psi), never less than slem
//
// Method: pairs of hand-made vocabularies whose tokens overlap as strings (toy_vocabs.h), random
// models. Every choice of the real drafter and of the real rules is taken in turn (toy_world.h); in
// between the coordinator translates. All sums are rationals; psi is summed once more here, over texts,
// by comparing strings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"
#include "tests/exactness/toy_vocabs.h"
#include "tests/exactness/toy_world.h"
#include "tests/support/test_support.h"

#define MODELS (6u / test_share(2)) // the gate takes half of them
#define TOLERANCE 1e-12             // where the rule's arithmetic rounds

typedef struct {
    toy_world_t *world;
    toy_vocabs_t vocabs[TOY_VOCABS];
    toy_case_t what;
    uint32_t at;    // of vocabs
    mpq_t accepted; // expected number, of the last case
} fixture_t;

static int setup(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    f->world = toy_world_create();
    f->what.stop = TOY_NO_STOP;
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

// Set the model of a pair, of which `strings` tokens on either side have distributions.
static void set_model(fixture_t *f, uint32_t pair, uint64_t seed, uint32_t strings,
                      or_vocab_method_t method)
{
    f->at = pair;
    f->what.vocab_method = method;
    f->what.toy = (toy_t){.seed = seed,
                          .vocab_size = strings,
                          .pair = f->vocabs[pair].pair,
                          .draft_size = strings,
                          .restricted = method == OR_VOCAB_TLI,
                          .root = TOY_ROOT};
}

// These rules solve equations. All others stay in small rationals.
static bool may_round(or_accept_rule_t rule)
{
    return rule == OR_ACCEPT_KSEQ || rule == OR_ACCEPT_OTM;
}

static void check_exact(fixture_t *f)
{
    const toy_plan_t *plan = &f->what.plan;
    toy_result_t result = toy_world_run(f->world, &f->what, f->accepted);
    assert_true(may_round(plan->rule) || !result.rounded);
    if (!(result.distance <= (result.rounded ? TOLERANCE : 0))) {
        fail_msg("%s, %s, %s with %s, %u nodes, model %llu: the distribution is off by %g",
                 f->vocabs[f->at].name, or_vocab_method_name(f->what.vocab_method),
                 or_draft_method_name(plan->method), or_accept_rule_name(plan->rule), plan->nodes,
                 (unsigned long long)f->what.toy.seed, result.distance);
    }
}

static void check_shape(fixture_t *f, or_draft_method_t method, or_accept_rule_t rule,
                        uint32_t strings, const char *shape)
{
    f->what.plan = toy_plan(method, rule, shape);
    for (uint32_t i = 0; i < 2 * TOY_VOCABS * MODELS; i++) {
        set_model(f, i / 2 % TOY_VOCABS, 1 + i / 2 / TOY_VOCABS, strings,
                  i % 2 == 0 ? OR_VOCAB_TLI : OR_VOCAB_UNION);
        check_exact(f);
    }
}

static void chains_are_exact(void **state)
{
    static const or_accept_rule_t rules[] = {
        OR_ACCEPT_SPS,  OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_RECURSIVE, OR_ACCEPT_NAIVE,
        OR_ACCEPT_KSEQ, OR_ACCEPT_OTM,         OR_ACCEPT_BLOCK,     OR_ACCEPT_TRAVERSAL};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        check_shape(*state, OR_DRAFT_CHAIN, rules[i], 5, "1");
        check_shape(*state, OR_DRAFT_CHAIN, rules[i], 5, "1x1");
    }
}

static void draws_with_replacement_are_exact(void **state)
{
    static const or_accept_rule_t rules[] = {OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_KSEQ, OR_ACCEPT_OTM,
                                             OR_ACCEPT_NAIVE};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        check_shape(*state, OR_DRAFT_MCSD, rules[i], 5, "2");
        check_shape(*state, OR_DRAFT_MCSD, rules[i], 4, "2x1");
        check_shape(*state, OR_DRAFT_KSEQ, rules[i], 4, "2x2");
    }
    check_shape(*state, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 5, "3");
}

static void draws_without_replacement_are_exact(void **state)
{
    static const or_accept_rule_t rules[] = {OR_ACCEPT_RECURSIVE, OR_ACCEPT_TRAVERSAL,
                                             OR_ACCEPT_NAIVE};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        check_shape(*state, OR_DRAFT_RSD_C, rules[i], 5, "2");
        check_shape(*state, OR_DRAFT_RSD_C, rules[i], 5, "5");
        check_shape(*state, OR_DRAFT_RSD_C, rules[i], 4, "2x1");
        check_shape(*state, OR_DRAFT_RSD_C, rules[i], 4, "2x2");
        check_shape(*state, OR_DRAFT_RSD_S, rules[i], 4, "2x2");
    }
}

// These methods choose where to grow while they grow.
static void grown_trees_are_exact(void **state)
{
    static const or_draft_method_t methods[] = {OR_DRAFT_DYSPEC, OR_DRAFT_DYSPEC_T,
                                                OR_DRAFT_SEQUOIA};
    static const or_accept_rule_t rules[] = {OR_ACCEPT_RECURSIVE, OR_ACCEPT_TRAVERSAL};
    fixture_t *f = *state;
    for (uint32_t i = 0; i < 3 * 2 * 2 * TOY_VOCABS * MODELS; i++) {
        set_model(f, i / 12 % TOY_VOCABS, 1 + i / 12 / TOY_VOCABS, 4,
                  i / 6 % 2 == 0 ? OR_VOCAB_TLI : OR_VOCAB_UNION);
        f->what.plan = (toy_plan_t){.method = methods[i % 3],
                                    .rule = rules[i / 3 % 2],
                                    .nodes = 3,
                                    .depth = 2,
                                    .threshold = 0.05F};
        check_exact(f);
    }
}

// Compute the acceptance of one guess: the sum over both of min(q, p) or, for naive, of q p.
static void one_guess(const fixture_t *f, bool naive, mpq_t sum)
{
    const toy_t *toy = &f->what.toy;
    uint32_t tokens[TOY_VOCAB_MAX], shares[TOY_VOCAB_MAX];
    double weights[TOY_VOCAB_MAX];
    uint32_t count = toy->restricted ? toy_restricted(toy, NULL, 0, tokens, shares)
                                     : toy_draft(toy, NULL, 0, tokens, shares);
    unsigned long total = 0;
    mpq_t p, q;
    mpq_inits(p, q, NULL);
    toy_target(toy, NULL, 0, weights);
    for (uint32_t id = 0; id < toy->vocab_size; id++) {
        total += (unsigned long)weights[id];
    }
    mpq_set_ui(sum, 0, 1);
    for (uint32_t i = 0; i < count; i++) {
        int32_t id = toy->pair->to_target[tokens[i]];
        if (id == OR_TOKEN_NONE || (uint32_t)id >= toy->vocab_size) {
            continue;
        }
        mpq_set_ui(p, shares[i], OR_DISTRIBUTION_TOTAL);
        mpq_set_ui(q, (unsigned long)weights[id], total);
        mpq_canonicalize(p);
        mpq_canonicalize(q);
        if (naive) {
            mpq_mul(p, p, q);
        }
        mpq_add(sum, sum, naive || mpq_cmp(p, q) < 0 ? p : q);
    }
    mpq_clears(p, q, NULL);
}

static void one_guess_is_accepted_as_often_as_can_be(void **state)
{
    static const or_accept_rule_t rules[] = {OR_ACCEPT_SPS,       OR_ACCEPT_MULTI_ROUND,
                                             OR_ACCEPT_RECURSIVE, OR_ACCEPT_BLOCK,
                                             OR_ACCEPT_TRAVERSAL, OR_ACCEPT_NAIVE};
    fixture_t *f = *state;
    mpq_t expected;
    mpq_init(expected);
    for (uint32_t i = 0; i < 2 * TOY_VOCABS * MODELS * 6; i++) {
        or_accept_rule_t rule = rules[i % 6];
        f->what.plan =
            toy_plan(rule == OR_ACCEPT_NAIVE ? OR_DRAFT_RSD_C : OR_DRAFT_CHAIN, rule, "1");
        set_model(f, i / 12 % TOY_VOCABS, 1 + i / 12 / TOY_VOCABS, 5,
                  i / 6 % 2 == 0 ? OR_VOCAB_TLI : OR_VOCAB_UNION);
        check_exact(f);
        one_guess(f, rule == OR_ACCEPT_NAIVE, expected);
        if (mpq_cmp(f->accepted, expected) != 0) {
            fail_msg("%s, %s, %s, model %llu: %g of a guess is accepted, not %g",
                     f->vocabs[f->at].name, or_vocab_method_name(f->what.vocab_method),
                     or_accept_rule_name(rule), (unsigned long long)f->what.toy.seed,
                     mpq_get_d(f->accepted), mpq_get_d(expected));
        }
    }
    mpq_clear(expected);
}

// Theorem of section 3.1: union would have drawn less often what tli draws.
static void tli_accepts_no_less_than_union(void **state)
{
    fixture_t *f = *state;
    uint32_t more = 0;
    mpq_t accepted_by_union;
    mpq_init(accepted_by_union);
    f->what.plan = toy_plan(OR_DRAFT_CHAIN, OR_ACCEPT_SPS, "1x1");
    for (uint32_t i = 0; i < TOY_VOCABS * MODELS; i++) {
        set_model(f, i % TOY_VOCABS, 1 + i / TOY_VOCABS, 5, OR_VOCAB_UNION);
        check_exact(f);
        mpq_set(accepted_by_union, f->accepted);
        set_model(f, i % TOY_VOCABS, 1 + i / TOY_VOCABS, 5, OR_VOCAB_TLI);
        check_exact(f);
        int difference = mpq_cmp(f->accepted, accepted_by_union);
        assert_true(difference >= 0);
        assert_true(!f->what.toy.pair->bijective || difference == 0);
        more += difference > 0;
    }
    assert_true(more > MODELS); // and mostly more
    mpq_clear(accepted_by_union);
}

static void slem_is_exact(void **state)
{
    fixture_t *f = *state;
    static const char *const shapes[] = {"1", "2", "1x1", "2x1"};
    for (uint32_t i = 0; i < TOY_VOCABS * MODELS * 4; i++) {
        f->what.plan = toy_plan(OR_DRAFT_MCSD, OR_ACCEPT_NAIVE, shapes[i % 4]);
        set_model(f, i / 4 % TOY_VOCABS, 1 + i / 4 / TOY_VOCABS, 5, OR_VOCAB_SLEM);
        check_exact(f);
    }
}

static void slrs_is_exact(void **state)
{
    fixture_t *f = *state;
    for (uint32_t i = 0; i < TOY_VOCABS * MODELS; i++) {
        f->what.plan = toy_plan(OR_DRAFT_CHAIN, OR_ACCEPT_SLRS, "1");
        set_model(f, i % TOY_VOCABS, 1 + i / TOY_VOCABS, 5, OR_VOCAB_SLRS);
        check_exact(f);
    }
    for (uint32_t i = 0; i < TOY_VOCABS * 2; i++) {
        f->what.plan = toy_plan(OR_DRAFT_CHAIN, OR_ACCEPT_SLRS, "1x1");
        set_model(f, i % TOY_VOCABS, 1 + i / TOY_VOCABS, 3, OR_VOCAB_SLRS);
        check_exact(f);
    }
}

// Return the target's token that the text begins with; OR_TOKEN_NONE as long as the text may become a
// longer one.
static int32_t begins_with(const toy_vocabs_t *vocabs, const char *text)
{
    int32_t token = OR_TOKEN_NONE;
    size_t longest = 0;
    for (uint32_t id = 0; id < TOY_STRINGS; id++) {
        const char *string = vocabs->target_strings[id];
        size_t length = strlen(string);
        if (length > strlen(text) && strncmp(string, text, strlen(text)) == 0) {
            return OR_TOKEN_NONE;
        }
        if (length > longest && strncmp(string, text, length) == 0) {
            longest = length;
            token = (int32_t)id;
        }
    }
    return token;
}

// Add the mass of a text of the drafter's tokens, and of all that may follow it, to the target's
// tokens it begins with.
static void add_psi(const fixture_t *f, const char *text, int32_t *ids, uint32_t length,
                    const mpq_t mass, mpq_t *psi)
{
    const toy_vocabs_t *vocabs = &f->vocabs[f->at];
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    char longer[64];
    int32_t token = begins_with(vocabs, text);
    if (token != OR_TOKEN_NONE) {
        mpq_add(psi[token], psi[token], mass);
        return;
    }
    mpq_t part;
    mpq_init(part);
    uint32_t count = toy_draft(&f->what.toy, ids, length, tokens, weights);
    for (uint32_t i = 0; i < count; i++) {
        mpq_set_ui(part, weights[i], OR_DISTRIBUTION_TOTAL);
        mpq_canonicalize(part);
        mpq_mul(part, part, mass);
        ids[length] = (int32_t)tokens[i];
        snprintf(longer, sizeof longer, "%s%s", text, vocabs->draft_strings[tokens[i]]);
        add_psi(f, longer, ids, length + 1, part, psi);
    }
    mpq_clear(part);
}

// Add the same for texts of one drafter's token, tokenised by the target.
static void add_first_tokens(const fixture_t *f, mpq_t *psi)
{
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    uint32_t count = toy_draft(&f->what.toy, NULL, 0, tokens, weights);
    mpq_t part;
    mpq_init(part);
    for (uint32_t i = 0; i < count; i++) {
        const char *string = f->vocabs[f->at].draft_strings[tokens[i]];
        int32_t *ids;
        size_t id_count;
        assert_int_equal(
            or_tokenize(f->vocabs[f->at].target, string, strlen(string), 0, &ids, &id_count),
            OR_OK);
        mpq_set_ui(part, weights[i], OR_DISTRIBUTION_TOTAL);
        mpq_canonicalize(part);
        mpq_add(psi[ids[0]], psi[ids[0]], part);
        free(ids);
    }
    mpq_clear(part);
}

// Compute sum q psi and sum min(q, psi).
static void sum_with_psi(const fixture_t *f, mpq_t *psi, mpq_t product, mpq_t overlap)
{
    double weights[TOY_VOCAB_MAX];
    double total = 0;
    mpq_t q, term;
    mpq_inits(q, term, NULL);
    mpq_set_ui(product, 0, 1);
    mpq_set_ui(overlap, 0, 1);
    toy_target(&f->what.toy, NULL, 0, weights);
    for (uint32_t id = 0; id < TOY_STRINGS; id++) {
        total += weights[id];
    }
    for (uint32_t id = 0; id < TOY_STRINGS; id++) {
        mpq_set_ui(q, (unsigned long)weights[id], (unsigned long)total);
        mpq_canonicalize(q);
        mpq_mul(term, q, psi[id]);
        mpq_add(product, product, term);
        mpq_add(overlap, overlap, mpq_cmp(q, psi[id]) < 0 ? q : psi[id]);
    }
    mpq_clears(q, term, NULL);
}

static void assert_accepted(const fixture_t *f, const mpq_t expected)
{
    if (mpq_cmp(f->accepted, expected) != 0) {
        fail_msg("%s, %s, model %llu: %g of a guess is accepted, not %g", f->vocabs[f->at].name,
                 or_vocab_method_name(f->what.vocab_method), (unsigned long long)f->what.toy.seed,
                 mpq_get_d(f->accepted), mpq_get_d(expected));
    }
}

static void clear_psi(mpq_t *psi)
{
    for (uint32_t id = 0; id < TOY_STRINGS; id++) {
        mpq_set_ui(psi[id], 0, 1);
    }
}

static void strings_are_accepted_as_often_as_can_be(void **state)
{
    fixture_t *f = *state;
    mpq_t psi[TOY_STRINGS], product, overlap, one;
    mpq_inits(product, overlap, one, NULL);
    mpq_set_ui(one, 1, 1);
    for (uint32_t id = 0; id < TOY_STRINGS; id++) {
        mpq_init(psi[id]);
    }
    for (uint32_t i = 0; i < TOY_VOCABS * MODELS; i++) {
        int32_t ids[16];
        set_model(f, i % TOY_VOCABS, 1 + i / TOY_VOCABS, 5, OR_VOCAB_SLRS);
        f->what.plan = toy_plan(OR_DRAFT_CHAIN, OR_ACCEPT_SLRS, "1");
        check_exact(f);
        clear_psi(psi);
        add_psi(f, "", ids, 0, one, psi);
        sum_with_psi(f, psi, product, overlap);
        assert_accepted(f, overlap);
        assert_true(mpq_cmp(f->accepted, product) >= 0); // the acceptance of slem with this psi
        f->what.vocab_method = OR_VOCAB_SLEM;
        f->what.plan = toy_plan(OR_DRAFT_MCSD, OR_ACCEPT_NAIVE, "1");
        check_exact(f);
        clear_psi(psi);
        add_first_tokens(f, psi);
        sum_with_psi(f, psi, product, overlap);
        assert_accepted(f, product);
        assert_true(mpq_cmp(overlap, product) >= 0);
    }
    for (uint32_t id = 0; id < TOY_STRINGS; id++) {
        mpq_clear(psi[id]);
    }
    mpq_clears(product, overlap, one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chains_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_with_replacement_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_without_replacement_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(grown_trees_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(one_guess_is_accepted_as_often_as_can_be, setup, teardown),
        cmocka_unit_test_setup_teardown(tli_accepts_no_less_than_union, setup, teardown),
        cmocka_unit_test_setup_teardown(slem_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(slrs_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(strings_are_accepted_as_often_as_can_be, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
