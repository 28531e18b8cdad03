// Goal: a tree keeps its rule (a parent comes first) whatever a peer sends, and depth-first
// order changes numbers only.
// Method: compare random trees with slow walks, try hostile arrays, and convert to the wire form
// and back.
#include "common/decode/token_tree.h"

#include "tests/support/test_support.h"

#define TREES 200

// Grow a random tree of `count` nodes; siblings never share a token.
static void grow(or_token_tree_t *tree, uint32_t count, uint64_t *random)
{
    or_token_tree_reset(tree, 5);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node;
        uint32_t parent = (uint32_t)test_below(random, i + 1);
        assert_int_equal(or_token_tree_add(tree, parent, (int32_t)i, &node), OR_OK);
        assert_int_equal(node, i + 1);
    }
}

static void assert_depths_match_slow_walk(const or_token_tree_t *tree)
{
    const uint32_t *parents = or_token_tree_parents(tree);
    for (uint32_t i = 0; i <= or_token_tree_count(tree); i++) {
        uint32_t depth = 0;
        for (uint32_t node = i; node != 0; node = parents[node]) {
            assert_true(parents[node] < node);
            depth++;
        }
        assert_int_equal(or_token_tree_depths(tree)[i], depth);
    }
}

// Check that every node's subtree is the run of nodes right behind it.
static void assert_depth_first(const or_token_tree_t *tree)
{
    const uint32_t *parents = or_token_tree_parents(tree);
    for (uint32_t i = 1; i <= or_token_tree_count(tree); i++) {
        uint32_t above = i - 1; // the parent is the node before, or one of its ancestors
        while (above != parents[i]) {
            assert_true(above != 0);
            above = parents[above];
        }
    }
}

static void depth_first_keeps_the_tree(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    or_token_tree_t *tree;
    or_token_tree_t *old;
    uint32_t renumbered[OR_TREE_NODES_MAX + 1];
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &tree), OR_OK);
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &old), OR_OK);
    for (int t = 0; t < TREES; t++) {
        uint32_t count = (uint32_t)test_below(&random, t == 0 ? 1 : OR_TREE_NODES_MAX + 1);
        uint64_t same = random;
        grow(tree, count, &random);
        grow(old, count, &same);
        assert_depths_match_slow_walk(tree);
        or_token_tree_depth_first(tree, renumbered);
        assert_int_equal(or_token_tree_count(tree), count);
        assert_depths_match_slow_walk(tree);
        assert_depth_first(tree);
        for (uint32_t i = 0; i <= count; i++) {
            uint32_t now = renumbered[i];
            assert_int_equal(or_token_tree_tokens(tree)[now], or_token_tree_tokens(old)[i]);
            assert_int_equal(or_token_tree_parents(tree)[now],
                             renumbered[or_token_tree_parents(old)[i]]);
        }
    }
    or_token_tree_destroy(&tree);
    or_token_tree_destroy(&old);
    assert_null(tree);
    or_token_tree_destroy(&tree);
}

static void wire_form_goes_there_and_back(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    int32_t tokens[300];
    uint32_t back[300];
    or_token_tree_t *tree;
    or_token_tree_t *copy;
    assert_int_equal(or_token_tree_create(300, &tree), OR_OK);
    assert_int_equal(or_token_tree_create(300, &copy), OR_OK);
    for (int t = 0; t < TREES; t++) {
        grow(tree, 300, &random);
        or_token_tree_to_wire(tree, tokens, back);
        assert_int_equal(or_token_tree_set(copy, 5, tokens, back, 300, 300, false), OR_OK);
        assert_memory_equal(or_token_tree_tokens(tree), or_token_tree_tokens(copy), 301 * 4);
        assert_memory_equal(or_token_tree_parents(tree), or_token_tree_parents(copy), 301 * 4);
        uint32_t node = 1 + (uint32_t)test_below(&random, 300);
        assert_int_equal(or_token_tree_find_child(copy, or_token_tree_parents(copy)[node],
                                                  or_token_tree_tokens(copy)[node]),
                         node);
        assert_int_equal(or_token_tree_find_child(copy, 0, 1000), 0);
    }
    or_token_tree_destroy(&tree);
    or_token_tree_destroy(&copy);
}

