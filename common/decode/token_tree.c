#include "common/decode/token_tree.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES (OR_TREE_NODES_MAX + 1) // the root and all nodes
#define NO_NODE 0u                      // the root is nobody's child

// Children are linked in the order they were added: first_child -> next_sibling -> ...
struct or_token_tree {
    uint32_t nodes_max;
    uint32_t count;
    int32_t tokens[ENTRIES];
    uint32_t parents[ENTRIES];
    uint32_t depths[ENTRIES];
    uint32_t first_child[ENTRIES];
    uint32_t last_child[ENTRIES];
    uint32_t next_sibling[ENTRIES];
};

or_status_t or_token_tree_create(uint32_t nodes_max, or_token_tree_t **tree_p)
{
    if (nodes_max > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes is over the limit of %u", nodes_max,
                       OR_TREE_NODES_MAX);
    }
    or_token_tree_t *tree = malloc(sizeof *tree);
    if (tree == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a tree");
    }
    tree->nodes_max = nodes_max;
    or_token_tree_reset(tree, 0);
    *tree_p = tree;
    return OR_OK;
}

void or_token_tree_destroy(or_token_tree_t **tree_p)
{
    free(*tree_p);
    *tree_p = NULL;
}

static void put_node(or_token_tree_t *tree, uint32_t node, int32_t token, uint32_t parent,
                     uint32_t depth)
{
    tree->tokens[node] = token;
    tree->parents[node] = parent;
    tree->depths[node] = depth;
    tree->first_child[node] = tree->last_child[node] = tree->next_sibling[node] = NO_NODE;
}

void or_token_tree_reset(or_token_tree_t *tree, int32_t root_token)
{
    tree->count = 0;
    put_node(tree, 0, root_token, 0, 0);
}

or_status_t or_token_tree_add(or_token_tree_t *tree, uint32_t parent, int32_t token,
                              uint32_t *node_p)
{
    if (parent > tree->count) {
        return or_fail(OR_ERR_INVALID, "tree node %u has no parent %u", tree->count + 1, parent);
    }
    if (tree->count == tree->nodes_max) {
        return or_fail(OR_ERR_FULL, "the tree is full at %u nodes", tree->nodes_max);
    }
    uint32_t node = ++tree->count;
    put_node(tree, node, token, parent, tree->depths[parent] + 1);
    if (tree->first_child[parent] == NO_NODE) {
        tree->first_child[parent] = node;
    } else {
        tree->next_sibling[tree->last_child[parent]] = node;
    }
    tree->last_child[parent] = node;
    if (node_p != NULL) {
        *node_p = node;
    }
    return OR_OK;
}

static or_status_t add_from_peer(or_token_tree_t *tree, int32_t token, uint32_t back,
                                 uint32_t vocab_size, bool duplicates)
{
    uint32_t node = tree->count + 1;
    if (back == 0 || back > node) {
        return or_fail(OR_ERR_INVALID, "tree node %u has its parent %u places back", node, back);
    }
    if (token < 0 || (uint32_t)token >= vocab_size) {
        return or_fail(OR_ERR_INVALID, "tree node %u has token %d outside the vocabulary of %u",
                       node, token, vocab_size);
    }
    if (!duplicates && or_token_tree_find_child(tree, node - back, token) != NO_NODE) {
        return or_fail(OR_ERR_INVALID, "tree node %u repeats a sibling's token %d", node, token);
    }
    return or_token_tree_add(tree, node - back, token, NULL);
}

or_status_t or_token_tree_set(or_token_tree_t *tree, int32_t root_token, const int32_t *tokens,
                              const uint32_t *back, uint32_t count, uint32_t vocab_size,
                              bool duplicates)
{
    or_token_tree_reset(tree, root_token);
    if (count > tree->nodes_max) {
        return or_fail(OR_ERR_FULL, "a tree of %u nodes is over the limit of %u", count,
                       tree->nodes_max);
    }
    for (uint32_t i = 0; i < count; i++) {
        or_status_t status = add_from_peer(tree, tokens[i], back[i], vocab_size, duplicates);
        if (status != OR_OK) {
            or_token_tree_reset(tree, root_token);
            return status;
        }
    }
    return OR_OK;
}

uint32_t or_token_tree_count(const or_token_tree_t *tree)
{
    return tree->count;
}

const int32_t *or_token_tree_tokens(const or_token_tree_t *tree)
{
    return tree->tokens;
}

const uint32_t *or_token_tree_parents(const or_token_tree_t *tree)
{
    return tree->parents;
}

const uint32_t *or_token_tree_depths(const or_token_tree_t *tree)
{
    return tree->depths;
}

void or_token_tree_to_wire(const or_token_tree_t *tree, int32_t *tokens, uint32_t *back)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        tokens[i] = tree->tokens[i + 1];
        back[i] = i + 1 - tree->parents[i + 1];
    }
}

uint32_t or_token_tree_find_child(const or_token_tree_t *tree, uint32_t node, int32_t token)
{
    for (uint32_t child = tree->first_child[node]; child != NO_NODE;
         child = tree->next_sibling[child]) {
        if (tree->tokens[child] == token) {
            return child;
        }
    }
    return NO_NODE;
}

uint32_t or_token_tree_first_child(const or_token_tree_t *tree, uint32_t node)
{
    return tree->first_child[node];
}

uint32_t or_token_tree_next_sibling(const or_token_tree_t *tree, uint32_t node)
{
    return tree->next_sibling[node];
}

// The node after `node` in depth-first order; NO_NODE after the last.
static uint32_t depth_first_next(const or_token_tree_t *tree, uint32_t node)
{
    if (tree->first_child[node] != NO_NODE) {
        return tree->first_child[node];
    }
    while (node != 0 && tree->next_sibling[node] == NO_NODE) {
        node = tree->parents[node];
    }
    return node == 0 ? NO_NODE : tree->next_sibling[node];
}

void or_token_tree_depth_first(or_token_tree_t *tree, uint32_t *renumbered)
{
    const or_token_tree_t old = *tree;
    uint32_t new_of[ENTRIES];
    new_of[0] = 0;
    or_token_tree_reset(tree, old.tokens[0]);
    for (uint32_t node = depth_first_next(&old, 0); node != NO_NODE;
         node = depth_first_next(&old, node)) {
        or_token_tree_add(tree, new_of[old.parents[node]], old.tokens[node], &new_of[node]);
    }
    if (renumbered != NULL) {
        memcpy(renumbered, new_of, (old.count + 1) * sizeof *renumbered);
    }
}
