// Goal: the trees that grow by keys and plans are the ones their papers describe: each child of dyspec
// is the one with the largest key, no child of dyspec-t is missing or too many, sequoia and topk have
// the largest products there are, K sequences are independent, and prompt lookup finds what a reader
// finds. Every method keeps budgets, depth and context, and with every rule it is legal with its draws
// are as the verifier wants them.
// Method: a Markov chain over seven tokens in the model's place. Trees are replayed guess by guess
// against keys computed anew from the whole tree; brute force over all paths; cases by hand.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drafter/build/builder_test_support.h"
#include "tests/support/test_support.h"

#define CLOSE 1e-9
#define PATHS_MAX 100000
#define ROUNDS 20000

static const or_draft_method_t all_methods[] = {
    OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_KSEQ,   OR_DRAFT_MCSD,
    OR_DRAFT_RSD_C,   OR_DRAFT_RSD_S, OR_DRAFT_DYSPEC, OR_DRAFT_DYSPEC_T,
    OR_DRAFT_SEQUOIA, OR_DRAFT_TOPK,  OR_DRAFT_NGRAM};
#define METHODS (sizeof all_methods / sizeof *all_methods)

// Invent measurements: something else at every rank and bin.
static void measure_anything(uint64_t seed)
{
    memset(&calibration, 0, sizeof calibration);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t rank = (uint32_t)test_below(&seed, 6);
        double p = test_uniform(&seed);
        or_calibration_learn(&calibration, rank, p * p, test_uniform(&seed) < p / (1 + rank));
    }
}

// ---- dyspec ----

// Keys of the tree's first `count` guesses, each from the definition and the guesses before.
static void keys_of(const or_build_job_t *job, uint32_t count, double *keys)
{
    double reach[NODES + 1] = {1}, left[NODES + 1] = {1}, mass[NODES + 1] = {1};
    uint32_t children[NODES + 1] = {0};
    for (uint32_t guess = 1; guess <= count; guess++) {
        const or_build_guess_t *at = &builder->guesses[guess];
        uint32_t tokens[VOCAB], weights[VOCAB];
        or_distribution_t dist = dist_after(builder->guesses[at->parent].token);
        uint32_t entries = or_distribution_reduce(&dist, VOCAB, tokens, weights);
        uint32_t index = or_distribution_find(
            &(or_reduced_distribution_t){tokens, weights, entries}, (uint32_t)at->token);
        double p = (double)weights[index] / OR_DISTRIBUTION_TOTAL;
        uint32_t rank = children[at->parent]++;
        double taken = job->calibrated
                           ? or_calibration_guess(&calibration, rank, p / mass[at->parent])
                           : p / mass[at->parent];
        reach[guess] = left[guess] = left[at->parent] * taken;
        left[at->parent] *= 1 - taken;
        mass[guess] = 1;
        mass[at->parent] -= p;
    }
    for (uint32_t guess = 0; guess <= count; guess++) {
        bool open = builder->guesses[guess].depth < job->depth_max &&
                    children[guess] < dist_after(builder->guesses[guess].token).count;
        double next = job->calibrated ? or_calibration_rank(&calibration, children[guess]) : 1;
        double by_hand = job->calibrated ? left[guess] : reach[guess] * mass[guess];
        keys[guess] = open ? by_hand * next : 0;
    }
}

static double largest(const double *keys, uint32_t first, uint32_t end)
{
    double most = 0;
    for (uint32_t i = first; i < end; i++) {
        most = keys[i] > most ? keys[i] : most;
    }
    return most;
}

static void a_dyspec_child_has_the_largest_key(void **state)
{
    (void)state;
    double keys[NODES + 1];
    uint32_t nodes = 0, all_passes = 0, all_rows = 0;
    for (uint64_t round = 1; round <= 40; round++) {
        measure_anything(round);
        or_build_job_t job = job_of(OR_DRAFT_DYSPEC, OR_ACCEPT_RECURSIVE, (or_shape_t){0});
        job.calibrated = round % 2 == 0;
        job.nodes_max = 64;
        job.depth_max = round % 3 == 0 ? 3 : 12;
        assert_int_equal(build(OR_DRAFT_DYSPEC, job, round), 64);
        assert_draws(OR_ACCEPT_RECURSIVE);
        nodes += 64;
        all_passes += passes;
        all_rows += rows;
        for (uint32_t guess = 1; guess <= 64; guess++) {
            keys_of(&job, guess - 1, keys);
            double key = keys[builder->guesses[guess].parent];
            assert_true(key > 0 && key >= largest(keys, 0, guess) * (1 - CLOSE));
        }
    }
    assert_true(all_passes < nodes / 3); // several guesses a pass,
    assert_true(all_rows < nodes);       // and few in vain
}

