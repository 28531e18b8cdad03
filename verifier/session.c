#include "verifier/session.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "proto/session/draft_check.h"
#include "verifier/session_internal.h"

// Check the parameters of a lossy rule.
static or_status_t check_lossy(const or_open_session_t *open)
{
    if (open->accept_rule == OR_ACCEPT_LENIENT &&
        !(open->lenience >= 1 && open->lenience <= 1e6F)) {
        return or_fail(OR_ERR_INVALID, "a lenience of %g is not between 1 and 1e6",
                       (double)open->lenience);
    }
    if (open->accept_rule == OR_ACCEPT_TYPICAL &&
        !(open->typical_epsilon >= 0 && open->typical_epsilon <= 1 && open->typical_delta >= 0 &&
          open->typical_delta <= 1e6F)) {
        return or_fail(OR_ERR_INVALID,
                       "typical acceptance takes an epsilon between 0 and 1 and a delta between 0 "
                       "and 1e6, not %g and %g",
                       (double)open->typical_epsilon, (double)open->typical_delta);
    }
    return OR_OK;
}

static or_status_t check_logprobs(const or_open_session_t *open)
{
    if (open->logprobs > OR_LOGPROBS_MAX + 1) {
        return or_fail(OR_ERR_INVALID, "log-probabilities of the best %u tokens: %u are possible",
                       open->logprobs - 1, OR_LOGPROBS_MAX);
    }
    if (open->logprobs > 0 && open->accept_rule == OR_ACCEPT_SLRS) {
        return or_fail(OR_ERR_UNSUPPORTED, "slrs has no log-probabilities: its judgements wait for "
                                           "the drafter, and the logits do not");
    }
    return OR_OK;
}

static or_status_t check_terms(const or_open_session_t *open, const or_judge_t *judge)
{
    if (open->constraint_bytes > 0) {
        return or_fail(OR_ERR_UNSUPPORTED, "this verifier knows no constraints");
    }
    or_status_t status = or_terms_check(open);
    if (status != OR_OK) {
        return status;
    }
    if (open->outside_ids > OR_OUTSIDE_IDS_MAX) {
        return or_fail(OR_ERR_INVALID, "%u tokens outside the vocabulary: %u are possible",
                       open->outside_ids, OR_OUTSIDE_IDS_MAX);
    }
    if (or_accept_rule_name(open->accept_rule) == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "this verifier does not know acceptance rule %u (it has %s)",
                       open->accept_rule, or_accept_rule_list());
    }
    status = or_methods_check(open->draft_method, open->accept_rule, open->sampling.temperature);
    if (status == OR_OK) {
        status = check_lossy(open);
    }
    if (status == OR_OK) {
        status = check_logprobs(open);
    }
    if (status != OR_OK) {
        return status;
    }
    return or_sampling_check(&open->sampling, or_vocab_size(judge->vocab));
}

// Allocate what a waiting judgement must keep.
static or_status_t open_question(or_vsession_t *session, const or_judge_t *judge)
{
    if (session->terms.open.accept_rule != OR_ACCEPT_SLRS) {
        return OR_OK;
    }
    session->psi = calloc(judge->nodes_max + 1, sizeof *session->psi);
    if (session->psi == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for chains of %u nodes", judge->nodes_max);
    }
    return or_question_init(&session->question, or_vocab_size(judge->vocab));
}

or_status_t or_vsession_open(or_vsession_t *session, or_judge_t *judge, or_session_id_t id,
                             const or_open_session_t *open)
{
    or_status_t status = check_terms(open, judge);
    if (status != OR_OK) {
        return status;
    }
    or_vsession_t fresh = {.id = id};
    status = or_terms_copy(open, &fresh.terms);
    if (status == OR_OK) {
        // Acceptance writes the path's tokens behind the log's end, so it needs room for a whole
        // path.
        status =
            or_token_log_init(&fresh.log, or_model_context(judge->model) + judge->nodes_max + 2);
    }
    if (status == OR_OK) {
        status = or_token_tree_create(judge->nodes_max, &fresh.tree);
    }
    if (status == OR_OK) {
        fresh.row_of = calloc(judge->nodes_max + 1, sizeof *fresh.row_of);
        status = fresh.row_of != NULL ? OR_OK
                                      : or_fail(OR_ERR_NO_MEMORY, "no memory for trees of %u nodes",
                                                judge->nodes_max);
    }
    if (status == OR_OK) {
        status = open_question(&fresh, judge);
    }
    if (status == OR_OK && open->logprobs > 0) {
        status = or_logprobs_create(judge->nodes_max + 1, open->logprobs - 1,
                                    or_vocab_size(judge->vocab), &fresh.logprobs);
    }
    if (status == OR_OK) {
        status = or_model_open_sequence(judge->model, judge->nodes_max, &fresh.kv);
    }
    if (status != OR_OK) {
        or_vsession_close(&fresh);
        return status;
    }
    *session = fresh;
    return OR_OK;
}

