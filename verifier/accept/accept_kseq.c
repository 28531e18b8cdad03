// K-SEQ: K i.i.d. children, all judged by one ratio (SpecTr, Sun et al. 2023, algorithm 2).
//
//     for each child x:   if u < q(x) / (g p(x)): accept
//     all rejected:       y ~ N[q - min(p, q / g) f]        f = (1 - (1 - b)^K) / b
//
// b = sum min(p, q / g) is the chance of one child. What is accepted as x is min(p, q / g) f, which
// must not be more than q: any g >= f will do, and the least one, g = f, accepts most. f is between
// 1 and K, so g is. f is summed as the series 1 + (1 - b) + ... + (1 - b)^(K - 1).
#include "verifier/accept/accept_internal.h"

#define STEPS 64u // halvings of [1, K]

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double chance_of_one(const or_iid_t *iid, double gamma)
{
    double chance = 0;
    for (uint32_t i = 0; i < iid->dist.count; i++) {
        chance += least(iid->p[i], iid->q[i] / gamma);
    }
    return least(chance, 1);
}

static double share_of_all(const or_iid_t *iid, double gamma)
{
    double misses = 1 - chance_of_one(iid, gamma);
    double power = 1;
    double sum = 0;
    for (uint32_t i = 0; i < iid->children; i++) {
        sum += power;
        power *= misses;
    }
    return sum;
}

// Find the least g from above, so that g >= f whatever rounds.
static double optimal_gamma(const or_iid_t *iid)
{
    double low = 1;
    double high = iid->children;
    if (share_of_all(iid, low) <= low) {
        return low;
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        double middle = low + (high - low) / 2;
        if (share_of_all(iid, middle) > middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place)
{
    (void)place;
    or_iid_t iid;
    if (!or_iid_open(&iid, job, node, q)) {
        return or_iid_draw(&iid);
    }
    double gamma = optimal_gamma(&iid);
    uint32_t tested = 0;
    for (uint32_t child = or_token_tree_first_child(job->tree, node); child != 0;
         child = or_token_tree_next_sibling(job->tree, child)) {
        or_choice_t at = {OR_RNG_ACCEPT, node, tested++};
        uint32_t x = or_iid_place(&iid, child);
        if (job->chooser->bernoulli(job->chooser, at, iid.q[x], gamma * iid.p[x])) {
            return or_token_tree_tokens(job->tree)[child];
        }
    }
    double share = share_of_all(&iid, gamma);
    double taken[OR_DISTRIBUTION_ENTRIES_MAX];
    for (uint32_t i = 0; i < iid.dist.count; i++) {
        taken[i] = least(iid.p[i], iid.q[i] / gamma) * share;
    }
    return or_iid_draw_rest(&iid, taken);
}

const or_accept_row_t or_accept_kseq = {.rule = OR_ACCEPT_KSEQ, .choose = choose};
