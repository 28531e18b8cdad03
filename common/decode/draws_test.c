// Goal: a ratio rule judges only trees whose draws are what they claim to be. Anything else is
// refused with the reason. A stored copy does not depend on the original.
// Method: take one small correct tree per rule and spoil it in every way. Overwrite the
// originals of copies, and store larger and smaller ones after each other.
#include "common/decode/draws.h"

#include <string.h>

#include "tests/support/test_support.h"

#define VOCAB 10
#define NODES_MAX 8

static const uint32_t a_tokens[] = {1, 2, 3}, a_weights[] = {30000, 30000, 5536};
static const uint32_t b_tokens[] = {2, 4}, b_weights[] = {65535, 1};
static const uint32_t short_weights[] = {30000, 30000, 5535};
static const uint32_t beyond_tokens[] = {1, 2, 10};

// dists[0] is a, dists[1] is b, and dists[2] is malformed.
typedef enum { TWO_DISTS, WRONG_SUM, BEYOND_VOCAB, NO_DIST } distributions_t;

typedef struct {
    or_accept_rule_t rule;
    distributions_t dists;
    uint32_t count;
    int32_t tokens[NODES_MAX];
    uint32_t back[NODES_MAX], dist_index[NODES_MAX], order[NODES_MAX];
    const char *reason; // NULL: good
} case_t;

