// Goal: a tree judged on a device has the path, and the token after it, that or_accept finds by the rule "recursive",
// always.
// Method: random trees drawn from distributions near the target's or far from it, some of their tokens outside the vocabulary,
// over logits that are usual, flat, peaked, tied or so far apart that weights vanish; every key another one.
// Each goes through or_accept with the sampler and the chooser of processes, and through the kernels. What they
// weighed is compared bit by bit, by a digest, because a path seldom shows the last bits.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/sampling/sampler.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/tests/cuda_test_support.h"
#include "verifier/accept/accept.h"

#define VOCAB_MAX 4096u
#define NODES 20u
#define CHILDREN_MAX 4u
#define STOPS_MAX 3u
#define ROWS (NODES + 1)
#define STRIDE_SLACK 5u

// A tree, how it was drawn, and what the target thinks.
typedef struct {
    uint32_t vocab_size;
    size_t stride;
    float temperature;
    float *logits; // [ROWS][stride]
    or_token_tree_t *tree;
    uint32_t row_of[ROWS];
    uint32_t rows;
    uint32_t dist_index[NODES];
    uint32_t order[NODES];
    uint32_t dist_tokens[ROWS][OR_DISTRIBUTION_ENTRIES_MAX];
    uint32_t dist_weights[ROWS][OR_DISTRIBUTION_ENTRIES_MAX];
    or_reduced_distribution_t dists[ROWS];
    or_draws_t draws;
    uint32_t stop_ids[STOPS_MAX];
    uint32_t stop_count;
    or_rng_key_t key;
    uint32_t round;
} case_t;

typedef struct {
    or_cuda_t *cuda;
    or_sampler_t *sampler; // of the vocabulary at hand
    or_residual_t *residual;
    // These arrays are on the device.
    float *logits;
    or_cuda_node_t *nodes;
    or_cuda_distribution_t *dists;
    uint32_t *tokens;
    uint32_t *weights;
    uint32_t *stop_ids;
    void *scratch;
    or_cuda_path_t *path;
} fixture_t;

static fixture_t fixture;
static case_t drawn;

// ---- what the target thinks ----

static double normal(uint64_t *random)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += test_uniform(random);
    }
    return sum - 6;
}

static void draw_logits(case_t *c, uint64_t *random)
{
    static const double scales[] = {3, 0.01, 30, 400, 1};
    uint32_t kind = (uint32_t)test_below(random, 5);
    for (size_t i = 0; i < ROWS * c->stride; i++) {
        double x = scales[kind] * normal(random);
        c->logits[i] = (float)(kind == 4 ? floor(x) : x);
    }
}

// Somewhere.
static void spoil_logits(case_t *c, uint64_t *random)
{
    static const float others[] = {NAN, INFINITY, -INFINITY};
    size_t row = test_below(random, c->rows);
    c->logits[row * c->stride + test_below(random, c->vocab_size)] = others[test_below(random, 3)];
}

// ---- the tree ----

// A distribution as a drafter may have it of a row: the target's, blurred more or less.
static or_reduced_distribution_t draw_dist(case_t *c, uint32_t row, uint32_t index,
                                           uint64_t *random)
{
    static const double blurs[] = {0, 0.1, 1, 20};
    static int32_t ids[VOCAB_MAX];
    static double scores[VOCAB_MAX];
    double blur = blurs[test_below(random, 4)];
    for (uint32_t i = 0; i < c->vocab_size; i++) {
        ids[i] = (int32_t)i;
        scores[i] =
            (double)c->logits[row * c->stride + i] / (double)c->temperature + blur * normal(random);
    }
    const or_distribution_t dist = {.ids = ids, .scores = scores, .count = c->vocab_size};
    uint32_t entries = 1 + (uint32_t)test_below(random, test_below(random, 4) == 0 ? 256 : 32);
    uint32_t *tokens = c->dist_tokens[index];
    uint32_t count = or_distribution_reduce(&dist, entries, tokens, c->dist_weights[index]);
    for (uint32_t i = count; test_below(random, 5) == 0 && i > 0; i--) {
        tokens[i - 1] = c->vocab_size + 7 * i; // the target does not have it
    }
    return (or_reduced_distribution_t){tokens, c->dist_weights[index], count};
}

static bool is_child(const case_t *c, uint32_t node, uint32_t token)
{
    return or_token_tree_find_child(c->tree, node, (int32_t)token) != 0;
}

