// Goal: a drawn tree has the shape that was asked for, its tokens have the frequencies that its distributions
// say, and nothing was decided by what was drawn; where nothing is drawn the best are taken.
// Method: a Markov chain over seven tokens in the model's place. Shapes and draws of whole trees,
// every budget against the full tree, chi-square of children, paths and beams over many rounds; a
// chooser between that counts what is asked and meets no choice twice.
#include <math.h>
#include <string.h>

#include "common/base/inline.h"
#include "drafter/build/builder_test_support.h"
#include "tests/support/test_support.h"

// ---- shapes ----

static const or_shape_t branchings[] = {
    {3, {3, 2, 1}}, {1, {6}}, {2, {9, 4}}, {4, {2, 2, 2, 2}}, {5, {4, 1, 1, 1, 1}}};

static void assert_branching(const or_shape_t *shape, bool replaced, bool repeats)
{
    for (uint32_t node = 0; node <= or_token_tree_count(tree); node++) {
        uint32_t depth = or_token_tree_depths(tree)[node];
        uint32_t width = depth < shape->count ? shape->widths[depth] : 0;
        uint32_t support = dist_after(or_token_tree_tokens(tree)[node]).count;
        if (is_repeated(node)) {
            assert_true(repeats);
            assert_int_equal(children_of(node, false), 0);
        } else if (!replaced) {
            assert_int_equal(children_of(node, false), or_min_u32(width, support));
            assert_int_equal(children_of(node, true), or_min_u32(width, support));
        } else if (repeats) {
            assert_int_equal(children_of(node, false), width);
        } else {
            uint32_t count = children_of(node, false);
            assert_true(count <= or_min_u32(width, support) && (count > 0) == (width > 0));
        }
    }
}

static void branching_trees_have_their_shape(void **state)
{
    (void)state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
    } pairs[] = {{OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE},
                 {OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE},
                 {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND},
                 {OR_DRAFT_MCSD, OR_ACCEPT_NAIVE}};
    uint32_t repeated = 0;
    for (uint64_t round = 1; round <= 40; round++) {
        for (size_t i = 0; i < sizeof branchings / sizeof *branchings; i++) {
            for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
                or_build_job_t job = job_of(pairs[k].method, pairs[k].rule, branchings[i]);
                uint32_t drawn = build(pairs[k].method, job, round);
                assert_branching(&branchings[i], job.replaced, job.repeats);
                assert_draws(pairs[k].rule);
                uint32_t count = or_token_tree_count(tree);
                bool dropped = pairs[k].method == OR_DRAFT_MCSD && !job.repeats;
                assert_true(dropped ? drawn >= count : drawn == count); // none drawn and dropped
                for (uint32_t node = 1; node <= count; node++) {
                    repeated += is_repeated(node);
                }
            }
        }
    }
    assert_true(repeated > 100); // or nothing was seen of repetitions
}

static void beams_have_their_shape(void **state)
{
    (void)state;
    static const or_shape_t beams[] = {
        {2, {1, 4}}, {2, {3, 4}}, {2, {8, 3}}, {2, {40, 3}}, {1, {5}}};
    for (uint64_t round = 1; round <= 40; round++) {
        for (size_t i = 0; i < sizeof beams / sizeof *beams; i++) {
            or_build_job_t job = job_of(OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, beams[i]);
            uint32_t drawn = build(OR_DRAFT_RSD_S, job, round);
            uint32_t levels = beams[i].count > 1 ? beams[i].widths[1] : job.depth_max;
            uint32_t taken[13] = {0}, possible[13] = {1};
            for (uint32_t node = 0; node <= or_token_tree_count(tree); node++) {
                uint32_t depth = or_token_tree_depths(tree)[node];
                assert_true(depth <= levels);
                taken[depth]++;
                assert_false(is_repeated(node));
                if (depth < levels) {
                    possible[depth + 1] += dist_after(or_token_tree_tokens(tree)[node]).count;
                }
            }
            for (uint32_t depth = 1; depth <= levels; depth++) {
                assert_int_equal(taken[depth], or_min_u32(beams[i].widths[0], possible[depth]));
            }
            assert_int_equal(drawn, or_token_tree_count(tree));
            assert_draws(OR_ACCEPT_RECURSIVE);
        }
    }
}

