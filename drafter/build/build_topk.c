// topk - the n guesses of largest cumulative probability (EAGLE-2, Li et al. 2024, section 4.1;
// OPT-Tree, Wang et al. 2024, algorithm 1).
//
// That is the coupled tree for a drafter that shares no noise with the target and believes in its
// own probabilities as they are: the builder's lists are without noise and tau is 1.
#include "drafter/build/builder_internal.h"

or_status_t or_build_topk(or_builder_t *builder, uint32_t *count)
{
    return or_build_coupled(builder, count);
}