// Without replacement, roughly as likely as the distribution says.
static uint32_t draw_child(const case_t *c, const or_reduced_distribution_t *dist, uint32_t node,
                           uint64_t *random)
{
    for (;;) {
        uint64_t left = test_below(random, OR_DISTRIBUTION_TOTAL);
        uint32_t i = 0;
        while (left >= dist->weights[i]) {
            left -= dist->weights[i++];
        }
        i = test_below(random, 8) == 0 ? (uint32_t)test_below(random, dist->count) : i;
        if (!is_child(c, node, dist->tokens[i])) {
            return dist->tokens[i];
        }
    }
}

static void add_child(case_t *c, uint32_t node, uint32_t token, uint32_t dist, uint32_t order)
{
    uint32_t child = 0;
    assert_int_equal(or_token_tree_add(c->tree, node, (int32_t)token, &child), OR_OK);
    c->dist_index[child - 1] = dist;
    c->order[child - 1] = order;
    c->row_of[child] = token < c->vocab_size ? c->rows++ : UINT32_MAX;
}

static void draw_tree(case_t *c, uint64_t *random)
{
    uint32_t dist_count = 0;
    or_token_tree_reset(c->tree, 0);
    c->rows = 1;
    for (uint32_t node = 0; node <= or_token_tree_count(c->tree); node++) {
        uint32_t room = NODES - or_token_tree_count(c->tree);
        uint32_t children = (uint32_t)test_below(random, CHILDREN_MAX + 1);
        if (c->row_of[node] == UINT32_MAX || room == 0 || children == 0) {
            continue;
        }
        or_reduced_distribution_t *dist = &c->dists[dist_count];
        *dist = draw_dist(c, c->row_of[node], dist_count, random);
        children = children < room ? children : room;
        for (uint32_t i = 0; i < children && i < dist->count; i++) {
            add_child(c, node, draw_child(c, dist, node, random), dist_count, i);
        }
        dist_count++;
    }
    c->draws = (or_draws_t){c->dist_index, c->order, c->dists, dist_count};
    assert_int_equal(or_draws_check(&c->draws, c->tree, OR_ACCEPT_RECURSIVE, UINT32_MAX), OR_OK);
}

static void draw_stop_ids(case_t *c, uint64_t *random)
{
    uint32_t nodes = or_token_tree_count(c->tree) + 1;
    c->stop_count = test_below(random, 3) == 0 ? (uint32_t)test_below(random, STOPS_MAX + 1) : 0;
    for (uint32_t i = 0; i < c->stop_count; i++) {
        c->stop_ids[i] = (uint32_t)or_token_tree_tokens(c->tree)[test_below(random, nodes)];
    }
}

static void draw_case(case_t *c, uint32_t vocab_size, uint64_t *random)
{
    static const float temperatures[] = {1, 0.8F, 0.3F, 2.5F};
    c->vocab_size = vocab_size;
    c->stride = vocab_size + test_below(random, STRIDE_SLACK);
    c->temperature = temperatures[test_below(random, 4)];
    c->key.value = test_random(random);
    c->round = (uint32_t)test_random(random);
    draw_logits(c, random);
    draw_tree(c, random);
    draw_stop_ids(c, random);
    if (test_below(random, 8) == 0) {
        spoil_logits(c, random);
    }
}

// ---- by the host ----

typedef struct {
    const case_t *c;
    bool all_finite; // in the rows that were asked for
} target_t;

static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    target_t *target = context;
    const case_t *c = target->c;
    const float *logits = c->logits + c->row_of[node] * c->stride;
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = c->temperature;
    for (uint32_t i = 0; i < c->vocab_size; i++) {
        target->all_finite = target->all_finite && isfinite(logits[i]);
    }
    *dist = or_sampler_distribution(fixture.sampler, &sampling, logits, history, history_count);
    or_sampler_weigh(fixture.sampler, dist);
    return OR_OK;
}

// The chooser of processes, and a digest of what it is asked.
typedef struct {
    or_chooser_t chooser; // first
    or_keyed_chooser_t keyed;
    uint64_t digest;
} noting_t;

static void note(noting_t *noting, double weighed)
{
    uint64_t bits;
    memcpy(&bits, &weighed, sizeof bits);
    noting->digest = (noting->digest ^ bits) * OR_CUDA_DIGEST_FACTOR;
}

static bool bernoulli(or_chooser_t *chooser, or_choice_t at, double numerator, double denominator)
{
    noting_t *noting = (noting_t *)chooser;
    or_chooser_t *keyed = &noting->keyed.chooser;
    note(noting, numerator);
    note(noting, denominator);
    return keyed->bernoulli(keyed, at, numerator, denominator);
}

