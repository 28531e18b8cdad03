// recursive rejection: children drawn without replacement (RSD, Jeon et al. 2024, algorithm 6;
// multi-candidate speculative decoding, algorithm 2; DySpec, algorithm 3).
//
//     M = q, S = p.   For each child x:   if u < M(x) / S(x): accept
//                                         M = N[[M - S]+]    S(x) = 0, S = N[S]
//     all rejected:   y ~ M
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
        or_ratio_take_out(&ratio);
    }
    return or_ratio_draw(&ratio);
}

const or_accept_row_t or_accept_recursive = {.rule = OR_ACCEPT_RECURSIVE, .choose = choose};
