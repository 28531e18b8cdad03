// sequoia - the tree that is best on average where the child of rank r is accepted with probability
// a_r wherever it stands (Sequoia, Chen et al. 2024, section 3.1).
//
//     a = .6 .2 .1     n = 5:    .6 ─┬─ .36 ── .216        products along paths; the five largest
//                                .2  └─ .12
//
// Largest products first gives their optimum of each size, which the paper finds by dynamic
// programming: a parent weighs more than its children, an earlier sibling no less than a later one.
// The tree is planned before anything is drawn; where a distribution has fewer tokens than planned the rest
// is left out. Acceptances are those measured in earlier rounds.
#include "drafter/build/builder_internal.h"

#define NOT_THERE UINT32_MAX

typedef struct {
    uint32_t parent; // in the plan, 0 the root
    uint32_t depth;
    uint32_t children; // planned so far
    double weight;     // product of the acceptances on its path
    uint32_t guess;    // that it became
} plan_t;

// Set the acceptance of each rank: the probability that this child is taken and none before it. It never exceeds the
// one before.
static void rank_acceptances(const or_calibration_t *calibration, double *acceptances)
{
    double none_before = 1;
    for (uint32_t rank = 0; rank < OR_CALIBRATION_RANKS; rank++) {
        double taken = or_calibration_rank(calibration, rank);
        double acceptance = none_before * taken;
        double most = rank > 0 ? acceptances[rank - 1] : 1;
        acceptances[rank] = acceptance < most ? acceptance : most;
        none_before *= 1 - taken;
    }
}

static uint32_t plan_tree(const or_builder_t *builder, plan_t *plan)
{
    double acceptances[OR_CALIBRATION_RANKS];
    rank_acceptances(builder->job->calibration, acceptances);
    plan[0] = (plan_t){.weight = 1, .guess = OR_BUILD_ROOT};
    for (uint32_t count = 0; count < builder->nodes_wanted; count++) {
        double best_weight = 0;
        uint32_t best = 0;
        for (uint32_t i = 0; i <= count; i++) {
            bool open =
                plan[i].depth < builder->depth_limit && plan[i].children < OR_CALIBRATION_RANKS;
            double weight = open ? plan[i].weight * acceptances[plan[i].children] : 0;
            if (weight > best_weight) {
                best_weight = weight;
                best = i;
            }
        }
        if (best_weight == 0) {
            return count;
        }
        plan[best].children++;
        plan[count + 1] = (plan_t){.parent = best,
                                   .depth = plan[best].depth + 1,
                                   .weight = best_weight,
                                   .guess = NOT_THERE};
    }
    return builder->nodes_wanted;
}

// Add the guesses that were planned at `depth`; return how many of them are to be expanded.
static uint32_t take_level(or_builder_t *builder, plan_t *plan, uint32_t planned, uint32_t depth,
                           uint32_t *count)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i <= planned; i++) {
        uint32_t parent = plan[plan[i].parent].guess;
        uint32_t guess = *count + 1;
        if (plan[i].depth != depth || parent == NOT_THERE ||
            !or_build_next(builder, guess, parent)) {
            continue;
        }
        plan[i].guess = guess;
        builder->chosen[(*count)++] = guess;
        if (plan[i].children > 0) {
            builder->batch[found++] = guess;
        }
    }
    return found;
}

or_status_t or_build_sequoia(or_builder_t *builder, uint32_t *count)
{
    plan_t plan[OR_TREE_NODES_MAX + 1];
    uint32_t planned = plan_tree(builder, plan);
    or_status_t status = OR_OK;
    *count = 0;
    for (uint32_t depth = 1; status == OR_OK; depth++) {
        uint32_t found = take_level(builder, plan, planned, depth, count);
        if (found == 0) {
            break;
        }
        status = or_build_expand(builder, builder->batch, found);
    }
    return status;
}