static uint32_t draw(or_chooser_t *chooser, or_choice_t at, const double *weights, uint32_t count)
{
    noting_t *noting = (noting_t *)chooser;
    or_chooser_t *keyed = &noting->keyed.chooser;
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += weights[i];
    }
    note(noting, total);
    return keyed->draw(keyed, at, weights, count);
}

// False where a logit that is asked for is not finite.
static bool judge_on_host(const case_t *c, or_acceptance_t *acceptance, uint64_t *digest)
{
    static const uint32_t widths[VOCAB_MAX];
    int32_t history[ROWS + 1] = {0};
    target_t target = {.c = c, .all_finite = true};
    noting_t noting = {.chooser = {.bernoulli = bernoulli, .draw = draw},
                       .keyed = or_keyed_chooser(c->key, c->round, c->key, NULL)};
    const or_accept_job_t job = {.tree = c->tree,
                                 .draws = &c->draws,
                                 .dist = target_dist,
                                 .dist_context = &target,
                                 .chooser = &noting.chooser,
                                 .residual = fixture.residual,
                                 .history = history,
                                 .history_count = 1,
                                 .widths = widths,
                                 .stop_ids = c->stop_ids,
                                 .stop_count = c->stop_count};
    assert_int_equal(or_accept(OR_ACCEPT_RECURSIVE, &job, acceptance), OR_OK);
    *digest = noting.digest;
    return target.all_finite;
}

// ---- on the device ----

static void send(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        cuda_test_ok(or_cuda_upload(fixture.cuda, to, from, bytes)); // waits
    }
}

static void send_nodes(const case_t *c)
{
    or_cuda_node_t nodes[ROWS];
    uint32_t count = or_token_tree_count(c->tree) + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = or_token_tree_first_child(c->tree, i);
        nodes[i] = (or_cuda_node_t){or_token_tree_tokens(c->tree)[i], c->row_of[i], child,
                                    or_token_tree_next_sibling(c->tree, i),
                                    child != 0 ? c->dist_index[child - 1] : UINT32_MAX};
    }
    send(fixture.nodes, nodes, count * sizeof *nodes);
}

static void send_dists(const case_t *c)
{
    or_cuda_distribution_t dists[ROWS];
    for (uint32_t i = 0; i < c->draws.dist_count; i++) {
        dists[i] = (or_cuda_distribution_t){i * OR_DISTRIBUTION_ENTRIES_MAX, c->dists[i].count};
    }
    send(fixture.dists, dists, c->draws.dist_count * sizeof *dists);
    send(fixture.tokens, c->dist_tokens, sizeof c->dist_tokens);
    send(fixture.weights, c->dist_weights, sizeof c->dist_weights);
}

static void judge_on_device(const case_t *c, or_cuda_path_t *path)
{
    send(fixture.logits, c->logits, c->rows * c->stride * sizeof *c->logits);
    send_nodes(c);
    send_dists(c);
    send(fixture.stop_ids, c->stop_ids, c->stop_count * sizeof *c->stop_ids);
    const or_cuda_trial_t trial = {.logits = fixture.logits,
                                   .stride = c->stride,
                                   .vocab_size = c->vocab_size,
                                   .rows = c->rows,
                                   .temperature = (double)c->temperature,
                                   .key = c->key.value,
                                   .round = c->round,
                                   .stop_count = c->stop_count,
                                   .stop_ids = fixture.stop_ids,
                                   .nodes = fixture.nodes,
                                   .dists = fixture.dists,
                                   .tokens = fixture.tokens,
                                   .weights = fixture.weights};
    cuda_test_ok(or_cuda_reject(fixture.cuda, &trial, fixture.scratch, fixture.path));
    cuda_test_download(fixture.cuda, path, fixture.path, sizeof *path);
}

// ---- the tests ----

// Counts of the cases that came up, so that a test can check that all did.
typedef struct {
    uint32_t accepted;
    uint32_t stopped;
    uint32_t undecided;
    uint32_t rejected; // the root's children, where it has some
} counts_t;

static void check(const case_t *c, counts_t *counts)
{
    or_acceptance_t expected;
    or_cuda_path_t path;
    memset(&expected, 0xAA, sizeof expected);
    memset(&path, 0xAA, sizeof path);
    uint64_t digest;
    bool all_finite = judge_on_host(c, &expected, &digest);
    judge_on_device(c, &path);
    assert_int_equal(path.decided, all_finite);
    if (!all_finite) {
        counts->undecided++;
        return;
    }
    assert_int_equal(path.accepted_count, expected.accepted_count);
    assert_memory_equal(path.accepted, expected.accepted,
                        expected.accepted_count * sizeof *expected.accepted);
    assert_int_equal(path.next, expected.next);
    assert_int_equal(path.stopped, expected.stopped);
    assert_true(path.digest == digest);
    counts->accepted += expected.accepted_count;
    counts->stopped += expected.stopped;
    counts->rejected += expected.accepted_count == 0 && or_token_tree_count(c->tree) > 0;
}

