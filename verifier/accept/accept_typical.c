// Typical acceptance (Medusa, Cai et al. 2024, section 2.3.2). Lossy: a guess that the target finds
// plausible enough passes, whatever it would have drawn.
//
//     x passes if q(x) > min(epsilon, delta exp(-H(q)))        H is q's entropy
//
// The longest path whose tokens all pass is accepted, the first in the tree if there are several;
// then y ~ q.
#include "common/base/math/math.h"
#include "verifier/accept/accept_internal.h"

// Return the weight above which a token passes: the threshold times the sum of all weights.
static double least_weight(const or_accept_job_t *job, const or_distribution_t *q)
{
    double total = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        total += q->weights[i];
    }
    double minus_entropy = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        double share = q->weights[i] / total;
        minus_entropy += share > 0 ? share * or_ln(share) : 0;
    }
    double unsure = job->typical_delta * or_exp(minus_entropy);
    return total * (unsure < job->typical_epsilon ? unsure : job->typical_epsilon);
}

static double weight_of(const or_distribution_t *q, int32_t token)
{
    for (uint32_t i = 0; i < q->count; i++) {
        if (q->ids[i] == token) {
            return q->weights[i];
        }
    }
    return 0;
}

static void test_children(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                          bool *passed)
{
    double least = least_weight(job, q);
    for (uint32_t child = or_token_tree_first_child(job->tree, node); child != 0;
         child = or_token_tree_next_sibling(job->tree, child)) {
        passed[child] = weight_of(q, or_token_tree_tokens(job->tree)[child]) > least;
    }
}

static bool ends(const or_accept_job_t *job, uint32_t node)
{
    return node != 0 && or_accept_is_stop(job, or_token_tree_tokens(job->tree)[node]);
}

static or_noise_place_t place_after(const or_accept_job_t *job, uint32_t node)
{
    // or_accept_distribution_at wrote the path behind the history.
    or_noise_place_t place = job->place;
    for (uint32_t i = 0; i < or_token_tree_depths(job->tree)[node]; i++) {
        place = or_noise_advance(place, job->widths[job->history[job->history_count + i]]);
    }
    return place;
}

static or_status_t judge(const or_accept_job_t *job, or_acceptance_t *acceptance)
{
    bool passed[OR_TREE_NODES_MAX + 1] = {true};
    const uint32_t *depths = or_token_tree_depths(job->tree);
    uint32_t best = 0;
    or_distribution_t q;
    for (uint32_t node = 0; node <= or_token_tree_count(job->tree); node++) {
        if (!passed[node]) {
            continue;
        }
        best = depths[node] > depths[best] ? node : best;
        if (or_token_tree_first_child(job->tree, node) != 0 && !ends(job, node)) {
            or_status_t status = or_accept_distribution_at(job, node, &q);
            if (status != OR_OK) {
                return status;
            }
            test_children(job, node, &q, passed);
        }
    }
    if (ends(job, best)) {
        or_accept_take_stop(job, best, acceptance);
        return OR_OK;
    }
    or_status_t status = or_accept_distribution_at(job, best, &q);
    if (status == OR_OK) {
        int32_t next = job->chooser->token(job->chooser, &q, place_after(job, best));
        or_accept_take(job, best, next, acceptance);
    }
    return status;
}

const or_accept_row_t or_accept_typical = {.rule = OR_ACCEPT_TYPICAL, .judge = judge};
