// The parts that the rules for i.i.d. children share: probabilities at the distribution's tokens, and the residual.
#include "verifier/accept/accept_internal.h"

bool or_iid_open(or_iid_t *iid, const or_accept_job_t *job, uint32_t node,
                 const or_distribution_t *q)
{
    uint32_t child = or_token_tree_first_child(job->tree, node);
    iid->job = job;
    iid->node = node;
    iid->children = 0;
    or_residual_open(job->residual, q);
    if (child == 0) {
        return false;
    }
    iid->dist = job->draws->dists[job->draws->dist_index[child - 1]];
    iid->q_total = or_residual_split(job->residual, &iid->dist, iid->q);
    for (uint32_t i = 0; i < iid->dist.count; i++) {
        iid->q_total += iid->q[i];
    }
    for (uint32_t i = 0; i < iid->dist.count; i++) {
        iid->p[i] = (double)iid->dist.weights[i] / OR_DISTRIBUTION_TOTAL;
        iid->q[i] /= iid->q_total;
    }
    for (; child != 0; child = or_token_tree_next_sibling(job->tree, child)) {
        iid->children++;
    }
    return true;
}

uint32_t or_iid_place(const or_iid_t *iid, uint32_t child)
{
    return or_distribution_find(&iid->dist, (uint32_t)or_token_tree_tokens(iid->job->tree)[child]);
}

int32_t or_iid_draw_rest(const or_iid_t *iid, const double *taken)
{
    double left[OR_DISTRIBUTION_ENTRIES_MAX];
    for (uint32_t i = 0; i < iid->dist.count; i++) {
        left[i] = iid->q[i] > taken[i] ? iid->q[i] - taken[i] : 0; // rounding may take too much
    }
    or_residual_join(iid->job->residual, &iid->dist, left, 1 / iid->q_total);
    return or_iid_draw(iid);
}

int32_t or_iid_draw(const or_iid_t *iid)
{
    const or_accept_job_t *job = iid->job;
    return or_residual_draw(job->residual, job->chooser,
                            (or_choice_t){OR_RNG_RESIDUAL, iid->node, 0});
}