static void a_chain_is_as_long_as_it_may_be(void **state)
{
    (void)state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_SPS, OR_ACCEPT_MULTI_ROUND,
                                             OR_ACCEPT_RECURSIVE};
    for (uint32_t length = 1; length <= 12; length++) {
        or_build_job_t job = job_of(OR_DRAFT_CHAIN, OR_ACCEPT_SPS, (or_shape_t){0});
        job.depth_max = length;
        assert_int_equal(build(OR_DRAFT_CHAIN, job, length), length);
        for (int i = 0; i < 3; i++) {
            assert_draws(rules[i]);
        }
        job.depth_max = 12;
        job.nodes_max = length;
        build(OR_DRAFT_CHAIN, job, length);
        assert_int_equal(or_token_tree_count(tree), length);
        for (uint32_t node = 1; node <= length; node++) {
            assert_int_equal(or_token_tree_parents(tree)[node], node - 1);
        }
    }
}

// A budget or a depth is a cut, decided before anything is drawn: what is there is what would be
// there without it.
static void a_cut_changes_nothing_of_what_is_left(void **state)
{
    (void)state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
        or_shape_t shape;
    } cases[] = {{OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, {3, {3, 2, 2}}},
                 {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, {3, {3, 2, 2}}},
                 {OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, {2, {4, 4}}}};
    for (uint64_t round = 1; round <= 10; round++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            or_build_guess_t all[64];
            or_build_job_t job = job_of(cases[i].method, cases[i].rule, cases[i].shape);
            uint32_t full = build(cases[i].method, job, round);
            assert_true(full < 64);
            memcpy(all, builder->guesses, (full + 1) * sizeof *all);
            for (uint32_t nodes = 0; nodes <= full; nodes++) {
                job.nodes_max = nodes;
                assert_int_equal(build(cases[i].method, job, round), nodes);
                assert_int_equal(or_token_tree_count(tree), nodes);
                for (uint32_t guess = 1; guess <= nodes; guess++) {
                    assert_int_equal(builder->guesses[guess].token, all[guess].token);
                    assert_int_equal(builder->guesses[guess].parent, all[guess].parent);
                }
                if (nodes > 0) {
                    assert_draws(cases[i].rule);
                }
            }
            job.nodes_max = NODES;
            job.depth_max = 2;
            uint32_t shallow = build(cases[i].method, job, round);
            assert_true(shallow > 0 && shallow < full);
            for (uint32_t guess = 1; guess <= full; guess++) {
                assert_int_equal(guess <= shallow, all[guess].depth <= 2);
            }
        }
    }
}

// ---- frequencies ----

#define ROUNDS 20000

// Pearson's statistic, cells of small expectation pooled, within six of its standard deviations. The
// key is fixed, so what fits once always does.
static void assert_fits(const uint32_t *seen, const double *expected, uint32_t cells)
{
    double statistic = 0, pool_seen = 0, pool = 0;
    uint32_t degrees = 0;
    for (uint32_t i = 0; i < cells; i++) {
        assert_true(expected[i] > 0 || seen[i] == 0);
        if (expected[i] < 5) {
            pool_seen += seen[i];
            pool += expected[i];
            continue;
        }
        statistic += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
        degrees++;
    }
    if (pool >= 5) {
        statistic += (pool_seen - pool) * (pool_seen - pool) / pool;
    }
    if (!(statistic < degrees + 6 * sqrt(2.0 * degrees))) {
        fail_msg("chi-square %g of %u cells", statistic, degrees);
    }
}

static void a_round_has_one_tree(void **state)
{
    (void)state;
    or_build_job_t job = job_of(OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, (or_shape_t){2, {3, 5}});
    uint32_t differing = 0;
    for (uint64_t round = 1; round <= 50; round++) {
        int32_t first[16];
        build(OR_DRAFT_RSD_S, job, round);
        memcpy(first, or_token_tree_tokens(tree), sizeof first);
        build(OR_DRAFT_RSD_S, job, round + 1);
        differing += memcmp(first, or_token_tree_tokens(tree), sizeof first) != 0;
        build(OR_DRAFT_RSD_S, job, round);
        assert_memory_equal(first, or_token_tree_tokens(tree), sizeof first);
    }
    assert_true(differing >= 45);
}

