// Goal: a walk accepts exactly the tokens that plain decoding would have drawn, and the text never
// depends on the tree: the rules that draw the target's token with noise, or take the best one. (The
// ratio rules: accept_ratio_test.c.)
// Method: a made-up target whose logits are a function of the path; plain decoding one token at a
// time against trees that hold the right path, parts of it, or nothing of it; then stop ids,
// penalties, errors and unknown rules.
#include "verifier/accept/accept.h"

#include <math.h>

#include "tests/support/test_support.h"

#define VOCAB 40
#define STEPS 12

static uint64_t token_keys[VOCAB];
static uint32_t widths[VOCAB];

// The target: logits after a tree's node depend on all tokens of the path to it.
typedef struct {
    const or_token_tree_t *tree;
    or_sampler_t *sampler;
    or_sampling_t sampling;
    uint32_t calls;
    uint32_t fail_at; // call number that fails; 0: none
    float logits[VOCAB];
} target_t;

static uint64_t path_hash(const or_token_tree_t *tree, uint32_t node)
{
    uint64_t above = node == 0 ? 0 : path_hash(tree, or_token_tree_parents(tree)[node]);
    return or_rng_draw(or_rng_key(above, (uint64_t)or_token_tree_tokens(tree)[node]), OR_RNG_TEST,
                       0, 0, 0);
}

static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    target_t *target = context;
    if (++target->calls == target->fail_at) {
        return or_fail(OR_ERR_UNREACHABLE, "the target is gone");
    }
    uint64_t random = path_hash(target->tree, node);
    for (int i = 0; i < VOCAB; i++) {
        target->logits[i] = (float)(6 * test_uniform(&random));
    }
    *dist = or_sampler_distribution(target->sampler, &target->sampling, target->logits, history,
                                    history_count);
    return OR_OK;
}

typedef struct {
    or_token_tree_t *tree;
    target_t target;
    or_keyed_chooser_t chooser;
    int32_t history[STEPS * 2 + OR_TREE_NODES_MAX];
    or_accept_job_t job;
} fixture_t;

static int setup(void **state)
{
    static fixture_t fixture;
    fixture_t *f = &fixture;
    *f = (fixture_t){0};
    uint64_t random = 99;
    for (int i = 0; i < VOCAB; i++) {
        token_keys[i] = test_random(&random);
        widths[i] = (uint32_t)i % 4;
    }
    if (or_token_tree_create(64, &f->tree) != OR_OK ||
        or_sampler_create(VOCAB, &f->target.sampler) != OR_OK) {
        return -1;
    }
    or_token_tree_reset(f->tree, 1);
    f->target.tree = f->tree;
    f->target.sampling = or_sampling_default();
    f->chooser = or_keyed_chooser((or_rng_key_t){0}, 1, or_noise_key(11, 0), token_keys);
    f->history[0] = 1;
    f->job = (or_accept_job_t){.tree = f->tree,
                               .dist = target_dist,
                               .dist_context = &f->target,
                               .chooser = &f->chooser.chooser,
                               .history = f->history,
                               .history_count = 1,
                               .place = {5, 0},
                               .widths = widths};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    or_token_tree_destroy(&f->tree);
    or_sampler_destroy(&f->target.sampler);
    return 0;
}

// Decode plainly: draw each token by hand from the distribution after the ones before, along a chain in the tree.
static void decode_plainly(fixture_t *f, or_accept_rule_t rule, int32_t text[STEPS])
{
    or_noise_place_t place = f->job.place;
    or_token_tree_reset(f->tree, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        or_distribution_t dist;
        assert_int_equal(target_dist(&f->target, step, f->history, step + 1, &dist), OR_OK);
        text[step] = dist.ids[0];
        double best = -INFINITY;
        for (uint32_t i = 0; i < dist.count; i++) {
            double noise = or_noise_gumbel(f->chooser.noise_key, place, token_keys[dist.ids[i]]);
            double score = dist.scores[i] + (rule == OR_ACCEPT_GREEDY ? 0 : noise);
            if (score > best) {
                best = score;
                text[step] = dist.ids[i];
            }
        }
        f->history[step + 1] = text[step];
        place = or_noise_advance(place, widths[text[step]]);
        assert_int_equal(or_token_tree_add(f->tree, step, text[step], NULL), OR_OK);
    }
}

