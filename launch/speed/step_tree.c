#include "launch/speed/step_tree.h"

#define CHILDREN 8u // most of a node
#define SHARE 0.6   // of the likeliest child; each next one has that share of what is left

void or_step_tree_grow(or_token_tree_t *tree, uint32_t count)
{
    static double weight[OR_STEP_TREE_MAX + 1], next[OR_STEP_TREE_MAX + 1];
    static uint32_t children[OR_STEP_TREE_MAX + 1];
    or_token_tree_reset(tree, 0);
    weight[0] = 1;
    for (uint32_t node = 0; node < count; node++) {
        next[node] = weight[node] * SHARE;
        children[node] = 0;
        uint32_t best = 0;
        for (uint32_t i = 1; i <= node; i++) {
            best = next[i] > next[best] ? i : best;
        }
        weight[node + 1] = next[best];
        next[best] = ++children[best] < CHILDREN ? next[best] * (1 - SHARE) : 0;
        or_token_tree_add(tree, best, (int32_t)node, NULL);
    }
    or_token_tree_depth_first(tree, NULL);
}
