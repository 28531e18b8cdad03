#include "coordinator/vocab/vocab_trees.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/token_tree.h"

typedef struct {
    uint32_t token, weight;
} entry_t;

struct or_vocab_trees {
    uint32_t tokens[OR_TREE_NODES_MAX], back[OR_TREE_NODES_MAX];
    uint32_t dist_index[OR_TREE_NODES_MAX], order[OR_TREE_NODES_MAX];
    uint32_t node_of[OR_TREE_NODES_MAX + 1]; // of the new tree, by old node; 0: left out
    or_reduced_distribution_t *dists;
    uint32_t dist_room;
    uint32_t *numbers; // what the distributions point into
    size_t number_room;
};

or_status_t or_vocab_trees_create(or_vocab_trees_t **trees_p)
{
    *trees_p = calloc(1, sizeof **trees_p);
    return *trees_p != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory to translate trees");
}

void or_vocab_trees_destroy(or_vocab_trees_t **trees_p)
{
    or_vocab_trees_t *trees = *trees_p;
    if (trees == NULL) {
        return;
    }
    free(trees->dists);
    free(trees->numbers);
    free(trees);
    *trees_p = NULL;
}

typedef struct {
    or_vocab_trees_t *trees;
    const or_vocab_pair_t *pair;
    or_vocab_method_t method;
} job_t;

static or_status_t map_token(const job_t *job, uint32_t token, uint32_t *to)
{
    const or_vocab_pair_t *pair = job->pair;
    if (token >= or_vocab_size(pair->draft)) {
        return or_fail(OR_ERR_INVALID, "token %u is not in the drafter's vocabulary of %u", token,
                       or_vocab_size(pair->draft));
    }
    int32_t id = pair->to_target[token];
    if (id == OR_TOKEN_NONE && job->method != OR_VOCAB_UNION) {
        return or_fail(OR_ERR_INVALID, "the target has no token for the drafter's token %u", token);
    }
    *to = id != OR_TOKEN_NONE ? (uint32_t)id : or_vocab_size(pair->target) + token;
    return OR_OK;
}

static int compare_entries(const void *a, const void *b)
{
    uint32_t x = ((const entry_t *)a)->token;
    uint32_t y = ((const entry_t *)b)->token;
    return (x > y) - (x < y);
}

// One distribution; its numbers go to `tokens` and, behind them, to the weights.
static or_status_t map_dist(const job_t *job, const or_reduced_distribution_t *dist,
                            uint32_t *tokens)
{
    entry_t entries[OR_DISTRIBUTION_ENTRIES_MAX];
    if (dist->count > OR_DISTRIBUTION_ENTRIES_MAX) {
        return or_fail(OR_ERR_INVALID, "a distribution of %u tokens: %u are possible", dist->count,
                       OR_DISTRIBUTION_ENTRIES_MAX);
    }
    for (uint32_t i = 0; i < dist->count; i++) {
        entries[i].weight = dist->weights[i];
        or_status_t status = map_token(job, dist->tokens[i], &entries[i].token);
        if (status != OR_OK) {
            return status;
        }
    }
    qsort(entries, dist->count, sizeof *entries, compare_entries);
    for (uint32_t i = 0; i < dist->count; i++) {
        tokens[i] = entries[i].token;
        tokens[dist->count + i] = entries[i].weight;
    }
    return OR_OK;
}

static bool make_room(or_vocab_trees_t *trees, uint32_t dists, size_t numbers)
{
    if (dists > trees->dist_room) {
        free(trees->dists);
        trees->dists = malloc(dists * sizeof *trees->dists);
        trees->dist_room = trees->dists != NULL ? dists : 0;
    }
    if (numbers > trees->number_room) {
        free(trees->numbers);
        trees->numbers = malloc(numbers * sizeof *trees->numbers);
        trees->number_room = trees->numbers != NULL ? numbers : 0;
    }
    return dists <= trees->dist_room && numbers <= trees->number_room;
}

