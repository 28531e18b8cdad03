// mcsd and rsd-c - a tree of fixed branching factors, level by level.
//
//     mcsd    children drawn with replacement (multi-candidate speculative decoding, Yang et al. 2024)
//     rsd-c   children drawn without (recursive speculative decoding, Jeon et al. 2024, constant
//             branching factors; the same by top-k of log p + Gumbel)
//
// Where the rule shares the target's noise, or decodes greedily, the children are the best ones.
#include "drafter/build/builder_internal.h"

// Add the children of `parent`, as long as nodes are left.
static void branch(or_builder_t *builder, uint32_t parent, uint32_t width, uint32_t *count)
{
    for (uint32_t i = 0; i < width && *count < builder->nodes_wanted; i++) {
        uint32_t guess = *count + 1;
        if (!or_build_next(builder, guess, parent)) {
            return;
        }
        if (builder->job->repeats || !or_build_repeats(builder, guess)) {
            builder->chosen[(*count)++] = guess;
        }
    }
}

or_status_t or_build_branching(or_builder_t *builder, uint32_t *count)
{
    const or_shape_t *shape = &builder->job->shape;
    uint32_t *parents = builder->batch;
    uint32_t parent_count = 1;
    parents[0] = OR_BUILD_ROOT;
    *count = 0;
    for (uint32_t level = 0; level < shape->count && level < builder->depth_limit; level++) {
        uint32_t before = *count;
        for (uint32_t i = 0; i < parent_count; i++) {
            branch(builder, parents[i], shape->widths[level], count);
        }
        if (level + 1 == shape->count || level + 1 == builder->depth_limit ||
            *count == builder->nodes_wanted) {
            break;
        }
        parent_count = 0;
        for (uint32_t guess = before + 1; guess <= *count; guess++) {
            if (!or_build_repeats(builder, guess)) {
                parents[parent_count++] = guess;
            }
        }
        or_status_t status = or_build_expand(builder, parents, parent_count);
        if (status != OR_OK) {
            return status;
        }
    }
    return OR_OK;
}
