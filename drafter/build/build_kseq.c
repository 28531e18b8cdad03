// kseq - K sequences of equal length, drawn independently (SpecTr, Sun et al. 2023, section 4).
//
//     a b c         root ─┬─ a ─┬─ b ── c      two sequences run through a, so a is given two children;
//     a d e               │     └─ d ── e      the second a is a leaf that counts as a draw
//     f g h               ├─ a
//                         └─ f ── g ── h
//
// Where the rule does not count repetitions they are dropped. Where nothing is drawn the sequences
// begin with the K best tokens and go on with the best.
#include "drafter/build/builder_internal.h"

// Add the next tokens of all sequences that run through `parent`, as long as nodes are left.
static void prolong(or_builder_t *builder, uint32_t parent, uint32_t *sequences, uint32_t *count)
{
    for (uint32_t i = 0; i < sequences[parent] && *count < builder->nodes_wanted; i++) {
        uint32_t guess = *count + 1;
        if (!or_build_next(builder, guess, parent)) {
            return;
        }
        uint32_t first = or_build_first(builder, guess);
        sequences[guess] = 0;
        sequences[first]++;
        if (first == guess || builder->job->repeats) {
            builder->chosen[(*count)++] = guess;
        }
    }
}

or_status_t or_build_kseq(or_builder_t *builder, uint32_t *count)
{
    const or_shape_t *shape = &builder->job->shape;
    uint32_t levels = or_shape_levels(shape, OR_DRAFT_KSEQ, builder->depth_limit);
    uint32_t sequences[OR_TREE_NODES_MAX + 2]; // through each guess, and one that may be dropped
    uint32_t *parents = builder->batch;
    uint32_t parent_count = 1;
    parents[0] = OR_BUILD_ROOT;
    sequences[OR_BUILD_ROOT] = shape->widths[0];
    *count = 0;
    for (uint32_t level = 0; level < levels && level < builder->depth_limit; level++) {
        uint32_t before = *count;
        for (uint32_t i = 0; i < parent_count; i++) {
            prolong(builder, parents[i], sequences, count);
        }
        if (level + 1 == levels || level + 1 == builder->depth_limit ||
            *count == builder->nodes_wanted) {
            break;
        }
        parent_count = 0;
        for (uint32_t guess = before + 1; guess <= *count; guess++) {
            if (sequences[guess] > 0) {
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
