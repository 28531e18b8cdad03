#include "common/decode/merge.h"

#include <stdlib.h>
#include <string.h>

struct or_merge {
    uint32_t parts_max, nodes_max;
    uint32_t *origins; // [parts_max][nodes_max + 1]
    uint32_t *node_of; // [nodes_max + 1] of the part being added: its nodes in the tree
    uint32_t *dist_of; // [nodes_max + 1] by node, as added
    uint32_t *dist_index, *draw_order; // [nodes_max + 1] as or_draws_t has them
    or_reduced_distribution_t *dists;  // [nodes_max + 1]
    uint32_t dist_count;
    bool drawn;
    or_draws_t draws;
};

or_status_t or_merge_create(uint32_t parts_max, uint32_t nodes_max, or_merge_t **merge_p)
{
    or_merge_t *merge = calloc(1, sizeof *merge);
    if (merge == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to merge trees");
    }
    size_t entries = (size_t)nodes_max + 1;
    merge->parts_max = parts_max;
    merge->nodes_max = nodes_max;
    merge->origins = calloc(parts_max * entries, sizeof *merge->origins);
    merge->node_of = calloc(entries, sizeof *merge->node_of);
    merge->dist_of = calloc(entries, sizeof *merge->dist_of);
    merge->dist_index = calloc(entries, sizeof *merge->dist_index);
    merge->draw_order = calloc(entries, sizeof *merge->draw_order);
    merge->dists = calloc(entries, sizeof *merge->dists);
    if (merge->origins == NULL || merge->node_of == NULL || merge->dist_of == NULL ||
        merge->dist_index == NULL || merge->draw_order == NULL || merge->dists == NULL) {
        or_merge_destroy(&merge);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to merge trees of %u nodes", nodes_max);
    }
    *merge_p = merge;
    return OR_OK;
}

void or_merge_destroy(or_merge_t **merge_p)
{
    or_merge_t *merge = *merge_p;
    if (merge == NULL) {
        return;
    }
    free(merge->origins);
    free(merge->node_of);
    free(merge->dist_of);
    free(merge->dist_index);
    free(merge->draw_order);
    free(merge->dists);
    free(merge);
    *merge_p = NULL;
}

static uint32_t *origins_of(const or_merge_t *merge, uint32_t part)
{
    return merge->origins + (size_t)part * (merge->nodes_max + 1);
}

// Add a part. Nodes are numbered in the order in which they are added.
static or_status_t add_part(or_merge_t *merge, uint32_t part, const or_merge_part_t *from,
                            bool repeats, or_token_tree_t *tree)
{
    const int32_t *tokens = or_token_tree_tokens(from->tree);
    const uint32_t *parents = or_token_tree_parents(from->tree);
    uint32_t *origins = origins_of(merge, part);
    if (merge->drawn && from->draws->dist_count > merge->nodes_max - merge->dist_count) {
        return or_fail(OR_ERR_FULL, "the merged trees have more than %u distributions",
                       merge->nodes_max);
    }
    memset(origins, 0, (merge->nodes_max + 1) * sizeof *origins);
    merge->node_of[0] = 0;
    for (uint32_t i = 1; i <= or_token_tree_count(from->tree); i++) {
        uint32_t parent = merge->node_of[parents[i]];
        uint32_t carrier = or_token_tree_find_child(tree, parent, tokens[i]);
        if (carrier == 0 || repeats) {
            uint32_t node;
            or_status_t status = or_token_tree_add(tree, parent, tokens[i], &node);
            if (status != OR_OK) {
                return status;
            }
            merge->dist_of[node] =
                merge->drawn ? merge->dist_count + from->draws->dist_index[i - 1] : 0;
            carrier = carrier == 0 ? node : carrier;
        }
        merge->node_of[i] = carrier;
        origins[carrier] = origins[carrier] == 0 ? i : origins[carrier];
    }
    for (uint32_t i = 0; merge->drawn && i < from->draws->dist_count; i++) {
        merge->dists[merge->dist_count++] = from->draws->dists[i];
    }
    return OR_OK;
}

static void renumber_origins(or_merge_t *merge, uint32_t part, const uint32_t *renumbered,
                             uint32_t count)
{
    uint32_t *origins = origins_of(merge, part);
    for (uint32_t node = 1; node <= count; node++) {
        merge->node_of[renumbered[node]] = origins[node];
    }
    memcpy(origins + 1, merge->node_of + 1, count * sizeof *origins);
}

static void record_draws(or_merge_t *merge, const or_token_tree_t *tree, const uint32_t *renumbered)
{
    const uint32_t *parents = or_token_tree_parents(tree);
    uint32_t children[OR_TREE_NODES_MAX + 1] = {0};
    for (uint32_t node = 1; node <= or_token_tree_count(tree); node++) {
        merge->dist_index[renumbered[node] - 1] = merge->dist_of[node];
        merge->draw_order[node - 1] = children[parents[node]]++;
    }
    merge->draws =
        (or_draws_t){merge->dist_index, merge->draw_order, merge->dists, merge->dist_count};
}

or_status_t or_merge_trees(or_merge_t *merge, const or_merge_part_t *parts, uint32_t count,
                           bool repeats, or_token_tree_t *tree)
{
    uint32_t renumbered[OR_TREE_NODES_MAX + 1];
    merge->dist_count = 0;
    merge->drawn = count > 0 && parts[0].draws != NULL;
    for (uint32_t part = 0; part < count; part++) {
        or_status_t status = add_part(merge, part, &parts[part], repeats, tree);
        if (status != OR_OK) {
            return status;
        }
    }
    or_token_tree_depth_first(tree, renumbered);
    for (uint32_t part = 0; part < count; part++) {
        renumber_origins(merge, part, renumbered, or_token_tree_count(tree));
    }
    record_draws(merge, tree, renumbered);
    return OR_OK;
}

const or_draws_t *or_merge_draws(const or_merge_t *merge)
{
    return merge->drawn ? &merge->draws : NULL;
}

uint32_t or_merge_origin(const or_merge_t *merge, uint32_t part, uint32_t node)
{
    return origins_of(merge, part)[node];
}