// A smaller budget gives the same guesses, cut.
static void a_budget_cuts_dyspec_trees_before_they_are_drawn(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 20; round++) {
        or_build_guess_t all[65];
        or_draft_method_t method = round % 2 == 0 ? OR_DRAFT_DYSPEC : OR_DRAFT_DYSPEC_T;
        or_build_job_t job = job_of(method, OR_ACCEPT_RECURSIVE, (or_shape_t){0});
        measure_anything(round);
        job.calibrated = round % 4 < 2;
        job.threshold = 0.01F;
        job.nodes_max = 64;
        uint32_t full = build(method, job, round);
        memcpy(all, builder->guesses, (full + 1) * sizeof *all);
        for (uint32_t nodes = 0; nodes <= full; nodes++) {
            job.nodes_max = nodes;
            assert_int_equal(build(method, job, round), nodes);
            for (uint32_t guess = 1; guess <= nodes; guess++) {
                assert_int_equal(builder->guesses[guess].token, all[guess].token);
                assert_int_equal(builder->guesses[guess].parent, all[guess].parent);
            }
        }
    }
}

// No guess stands below the threshold's key, and none that passes it is missing.
static void dyspec_t_has_what_passes_the_threshold(void **state)
{
    (void)state;
    double keys[NODES + 1];
    for (uint64_t round = 1; round <= 40; round++) {
        measure_anything(round);
        or_build_job_t job = job_of(OR_DRAFT_DYSPEC_T, OR_ACCEPT_RECURSIVE, (or_shape_t){0});
        job.calibrated = round % 2 == 0;
        job.threshold = job.calibrated ? 0.02F : 0.05F;
        job.depth_max = round % 3 == 0 ? 2 : 12;
        uint32_t count = build(OR_DRAFT_DYSPEC_T, job, round);
        assert_true(count > 0 && count < NODES);
        assert_draws(OR_ACCEPT_RECURSIVE);
        uint32_t deepest = 0;
        for (uint32_t guess = 1; guess <= count; guess++) {
            keys_of(&job, guess - 1, keys);
            assert_true(keys[builder->guesses[guess].parent] >= (double)job.threshold - CLOSE);
            deepest =
                builder->guesses[guess].depth > deepest ? builder->guesses[guess].depth : deepest;
        }
        keys_of(&job, count, keys);
        assert_true(largest(keys, 0, count + 1) < (double)job.threshold + CLOSE);
        assert_true(passes <= deepest); // one a level
    }
}

// Without a threshold the tree about uses its budget.
static void dyspec_t_finds_a_threshold(void **state)
{
    (void)state;
    memset(&calibration, 0, sizeof calibration);
    for (uint32_t nodes = 8; nodes <= 128; nodes *= 4) {
        for (int calibrated = 0; calibrated < 2; calibrated++) {
            or_build_job_t job = job_of(OR_DRAFT_DYSPEC_T, OR_ACCEPT_RECURSIVE, (or_shape_t){0});
            uint32_t used = 0;
            job.calibrated = calibrated == 1;
            job.nodes_max = nodes;
            for (uint64_t round = 1; round <= 20; round++) {
                used += build(OR_DRAFT_DYSPEC_T, job, round);
            }
            assert_true(used >= 20 * nodes / 3);
        }
    }
}

// ---- brute force over paths ----

typedef struct {
    double products[PATHS_MAX]; // largest first, after sorting
    uint32_t count;
} paths_t;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void add_token_paths(paths_t *paths, int32_t token, double product, uint32_t depth)
{
    for (int32_t next = 0; depth > 0 && next < VOCAB; next++) {
        if (markov[token][next] > 0) {
            assert_true(paths->count < PATHS_MAX);
            paths->products[paths->count++] = product * markov[token][next];
            add_token_paths(paths, next, product * markov[token][next], depth - 1);
        }
    }
}

