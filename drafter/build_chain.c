// chain - one sequence: at each step the token with the best score, or one that is drawn (DESIGN.md
// section 6; Leviathan et al. 2023; Chen et al. 2023).
#include "drafter/builder_internal.h"

or_status_t or_build_chain(or_builder_t *builder, uint32_t *count)
{
    uint32_t length =
        builder->nodes_wanted < builder->depth_limit ? builder->nodes_wanted : builder->depth_limit;
    for (uint32_t guess = 1; guess <= length; guess++) {
        or_build_next(builder, guess, guess - 1); // every law has a first token
        builder->chosen[guess - 1] = guess;
        if (guess < length) {
            or_status_t status = or_build_expand(builder, &guess, 1);
            if (status != OR_OK) {
                return status;
            }
        }
    }
    *count = length;
    return OR_OK;
}
