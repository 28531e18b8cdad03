// bench_shapes - the trees of the papers' experiments.
//
// RSD (Jeon et al. 2024, arXiv 2402.14160, section 5): "fixed draft length" compares trees of equal
// depth, "fixed target computational budget" trees of equal size. Multi-candidate speculative
// decoding (Yang et al. 2024, arXiv 2401.06706): configurations of candidates by level, at most 32
// leaves. The shapes are those of docs/algorithms.md section 2.
#pragma once

#include "common/decode/shape.h"

#define OR_BENCH_TREES_MAX 16u
// clang-format off
#define OR_BENCH_LENGTHS {2, 3, 4, 5}
#define OR_BENCH_BUDGETS {6, 10, 14, 21, 30}
// clang-format on
#define OR_BENCH_K_CONFIG_LEAVES 32u

typedef struct {
    uint32_t nodes, depth;
    or_shape_t shape; // count 0: the method has none, nodes and depth bound its tree
} or_bench_tree_t;

// The trees a method takes part with: the beams or the branchings it can grow; for a method without
// shapes one sequence, or trees of as many nodes as the beams have. Each gives how many, at most
// OR_BENCH_TREES_MAX.
uint32_t or_bench_trees_of_length(or_draft_method_t method, uint32_t length,
                                  or_bench_tree_t *trees);
uint32_t or_bench_trees_of_budget(or_draft_method_t method, uint32_t nodes, or_bench_tree_t *trees);
// Branchings only: 0 for methods without.
uint32_t or_bench_trees_of_k_config(or_draft_method_t method, or_bench_tree_t *trees);
