// The greedy rule: the most probable token, lowest id on ties. Exact at temperature 0 only.
#include "verifier/accept_internal.h"

int32_t or_accept_greedy_choose(const or_accept_job_t *job, const or_law_t *law,
                                or_noise_place_t place)
{
    (void)job;
    (void)place;
    uint32_t best = 0;
    for (uint32_t i = 1; i < law->count; i++) {
        if (law->scores[i] > law->scores[best] ||
            (law->scores[i] == law->scores[best] && law->ids[i] < law->ids[best])) {
            best = i;
        }
    }
    return law->ids[best];
}
