// dyspec-t - level by level all children that the target comes to with a probability of at least a
// threshold, without replacement (DySpec, Xiong et al. 2024, algorithm 2; build_prospects.c has the
// keys).
//
// The paper's inner loop must run while the key is at least the threshold. One pass a level, where
// dyspec may need more. A node budget cuts the last level at its least likely children.
#include "drafter/build/builder_internal.h"

// Where no threshold was asked for it is such that a tree about uses its budget. On the demonstration
// pair these gave the most tokens per target call, of a dozen thresholds at 16 and at 64 nodes.
#define USUAL 3.0             // divided by the nodes wanted
#define USUAL_CALIBRATED 0.35 // measured acceptances are smaller than the drafter's probabilities

static double threshold_of(const or_builder_t *builder)
{
    const or_build_job_t *job = builder->job;
    if (job->threshold > 0) {
        return (double)job->threshold;
    }
    return (job->calibrated ? USUAL_CALIBRATED : USUAL) / builder->nodes_wanted;
}

// The children of guesses first .. end - 1 that are likely enough, the likeliest first.
static void take_level(or_builder_t *builder, or_build_prospect_t *prospects, double threshold,
                       uint32_t first, uint32_t end, uint32_t *count)
{
    while (*count < builder->nodes_wanted) {
        uint32_t parent = or_build_prospect_best(prospects, first, end);
        if (parent == end || prospects[parent].key < threshold) {
            return;
        }
        uint32_t guess = *count + 1;
        or_build_next(builder, guess, parent); // a key says that there is one
        or_build_prospect_grow(builder, prospects, parent, guess);
        builder->chosen[(*count)++] = guess;
    }
}

// Those of guesses first .. end - 1 that will have children into builder->batch; returns how many.
static uint32_t choose_batch(or_builder_t *builder, or_build_prospect_t *prospects,
                             double threshold, uint32_t first, uint32_t end)
{
    uint32_t found = 0;
    for (uint32_t guess = first; guess < end; guess++) {
        if (prospects[guess].key >= threshold) {
            builder->batch[found++] = guess;
        }
    }
    return found;
}

or_status_t or_build_dyspec_t(or_builder_t *builder, uint32_t *count)
{
    or_build_prospect_t prospects[OR_TREE_NODES_MAX + 1];
    double threshold = threshold_of(builder);
    uint32_t first = OR_BUILD_ROOT;
    or_build_prospect_open(builder, prospects, OR_BUILD_ROOT, 1);
    for (*count = 0;;) {
        uint32_t end = *count + 1;
        take_level(builder, prospects, threshold, first, end, count);
        uint32_t found = choose_batch(builder, prospects, threshold, end, *count + 1);
        if (found == 0 || *count == builder->nodes_wanted) {
            return OR_OK;
        }
        or_status_t status = or_build_expand(builder, builder->batch, found);
        if (status != OR_OK) {
            return status;
        }
        first = end;
    }
}