static void topk_has_the_likeliest_paths(void **state)
{
    (void)state;
    static paths_t paths;
    static const double scores[] = {2, 1, 0};
    for (int i = 0; i < 200; i++) {
        or_belief_learn(&belief, scores, 3, i % 3); // a belief that topk must not share
    }
    assert_true(or_belief_tau(&belief) != 1);
    for (uint32_t depth = 1; depth <= 5; depth++) {
        paths.count = 0;
        add_token_paths(&paths, ROOT_TOKEN, 1, depth);
        qsort(paths.products, paths.count, sizeof(double), by_size);
        for (uint32_t nodes = 1; nodes <= 64 && nodes <= paths.count; nodes += 3) {
            double found[NODES];
            or_build_job_t job = job_of(OR_DRAFT_TOPK, OR_ACCEPT_NAIVE, (or_shape_t){0});
            assert_false(job.drawn);
            job.nodes_max = nodes;
            job.depth_max = depth;
            assert_int_equal(build(OR_DRAFT_TOPK, job, 1), 0);
            assert_true(builder->tau == 1);
            assert_int_equal(or_token_tree_count(tree), nodes);
            for (uint32_t i = 0; i < nodes; i++) {
                found[i] = exp(builder->guesses[builder->chosen[i]].weight);
            }
            qsort(found, nodes, sizeof(double), by_size);
            for (uint32_t i = 0; i < nodes; i++) {
                assert_true(fabs(found[i] - paths.products[i]) < CLOSE);
            }
        }
    }
    or_belief_init(&belief);
}

static void topk_takes_no_noise(void **state)
{
    (void)state;
    or_build_job_t job = {.sampling = or_sampling_default()};
    job.sampling.temperature = 1;
    or_build_job_suit(&job, OR_DRAFT_TOPK, OR_ACCEPT_COUPLED);
    assert_false(job.noisy || job.drawn);
    or_build_job_suit(&job, OR_DRAFT_SEQUOIA, OR_ACCEPT_COUPLED);
    assert_true(job.noisy && !job.drawn);
    or_build_job_suit(&job, OR_DRAFT_KSEQ, OR_ACCEPT_OTM);
    assert_true(job.drawn && job.replaced && job.repeats);
    or_build_job_suit(&job, OR_DRAFT_SEQUOIA, OR_ACCEPT_NAIVE);
    assert_true(job.drawn && !job.replaced && !job.repeats);
    or_build_job_suit(&job, OR_DRAFT_NGRAM, OR_ACCEPT_NAIVE);
    assert_false(job.drawn);
}

// ---- sequoia ----

static void acceptances_by_hand(double *acceptances)
{
    double rejected = 1;
    for (uint32_t rank = 0; rank < OR_CALIBRATION_RANKS; rank++) {
        double taken = or_calibration_rank(&calibration, rank);
        acceptances[rank] = rejected * taken;
        if (rank > 0 && acceptances[rank] > acceptances[rank - 1]) {
            acceptances[rank] = acceptances[rank - 1];
        }
        rejected *= 1 - taken;
    }
}

static void add_rank_paths(paths_t *paths, const double *acceptances, double product,
                           uint32_t depth, double least)
{
    for (uint32_t rank = 0; depth > 0 && rank < OR_CALIBRATION_RANKS; rank++) {
        double next = product * acceptances[rank];
        if (next >= least) {
            assert_true(paths->count < PATHS_MAX);
            paths->products[paths->count++] = next;
            add_rank_paths(paths, acceptances, next, depth - 1, least);
        }
    }
}

// Every path whose product is at least `least` is there as far as distributions have tokens; returns how many.
static uint32_t count_planned(const double *acceptances, uint32_t node, double product,
                              uint32_t depth, double least)
{
    uint32_t count = 0, rank = 0;
    uint32_t support = dist_after(or_token_tree_tokens(tree)[node]).count;
    for (uint32_t child = or_token_tree_first_child(tree, node); child != 0;
         child = or_token_tree_next_sibling(tree, child), rank++) {
        double next = product * acceptances[rank];
        assert_true(depth > 0 && next >= least * (1 - CLOSE));
        count += 1 + count_planned(acceptances, child, next, depth - 1, least);
    }
    assert_true(depth == 0 || rank == support || product * acceptances[rank] < least * (1 + CLOSE));
    return count;
}