static void hostile_arrays_leave_only_the_root(void **state)
{
    (void)state;
    static const struct {
        int32_t tokens[3];
        uint32_t back[3];
        uint32_t count;
        bool duplicates;
        or_status_t status;
    } cases[] = {
        {{1, 2, 3}, {1, 1, 3}, 3, false, OR_OK},
        {{1, 2, 1}, {1, 1, 3}, 3, false, OR_ERR_INVALID}, // repeats a sibling's token
        {{1, 2, 1}, {1, 1, 3}, 3, true, OR_OK},
        {{1, 2, 1}, {1, 1, 2}, 3, false, OR_OK}, // the same token below itself
        {{1, 2, 3}, {1, 0, 1}, 3, false, OR_ERR_INVALID},
        {{1, 2, 3}, {1, 3, 1}, 3, false, OR_ERR_INVALID},
        {{1, 2, 3}, {1, UINT32_MAX, 1}, 3, false, OR_ERR_INVALID},
        {{-1, 2, 3}, {1, 1, 1}, 3, false, OR_ERR_INVALID},
        {{1, 10, 3}, {1, 1, 1}, 3, false, OR_ERR_INVALID},
        {{1, 2, 3}, {1, 1, 1}, 4, false, OR_ERR_FULL},
        {{0}, {0}, 0, false, OR_OK},
    };
    or_token_tree_t *tree;
    assert_int_equal(or_token_tree_create(3, &tree), OR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(or_token_tree_set(tree, 9, cases[i].tokens, cases[i].back, cases[i].count,
                                           10, cases[i].duplicates),
                         cases[i].status);
        assert_int_equal(or_token_tree_count(tree), cases[i].status == OR_OK ? cases[i].count : 0);
        assert_int_equal(or_token_tree_tokens(tree)[0], 9);
    }
    or_token_tree_destroy(&tree);
}

// Siblings are met in the order in which they were added, repetitions included, and renumbering
// keeps it.
static void siblings_keep_their_order(void **state)
{
    (void)state;
    static const int32_t tokens[] = {4, 9, 4, 1, 9};
    or_token_tree_t *tree;
    assert_int_equal(or_token_tree_create(8, &tree), OR_OK);
    or_token_tree_reset(tree, 7);
    assert_int_equal(or_token_tree_first_child(tree, 0), 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(or_token_tree_add(tree, 0, tokens[i], NULL), OR_OK);
    }
    assert_int_equal(or_token_tree_add(tree, 1, 5, NULL), OR_OK); // below the first, added last
    or_token_tree_depth_first(tree, NULL);
    uint32_t child = or_token_tree_first_child(tree, 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(or_token_tree_tokens(tree)[child], tokens[i]);
        child = or_token_tree_next_sibling(tree, child);
    }
    assert_int_equal(child, 0);
    assert_int_equal(or_token_tree_find_child(tree, 0, 4), 1); // the first of the two
    assert_int_equal(or_token_tree_tokens(tree)[or_token_tree_first_child(tree, 1)], 5);
    assert_int_equal(or_token_tree_next_sibling(tree, 2), 0);
    or_token_tree_destroy(&tree);
}

static void limits_are_kept(void **state)
{
    (void)state;
    or_token_tree_t *tree = NULL;
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX + 1, &tree), OR_ERR_INVALID);
    assert_null(tree);
    assert_int_equal(or_token_tree_create(1, &tree), OR_OK);
    assert_int_equal(or_token_tree_add(tree, 1, 7, NULL), OR_ERR_INVALID);
    assert_int_equal(or_token_tree_add(tree, 0, 7, NULL), OR_OK);
    assert_int_equal(or_token_tree_add(tree, 0, 8, NULL), OR_ERR_FULL);
    or_token_tree_destroy(&tree);
    assert_int_equal(or_token_tree_create(0, &tree), OR_OK);
    assert_int_equal(or_token_tree_add(tree, 0, 7, NULL), OR_ERR_FULL);
    or_token_tree_destroy(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_first_keeps_the_tree),
        cmocka_unit_test(wire_form_goes_there_and_back),
        cmocka_unit_test(hostile_arrays_leave_only_the_root),
        cmocka_unit_test(siblings_keep_their_order),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
