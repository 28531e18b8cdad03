#include "drafter/strings/session_strings.h"

#include <stdlib.h>
#include <string.h>

static uint32_t depth_of(const or_open_session_t *open)
{
    return open->draft_depth < open->draft_nodes ? open->draft_depth : open->draft_nodes;
}

or_status_t or_dstrings_open(or_dstrings_t *strings, const or_open_session_t *open,
                             const or_vocab_t *vocab, or_targets_t *targets)
{
    *strings = (or_dstrings_t){0};
    if (open->accept_rule != OR_ACCEPT_SLRS) {
        return OR_OK;
    }
    strings->target = or_targets_take(targets, open->target_hash);
    if (strings->target == NULL) {
        return or_fail(OR_ERR_NOT_FOUND, "the target's vocabulary is not here yet");
    }
    const or_token_trie_t *trie = strings->target->trie;
    // The coordinator refuses it too. But a request for too much must not keep us from the others.
    or_status_t status = or_string_cost_check(&strings->target->cost, open->distribution_entries);
    if (status == OR_OK) {
        status = or_token_tree_create(depth_of(open), &strings->chain);
    }
    return status == OR_OK ? or_strings_create(vocab, strings->target->pair->to_target, trie,
                                               depth_of(open), &strings->strings)
                           : status;
}

void or_dstrings_close(or_dstrings_t *strings)
{
    or_strings_destroy(&strings->strings);
    or_token_tree_destroy(&strings->chain);
    or_target_release(&strings->target);
    free(strings->question_tokens);
    *strings = (or_dstrings_t){0};
}

uint32_t or_dstrings_nodes(const or_dstrings_t *strings, const or_open_session_t *open)
{
    return strings->strings != NULL ? or_strings_nodes(strings->target->trie, depth_of(open))
                                    : open->draft_nodes;
}

or_status_t or_dstrings_take_chain(or_dstrings_t *strings, bool drawn)
{
    if (strings->strings == NULL) {
        return OR_OK;
    }
    or_token_tree_reset(strings->chain, OR_TOKEN_NONE);
    return drawn ? or_strings_fill(strings->strings, strings->chain) : OR_OK;
}

or_status_t or_dstrings_ask(or_dstrings_t *strings, const or_psi_request_t *request)
{
    size_t bytes = request->count * sizeof *strings->question_tokens;
    uint32_t *tokens = realloc(strings->question_tokens, bytes + 1);
    if (tokens == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a question about %u tokens",
                       request->count);
    }
    if (bytes > 0) {
        memcpy(tokens, request->tokens, bytes);
    }
    strings->question_tokens = tokens;
    strings->question_count = request->count;
    strings->question_node = request->node;
    strings->question_round = request->round;
    return OR_OK;
}
