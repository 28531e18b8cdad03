// slrs: string-level rejection sampling (Timor et al. 2025, arXiv 2502.05202, section 3). The drafter
// has another vocabulary; a guess x is the first of the target's tokens in its text.
//
//     psi(t) = P(the drafter's text begins with t), summed over all it could have written
//
//     if u < q(x) / psi(x): accept        else y ~ N[[q - psi]+]
//
// psi(x) travels with the guess. All of psi is asked for only if x was rejected, and only where q is not 0: if
// q is one token (temperature 0) that is all there is to draw. A part of the text that is no token of the target
// is a guess too, one that is always rejected.
#include "verifier/accept/accept_internal.h"

// y ~ M, what the residual holds.
static void finish(const or_accept_job_t *job, uint32_t node, or_acceptance_t *acceptance)
{
    or_choice_t at = {OR_RNG_RESIDUAL, node, 0};
    or_accept_take(job, node, or_residual_draw(job->residual, job->chooser, at), acceptance);
}

// Never where q is 0, not even if psi is so small that the product vanishes.
static bool accepts(const or_accept_job_t *job, uint32_t node, uint32_t child)
{
    or_choice_t at = {OR_RNG_ACCEPT, node, 0};
    uint32_t token = (uint32_t)or_token_tree_tokens(job->tree)[child];
    double numerator, denominator;
    or_residual_share(job->residual, token, &numerator, &denominator);
    denominator *= job->psi[child - 1];
    return numerator > 0 && job->chooser->bernoulli(job->chooser, at, numerator, denominator);
}

static or_status_t reject(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                          or_acceptance_t *acceptance)
{
    const double *psi;
    or_status_t status = job->string_dist(job->string_context, node, q, &psi);
    if (status != OR_OK) {
        return status;
    }
    or_residual_open_beyond(job->residual, q, psi);
    finish(job, node, acceptance);
    return OR_OK;
}

or_status_t or_accept_slrs(const or_accept_job_t *job, or_acceptance_t *acceptance)
{
    uint32_t node = 0;
    for (;;) {
        or_distribution_t q;
        or_status_t status = or_accept_distribution_at(job, node, &q);
        if (status != OR_OK) {
            return status;
        }
        uint32_t child = or_token_tree_first_child(job->tree, node);
        or_residual_open(job->residual, &q);
        if (child == 0) {
            finish(job, node, acceptance);
            return OR_OK;
        }
        if (!accepts(job, node, child)) {
            if (q.count > 1) {
                return reject(job, node, &q, acceptance);
            }
            finish(job, node, acceptance);
            return OR_OK;
        }
        if (or_accept_is_stop(job, or_token_tree_tokens(job->tree)[child])) {
            or_accept_take_stop(job, child, acceptance);
            return OR_OK;
        }
        node = child;
    }
}

or_status_t or_accept_resume(const or_accept_job_t *job, uint32_t node, or_acceptance_t *acceptance)
{
    or_distribution_t q;
    or_status_t status = or_accept_distribution_at(job, node, &q);
    return status == OR_OK ? reject(job, node, &q, acceptance) : status;
}
