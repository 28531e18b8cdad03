// chain - one sequence: at each step the token with the best score, or one that is drawn (docs/design.md
// section 6; Leviathan et al. 2023; Chen et al. 2023).
#include "drafter/build/builder_internal.h"

// Expand the guess. Only the first one is known before any other runs, so the rest is foreseen from there.
static or_status_t go_on(or_builder_t *builder, uint32_t guess)
{
    or_status_t status = guess == 1 ? or_build_foresee(builder, 1, 1) : OR_OK;
    return status == OR_OK ? or_build_expand(builder, &guess, 1) : status;
}

or_status_t or_build_chain(or_builder_t *builder, uint32_t *count)
{
    uint32_t length =
        builder->nodes_wanted < builder->depth_limit ? builder->nodes_wanted : builder->depth_limit;
    or_status_t status = OR_OK;
    builder->picked[0] = 1;
    for (uint32_t guess = 1; status == OR_OK && guess <= length; guess++) {
        or_build_next(builder, guess, guess - 1); // every distribution has a first token
        builder->chosen[guess - 1] = guess;
        builder->set_count = guess;
        status = guess < length ? go_on(builder, guess) : OR_OK;
    }
    or_build_forget_ahead(builder);
    *count = length;
    return status;
}