static void sequoia_has_the_largest_products(void **state)
{
    (void)state;
    static paths_t paths;
    uint32_t compared = 0;
    for (uint64_t round = 1; round <= 20; round++) {
        double acceptances[OR_CALIBRATION_RANKS];
        uint32_t depth = round % 3 == 0 ? 2 : 12;
        bool drawn = round % 2 == 0;
        measure_anything(round);
        acceptances_by_hand(acceptances);
        paths.count = 0;
        add_rank_paths(&paths, acceptances, 1, depth, depth == 2 ? 0 : 0.002);
        qsort(paths.products, paths.count, sizeof(double), by_size);
        for (uint32_t nodes = 1; nodes < 40 && nodes < paths.count; nodes++) {
            double least = paths.products[nodes - 1];
            or_build_job_t job = job_of(
                OR_DRAFT_SEQUOIA, drawn ? OR_ACCEPT_RECURSIVE : OR_ACCEPT_GREEDY, (or_shape_t){0});
            job.nodes_max = nodes;
            job.depth_max = depth;
            uint32_t draws = build(OR_DRAFT_SEQUOIA, job, round);
            uint32_t count = or_token_tree_count(tree);
            assert_true(count > 0 && count <= nodes && draws == (drawn ? count : 0));
            if (drawn) {
                assert_draws(OR_ACCEPT_RECURSIVE);
            }
            if (paths.products[nodes] < least * (1 - CLOSE)) { // no tie at the cut
                assert_int_equal(count_planned(acceptances, 0, 1, depth, least), count);
                compared++;
            }
        }
    }
    assert_true(compared > 100);
}

// ---- kseq ----

static uint32_t siblings_like(uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= or_token_tree_count(tree); i++) {
        count += or_token_tree_parents(tree)[i] == or_token_tree_parents(tree)[node] &&
                 or_token_tree_tokens(tree)[i] == or_token_tree_tokens(tree)[node];
    }
    return count;
}

static void sequences_that_share_a_node_all_go_on(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        uint32_t width = 1 + round % 5, length = 1 + round % 4;
        const or_shape_t shape = {2, {width, length}};
        or_build_job_t job = job_of(OR_DRAFT_KSEQ, OR_ACCEPT_KSEQ, shape);
        assert_int_equal(build(OR_DRAFT_KSEQ, job, round), width * length);
        assert_int_equal(or_token_tree_count(tree), width * length);
        assert_draws(OR_ACCEPT_KSEQ);
        for (uint32_t node = 0; node <= or_token_tree_count(tree); node++) {
            uint32_t through = node == 0 ? width : is_repeated(node) ? 0 : siblings_like(node);
            bool inner = or_token_tree_depths(tree)[node] < length;
            assert_int_equal(children_of(node, false), inner ? through : 0);
        }
        job = job_of(OR_DRAFT_KSEQ, OR_ACCEPT_NAIVE, shape);
        assert_int_equal(build(OR_DRAFT_KSEQ, job, round), width * length); // the same draws,
        for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
            assert_false(is_repeated(node)); // and no token twice
        }
    }
}

static void two_sequences_are_independent(void **state)
{
    (void)state;
    enum { SEQUENCES = VOCAB * VOCAB };
    static uint32_t seen[SEQUENCES][SEQUENCES];
    double statistic = 0;
    uint32_t cells = 0;
    memset(seen, 0, sizeof seen);
    or_build_job_t job = job_of(OR_DRAFT_KSEQ, OR_ACCEPT_MULTI_ROUND, (or_shape_t){2, {2, 2}});
    for (uint64_t round = 0; round < ROUNDS; round++) {
        build(OR_DRAFT_KSEQ, job, round);
        const or_build_guess_t *g = builder->guesses; // 1, 2: first tokens; 3, 4: second ones
        seen[g[1].token * VOCAB + g[3].token][g[2].token * VOCAB + g[4].token]++;
    }
    for (uint32_t k = 0; k < SEQUENCES * SEQUENCES; k++) {
        uint32_t a = k / SEQUENCES, b = k % SEQUENCES;
        double expected = ROUNDS * markov[ROOT_TOKEN][a / VOCAB] * markov[a / VOCAB][a % VOCAB] *
                          markov[ROOT_TOKEN][b / VOCAB] * markov[b / VOCAB][b % VOCAB];
        assert_true(expected > 0 || seen[a][b] == 0);
        if (expected >= 5) {
            statistic += (seen[a][b] - expected) * (seen[a][b] - expected) / expected;
            cells++;
        }
    }
    assert_true(cells > 100 && statistic < cells + 6 * sqrt(2.0 * cells));
}

