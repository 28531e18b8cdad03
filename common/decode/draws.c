#include "common/decode/draws.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const or_draws_t *draws;
    const or_token_tree_t *tree;
    or_accept_rule_t rule;
    // Per node: the number of its children so far, and the distribution of the first.
    uint32_t children[OR_TREE_NODES_MAX + 1];
    uint32_t dist_of[OR_TREE_NODES_MAX + 1];
} check_t;

// Check a token that was drawn before at the same node.
static or_status_t check_repetition(const check_t *check, uint32_t node, uint32_t first)
{
    if (!or_accept_rule_counts_repeats(check->rule)) {
        return or_fail(OR_ERR_INVALID,
                       "node %u repeats its sibling %u, but rule %s is for draws "
                       "without replacement",
                       node, first, or_accept_rule_name(check->rule));
    }
    return OR_OK;
}

static or_status_t check_node(check_t *check, uint32_t node)
{
    const int32_t *tokens = or_token_tree_tokens(check->tree);
    uint32_t parent = or_token_tree_parents(check->tree)[node];
    uint32_t dist_index = check->draws->dist_index[node - 1];
    if (dist_index >= check->draws->dist_count) {
        return or_fail(OR_ERR_INVALID, "node %u names distribution %u of %u", node, dist_index,
                       check->draws->dist_count);
    }
    const or_reduced_distribution_t *dist = &check->draws->dists[dist_index];
    if (or_distribution_find(dist, (uint32_t)tokens[node]) == dist->count) {
        return or_fail(OR_ERR_INVALID, "node %u has token %d, which its distribution does not have",
                       node, tokens[node]);
    }
    uint32_t order = check->children[parent]++;
    if (check->draws->order[node - 1] != order) {
        return or_fail(OR_ERR_INVALID, "node %u is child %u of node %u but says it was drawn as %u",
                       node, order, parent, check->draws->order[node - 1]);
    }
    if (order == 0) {
        check->dist_of[parent] = dist_index;
    } else if (check->dist_of[parent] != dist_index && check->rule != OR_ACCEPT_MULTI_ROUND) {
        return or_fail(OR_ERR_INVALID,
                       "node %u and its siblings were drawn from different distributions", node);
    }
    if (order > 0 && or_accept_rule_takes_chains(check->rule)) {
        return or_fail(OR_ERR_INVALID,
                       "node %u is a second child of node %u: rule %s is for chains", node, parent,
                       or_accept_rule_name(check->rule));
    }
    uint32_t grandparent = or_token_tree_parents(check->tree)[parent];
    if (parent != 0 &&
        or_token_tree_find_child(check->tree, grandparent, tokens[parent]) != parent) {
        return or_fail(OR_ERR_INVALID,
                       "node %u hangs under a repeated sibling: the first of them "
                       "has the children",
                       node);
    }
    uint32_t first = or_token_tree_find_child(check->tree, parent, tokens[node]);
    return first == node ? OR_OK : check_repetition(check, node, first);
}

or_status_t or_draws_check(const or_draws_t *draws, const or_token_tree_t *tree,
                           or_accept_rule_t rule, uint32_t vocab_size)
{
    check_t check = {.draws = draws, .tree = tree, .rule = rule};
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < draws->dist_count; i++) {
        status = or_distribution_check(&draws->dists[i], vocab_size);
    }
    for (uint32_t node = 1; status == OR_OK && node <= or_token_tree_count(tree); node++) {
        status = check_node(&check, node);
    }
    return status;
}

// Make room for `count` entries of `bytes`; the old contents may be lost.
static bool make_room(void **array, size_t *room, size_t count, size_t bytes)
{
    if (count <= *room) {
        return true;
    }
    free(*array);
    *array = malloc(count * bytes);
    *room = *array != NULL ? count : 0;
    return *array != NULL;
}

static const uint32_t *put(uint32_t **at, const uint32_t *numbers, uint32_t count)
{
    uint32_t *to = *at;
    if (count > 0) {
        memcpy(to, numbers, count * sizeof *to);
    }
    *at += count;
    return to;
}

or_status_t or_draws_store(or_draws_store_t *store, const or_draws_t *draws, uint32_t count)
{
    size_t numbers = 2 * (size_t)count + 1;
    for (uint32_t i = 0; i < draws->dist_count; i++) {
        numbers += 2 * (size_t)draws->dists[i].count;
    }
    store->draws = (or_draws_t){0};
    if (!make_room((void **)&store->numbers, &store->number_room, numbers,
                   sizeof *store->numbers) ||
        !make_room((void **)&store->dists, &store->dist_room, draws->dist_count + 1U,
                   sizeof *store->dists)) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u distributions", draws->dist_count);
    }
    uint32_t *at = store->numbers;
    const uint32_t *dist_index = put(&at, draws->dist_index, count);
    const uint32_t *order = put(&at, draws->order, count);
    for (uint32_t i = 0; i < draws->dist_count; i++) {
        const or_reduced_distribution_t *dist = &draws->dists[i];
        const uint32_t *tokens = put(&at, dist->tokens, dist->count);
        store->dists[i] =
            (or_reduced_distribution_t){tokens, put(&at, dist->weights, dist->count), dist->count};
    }
    store->draws = (or_draws_t){dist_index, order, store->dists, draws->dist_count};
    return OR_OK;
}

size_t or_draws_store_bytes(const or_draws_store_t *store)
{
    return store->number_room * sizeof *store->numbers + store->dist_room * sizeof *store->dists;
}

void or_draws_store_fini(or_draws_store_t *store)
{
    free(store->numbers);
    free(store->dists);
    *store = (or_draws_store_t){0};
}
