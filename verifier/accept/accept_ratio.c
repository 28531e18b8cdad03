// The ratio rules: children are tested one after the other, each by what is left of the target's distribution beside what
// is left of the one that it was drawn from.
//
//     M = q, S = p.   For each child x:   if u < lenience M(x) / S(x): accept
//                                         M = N[[M - S]+]
//                                         without replacement: S(x) = 0, S = N[S]
//     all rejected:   y ~ M
//
//     sps           one child (Leviathan et al. 2023; Chen et al. 2023)
//     lenient       the same, with a drafter that may be `lenience` times likelier than the target (Leviathan et al. 2023,
//                   appendix A.5). Lossy: what passes too often is never made up for
//     multi-round   children drawn with replacement (SpecInfer, Miao et al. 2024; multi-candidate speculative decoding,
//                   algorithm 1): a token that was drawn twice is tried twice. Children of several models come each with
//                   its own S
//     recursive     children drawn without replacement (RSD, Jeon et al. 2024, algorithm 6; multi-candidate speculative
//                   decoding, algorithm 2; DySpec, algorithm 3)
#include "verifier/accept/accept_internal.h"

typedef struct {
    double lenience; // 1 for lossless rules
    bool one_child;
    bool without_replacement;
} rule_t;

// The state at a node; the residual holds M.
typedef struct {
    const or_accept_job_t *job;
    uint32_t node;
    uint32_t child;      // x; 0: none is left
    uint32_t tested;     // number of children before x
    uint32_t dist_index; // index of x's distribution
    or_distribution_left_t s;
} ratio_t;

static void take_dist(ratio_t *ratio)
{
    const or_draws_t *draws = ratio->job->draws;
    ratio->dist_index = draws->dist_index[ratio->child - 1];
    or_distribution_left_init(&ratio->s, &draws->dists[ratio->dist_index]);
}

static int32_t token_of(const ratio_t *ratio)
{
    return or_token_tree_tokens(ratio->job->tree)[ratio->child];
}

static uint32_t place_in_dist(const ratio_t *ratio)
{
    return or_distribution_find(&ratio->s.dist, (uint32_t)token_of(ratio));
}

static bool accepts(const ratio_t *ratio, double lenience)
{
    const or_accept_job_t *job = ratio->job;
    or_choice_t at = {OR_RNG_ACCEPT, ratio->node, ratio->tested};
    double numerator, denominator;
    or_residual_ratio(job->residual, &ratio->s, place_in_dist(ratio), &numerator, &denominator);
    return job->chooser->bernoulli(job->chooser, at, lenience * numerator, denominator);
}

static void go_to_next(ratio_t *ratio)
{
    ratio->child = or_token_tree_next_sibling(ratio->job->tree, ratio->child);
    ratio->tested++;
    if (ratio->child != 0 && ratio->job->draws->dist_index[ratio->child - 1] != ratio->dist_index) {
        take_dist(ratio); // another model's draw
    }
}

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      rule_t rule)
{
    ratio_t ratio; // its tables are filled where they are needed
    ratio.job = job;
    ratio.node = node;
    ratio.tested = 0;
    ratio.child = or_token_tree_first_child(job->tree, node);
    or_residual_open(job->residual, q);
    if (ratio.child != 0) {
        take_dist(&ratio);
    }
    while (ratio.child != 0 && !(rule.one_child && ratio.tested > 0)) {
        if (accepts(&ratio, rule.lenience)) {
            return token_of(&ratio);
        }
        or_residual_subtract(job->residual, &ratio.s);
        if (rule.without_replacement) {
            or_distribution_left_remove(&ratio.s, place_in_dist(&ratio));
        }
        go_to_next(&ratio);
    }
    return or_residual_draw(job->residual, job->chooser, (or_choice_t){OR_RNG_RESIDUAL, node, 0});
}

static int32_t choose_sps(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                          or_noise_place_t place)
{
    (void)place;
    return choose(job, node, q, (rule_t){.lenience = 1, .one_child = true});
}

static int32_t choose_lenient(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                              or_noise_place_t place)
{
    (void)place;
    return choose(job, node, q, (rule_t){.lenience = job->lenience, .one_child = true});
}

static int32_t choose_multi_round(const or_accept_job_t *job, uint32_t node,
                                  const or_distribution_t *q, or_noise_place_t place)
{
    (void)place;
    return choose(job, node, q, (rule_t){.lenience = 1});
}

static int32_t choose_recursive(const or_accept_job_t *job, uint32_t node,
                                const or_distribution_t *q, or_noise_place_t place)
{
    (void)place;
    return choose(job, node, q, (rule_t){.lenience = 1, .without_replacement = true});
}

const or_accept_row_t or_accept_sps = {.rule = OR_ACCEPT_SPS, .choose = choose_sps};
const or_accept_row_t or_accept_lenient = {.rule = OR_ACCEPT_LENIENT, .choose = choose_lenient};
const or_accept_row_t or_accept_multi_round = {.rule = OR_ACCEPT_MULTI_ROUND,
                                               .choose = choose_multi_round};
const or_accept_row_t or_accept_recursive = {.rule = OR_ACCEPT_RECURSIVE,
                                             .choose = choose_recursive};
