// The coupled rule: the target's token is drawn with noise, whatever the tree holds (docs/design.md
// section 4). Under a key that the drafter shares it is `coupled`; under one that nobody else has,
// `naive`: the guesses then are just guesses.
#include "verifier/accept/accept_internal.h"

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place)
{
    (void)node;
    return job->chooser->token(job->chooser, q, place);
}

const or_accept_row_t or_accept_coupled = {.rule = OR_ACCEPT_COUPLED, .choose = choose};
// Its key is one that no drafter receives.
const or_accept_row_t or_accept_naive = {.rule = OR_ACCEPT_NAIVE, .choose = choose};
