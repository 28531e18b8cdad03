// Goal: the count is that of the mask itself, and depth-first order never visits more than creation
// order does on trees as drafters grow them.
// Method: random trees against a slow count over the whole mask; by hand for the header's drawing.
#include "common/decode/tree_blocks.h"

#include <string.h>

#include "tests/support/test_support.h"

#define NODES 300u

static or_token_tree_t *grow(uint64_t *seed, uint32_t nodes)
{
    or_token_tree_t *tree = NULL;
    assert_int_equal(or_token_tree_create(nodes, &tree), OR_OK);
    or_token_tree_reset(tree, 0);
    for (uint32_t i = 0; i < nodes; i++) {
        // Near the end, as a best-first tree grows, or anywhere.
        uint32_t parent = (uint32_t)test_below(seed, i + 1);
        assert_int_equal(or_token_tree_add(tree, parent, (int32_t)i, NULL), OR_OK);
    }
    return tree;
}

static uint32_t slow_count(const or_token_tree_t *tree, uint32_t size)
{
    static bool mask[NODES + 1][NODES + 1];
    const uint32_t *parents = or_token_tree_parents(tree);
    uint32_t count = or_token_tree_count(tree);
    uint32_t rows = (count + size - 1) / size;
    uint32_t visited = 0;
    memset(mask, 0, sizeof mask);
    for (uint32_t node = 1; node <= count; node++) {
        for (uint32_t at = node; at != 0; at = parents[at]) {
            mask[(node - 1) / size][(at - 1) / size] = true;
        }
    }
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 0; c < rows; c++) {
            visited += mask[r][c];
        }
    }
    return visited;
}

static void the_count_is_the_masks(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t size = 1 + (uint32_t)test_below(&seed, 40);
        or_token_tree_t *tree = grow(&seed, (uint32_t)test_below(&seed, NODES + 1));
        assert_int_equal(or_tree_blocks(tree, size).visited, slow_count(tree, size));
        or_token_tree_depth_first(tree, NULL);
        or_tree_blocks_t blocks = or_tree_blocks(tree, size);
        assert_int_equal(blocks.visited, slow_count(tree, size));
        assert_true(blocks.visited <= blocks.lower);
        or_token_tree_destroy(&tree);
    }
}

// Two chains, created in turns: 1 3 5 7 and 2 4 6 8 hang together.
static void depth_first_order_visits_fewer(void **state)
{
    (void)state;
    or_token_tree_t *tree = NULL;
    assert_int_equal(or_token_tree_create(8, &tree), OR_OK);
    or_token_tree_reset(tree, 0);
    for (uint32_t i = 0; i < 8; i++) {
        or_token_tree_add(tree, i < 2 ? 0 : i - 1, (int32_t)i, NULL);
    }
    assert_int_equal(or_tree_blocks(tree, 2).visited, 10); // all below the diagonal
    assert_int_equal(or_tree_blocks(tree, 2).lower, 10);
    or_token_tree_depth_first(tree, NULL);
    assert_int_equal(or_tree_blocks(tree, 2).visited, 6); // two triangles of two blocks
    or_token_tree_destroy(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_is_the_masks),
        cmocka_unit_test(depth_first_order_visits_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