// Three children of the root in the order they were drawn, without and with replacement.
static void siblings_have_the_distributions_frequencies(void **state)
{
    (void)state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
        or_shape_t shape;
    } cases[] = {{OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, {1, {3}}},
                 {OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, {2, {3, 1}}},
                 {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, {1, {3}}}};
    const double *p = markov[ROOT_TOKEN];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t seen[VOCAB * VOCAB * VOCAB] = {0};
        double expected[VOCAB * VOCAB * VOCAB];
        or_build_job_t job = job_of(cases[i].method, cases[i].rule, cases[i].shape);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            build(cases[i].method, job, round);
            const int32_t *t = or_token_tree_tokens(tree);
            seen[(t[1] * VOCAB + t[2]) * VOCAB + t[3]]++;
        }
        for (uint32_t k = 0; k < VOCAB * VOCAB * VOCAB; k++) {
            uint32_t a = k / VOCAB / VOCAB, b = k / VOCAB % VOCAB, c = k % VOCAB;
            bool twice = a == b || b == c || a == c;
            double without = twice ? 0 : p[a] * p[b] / (1 - p[a]) * p[c] / (1 - p[a] - p[b]);
            expected[k] = ROUNDS * (job.replaced ? p[a] * p[b] * p[c] : without);
        }
        assert_fits(seen, expected, VOCAB * VOCAB * VOCAB);
    }
}

static void a_chain_has_the_drafts_frequencies(void **state)
{
    (void)state;
    uint32_t seen[VOCAB * VOCAB * VOCAB] = {0};
    double expected[VOCAB * VOCAB * VOCAB];
    or_build_job_t job = job_of(OR_DRAFT_CHAIN, OR_ACCEPT_SPS, (or_shape_t){0});
    job.depth_max = 3;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        build(OR_DRAFT_CHAIN, job, round);
        const int32_t *t = or_token_tree_tokens(tree);
        seen[(t[1] * VOCAB + t[2]) * VOCAB + t[3]]++;
    }
    for (uint32_t k = 0; k < VOCAB * VOCAB * VOCAB; k++) {
        uint32_t a = k / VOCAB / VOCAB, b = k / VOCAB % VOCAB, c = k % VOCAB;
        expected[k] = ROUNDS * markov[ROOT_TOKEN][a] * markov[a][b] * markov[b][c];
    }
    assert_fits(seen, expected, VOCAB * VOCAB * VOCAB);
}

// A beam's last level is a sample of whole sequences without replacement, best first (Kool et al.
// 2019): whatever way it was found.
static void a_beam_has_the_frequencies_of_sequences(void **state)
{
    (void)state;
    enum { SEQUENCES = VOCAB * VOCAB };
    static uint32_t seen[SEQUENCES * SEQUENCES];
    static double expected[SEQUENCES * SEQUENCES];
    or_build_job_t job = job_of(OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, (or_shape_t){2, {2, 2}});
    memset(seen, 0, sizeof seen);
    for (uint64_t round = 0; round < 2 * ROUNDS; round++) {
        uint32_t sequence[2];
        build(OR_DRAFT_RSD_S, job, round);
        for (uint32_t i = 0; i < 2; i++) { // guesses 3 and 4 are the second level, in order
            const or_build_guess_t *guess = &builder->guesses[3 + i];
            sequence[i] = (uint32_t)(builder->guesses[guess->parent].token * VOCAB + guess->token);
        }
        seen[sequence[0] * SEQUENCES + sequence[1]]++;
    }
    for (uint32_t a = 0; a < SEQUENCES; a++) {
        for (uint32_t b = 0; b < SEQUENCES; b++) {
            double pa = markov[ROOT_TOKEN][a / VOCAB] * markov[a / VOCAB][a % VOCAB];
            double pb = markov[ROOT_TOKEN][b / VOCAB] * markov[b / VOCAB][b % VOCAB];
            expected[a * SEQUENCES + b] = a == b ? 0 : 2 * ROUNDS * pa * pb / (1 - pa);
        }
    }
    assert_fits(seen, expected, SEQUENCES * SEQUENCES);
}

// ---- where nothing is drawn ----

