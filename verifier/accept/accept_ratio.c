// The parts that the ratio rules share: the children of a node, their distribution, the target's residual.
#include "verifier/accept/accept_internal.h"

static void take_dist(or_ratio_t *ratio)
{
    const or_draws_t *draws = ratio->job->draws;
    ratio->dist_index = draws->dist_index[ratio->child - 1];
    or_distribution_left_init(&ratio->s, &draws->dists[ratio->dist_index]);
}

void or_ratio_open(or_ratio_t *ratio, const or_accept_job_t *job, uint32_t node,
                   const or_distribution_t *q)
{
    ratio->job = job;
    ratio->node = node;
    ratio->tested = 0;
    ratio->lenience = 1;
    ratio->child = or_token_tree_first_child(job->tree, node);
    or_residual_open(job->residual, q);
    if (ratio->child != 0) {
        take_dist(ratio);
    }
}

int32_t or_ratio_token(const or_ratio_t *ratio)
{
    return or_token_tree_tokens(ratio->job->tree)[ratio->child];
}

static uint32_t place_in_dist(const or_ratio_t *ratio)
{
    return or_distribution_find(&ratio->s.dist, (uint32_t)or_ratio_token(ratio));
}

bool or_ratio_accepts(or_ratio_t *ratio)
{
    const or_accept_job_t *job = ratio->job;
    or_choice_t at = {OR_RNG_ACCEPT, ratio->node, ratio->tested};
    double numerator, denominator;
    or_residual_ratio(job->residual, &ratio->s, place_in_dist(ratio), &numerator, &denominator);
    return job->chooser->bernoulli(job->chooser, at, ratio->lenience * numerator, denominator);
}

void or_ratio_reject(or_ratio_t *ratio)
{
    or_residual_subtract(ratio->job->residual, &ratio->s);
}

void or_ratio_take_out(or_ratio_t *ratio)
{
    or_distribution_left_remove(&ratio->s, place_in_dist(ratio));
}

void or_ratio_next(or_ratio_t *ratio)
{
    ratio->child = or_token_tree_next_sibling(ratio->job->tree, ratio->child);
    ratio->tested++;
    if (ratio->child != 0 && ratio->job->draws->dist_index[ratio->child - 1] != ratio->dist_index) {
        take_dist(ratio); // another model's draw
    }
}

int32_t or_ratio_draw(const or_ratio_t *ratio)
{
    const or_accept_job_t *job = ratio->job;
    return or_residual_draw(job->residual, job->chooser,
                            (or_choice_t){OR_RNG_RESIDUAL, ratio->node, 0});
}
