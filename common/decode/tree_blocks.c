#include "common/decode/tree_blocks.h"

// Blocks of one row of blocks that hold an ancestor of one of its nodes. `seen` remembers them by the
// row that saw them last.
static uint32_t visit_row(const or_token_tree_t *tree, uint32_t size, uint32_t row, uint32_t *seen)
{
    const uint32_t *parents = or_token_tree_parents(tree);
    uint32_t count = or_token_tree_count(tree);
    uint32_t end = (row + 1) * size < count ? (row + 1) * size : count;
    uint32_t visited = 0;
    for (uint32_t node = row * size + 1; node <= end; node++) {
        for (uint32_t at = node; at != 0; at = parents[at]) {
            uint32_t column = (at - 1) / size;
            visited += seen[column] != row + 1;
            seen[column] = row + 1;
        }
    }
    return visited;
}

or_tree_blocks_t or_tree_blocks(const or_token_tree_t *tree, uint32_t size)
{
    uint32_t seen[OR_TREE_NODES_MAX] = {0};
    uint32_t rows = (or_token_tree_count(tree) + size - 1) / size;
    or_tree_blocks_t blocks = {.lower = rows * (rows + 1) / 2};
    for (uint32_t row = 0; row < rows; row++) {
        blocks.visited += visit_row(tree, size, row, seen);
    }
    return blocks;
}