// ---- ngram ----

typedef struct {
    uint32_t count;
    int32_t text[16];
    uint32_t nodes, depth;
    const char *tree; // "token parent" of each node, depth first
} lookup_t;

static void lookups_find_what_a_reader_finds(void **state)
{
    (void)state;
    static const lookup_t cases[] = {
        {1, {1}, 8, 8, ""},
        {3, {1, 2, 3}, 8, 8, ""},
        // The most recent of two occurrences first.
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 16, 8, "5.0 1.1 2.2 3.0 4.4 1.5 2.6 5.7 1.8 2.9 "},
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 4, 8, "5.0 1.1 2.2 3.0 "},
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 16, 2, "5.0 1.1 3.0 4.3 "},
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 1, 8, "5.0 "},
        // A longer suffix beats a more recent one.
        {10, {1, 2, 3, 5, 2, 3, 4, 1, 2, 3}, 16, 2, "5.0 2.1 "},
        // No more than four tokens are compared: both occurrences of the four count.
        {15, {5, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 0, 1, 2, 3}, 16, 1, "4.0 "},
        {14, {5, 4, 3, 2, 1, 0, 4, 3, 2, 1, 5, 4, 3, 2}, 16, 1, "1.0 "},
        // Occurrences that begin alike share their beginning.
        {7, {1, 2, 3, 1, 2, 4, 1}, 16, 8, "2.0 4.1 1.2 3.1 1.4 2.5 4.6 1.7 "},
        // An occurrence may overlap the end.
        {3, {1, 1, 1}, 8, 8, "1.0 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[256] = "";
        or_build_job_t job = job_of(OR_DRAFT_NGRAM, OR_ACCEPT_NAIVE, (or_shape_t){0});
        job.history = cases[i].text;
        job.history_count = cases[i].count;
        job.nodes_max = cases[i].nodes;
        job.depth_max = cases[i].depth;
        assert_int_equal(build(OR_DRAFT_NGRAM, job, 1), 0);
        assert_false(builder->guesses[OR_BUILD_ROOT].expanded); // the model was not asked
        for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
            sprintf(found + strlen(found), "%d.%u ", or_token_tree_tokens(tree)[node],
                    or_token_tree_parents(tree)[node]);
            assert_int_equal(or_builder_slot(builder, node), OR_KV_NO_SLOT);
        }
        assert_string_equal(found, cases[i].tree);
    }
    assert_false(or_draft_method_has(OR_DRAFT_NGRAM, OR_DRAFT_ASKS_MODEL));
    assert_true(or_draft_method_has(OR_DRAFT_DYSPEC, OR_DRAFT_ASKS_MODEL));
}

// ---- what verdicts teach ----

static double total_tried(uint32_t rank, bool taken)
{
    double total = 0;
    for (uint32_t bin = 0; bin < OR_CALIBRATION_BINS; bin++) {
        total += (taken ? calibration.taken : calibration.tried)[rank][bin];
    }
    return total;
}

// The target takes the root's child of rank 2, and then something that was not guessed.
static void verdicts_teach_what_became_of_siblings(void **state)
{
    (void)state;
    memset(&calibration, 0, sizeof calibration);
    or_build_job_t job = job_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, (or_shape_t){2, {4, 2}});
    build(OR_DRAFT_RSD_C, job, 3);
    uint32_t third = or_token_tree_first_child(tree, 0);
    double left = 1;
    for (int i = 0; i < 2; i++) {
        left -= markov[ROOT_TOKEN][or_token_tree_tokens(tree)[third]];
        third = or_token_tree_next_sibling(tree, third);
    }
    double share = markov[ROOT_TOKEN][or_token_tree_tokens(tree)[third]] / left;
    uint32_t bin = 0;
    while (ldexp(share, (int)bin) < 0.5) {
        bin++;
    }
    uint32_t inner = children_of(third, false);
    or_builder_learn(builder, &belief, &calibration, &third, 1, VOCAB + 1);
    assert_true(calibration.tried[2][bin] == 1 && calibration.taken[2][bin] == 1);
    for (uint32_t rank = 0; rank < 5; rank++) {
        assert_true(total_tried(rank, false) == (rank < 3) + (rank < inner));
        assert_true(total_tried(rank, true) == (rank == 2));
    }
    // A verdict about nodes there are not must do no harm, nor one about an empty tree.
    uint32_t unknown = 4000;
    or_builder_learn(builder, &belief, &calibration, &unknown, 1, 0);
    job.nodes_max = 0;
    build(OR_DRAFT_RSD_C, job, 3);
    or_builder_learn(builder, &belief, &calibration, NULL, 0, 1);
}