void or_vsession_close(or_vsession_t *session)
{
    or_kv_sequence_close(&session->kv);
    or_question_fini(&session->question);
    or_logprobs_destroy(&session->logprobs);
    free(session->psi);
    or_draws_store_fini(&session->draws);
    free(session->row_of);
    or_token_tree_destroy(&session->tree);
    or_token_log_fini(&session->log);
    or_terms_fini(&session->terms);
    memset(session, 0, sizeof *session);
}

// Return the place where the token after the log begins, counted from the end of the prompt.
static or_noise_place_t place_after(const or_vsession_t *session, const or_judge_t *judge)
{
    const uint32_t *widths = or_vocab_widths(judge->vocab);
    or_noise_place_t place = {0, 0};
    for (uint32_t i = session->terms.open.prompt_length; i < session->log.length; i++) {
        place = or_noise_advance(place, widths[session->log.tokens[i]]);
    }
    return place;
}

// Give up the tree that waits. If it waits for psi, its root's row has run and must run again.
static void drop_tree(or_vsession_t *session)
{
    if (session->question.state != OR_QUESTION_NONE) {
        or_kv_sequence_truncate(session->kv, session->log.length - 1);
        session->question.state = OR_QUESTION_NONE;
    }
    session->waiting = false;
}

or_status_t or_vsession_prefix(or_vsession_t *session, or_judge_t *judge, const or_prefix_t *prefix)
{
    if (prefix->round <= session->round) {
        return OR_OK;
    }
    if ((uint64_t)prefix->start + prefix->count > or_model_context(judge->model)) {
        return or_fail(OR_ERR_FULL, "a prefix of %llu tokens does not fit the context of %u",
                       (unsigned long long)prefix->start + prefix->count,
                       or_model_context(judge->model));
    }
    uint32_t length = session->log.length;
    uint32_t kept = 0;
    or_status_t status =
        or_token_log_apply(&session->log, prefix, or_vocab_size(judge->vocab), &kept);
    if (status != OR_OK) {
        return status;
    }
    bool same = kept == length && session->log.length == length;
    if (session->waiting && prefix->round <= session->waiting_round && same) {
        return OR_OK; // a late copy of what the waiting tree stands on
    }
    drop_tree(session);
    // The last token is the next round's root: its row always runs with the tree.
    uint32_t cached = session->log.length > 0 ? session->log.length - 1 : 0;
    or_kv_sequence_truncate(session->kv, kept < cached ? kept : cached);
    session->place = place_after(session, judge);
    session->round = prefix->round - 1;
    session->verdict = (or_verdict_t){0};
    return OR_OK;
}

static uint64_t digest_numbers(const uint32_t *numbers, uint32_t count, uint64_t digest)
{
    return XXH64(numbers, count * sizeof *numbers, digest);
}

static uint64_t digest_of(const or_draft_tree_t *message)
{
    uint64_t digest = message->base_hash + message->base_length;
    digest = digest_numbers(message->tokens, message->count, digest);
    digest = digest_numbers(message->back, message->count, digest);
    digest = digest_numbers(message->dist_index, message->dist_index_count, digest);
    digest = digest_numbers(message->draw_order, message->draw_order_count, digest);
    for (uint32_t i = 0; i < message->dist_count; i++) {
        digest = digest_numbers(message->dists[i].tokens, message->dists[i].count, digest);
        digest = digest_numbers(message->dists[i].weights, message->dists[i].count, digest);
    }
    if (message->psi_count > 0) {
        digest = XXH64(message->psi, message->psi_count * sizeof *message->psi, digest);
    }
    return digest;
}

