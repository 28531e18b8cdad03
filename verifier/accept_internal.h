// accept_internal - what a rule is: how the target's token is drawn from its law at one node. The
// walk is shared (accept.c).
#pragma once

#include "verifier/accept.h"

typedef int32_t (*or_accept_choose_t)(const or_accept_job_t *job, const or_law_t *law,
                                      or_noise_place_t place);

int32_t or_accept_coupled_choose(const or_accept_job_t *job, const or_law_t *law,
                                 or_noise_place_t place);
int32_t or_accept_greedy_choose(const or_accept_job_t *job, const or_law_t *law,
                                or_noise_place_t place);
