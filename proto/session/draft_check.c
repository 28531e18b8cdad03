#include "proto/session/draft_check.h"

or_draws_t or_draft_tree_draws(const or_draft_tree_t *message)
{
    return (or_draws_t){message->dist_index, message->draw_order, message->dists,
                        message->dist_count};
}

static or_status_t check_draws(const or_draft_tree_t *message, or_accept_rule_t rule,
                               uint32_t vocab_size, const or_token_tree_t *tree)
{
    if (message->dist_index_count != message->count ||
        message->draw_order_count != message->count) {
        return or_fail(OR_ERR_INVALID,
                       "rule %s needs the distribution and the order of every node's draw",
                       or_accept_rule_name(rule));
    }
    or_draws_t draws = or_draft_tree_draws(message);
    return or_draws_check(&draws, tree, rule, vocab_size);
}

static or_status_t check_strings(const or_draft_tree_t *message, const or_token_tree_t *tree)
{
    if (message->psi_count != message->count) {
        return or_fail(OR_ERR_INVALID, "rule slrs needs the psi of every node");
    }
    for (uint32_t node = 1; node <= message->count; node++) {
        double psi = message->psi[node - 1];
        if (!(psi >= 0 && psi <= 1)) {
            return or_fail(OR_ERR_INVALID, "node %u has psi %g, which is no probability", node,
                           psi);
        }
        if (or_token_tree_parents(tree)[node] != node - 1) {
            return or_fail(OR_ERR_INVALID,
                           "node %u does not follow node %u: rule slrs is for chains", node,
                           node - 1);
        }
    }
    return OR_OK;
}

static or_status_t check_for_rule(const or_draft_tree_t *message, or_accept_rule_t rule,
                                  uint32_t vocab_size, const or_token_tree_t *tree)
{
    if (rule == OR_ACCEPT_SLRS) {
        return check_strings(message, tree);
    }
    if (message->psi_count > 0) {
        return or_fail(OR_ERR_INVALID, "psi is for rule slrs, the session's is %s",
                       or_accept_rule_name(rule));
    }
    if (message->count > 0 && or_accept_rule_uses_distributions(rule)) {
        return check_draws(message, rule, vocab_size, tree);
    }
    return OR_OK;
}

or_status_t or_draft_tree_check(const or_draft_tree_t *message, or_accept_rule_t rule, int32_t root,
                                uint32_t vocab_size, or_token_tree_t *tree)
{
    or_status_t status =
        or_token_tree_set(tree, root, (const int32_t *)message->tokens, message->back,
                          message->count, vocab_size, or_accept_rule_counts_repeats(rule));
    if (status != OR_OK) {
        return status;
    }
    status = check_for_rule(message, rule, vocab_size, tree);
    if (status != OR_OK) {
        or_token_tree_reset(tree, root);
    }
    return status;
}

or_status_t or_draft_outside_check(const or_draft_tree_t *message, const or_token_tree_t *tree,
                                   uint32_t vocab_size)
{
    const uint32_t *parents = or_token_tree_parents(tree);
    for (uint32_t node = 1; node <= message->count; node++) {
        uint32_t parent = parents[node];
        if (parent > 0 && message->tokens[parent - 1] >= vocab_size) {
            return or_fail(OR_ERR_INVALID,
                           "node %u follows node %u, a token that the target does not have", node,
                           parent);
        }
        if (message->tokens[node - 1] < vocab_size && message->psi_count > 0 &&
            message->psi[node - 1] == 0) {
            return or_fail(OR_ERR_INVALID, "node %u has psi 0: it could not have been drawn", node);
        }
    }
    return OR_OK;
}