static void undrawn_children_are_the_best(void **state)
{
    (void)state;
    static const or_draft_method_t methods[] = {OR_DRAFT_RSD_C, OR_DRAFT_MCSD};
    for (int m = 0; m < 2; m++) {
        or_build_job_t job = job_of(methods[m], OR_ACCEPT_COUPLED, (or_shape_t){3, {3, 2, 1}});
        assert_int_equal(build(methods[m], job, 1), 0);
        assert_null(or_builder_draws(builder));
        assert_int_equal(children_of(0, true), 3);
        for (uint32_t node = 0; node <= or_token_tree_count(tree); node++) {
            or_build_list_t list;
            uint32_t rank = 0;
            list_after(or_token_tree_tokens(tree)[node], &list);
            for (uint32_t child = or_token_tree_first_child(tree, node); child != 0;
                 child = or_token_tree_next_sibling(tree, child)) {
                assert_int_equal(or_token_tree_tokens(tree)[child], list.ids[rank++]);
            }
            uint32_t depth = or_token_tree_depths(tree)[node];
            uint32_t width = depth < 3 ? job.shape.widths[depth] : 0;
            assert_int_equal(rank, or_min_u32(width, list.count));
        }
    }
}

// The beam has the W children of largest product of all children of its level, found by sorting everything.
static void an_undrawn_beam_takes_the_largest_products(void **state)
{
    (void)state;
    enum { WIDTH = 4, LENGTH = 4 };
    double beam[WIDTH] = {1};
    int32_t last[WIDTH] = {ROOT_TOKEN};
    uint32_t count = 1, guess = 1;
    or_build_job_t job = job_of(OR_DRAFT_RSD_S, OR_ACCEPT_GREEDY, (or_shape_t){2, {WIDTH, LENGTH}});
    assert_int_equal(build(OR_DRAFT_RSD_S, job, 1), 0);
    for (uint32_t level = 0; level < LENGTH; level++) {
        double products[WIDTH * VOCAB], next[WIDTH];
        int32_t tokens[WIDTH];
        for (uint32_t k = 0; k < count * VOCAB; k++) {
            products[k] = beam[k / VOCAB] * markov[last[k / VOCAB]][k % VOCAB];
        }
        for (uint32_t rank = 0; rank < WIDTH; rank++, guess++) {
            uint32_t best = 0;
            for (uint32_t k = 1; k < count * VOCAB; k++) {
                best = products[k] > products[best] ? k : best;
            }
            next[rank] = products[best];
            tokens[rank] = (int32_t)(best % VOCAB);
            products[best] = 0;
            assert_true(fabs(exp(builder->guesses[guess].weight) - next[rank]) < 1e-12);
            assert_int_equal(builder->guesses[guess].token, tokens[rank]);
        }
        memcpy(beam, next, sizeof beam);
        memcpy(last, tokens, sizeof last);
        count = WIDTH;
    }
    assert_int_equal(or_token_tree_count(tree), WIDTH * LENGTH);
}

// After a drawn tree nothing is learnt of a belief that was not used, and the next tree may be
// undrawn.
static void drawn_and_undrawn_trees_follow_each_other(void **state)
{
    (void)state;
    const or_shape_t shape = {2, {3, 2}};
    static const uint32_t accepted[] = {1};
    double tau = or_belief_tau(&belief);
    build(OR_DRAFT_RSD_C, job_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, shape), 1);
    assert_non_null(or_builder_draws(builder));
    or_builder_learn(builder, &belief, NULL, accepted, 1, 2);
    assert_true(or_belief_tau(&belief) == tau);
    build(OR_DRAFT_RSD_C, job_of(OR_DRAFT_RSD_C, OR_ACCEPT_COUPLED, shape), 1);
    assert_null(or_builder_draws(builder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branching_trees_have_their_shape),
        cmocka_unit_test(beams_have_their_shape),
        cmocka_unit_test(a_chain_is_as_long_as_it_may_be),
        cmocka_unit_test(a_cut_changes_nothing_of_what_is_left),
        cmocka_unit_test(a_round_has_one_tree),
        cmocka_unit_test(siblings_have_the_distributions_frequencies),
        cmocka_unit_test(a_chain_has_the_drafts_frequencies),
        cmocka_unit_test(a_beam_has_the_frequencies_of_sequences),
        cmocka_unit_test(undrawn_children_are_the_best),
        cmocka_unit_test(an_undrawn_beam_takes_the_largest_products),
        cmocka_unit_test(drawn_and_undrawn_trees_follow_each_other),
    };
    return cmocka_run_group_tests(tests, fake_setup, fake_teardown);
}
