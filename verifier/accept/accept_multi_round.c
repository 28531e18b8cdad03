// multi-round rejection: children drawn with replacement (SpecInfer, Miao et al. 2023; multi-
// candidate speculative decoding, algorithm 1). As the recursive rule, but S = p stays as it is, and
// a token that was drawn twice is tried twice. Children of several models come each with its own S.
#include "verifier/accept/accept_internal.h"

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place)
{
    (void)place;
    or_ratio_t ratio;
    for (or_ratio_open(&ratio, job, node, q); ratio.child != 0; or_ratio_next(&ratio)) {
        if (or_ratio_accepts(&ratio)) {
            return or_ratio_token(&ratio);
        }
        or_ratio_reject(&ratio);
    }
    return or_ratio_draw(&ratio);
}

const or_accept_row_t or_accept_multi_round = {.rule = OR_ACCEPT_MULTI_ROUND, .choose = choose};
