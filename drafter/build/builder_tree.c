// The tree that a job asks for: its bounds, its nodes, and what its verdict teaches.
#include <string.h>

#include "drafter/build/builder_internal.h"

#include "common/base/inline.h"

// A tree may be as deep as there are positions left in the context.
void or_build_take_job(or_builder_t *builder, const or_build_job_t *job)
{
    uint32_t positions = builder->source.positions;
    builder->job = job;
    builder->sampling = job->sampling;
    builder->sampling.temperature = job->draft_temperature;
    builder->tau = builder->fixed_tau > 0 ? builder->fixed_tau : or_belief_tau(job->belief);
    builder->nodes_wanted = or_min_u32(job->nodes_max, builder->nodes_max);
    builder->history_count = or_min_u32(job->history_count, positions);
    builder->depth_limit = or_min_u32(job->depth_max, positions - builder->history_count);
    memcpy(builder->history, job->history + (job->history_count - builder->history_count),
           builder->history_count * sizeof *builder->history);
}

or_status_t or_build_make_tree(or_builder_t *builder, const uint32_t *chosen, uint32_t count,
                               or_token_tree_t *tree)
{
    uint32_t *node_of = builder->batch; // by guess; no longer needed for expanding
    uint32_t renumbered[OR_TREE_NODES_MAX + 1];
    node_of[OR_BUILD_ROOT] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const or_build_guess_t *guess = &builder->guesses[chosen[i]];
        or_status_t status =
            or_token_tree_add(tree, node_of[guess->parent], guess->token, &node_of[chosen[i]]);
        if (status != OR_OK) {
            return status;
        }
    }
    or_token_tree_depth_first(tree, renumbered);
    builder->tree_guesses[0] = OR_BUILD_ROOT;
    for (uint32_t i = 0; i < count; i++) {
        builder->tree_guesses[renumbered[node_of[chosen[i]]]] = chosen[i];
    }
    builder->tree_count = count;
    return OR_OK;
}

const or_draws_t *or_builder_draws(const or_builder_t *builder)
{
    return builder->tree_drawn ? &builder->draws : NULL;
}

uint64_t or_builder_passes(const or_builder_t *builder)
{
    return builder->passes;
}

uint32_t or_builder_slot(const or_builder_t *builder, uint32_t node)
{
    return builder->guesses[builder->tree_guesses[node]].slot;
}

void or_build_believe(const or_builder_t *builder, or_belief_t *belief, uint32_t guess,
                      int32_t token)
{
    const or_build_list_t *list = &builder->lists[guess];
    if (!builder->guesses[guess].expanded || builder->tree_drawn) {
        return; // nothing was believed about what follows it
    }
    uint32_t rank = 0;
    while (rank < list->count && list->ids[rank] != token) {
        rank++;
    }
    or_belief_learn(belief, list->scores, list->count, rank);
}

// Learn from the fate of a node's children, in the order they were put, up to the one that was taken.
static void calibrate_at(const or_builder_t *builder, or_calibration_t *calibration, uint32_t node,
                         int32_t token)
{
    uint32_t parent = builder->tree_guesses[node];
    uint32_t rank = 0;
    double mass = 1;
    bool taken = false;
    for (uint32_t i = node + 1; i <= builder->tree_count && !taken; i++) {
        const or_build_guess_t *child = &builder->guesses[builder->tree_guesses[i]];
        if (child->parent == parent) {
            double share = or_build_share(builder, builder->tree_guesses[i], &mass);
            taken = child->token == token;
            or_calibration_learn(calibration, rank++, share, taken);
        }
    }
}

void or_builder_learn(const or_builder_t *builder, or_belief_t *belief,
                      or_calibration_t *calibration, const uint32_t *accepted,
                      uint32_t accepted_count, int32_t next)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i <= accepted_count && node <= builder->tree_count; i++) {
        bool last = i == accepted_count;
        if (!last && accepted[i] > builder->tree_count) {
            return;
        }
        int32_t token = last ? next : builder->guesses[builder->tree_guesses[accepted[i]]].token;
        or_build_believe(builder, belief, builder->tree_guesses[node], token);
        if (calibration != NULL) {
            calibrate_at(builder, calibration, node, token);
        }
        node = last ? node : accepted[i];
    }
}
