// The coupled rule: the target's token is drawn with noise, whatever the tree holds (docs/design.md
// section 4). Under a key that the drafter shares it is `coupled`; under one that nobody else has,
// `naive`: the guesses then are just guesses.
#include "verifier/accept/accept_internal.h"

int32_t or_accept_coupled(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                          or_noise_place_t place)
{
    (void)node;
    return job->chooser->token(job->chooser, q, place);
}
