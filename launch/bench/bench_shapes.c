#include "launch/bench/bench_shapes.h"

#include <stddef.h>

#define COLUMNS 4

// NULL-terminated rows.
typedef struct {
    uint32_t group;                // the length, or the budget
    const char *beams[COLUMNS];    // width x length
    const char *branches[COLUMNS]; // children by level
} row_t;

static const row_t by_length[] = {
    {2, {"2x2", "3x2"}, {"2x2", "2x1", "3x1"}},
    {3, {"3x3", "4x3"}, {"2x2x2", "3x1x1", "4x1x1"}},
    {4, {"5x4", "7x4"}, {"2x2x2x2", "5x1x1x1", "7x1x1x1"}},
    {5, {"6x5", "12x5"}, {"2x2x2x2x2", "6x1x1x1x1", "12x1x1x1x1"}},
};
// As published: some branchings stay a few nodes below the budget.
static const row_t by_budget[] = {
    {6, {"2x3", "3x2"}, {"2x1x1", "2x2", "3x1"}},
    {10, {"2x5", "5x2"}, {"2x1x1x1x1", "2x2x1", "5x1"}},
    {14, {"2x7", "7x2"}, {"2x1x1x1x1x1", "2x2x2", "7x1"}},
    {21, {"3x7", "7x3"}, {"3x1x1x1x1x1", "3x2x2", "7x1x1"}},
    {30, {"5x6", "6x5"}, {"2x2x2x2", "5x1x1x1x1", "6x1x1x1x1"}},
};
static const char *const k_configs[] = {"1x1x1x1x1", "4x2x2x1x1", "8x2x1x1", "8x2x2",
                                        "16x1x1",    "16x2",      "32",      NULL};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const row_t *find_row(const row_t *rows, size_t count, uint32_t group)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].group == group) {
            return &rows[i];
        }
    }
    return NULL;
}

// Nodes of a shape read as a beam, or as branching factors.
static uint32_t nodes_as(const or_shape_t *shape, bool beam)
{
    uint32_t level = 1;
    uint32_t nodes = 0;
    if (beam) {
        return shape->widths[0] * shape->widths[1];
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        level *= shape->widths[i];
        nodes += level;
    }
    return nodes;
}

// Those of the shapes that the method grows as they are meant. "3x2" is a beam to one method and
// branching factors to another: the number of nodes tells.
static uint32_t take(or_draft_method_t method, const char *const *shapes, bool beam,
                     or_bench_tree_t *trees)
{
    uint32_t count = 0;
    for (size_t i = 0; i < COUNT(k_configs) && shapes[i] != NULL; i++) {
        or_bench_tree_t tree = {.depth = OR_SHAPE_LEVELS_MAX};
        if (or_shape_parse(shapes[i], &tree.shape) != OR_OK ||
            or_shape_check(&tree.shape, method, tree.depth) != OR_OK) {
            continue;
        }
        tree.nodes = or_shape_nodes(&tree.shape, method, tree.depth);
        tree.depth = or_shape_levels(&tree.shape, method, tree.depth);
        if (tree.nodes == nodes_as(&tree.shape, beam)) {
            trees[count++] = tree;
        }
    }
    return count;
}

static uint32_t take_row(or_draft_method_t method, const row_t *row, or_bench_tree_t *trees)
{
    uint32_t beams = take(method, row->beams, true, trees);
    return beams > 0 ? beams : take(method, row->branches, false, trees);
}

uint32_t or_bench_trees_of_length(or_draft_method_t method, uint32_t length, or_bench_tree_t *trees)
{
    const row_t *row = find_row(by_length, COUNT(by_length), length);
    uint32_t count = take_row(method, row, trees);
    if (count > 0) {
        return count;
    }
    if (method == OR_DRAFT_CHAIN) {
        trees[0] = (or_bench_tree_t){.nodes = length, .depth = length};
        return 1;
    }
    // As many nodes as the beams.
    for (size_t i = 0; row->beams[i] != NULL; i++) {
        or_shape_t beam;
        if (or_shape_parse(row->beams[i], &beam) == OR_OK) {
            trees[count++] = (or_bench_tree_t){.nodes = nodes_as(&beam, true), .depth = length};
        }
    }
    return count;
}

uint32_t or_bench_trees_of_budget(or_draft_method_t method, uint32_t nodes, or_bench_tree_t *trees)
{
    const row_t *row = find_row(by_budget, COUNT(by_budget), nodes);
    uint32_t count = take_row(method, row, trees);
    if (count == 0) {
        trees[count++] = (or_bench_tree_t){.nodes = nodes, .depth = nodes};
    }
    return count;
}

uint32_t or_bench_trees_of_k_config(or_draft_method_t method, or_bench_tree_t *trees)
{
    return take(method, k_configs, false, trees);
}