static void open_vocab(uint32_t size)
{
    assert_int_equal(or_sampler_create(size, &fixture.sampler), OR_OK);
    assert_int_equal(or_residual_create(size, &fixture.residual), OR_OK);
}

static void close_vocab(void)
{
    or_residual_destroy(&fixture.residual);
    or_sampler_destroy(&fixture.sampler);
}

static void check_vocab(uint32_t size, uint32_t runs)
{
    uint64_t random = test_seed() + size;
    counts_t counts = {0};
    open_vocab(size);
    for (uint32_t i = 0; i < runs; i++) {
        draw_case(&drawn, size, &random);
        check(&drawn, &counts);
    }
    close_vocab();
    assert_true(runs < 50 || counts.accepted > runs / 4); // chance may spare a few cases
    assert_true(runs < 50 || counts.rejected > runs / 10);
    assert_true(runs < 200 || counts.stopped > 0);
    assert_true(runs < 200 || counts.undecided > 0);
}

static void few_tokens(void **state)
{
    (void)state;
    check_vocab(5, test_runs(800));
}

static void hundreds_of_tokens(void **state)
{
    (void)state;
    check_vocab(300, test_runs(400));
}

static void thousands_of_tokens(void **state)
{
    (void)state;
    check_vocab(VOCAB_MAX, test_runs(80));
}

// All tokens are equal for both: every ratio is 1, nothing is ever left of M - S.
static void a_draft_that_is_the_target(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {0, 1, 2, 3}, weights[] = {16384, 16384, 16384, 16384};
    case_t *c = &drawn;
    counts_t counts = {0};
    open_vocab(4);
    draw_case(c, 4, &(uint64_t){1});
    for (size_t i = 0; i < ROWS * c->stride; i++) {
        c->logits[i] = 2.5F;
    }
    or_token_tree_reset(c->tree, 0);
    c->rows = 1;
    c->stop_count = 0;
    memcpy(c->dist_tokens[0], tokens, sizeof tokens);
    memcpy(c->dist_weights[0], weights, sizeof weights);
    c->dists[0] = (or_reduced_distribution_t){tokens, weights, 4};
    c->draws.dist_count = 1;
    for (uint32_t i = 0; i < 10; i++) {
        add_child(c, i, i % 4, 0, 0);
    }
    for (c->round = 0; c->round < 20; c->round++) {
        check(c, &counts);
    }
    close_vocab();
    assert_int_equal(counts.accepted, 20 * 10);
}

// ---- the fixture ----

static void *take(size_t bytes)
{
    void *at = NULL;
    cuda_test_ok(or_cuda_alloc(fixture.cuda, bytes, &at));
    return at;
}

static int set_up(void **state)
{
    (void)state;
    size_t entries = (size_t)ROWS * OR_DISTRIBUTION_ENTRIES_MAX;
    size_t floats = (size_t)ROWS * (VOCAB_MAX + STRIDE_SLACK);
    fixture.cuda = cuda_test_open();
    fixture.logits = take(floats * sizeof(float));
    fixture.nodes = take(ROWS * sizeof *fixture.nodes);
    fixture.dists = take(ROWS * sizeof *fixture.dists);
    fixture.tokens = take(entries * sizeof *fixture.tokens);
    fixture.weights = take(entries * sizeof *fixture.weights);
    fixture.stop_ids = take(STOPS_MAX * sizeof *fixture.stop_ids);
    fixture.scratch = take(or_cuda_reject_bytes(VOCAB_MAX, ROWS));
    fixture.path = take(sizeof *fixture.path);
    drawn.logits = calloc(floats, sizeof *drawn.logits);
    assert_non_null(drawn.logits);
    assert_int_equal(or_token_tree_create(NODES, &drawn.tree), OR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    or_token_tree_destroy(&drawn.tree);
    free(drawn.logits);
    void *parts[] = {fixture.logits,  fixture.nodes,    fixture.dists,   fixture.tokens,
                     fixture.weights, fixture.stop_ids, fixture.scratch, fixture.path};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        or_cuda_free(fixture.cuda, parts[i]);
    }
    or_cuda_close(&fixture.cuda);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_tokens),
        cmocka_unit_test(hundreds_of_tokens),
        cmocka_unit_test(thousands_of_tokens),
        cmocka_unit_test(a_draft_that_is_the_target),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
