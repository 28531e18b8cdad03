// Block verification (Sun et al. 2024, arXiv 2403.10444, algorithm 2): a chain judged as a whole, from
// its end to its beginning. It is traversal on a tree that never branches: there a node's chance is
// Z / (Z + 1 - a), the last one's is a, and the longest position that passes is taken.
#include "verifier/accept/accept_internal.h"

or_status_t or_accept_block(const or_accept_job_t *job, or_acceptance_t *acceptance)
{
    return or_accept_traversal(job, acceptance);
}
