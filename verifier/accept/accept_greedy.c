// The greedy rule: the most probable token, lowest id on ties. Exact at temperature 0 only.
#include "verifier/accept/accept_internal.h"

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place)
{
    (void)job;
    (void)node;
    (void)place;
    uint32_t best = 0;
    for (uint32_t i = 1; i < q->count; i++) {
        if (q->scores[i] > q->scores[best] ||
            (q->scores[i] == q->scores[best] && q->ids[i] < q->ids[best])) {
            best = i;
        }
    }
    return q->ids[best];
}

const or_accept_row_t or_accept_greedy = {.rule = OR_ACCEPT_GREEDY, .choose = choose};