static const case_t cases[] = {
    // root -> 1 -> 4, root -> 3
    {OR_ACCEPT_RECURSIVE, TWO_DISTS, 3, {1, 4, 3}, {1, 1, 3}, {0, 1, 0}, {0, 0, 1}, NULL},
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 3, {1, 4, 3}, {1, 1, 3}, {0, 1, 0}, {0, 0, 1}, NULL},
    {OR_ACCEPT_SPS, TWO_DISTS, 2, {1, 4}, {1, 1}, {0, 1}, {0, 0}, NULL},
    {OR_ACCEPT_SPS, TWO_DISTS, 0, {0}, {0}, {0}, {0}, NULL},
    // A malformed distribution is refused even if no node names it.
    {OR_ACCEPT_RECURSIVE, WRONG_SUM, 1, {1}, {1}, {0}, {0}, "add up to 65535"},
    {OR_ACCEPT_RECURSIVE, BEYOND_VOCAB, 1, {1}, {1}, {0}, {0}, "token 10 outside the vocabulary"},
    {OR_ACCEPT_RECURSIVE, NO_DIST, 1, {1}, {1}, {0}, {0}, "names distribution 0 of 0"},
    {OR_ACCEPT_RECURSIVE,
     TWO_DISTS,
     2,
     {1, 4},
     {1, 1},
     {0, 2},
     {0, 0},
     "node 2 names distribution 2 of 2"},
    {OR_ACCEPT_SPS, TWO_DISTS, 1, {1}, {1}, {UINT32_MAX}, {0}, "node 1 names distribution"},
    // The token is not in its distribution: it is in neither, or in the other one.
    {OR_ACCEPT_RECURSIVE,
     TWO_DISTS,
     1,
     {4},
     {1},
     {0},
     {0},
     "token 4, which its distribution does not have"},
    {OR_ACCEPT_RECURSIVE,
     TWO_DISTS,
     1,
     {0},
     {1},
     {0},
     {0},
     "token 0, which its distribution does not have"},
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 2, {1, 3}, {1, 1}, {0, 1}, {0, 0}, "node 2 has token 3"},
    // The first, a middle and the last of three siblings are lost; two are exchanged; one is
    // repeated.
    {OR_ACCEPT_RECURSIVE, TWO_DISTS, 2, {2, 3}, {1, 2}, {0, 0}, {1, 2}, "says it was drawn as 1"},
    {OR_ACCEPT_RECURSIVE, TWO_DISTS, 2, {1, 3}, {1, 2}, {0, 0}, {0, 2}, "says it was drawn as 2"},
    {OR_ACCEPT_RECURSIVE, TWO_DISTS, 2, {1, 3}, {1, 2}, {0, 0}, {1, 0}, "node 1 is child 0"},
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 2, {1, 3}, {1, 2}, {0, 0}, {0, 0}, "node 2 is child 1"},
    {OR_ACCEPT_SPS, TWO_DISTS, 2, {1, 4}, {1, 1}, {0, 1}, {0, 1}, "node 2 is child 0 of node 1"},
    // Siblings have different distributions, also where both distributions have the token.
    {OR_ACCEPT_RECURSIVE,
     TWO_DISTS,
     2,
     {1, 2},
     {1, 2},
     {0, 1},
     {0, 1},
     "from different distributions"},
    {OR_ACCEPT_KSEQ, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 1}, {0, 1}, "from different distributions"},
    {OR_ACCEPT_OTM, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 1}, {0, 1}, "from different distributions"},
    {OR_ACCEPT_TRAVERSAL,
     TWO_DISTS,
     2,
     {1, 2},
     {1, 2},
     {0, 1},
     {0, 1},
     "from different distributions"},
    // Several models may draft for multi-round; each guess must still be in its own
    // distribution.
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 1}, {0, 1}, NULL},
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 2, {1, 4}, {1, 2}, {0, 1}, {0, 1}, NULL},
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 2, {1, 1}, {1, 2}, {0, 1}, {0, 1}, "node 2 has token 1"},
    // Repetitions.
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 0}, {0, 1}, NULL},
    {OR_ACCEPT_KSEQ, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 0}, {0, 1}, NULL},
    {OR_ACCEPT_OTM, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 0}, {0, 1}, NULL},
    {OR_ACCEPT_TRAVERSAL, TWO_DISTS, 2, {2, 2}, {1, 2}, {0, 0}, {0, 1}, "repeats its sibling"},
    {OR_ACCEPT_RECURSIVE,
     TWO_DISTS,
     2,
     {2, 2},
     {1, 2},
     {0, 0},
     {0, 1},
     "node 2 repeats its sibling 1, but rule recursive is for draws without replacement"},
    {OR_ACCEPT_MULTI_ROUND, TWO_DISTS, 3, {2, 4, 2}, {1, 1, 3}, {0, 1, 0}, {0, 0, 1}, NULL},
    {OR_ACCEPT_MULTI_ROUND,
     TWO_DISTS,
     3,
     {2, 2, 4},
     {1, 2, 1},
     {0, 0, 1},
     {0, 1, 0},
     "node 3 hangs under a repeated sibling"},
    // The same token in a child is no repetition.
    {OR_ACCEPT_RECURSIVE, TWO_DISTS, 2, {2, 2}, {1, 1}, {0, 1}, {0, 0}, NULL},
    // The rules sps, block and lenient take chains.
    {OR_ACCEPT_BLOCK, TWO_DISTS, 2, {1, 4}, {1, 1}, {0, 1}, {0, 0}, NULL},
    {OR_ACCEPT_BLOCK, TWO_DISTS, 2, {1, 2}, {1, 2}, {0, 0}, {0, 1}, "rule block is for chains"},
    {OR_ACCEPT_LENIENT, TWO_DISTS, 2, {1, 2}, {1, 2}, {0, 0}, {0, 1}, "rule lenient is for"},
    {OR_ACCEPT_SPS, TWO_DISTS, 2, {1, 2}, {1, 2}, {0, 0}, {0, 1}, "rule sps is for chains"},
    {OR_ACCEPT_SPS, TWO_DISTS, 3, {1, 2, 4}, {1, 1, 2}, {0, 1, 1}, {0, 0, 1}, "rule sps is for"},
};

