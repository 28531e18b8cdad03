// ngram - prompt lookup (common/decode/prompt_lookup.h). No model.
#include "common/decode/prompt_lookup.h"
#include "drafter/build/builder_internal.h"

or_status_t or_build_ngram(or_builder_t *builder, uint32_t *count)
{
    or_lookup_guess_t guesses[OR_TREE_NODES_MAX];
    const or_lookup_t lookup = {.text = builder->job->history,
                                .count = builder->job->history_count,
                                .map = builder->job->map,
                                .nodes_max = builder->nodes_wanted,
                                .depth_max = builder->depth_limit};
    *count = or_prompt_lookup(&lookup, guesses);
    for (uint32_t i = 0; i < *count; i++) { // the builder numbers guesses alike: 0 is the root
        builder->guesses[i + 1] = (or_build_guess_t){.token = guesses[i].token,
                                                     .parent = guesses[i].parent,
                                                     .depth = guesses[i].depth,
                                                     .slot = OR_KV_NO_SLOT};
        builder->chosen[i] = i + 1;
    }
    return OR_OK;
}
