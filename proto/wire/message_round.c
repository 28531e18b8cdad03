// What a round is made of: trees, verdicts, questions and answers on the way.
#include "proto/wire/message_codec.h"

static or_status_t put_dists(const or_draft_tree_t *from, Outrider__DraftTree *to,
                             or_message_scratch_t *scratch)
{
    if (from->dist_count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__Distribution *items =
        or_message_take_structs(scratch, from->dist_count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < from->dist_count; i++) {
        outrider__distribution__init(&items[i]);
        items[i].n_tokens = items[i].n_weights = from->dists[i].count;
        items[i].tokens = (uint32_t *)from->dists[i].tokens;
        items[i].weights = (uint32_t *)from->dists[i].weights;
    }
    to->n_dists = from->dist_count;
    to->dists = (Outrider__Distribution **)pointers;
    return OR_OK;
}

or_status_t or_message_put_draft_tree(const or_draft_tree_t *from, Outrider__DraftTree *to,
                                      or_message_scratch_t *scratch)
{
    outrider__draft_tree__init(to);
    to->round = from->round;
    to->parent_round = from->parent_round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->n_tokens = to->n_back = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->back = (uint32_t *)from->back;
    to->n_dist_index = from->dist_index_count;
    to->dist_index = (uint32_t *)from->dist_index;
    to->n_draw_order = from->draw_order_count;
    to->draw_order = (uint32_t *)from->draw_order;
    to->draft_us = from->draft_us;
    to->passes = from->passes;
    to->n_psi = from->psi_count;
    to->psi = (double *)from->psi;
    return put_dists(from, to, scratch);
}

static or_status_t get_dists(const Outrider__DraftTree *from, or_message_arena_t *arena,
                             or_draft_tree_t *to)
{
    if (from->n_dists == 0) {
        return OR_OK;
    }
    or_reduced_distribution_t *dists =
        or_message_take_array(arena, "distributions", from->n_dists, sizeof *dists);
    or_status_t status = dists != NULL ? OR_OK : OR_ERR_FORMAT;
    for (size_t i = 0; status == OR_OK && i < from->n_dists; i++) {
        const Outrider__Distribution *dist = from->dists[i];
        dists[i] =
            (or_reduced_distribution_t){dist->tokens, dist->weights, (uint32_t)dist->n_tokens};
        status = or_message_check_equal("a distribution's tokens and weights", dist->n_tokens,
                                        dist->n_weights);
    }
    if (status == OR_OK) {
        to->dists = dists;
        to->dist_count = (uint32_t)from->n_dists;
    }
    return status;
}

or_status_t or_message_get_draft_tree(const Outrider__DraftTree *from, or_message_arena_t *arena,
                                      or_draft_tree_t *to)
{
    to->round = from->round;
    to->parent_round = from->parent_round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->tokens = from->tokens;
    to->back = from->back;
    to->count = (uint32_t)from->n_tokens;
    to->dist_index = from->dist_index;
    to->dist_index_count = (uint32_t)from->n_dist_index;
    to->draw_order = from->draw_order;
    to->draw_order_count = (uint32_t)from->n_draw_order;
    to->draft_us = from->draft_us;
    to->passes = from->passes;
    to->psi = from->psi;
    to->psi_count = (uint32_t)from->n_psi;
    or_status_t status =
        or_message_check_equal("tree tokens and parents", from->n_tokens, from->n_back);
    if (status == OR_OK) {
        status = or_message_check_optional("distribution indices and tree tokens",
                                           from->n_dist_index, from->n_tokens);
    }
    if (status == OR_OK) {
        status = or_message_check_optional("draw order and tree tokens", from->n_draw_order,
                                           from->n_tokens);
    }
    if (status == OR_OK) {
        status = or_message_check_optional("psi and tree tokens", from->n_psi, from->n_tokens);
    }
    return status == OR_OK ? get_dists(from, arena, to) : status;
}

or_status_t or_message_put_logprobs(const or_token_logprob_t *from, uint32_t count,
                                    or_message_scratch_t *scratch, Outrider__TokenLogprob ***to,
                                    size_t *to_count)
{
    if (count == 0) {
        return OR_OK;
    }
    void **pointers;
    Outrider__TokenLogprob *items =
        or_message_take_structs(scratch, count, sizeof *items, &pointers);
    if (items == NULL) {
        return or_message_fail_memory();
    }
    for (uint32_t i = 0; i < count; i++) {
        const or_token_logprob_t *logprob = &from[i];
        outrider__token_logprob__init(&items[i]);
        items[i].token = logprob->token;
        items[i].logprob = logprob->logprob;
        items[i].n_top_tokens = items[i].n_top_logprobs = logprob->top_count;
        items[i].top_tokens = (uint32_t *)logprob->top_tokens;
        items[i].top_logprobs = (float *)logprob->top_logprobs;
    }
    *to = (Outrider__TokenLogprob **)pointers;
    *to_count = count;
    return OR_OK;
}

or_status_t or_message_get_logprobs(Outrider__TokenLogprob *const *from, size_t count,
                                    or_message_arena_t *arena, const or_token_logprob_t **to,
                                    uint32_t *to_count)
{
    if (count == 0) {
        return OR_OK;
    }
    or_token_logprob_t *logprobs =
        or_message_take_array(arena, "logprobs", count, sizeof *logprobs);
    or_status_t status = logprobs != NULL ? OR_OK : OR_ERR_FORMAT;
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        const Outrider__TokenLogprob *item = from[i];
        logprobs[i] = (or_token_logprob_t){.token = item->token,
                                           .logprob = item->logprob,
                                           .top_tokens = item->top_tokens,
                                           .top_logprobs = item->top_logprobs,
                                           .top_count = (uint32_t)item->n_top_tokens};
        status = or_message_check_equal("top tokens and logprobs", item->n_top_tokens,
                                        item->n_top_logprobs);
    }
    if (status == OR_OK) {
        *to = logprobs;
        *to_count = (uint32_t)count;
    }
    return status;
}

