// lenient: speculative sampling that lets the drafter be `lenience` times likelier than the target
// (Leviathan et al. 2023, appendix A.5). Lossy: what passes too often is never made up for.
//
//     if u < lenience q(x) / p(x): accept        else y ~ N[[q - p]+]
#include "verifier/accept/accept_internal.h"

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place)
{
    (void)place;
    or_ratio_t ratio;
    or_ratio_open(&ratio, job, node, q);
    ratio.lenience = job->lenience;
    if (ratio.child != 0) {
        if (or_ratio_accepts(&ratio)) {
            return or_ratio_token(&ratio);
        }
        or_ratio_reject(&ratio);
    }
    return or_ratio_draw(&ratio);
}

const or_accept_row_t or_accept_lenient = {.rule = OR_ACCEPT_LENIENT, .choose = choose};
