// dyspec - again and again the child that the target most likely comes to, without replacement, to a
// node budget (DySpec, Xiong et al. 2024, algorithm 1; build_prospects.c has the keys).
//
// The paper's pseudo-code adds a token before it draws it: here a key decides that there is to be a
// child, and only then it is drawn which. A guess whose turn comes must be expanded first. We expand
// in one pass all whose turn is near; that draws nothing, so the tree is the same.
#include "drafter/build/builder_internal.h"

#define NEARLY 0.37 // guesses whose keys are above this part of the largest are expanded with it

// Expand `best`, and others while they could still be used.
static or_status_t expand_likely(or_builder_t *builder, const or_build_prospect_t *prospects,
                                 uint32_t best, uint32_t count)
{
    uint32_t found = 0;
    builder->batch[found++] = best;
    for (uint32_t guess = 1; guess <= count && found < builder->nodes_wanted - count; guess++) {
        if (guess != best && !builder->guesses[guess].expanded &&
            prospects[guess].key > NEARLY * prospects[best].key) {
            builder->batch[found++] = guess;
        }
    }
    return or_build_expand(builder, builder->batch, found);
}

or_status_t or_build_dyspec(or_builder_t *builder, uint32_t *count)
{
    or_build_prospect_t prospects[OR_TREE_NODES_MAX + 1];
    or_build_prospect_open(builder, prospects, OR_BUILD_ROOT, 1);
    for (*count = 0; *count < builder->nodes_wanted;) {
        uint32_t parent = or_build_prospect_best(prospects, OR_BUILD_ROOT, *count + 1);
        if (parent > *count) {
            break;
        }
        if (!builder->guesses[parent].expanded) {
            or_status_t status = expand_likely(builder, prospects, parent, *count);
            if (status != OR_OK) {
                return status;
            }
        }
        uint32_t guess = *count + 1;
        or_build_next(builder, guess, parent); // a key says that there is one
        or_build_prospect_grow(builder, prospects, parent, guess);
        builder->chosen[(*count)++] = guess;
    }
    return OR_OK;
}
