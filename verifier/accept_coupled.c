// The coupled rule: the law is sampled with the noise of DESIGN.md section 4, whatever the tree
// holds.
#include "verifier/accept_internal.h"

int32_t or_accept_coupled_choose(const or_accept_job_t *job, const or_law_t *law,
                                 or_noise_place_t place)
{
    return or_noise_argmax(job->noise_key, place, law->ids, law->scores, law->count,
                           job->token_keys);
}
