#include "proto/draft_check.h"

or_draws_t or_draft_tree_draws(const or_draft_tree_t *message)
{
    return (or_draws_t){message->law_index, message->draw_order, message->laws, message->law_count};
}

static or_status_t check_draws(const or_draft_tree_t *message, or_accept_rule_t rule,
                               uint32_t vocab_size, const or_token_tree_t *tree)
{
    if (message->law_index_count != message->count || message->draw_order_count != message->count) {
        return or_fail(OR_ERR_INVALID, "rule %s needs the law and the order of every node's draw",
                       or_accept_rule_name(rule));
    }
    or_draws_t draws = or_draft_tree_draws(message);
    return or_draws_check(&draws, tree, rule, vocab_size);
}

or_status_t or_draft_tree_check(const or_draft_tree_t *message, or_accept_rule_t rule, int32_t root,
                                uint32_t vocab_size, or_token_tree_t *tree)
{
    or_status_t status =
        or_token_tree_set(tree, root, (const int32_t *)message->tokens, message->back,
                          message->count, vocab_size, or_accept_rule_counts_repeats(rule));
    if (status == OR_OK && message->count > 0 && or_accept_rule_uses_laws(rule)) {
        status = check_draws(message, rule, vocab_size, tree);
        if (status != OR_OK) {
            or_token_tree_reset(tree, root);
        }
    }
    return status;
}
