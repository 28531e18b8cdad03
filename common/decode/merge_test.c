// Goal: several trees become one that has every path of each and no path twice. Each node keeps its
// distribution, siblings keep their order, and the nodes of every part can be traced.
// Method: test cases made by hand, with and without repetitions, and random trees against slow
// walks over all paths.
#include "common/decode/merge.h"

#include "tests/support/test_support.h"

#define PARTS 3
#define NODES 20
#define TREES 300

static or_token_tree_t *parts[PARTS], *tree;
static or_merge_t *merge;

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        if (or_token_tree_create(NODES, &parts[i]) != OR_OK) {
            return -1;
        }
    }
    return or_token_tree_create(PARTS * NODES, &tree) == OR_OK &&
                   or_merge_create(PARTS, PARTS * NODES, &merge) == OR_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        or_token_tree_destroy(&parts[i]);
    }
    or_token_tree_destroy(&tree);
    or_merge_destroy(&merge);
    return 0;
}

static void grow(or_token_tree_t *into, uint32_t count, const int32_t *tokens,
                 const uint32_t *parents)
{
    or_token_tree_reset(into, 9);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(or_token_tree_add(into, parents[i], tokens[i], NULL), OR_OK);
    }
}

static void assert_tree(uint32_t count, const int32_t *tokens, const uint32_t *parents)
{
    assert_int_equal(or_token_tree_count(tree), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(or_token_tree_tokens(tree)[i + 1], tokens[i]);
        assert_int_equal(or_token_tree_parents(tree)[i + 1], parents[i]);
    }
}

// This is the drawing of merge.h, with a = 1 .. e = 5.
static void the_drawing_comes_true(void **state)
{
    (void)state;
    grow(parts[0], 3, (const int32_t[]){1, 2, 4}, (const uint32_t[]){0, 1, 0});
    grow(parts[1], 3, (const int32_t[]){1, 3, 5}, (const uint32_t[]){0, 1, 0});
    static const uint32_t tokens[] = {1, 2, 3, 4, 5}, weights[] = {65532, 1, 1, 1, 1};
    const or_reduced_distribution_t dists[] = {{tokens, weights, 5}, {tokens, weights, 4}};
    const or_reduced_distribution_t others[] = {{tokens, weights, 3}, {tokens, weights, 2}};
    // In each part the root's children come from distribution 0, node 1's from distribution 1.
    const uint32_t dist_index[] = {0, 1, 0}, order[] = {0, 0, 1};
    const or_draws_t draws = {dist_index, order, dists, 2}, other = {dist_index, order, others, 2};
    const or_merge_part_t two[] = {{parts[0], &draws}, {parts[1], &other}};
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, two, 2, true, tree), OR_OK);
    assert_tree(6, (const int32_t[]){1, 2, 3, 4, 1, 5}, (const uint32_t[]){0, 1, 1, 0, 0, 0});
    const or_draws_t *merged = or_merge_draws(merge);
    static const uint32_t orders[] = {0, 0, 1, 1, 2, 3};
    const or_reduced_distribution_t *const from[] = {&dists[0], &dists[1],  &others[1],
                                                     &dists[0], &others[0], &others[0]};
    assert_memory_equal(merged->order, orders, sizeof orders);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(merged->dists[merged->dist_index[i]].count, from[i]->count);
    }
    static const uint32_t first[] = {0, 1, 2, 0, 3, 0, 0}, second[] = {0, 1, 0, 2, 0, 0, 3};
    for (uint32_t node = 1; node <= 6; node++) {
        assert_int_equal(or_merge_origin(merge, 0, node), first[node]);
        assert_int_equal(or_merge_origin(merge, 1, node), second[node]);
    }
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, two, 2, false, tree), OR_OK);
    assert_tree(5, (const int32_t[]){1, 2, 3, 4, 5}, (const uint32_t[]){0, 1, 1, 0, 0});
}

static void one_tree_stays_as_it_is(void **state)
{
    (void)state;
    grow(parts[0], 4, (const int32_t[]){1, 2, 1, 3}, (const uint32_t[]){0, 1, 0, 0});
    const or_merge_part_t one = {parts[0], NULL};
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, &one, 1, true, tree), OR_OK);
    assert_tree(4, (const int32_t[]){1, 2, 1, 3}, (const uint32_t[]){0, 1, 0, 0});
    assert_null(or_merge_draws(merge));
    assert_int_equal(or_merge_origin(merge, 0, 4), 4);
    or_token_tree_reset(parts[0], 9);
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, &one, 1, true, tree), OR_OK);
    assert_int_equal(or_token_tree_count(tree), 0);
}