static void every_spoilt_tree_is_refused_with_the_reason(void **state)
{
    (void)state;
    or_token_tree_t *tree;
    assert_int_equal(or_token_tree_create(NODES_MAX, &tree), OR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const case_t *c = &cases[i];
        const or_reduced_distribution_t dists[] = {
            {a_tokens, a_weights, 3},
            {b_tokens, b_weights, 2},
            {c->dists == BEYOND_VOCAB ? beyond_tokens : a_tokens,
             c->dists == BEYOND_VOCAB ? a_weights : short_weights, 3}};
        uint32_t dist_count = c->dists == NO_DIST ? 0 : c->dists == TWO_DISTS ? 2 : 3;
        const or_draws_t draws = {c->dist_index, c->order, dists, dist_count};
        assert_int_equal(or_token_tree_set(tree, 1, c->tokens, c->back, c->count, VOCAB, true),
                         OR_OK);
        or_status_t status = or_draws_check(&draws, tree, c->rule, VOCAB);
        if (status != (c->reason == NULL ? OR_OK : OR_ERR_INVALID) ||
            (c->reason != NULL && strstr(or_error_text(), c->reason) == NULL)) {
            fail_msg("case %zu: status %d, '%s'", i, (int)status, or_error_text());
        }
    }
    or_token_tree_destroy(&tree);
}

static void assert_same(const or_draws_t *a, const or_draws_t *b, uint32_t count)
{
    assert_memory_equal(a->dist_index, b->dist_index, count * sizeof *a->dist_index);
    assert_memory_equal(a->order, b->order, count * sizeof *a->order);
    assert_int_equal(a->dist_count, b->dist_count);
    for (uint32_t i = 0; i < a->dist_count; i++) {
        assert_int_equal(a->dists[i].count, b->dists[i].count);
        assert_memory_equal(a->dists[i].tokens, b->dists[i].tokens, 4 * a->dists[i].count);
        assert_memory_equal(a->dists[i].weights, b->dists[i].weights, 4 * a->dists[i].count);
    }
}

// Fill in numbers that differ for every entry: entry k of distribution i of copy t.
static void fill(uint32_t *numbers, uint32_t count, uint32_t salt)
{
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = 1000 * salt + i;
    }
}

static void a_copy_outlives_its_original(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes, dists, entries;
    } sizes[] = {{3, 2, 4}, {0, 0, 0}, {20, 5, 32}, {1, 1, 1}, {5, 20, 2}, {20, 5, 32}};
    or_draws_store_t store = {0};
    for (uint32_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
        uint32_t numbers[2][2][20], entries[2][20][2][32];
        or_reduced_distribution_t dists[2][20];
        or_draws_t draws[2]; // [0] is stored and overwritten, [1] is its former value
        for (int copy = 0; copy < 2; copy++) {
            fill(numbers[copy][0], 20, 100 * t + 1);
            fill(numbers[copy][1], 20, 100 * t + 2);
            for (uint32_t i = 0; i < sizes[t].dists; i++) {
                fill(entries[copy][i][0], 32, 100 * t + 10 + i);
                fill(entries[copy][i][1], 32, 100 * t + 50 + i);
                dists[copy][i] = (or_reduced_distribution_t){entries[copy][i][0],
                                                             entries[copy][i][1], sizes[t].entries};
            }
            draws[copy] =
                (or_draws_t){numbers[copy][0], numbers[copy][1], dists[copy], sizes[t].dists};
        }
        assert_int_equal(or_draws_store(&store, &draws[0], sizes[t].nodes), OR_OK);
        memset(numbers[0], 0xAA, sizeof numbers[0]);
        memset(entries[0], 0xAA, sizeof entries[0]);
        memset(dists[0], 0xAA, sizeof dists[0]);
        assert_same(&store.draws, &draws[1], sizes[t].nodes);
    }
    const uint32_t *place = store.numbers;
    const or_draws_t nothing = {0};
    assert_int_equal(or_draws_store(&store, &nothing, 0), OR_OK);
    assert_ptr_equal(store.numbers, place); // what it has it keeps
    assert_int_equal(store.draws.dist_count, 0);
    or_draws_store_fini(&store);
    assert_null(store.numbers);
    or_draws_store_fini(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spoilt_tree_is_refused_with_the_reason),
        cmocka_unit_test(a_copy_outlives_its_original),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