// The distributions that the nodes of the new tree name, numbered anew: others went with the nodes left out.
static or_status_t map_dists(const job_t *job, const or_draft_tree_t *from, or_draft_tree_t *to)
{
    or_vocab_trees_t *trees = job->trees;
    size_t numbers = 0;
    for (uint32_t i = 0; i < from->dist_count; i++) {
        numbers += 2 * (size_t)from->dists[i].count;
    }
    if (!make_room(trees, from->dist_count, numbers)) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to translate %u distributions",
                       from->dist_count);
    }
    uint32_t *at = trees->numbers;
    uint32_t new_index[OR_TREE_NODES_MAX]; // + 1; 0: not met yet
    memset(new_index, 0, from->dist_count * sizeof *new_index);
    to->dist_count = 0;
    for (uint32_t i = 0; i < to->dist_index_count; i++) {
        uint32_t index = trees->dist_index[i];
        if (index >= from->dist_count) {
            return or_fail(OR_ERR_INVALID, "a node names distribution %u of %u", index,
                           from->dist_count);
        }
        if (new_index[index] == 0) {
            const or_reduced_distribution_t *dist = &from->dists[index];
            or_status_t status = map_dist(job, dist, at);
            if (status != OR_OK) {
                return status;
            }
            trees->dists[to->dist_count++] =
                (or_reduced_distribution_t){at, at + dist->count, dist->count};
            at += 2 * (size_t)dist->count;
            new_index[index] = to->dist_count;
        }
        trees->dist_index[i] = new_index[index] - 1;
    }
    to->dists = to->dist_count > 0 ? trees->dists : NULL;
    return OR_OK;
}

// Below a node that cannot be accepted nothing can; and where the rule does not ask how nodes were
// drawn, such a node itself is of no use.
static bool is_dropped(const job_t *job, uint32_t rule, uint32_t parent, uint32_t token)
{
    const or_vocab_trees_t *trees = job->trees;
    uint32_t size = or_vocab_size(job->pair->target);
    uint32_t above = trees->node_of[parent];
    bool lost = parent != 0 && (above == 0 || trees->tokens[above - 1] >= size);
    return lost || (token >= size && !or_accept_rule_uses_distributions(rule));
}

static or_status_t map_nodes(const job_t *job, uint32_t rule, const or_draft_tree_t *from,
                             or_draft_tree_t *to)
{
    or_vocab_trees_t *trees = job->trees;
    to->count = 0;
    trees->node_of[0] = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        uint32_t node = i + 1;
        uint32_t token;
        or_status_t status = map_token(job, from->tokens[i], &token);
        if (status == OR_OK && (from->back[i] == 0 || from->back[i] > node)) {
            status =
                or_fail(OR_ERR_INVALID, "node %u lies %u behind its parent", node, from->back[i]);
        }
        if (status != OR_OK) {
            return status;
        }
        uint32_t parent = node - from->back[i];
        trees->node_of[node] = 0;
        if (is_dropped(job, rule, parent, token)) {
            continue;
        }
        uint32_t new_node = to->count + 1;
        trees->tokens[to->count] = token;
        trees->back[to->count] = new_node - trees->node_of[parent];
        if (from->dist_index_count > 0) {
            trees->dist_index[to->count] = from->dist_index[i];
            trees->order[to->count] = from->draw_order[i];
        }
        trees->node_of[node] = new_node;
        to->count++;
    }
    return OR_OK;
}

or_status_t or_vocab_map_tree(or_vocab_trees_t *trees, const or_vocab_pair_t *pair,
                              or_vocab_method_t method, uint32_t rule, const or_draft_tree_t *from,
                              or_draft_tree_t *to)
{
    const job_t job = {trees, pair, method};
    *to = *from;
    if (from->count > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes: %u are possible", from->count,
                       OR_TREE_NODES_MAX);
    }
    if ((from->dist_index_count != 0 && from->dist_index_count != from->count) ||
        from->draw_order_count != from->dist_index_count) {
        return or_fail(OR_ERR_INVALID, "%u nodes, %u distributions named, %u orders", from->count,
                       from->dist_index_count, from->draw_order_count);
    }
    if (from->dist_count > from->count) {
        return or_fail(OR_ERR_INVALID, "%u distributions for %u nodes", from->dist_count,
                       from->count);
    }
    or_status_t status = map_nodes(&job, rule, from, to);
    to->tokens = trees->tokens;
    to->back = trees->back;
    to->dist_index = trees->dist_index;
    to->draw_order = trees->order;
    to->dist_index_count = to->draw_order_count = from->dist_index_count > 0 ? to->count : 0;
    if (status == OR_OK) {
        status = map_dists(&job, from, to);
    }
    return status;
}