// A tree with the first `right` tokens of the text, a wrong one after them, and wrong siblings all
// along.
static void plant(fixture_t *f, const int32_t text[STEPS], uint32_t right)
{
    uint32_t parent = 0;
    or_token_tree_reset(f->tree, 1);
    for (uint32_t depth = 0; depth <= right && depth < STEPS; depth++) {
        or_token_tree_add(f->tree, parent, (text[depth] + 1) % VOCAB, NULL);
        if (depth < right) {
            or_token_tree_add(f->tree, parent, text[depth], &parent);
        }
    }
}

static void assert_text_is_plain(fixture_t *f, or_accept_rule_t rule)
{
    int32_t text[STEPS];
    or_acceptance_t acceptance;
    decode_plainly(f, rule, text);
    for (uint32_t right = 0; right < STEPS; right++) {
        plant(f, text, right);
        for (uint32_t i = 1; i < STEPS; i++) {
            f->history[i] = -1; // poison: the rule must write what it needs
        }
        assert_int_equal(or_accept(rule, &f->job, &acceptance), OR_OK);
        assert_int_equal(acceptance.accepted_count, right);
        assert_false(acceptance.stopped);
        uint32_t parent = 0;
        for (uint32_t i = 0; i < right; i++) {
            uint32_t node = acceptance.accepted[i];
            assert_int_equal(or_token_tree_parents(f->tree)[node], parent);
            assert_int_equal(or_token_tree_tokens(f->tree)[node], text[i]);
            parent = node;
        }
        assert_int_equal(acceptance.next, text[right]);
    }
}

static void any_tree_gives_the_text_of_plain_decoding(void **state)
{
    fixture_t *f = *state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        f->chooser.noise_key = or_noise_key(seed, 0);
        f->target.sampling.temperature = 1;
        f->target.sampling.repeat_penalty = 1;
        assert_text_is_plain(f, OR_ACCEPT_COUPLED);
        f->target.sampling.repeat_penalty = 1.5f; // penalties follow the path
        f->target.sampling.top_p = 0.9f;
        assert_text_is_plain(f, OR_ACCEPT_COUPLED);
        assert_text_is_plain(f, OR_ACCEPT_NAIVE); // the same rule, under another key
    }
}

static void the_rules_agree_at_temperature_0(void **state)
{
    fixture_t *f = *state;
    f->target.sampling.temperature = 0;
    assert_text_is_plain(f, OR_ACCEPT_GREEDY);
    assert_text_is_plain(f, OR_ACCEPT_COUPLED);
    assert_text_is_plain(f, OR_ACCEPT_NAIVE);
    f->target.sampling.temperature = 0.5f; // the rule itself takes the best of any distribution
    assert_text_is_plain(f, OR_ACCEPT_GREEDY);
}

static void a_stop_id_is_never_accepted(void **state)
{
    fixture_t *f = *state;
    int32_t text[STEPS];
    or_acceptance_t acceptance;
    decode_plainly(f, OR_ACCEPT_COUPLED, text);
    const uint32_t stop = (uint32_t)text[3];
    uint32_t first = 0;
    while ((uint32_t)text[first] != stop) {
        first++;
    }
    f->job.stop_ids = &stop;
    f->job.stop_count = 1;
    assert_int_equal(or_accept(OR_ACCEPT_COUPLED, &f->job, &acceptance), OR_OK);
    assert_int_equal(acceptance.accepted_count, first);
    assert_int_equal(acceptance.next, stop);
    assert_true(acceptance.stopped);
}

static void the_targets_errors_are_passed_on(void **state)
{
    fixture_t *f = *state;
    int32_t text[STEPS];
    or_acceptance_t acceptance;
    decode_plainly(f, OR_ACCEPT_COUPLED, text);
    f->target.fail_at = f->target.calls + 3;
    assert_int_equal(or_accept(OR_ACCEPT_COUPLED, &f->job, &acceptance), OR_ERR_UNREACHABLE);
    assert_int_equal(or_accept((or_accept_rule_t)99, &f->job, &acceptance), OR_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_tree_gives_the_text_of_plain_decoding, setup, teardown),
        cmocka_unit_test_setup_teardown(the_rules_agree_at_temperature_0, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_id_is_never_accepted, setup, teardown),
        cmocka_unit_test_setup_teardown(the_targets_errors_are_passed_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