// ---- all methods ----

static or_build_job_t usual_job(or_draft_method_t method, or_accept_rule_t rule, uint32_t nodes,
                                uint32_t depth)
{
    or_build_job_t job = job_of(method, rule, (or_shape_t){0});
    job.nodes_max = nodes;
    job.depth_max = depth;
    job.threshold = 0.05F;
    if (nodes > 0 && depth > 0) {
        job.shape = or_shape_usual(method, nodes, depth);
    }
    return job;
}

static void assert_sound_tree(const or_build_job_t *job, uint32_t depth)
{
    assert_true(or_token_tree_count(tree) <= job->nodes_max);
    for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
        assert_true(or_token_tree_parents(tree)[node] < node);
        assert_true(or_token_tree_depths(tree)[node] <= depth);
        assert_true(job->repeats || !is_repeated(node));
    }
}

static void every_legal_pair_is_sound(void **state)
{
    (void)state;
    uint32_t pairs = 0;
    for (size_t m = 0; m < METHODS; m++) {
        for (uint32_t rule = OR_ACCEPT_COUPLED; rule <= OR_ACCEPT_LENIENT; rule++) {
            float temperature = rule == OR_ACCEPT_GREEDY ? 0 : 1;
            if (or_methods_check(all_methods[m], rule, temperature) != OR_OK) {
                continue;
            }
            pairs++;
            for (uint64_t round = 1; round <= 20; round++) {
                uint32_t nodes = (uint32_t)round * 2, depth = 1 + round % 6;
                or_build_job_t job = usual_job(all_methods[m], rule, nodes, depth);
                job.calibrated = round % 2 == 0;
                build(all_methods[m], job, round);
                assert_sound_tree(&job, depth);
                assert_true(or_token_tree_count(tree) > 0 || all_methods[m] == OR_DRAFT_NGRAM);
                if (or_accept_rule_uses_distributions(rule)) {
                    assert_draws(rule);
                }
            }
        }
    }
    assert_true(pairs > 40);
}

static void budgets_depth_and_context_are_kept(void **state)
{
    (void)state;
    static const int32_t text[64] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    for (size_t m = 0; m < METHODS; m++) {
        for (int i = 0; i < 2; i++) {
            or_accept_rule_t rule = all_methods[m] == OR_DRAFT_COUPLED ? OR_ACCEPT_COUPLED
                                    : i == 0                           ? OR_ACCEPT_GREEDY
                                                                       : OR_ACCEPT_NAIVE;
            for (uint32_t room = 0; room <= 3; room++) { // of a context of 64
                or_build_job_t job = usual_job(all_methods[m], rule, 12, 6);
                job.history = text;
                job.history_count = 64 - room;
                build(all_methods[m], job, 1);
                assert_sound_tree(&job, room);
                assert_int_equal(or_token_tree_count(tree) > 0, room > 0);
                job = usual_job(all_methods[m], rule, 12, room);
                build(all_methods[m], job, 1);
                assert_sound_tree(&job, room);
                job = usual_job(all_methods[m], rule, room, 6);
                build(all_methods[m], job, 1);
                assert_sound_tree(&job, 6);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dyspec_child_has_the_largest_key),
        cmocka_unit_test(a_budget_cuts_dyspec_trees_before_they_are_drawn),
        cmocka_unit_test(dyspec_t_has_what_passes_the_threshold),
        cmocka_unit_test(dyspec_t_finds_a_threshold),
        cmocka_unit_test(topk_has_the_likeliest_paths),
        cmocka_unit_test(topk_takes_no_noise),
        cmocka_unit_test(sequoia_has_the_largest_products),
        cmocka_unit_test(sequences_that_share_a_node_all_go_on),
        cmocka_unit_test(two_sequences_are_independent),
        cmocka_unit_test(lookups_find_what_a_reader_finds),
        cmocka_unit_test(verdicts_teach_what_became_of_siblings),
        cmocka_unit_test(every_legal_pair_is_sound),
        cmocka_unit_test(budgets_depth_and_context_are_kept),
    };
    return cmocka_run_group_tests(tests, fake_setup, fake_teardown);
}