// Find the fate of a tree whose round is known.
static or_status_t find_round(const or_vsession_t *session, const or_draft_tree_t *message,
                              uint64_t digest, or_tree_fate_t *fate)
{
    uint64_t known_round = session->waiting ? session->waiting_round : session->round;
    uint64_t known_digest = session->waiting ? session->waiting_digest : session->tree_digest;
    bool judged = !session->waiting && session->verdict.round == message->round;
    *fate = OR_TREE_STALE;
    if (message->round < known_round) {
        return OR_OK;
    }
    if (message->round > known_round || !(session->waiting || judged)) {
        *fate = OR_TREE_QUEUED;
        return OR_OK;
    }
    if (digest != known_digest) {
        return or_fail(OR_ERR_INVALID, "round %llu already has another tree",
                       (unsigned long long)message->round);
    }
    if (judged) {
        *fate = OR_TREE_REPEAT;
    } else if (session->question.state == OR_QUESTION_ASKED) {
        *fate = OR_TREE_ASKS;
    }
    return OR_OK;
}

// Check a tree and keep it.
static or_status_t take_tree(or_vsession_t *session, const or_judge_t *judge,
                             const or_draft_tree_t *message)
{
    const or_open_session_t *open = &session->terms.open;
    or_accept_rule_t rule = (or_accept_rule_t)open->accept_rule;
    int32_t root = session->log.tokens[session->log.length - 1];
    uint32_t vocab_size = or_vocab_size(judge->vocab);
    or_status_t status =
        or_draft_tree_check(message, rule, root, vocab_size + open->outside_ids, session->tree);
    if (status == OR_OK) {
        status = or_draft_outside_check(message, session->tree, vocab_size);
    }
    if (status == OR_OK && or_accept_rule_uses_distributions(rule) && message->count > 0) {
        const or_draws_t draws = or_draft_tree_draws(message);
        status = or_draws_store(&session->draws, &draws, message->count);
    }
    if (status != OR_OK) {
        return status == OR_ERR_FULL ? OR_ERR_INVALID : status;
    }
    if (message->psi_count > 0) {
        memcpy(session->psi, message->psi, message->psi_count * sizeof *session->psi);
    }
    const uint32_t *depths = or_token_tree_depths(session->tree);
    for (uint32_t i = 0; i <= message->count; i++) {
        if (session->log.length + depths[i] > or_model_context(judge->model)) {
            return or_fail(OR_ERR_INVALID, "the tree reaches beyond the context of %u",
                           or_model_context(judge->model));
        }
    }
    return OR_OK;
}

or_status_t or_vsession_tree(or_vsession_t *session, or_judge_t *judge,
                             const or_draft_tree_t *message, or_tree_fate_t *fate)
{
    uint64_t digest = digest_of(message);
    or_tree_fate_t known;
    or_status_t status = find_round(session, message, digest, &known);
    if (status != OR_OK || known != OR_TREE_QUEUED) {
        *fate = known;
        return status;
    }
    if (message->base_length != session->log.length || message->base_hash != session->log.hash ||
        session->log.length == 0) {
        return or_fail(OR_ERR_MISMATCH, "the tree of round %llu stands on %u tokens, we hold %u",
                       (unsigned long long)message->round, message->base_length,
                       session->log.length);
    }
    drop_tree(session);
    status = take_tree(session, judge, message);
    if (status != OR_OK) {
        return status;
    }
    or_vsession_number_rows(session, or_vocab_size(judge->vocab));
    session->waiting = true;
    session->parked = false;
    session->waiting_round = message->round;
    session->waiting_digest = digest;
    session->model_ns = session->accept_ns = 0;
    *fate = OR_TREE_QUEUED;
    return OR_OK;
}

or_status_t or_vsession_psi(or_vsession_t *session, const or_psi_reply_t *reply)
{
    or_question_t *question = &session->question;
    if (question->state != OR_QUESTION_ASKED || reply->round != session->waiting_round) {
        return OR_OK;
    }
    uint32_t guess = or_token_tree_first_child(session->tree, question->node);
    uint32_t token = (uint32_t)or_token_tree_tokens(session->tree)[guess];
    return or_question_answer(question, reply, token, session->psi[guess - 1]);
}

or_psi_request_t or_vsession_psi_request(const or_vsession_t *session)
{
    or_psi_request_t request = or_question_request(&session->question);
    request.round = session->waiting_round;
    request.base_length = session->log.length;
    request.base_hash = session->log.hash;
    return request;
}