or_status_t or_message_put_verdict(const or_verdict_t *from, Outrider__Verdict *to,
                                   or_message_scratch_t *scratch)
{
    outrider__verdict__init(to);
    to->round = from->round;
    to->base_length = from->base_length;
    to->n_accepted = from->accepted_count;
    to->accepted = (uint32_t *)from->accepted;
    to->next = from->next;
    to->n_draws = from->draw_count;
    to->draws = (uint32_t *)from->draws;
    to->finish = from->finish;
    to->forward_us = from->forward_us;
    to->accept_us = from->accept_us;
    to->hash = from->hash;
    to->features = or_message_borrow_bytes(from->features, from->feature_bytes);
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_ahead = from->draft_ahead;
    to->reused = from->reused;
    return or_message_put_logprobs(from->logprobs, from->logprob_count, scratch, &to->logprobs,
                                   &to->n_logprobs);
}

or_status_t or_message_get_verdict(const Outrider__Verdict *from, or_message_arena_t *arena,
                                   or_verdict_t *to)
{
    to->round = from->round;
    to->base_length = from->base_length;
    to->accepted = from->accepted;
    to->accepted_count = (uint32_t)from->n_accepted;
    to->next = from->next;
    to->draws = from->draws;
    to->draw_count = (uint32_t)from->n_draws;
    to->finish = from->finish;
    to->forward_us = from->forward_us;
    to->accept_us = from->accept_us;
    to->hash = from->hash;
    to->features = from->features.data;
    to->feature_bytes = (uint32_t)from->features.len;
    to->draft_nodes = from->draft_nodes;
    to->draft_depth = from->draft_depth;
    to->draft_ahead = from->draft_ahead;
    to->reused = from->reused;
    or_status_t status = or_message_check_count("accepted nodes", from->n_accepted);
    if (status == OR_OK) {
        status = or_message_check_count("draws", from->n_draws);
    }
    if (status == OR_OK) {
        status = or_message_check_optional("logprobs and the verdict's tokens", from->n_logprobs,
                                           from->n_accepted + 1);
    }
    return status == OR_OK ? or_message_get_logprobs(from->logprobs, from->n_logprobs, arena,
                                                     &to->logprobs, &to->logprob_count)
                           : status;
}

void or_message_put_psi_request(const or_psi_request_t *from, Outrider__PsiRequest *to)
{
    outrider__psi_request__init(to);
    to->round = from->round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->n_tokens = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->node = from->node;
}

or_status_t or_message_get_psi_request(const Outrider__PsiRequest *from, or_psi_request_t *to)
{
    to->round = from->round;
    to->base_length = from->base_length;
    to->base_hash = from->base_hash;
    to->node = from->node;
    to->tokens = from->tokens;
    to->count = (uint32_t)from->n_tokens;
    return or_message_check_count("tokens", from->n_tokens);
}

void or_message_put_psi_reply(const or_psi_reply_t *from, Outrider__PsiReply *to)
{
    outrider__psi_reply__init(to);
    to->round = from->round;
    to->node = from->node;
    to->n_tokens = to->n_psi = from->count;
    to->tokens = (uint32_t *)from->tokens;
    to->psi = (double *)from->psi;
}

or_status_t or_message_get_psi_reply(const Outrider__PsiReply *from, or_psi_reply_t *to)
{
    to->round = from->round;
    to->node = from->node;
    to->tokens = from->tokens;
    to->psi = from->psi;
    to->count = (uint32_t)from->n_tokens;
    return or_message_check_equal("tokens and their psi", from->n_tokens, from->n_psi);
}