// Return the node of the merged tree at the end of the path to a part's node.
static uint32_t find_path(const or_token_tree_t *part, uint32_t node)
{
    if (node == 0) {
        return 0;
    }
    uint32_t above = find_path(part, or_token_tree_parents(part)[node]);
    return or_token_tree_find_child(tree, above, or_token_tree_tokens(part)[node]);
}

static void every_path_is_there_once(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int t = 0; t < TREES; t++) {
        or_merge_part_t all[PARTS];
        for (int p = 0; p < PARTS; p++) {
            or_token_tree_reset(parts[p], 9);
            for (uint64_t left = test_below(&random, NODES + 1); left > 0; left--) {
                uint32_t parent = (uint32_t)test_below(&random, or_token_tree_count(parts[p]) + 1);
                int32_t token = (int32_t)test_below(&random, 4);
                if (or_token_tree_find_child(parts[p], parent, token) == 0) {
                    or_token_tree_add(parts[p], parent, token, NULL);
                }
            }
            or_token_tree_depth_first(parts[p], NULL);
            all[p] = (or_merge_part_t){parts[p], NULL};
        }
        bool named[PARTS * NODES + 1] = {false};
        or_token_tree_reset(tree, 9);
        assert_int_equal(or_merge_trees(merge, all, PARTS, false, tree), OR_OK);
        for (uint32_t p = 0; p < PARTS; p++) {
            for (uint32_t node = 1; node <= or_token_tree_count(parts[p]); node++) {
                uint32_t at = find_path(parts[p], node);
                assert_int_equal(or_merge_origin(merge, p, at), node);
                named[at] = true;
            }
        }
        for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
            uint32_t parent = or_token_tree_parents(tree)[node];
            assert_true(named[node]);
            assert_int_equal(
                or_token_tree_find_child(tree, parent, or_token_tree_tokens(tree)[node]), node);
        }
    }
}

// Peers may send more distributions than there are nodes.
static void surplus_distributions_are_refused(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {1}, weights[] = {65536}, index[] = {0}, order[] = {0};
    static or_reduced_distribution_t dists[PARTS * NODES + 1];
    for (int i = 0; i <= PARTS * NODES; i++) {
        dists[i] = (or_reduced_distribution_t){tokens, weights, 1};
    }
    const or_draws_t all = {index, order, dists, PARTS * NODES};
    const or_draws_t one = {index, order, dists, 1};
    grow(parts[0], 1, (const int32_t[]){1}, (const uint32_t[]){0});
    grow(parts[1], 1, (const int32_t[]){1}, (const uint32_t[]){0});
    const or_merge_part_t two[] = {{parts[0], &all}, {parts[1], &one}};
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, two, 1, true, tree), OR_OK);
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, two, 2, true, tree), OR_ERR_FULL);
}

// A drafter that sent nothing takes no part, and the others keep their places.
static void an_empty_part_changes_nothing(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {1, 2}, weights[] = {65535, 1}, index[] = {0, 0};
    static const uint32_t order[] = {0, 1};
    const or_reduced_distribution_t dist = {tokens, weights, 2};
    const or_draws_t none = {0}, draws = {index, order, &dist, 1};
    or_token_tree_reset(parts[0], 9);
    grow(parts[1], 2, (const int32_t[]){2, 1}, (const uint32_t[]){0, 0});
    const or_merge_part_t two[] = {{parts[0], &none}, {parts[1], &draws}};
    or_token_tree_reset(tree, 9);
    assert_int_equal(or_merge_trees(merge, two, 2, true, tree), OR_OK);
    assert_tree(2, (const int32_t[]){2, 1}, (const uint32_t[]){0, 0});
    assert_int_equal(or_merge_draws(merge)->dist_count, 1);
    for (uint32_t node = 1; node <= 2; node++) {
        assert_int_equal(or_merge_origin(merge, 0, node), 0);
        assert_int_equal(or_merge_origin(merge, 1, node), node);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_drawing_comes_true),
        cmocka_unit_test(one_tree_stays_as_it_is),
        cmocka_unit_test(every_path_is_there_once),
        cmocka_unit_test(surplus_distributions_are_refused),
        cmocka_unit_test(an_empty_part_changes_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
