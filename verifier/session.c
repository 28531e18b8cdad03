#include "verifier/session.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "proto/draft_check.h"

// Nodes are depth first: the likely path is a run of neighbours, so compute a few at once
#define LOGIT_ROWS 8u

struct or_judge {
    or_model_t *model;
    const or_vocab_t *vocab;
    uint32_t nodes_max;
    or_sampler_t *sampler;
    or_residual_t *residual;
    or_traversal_t *traversal;
    or_model_row_t *rows; // nodes_max + 1, and at least the model's
    uint32_t *row_of;     // [nodes_max + 1] the row of the pass that is this node's
    uint32_t *slots;
    or_acceptance_t acceptance;
    const or_vsession_t *session; // being judged
    float *logits;                // [LOGIT_ROWS][vocab]
    uint32_t logits_first, logits_count, logits_total;
    const or_clock_t *clock;
    int64_t model_ns; // spent in the model during this judgement
};

or_status_t or_judge_create(or_model_t *model, const or_vocab_t *vocab, const or_clock_t *clock,
                            uint32_t nodes_max, or_judge_t **judge_p)
{
    or_judge_t *judge = calloc(1, sizeof *judge);
    if (judge == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the verifier");
    }
    uint32_t rows = or_model_rows_max(model);
    rows = rows > nodes_max + 1 ? rows : nodes_max + 1;
    judge->model = model;
    judge->vocab = vocab;
    judge->clock = clock;
    judge->nodes_max = nodes_max;
    judge->rows = calloc(rows, sizeof *judge->rows);
    judge->row_of = calloc(nodes_max + 1, sizeof *judge->row_of);
    judge->slots = calloc(nodes_max + 1, sizeof *judge->slots);
    judge->logits = calloc((size_t)LOGIT_ROWS * or_vocab_size(vocab), sizeof *judge->logits);
    or_status_t status = or_sampler_create(or_vocab_size(vocab), &judge->sampler);
    if (status == OR_OK) {
        status = or_residual_create(or_vocab_size(vocab), &judge->residual);
    }
    if (status == OR_OK) {
        status = or_traversal_create(nodes_max, &judge->traversal);
    }
    if (status == OR_OK && (judge->rows == NULL || judge->row_of == NULL || judge->slots == NULL ||
                            judge->logits == NULL)) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for trees of %u nodes", nodes_max);
    }
    if (status != OR_OK) {
        or_judge_destroy(&judge);
        return status;
    }
    *judge_p = judge;
    return OR_OK;
}

void or_judge_destroy(or_judge_t **judge_p)
{
    or_judge_t *judge = *judge_p;
    if (judge == NULL) {
        return;
    }
    or_sampler_destroy(&judge->sampler);
    free(judge->logits);
    or_traversal_destroy(&judge->traversal);
    or_residual_destroy(&judge->residual);
    free(judge->slots);
    free(judge->row_of);
    free(judge->rows);
    free(judge);
    *judge_p = NULL;
}

// What a lossy rule is told to let pass.
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

static or_status_t check_terms(const or_open_session_t *open, const or_judge_t *judge)
{
    if (open->constraint_bytes > 0) {
        return or_fail(OR_ERR_UNSUPPORTED, "this verifier knows no constraints");
    }
    if (or_accept_rule_name(open->accept_rule) == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "this verifier does not know acceptance rule %u (it has %s)",
                       open->accept_rule, or_accept_rule_list());
    }
    or_status_t status =
        or_methods_check(open->draft_method, open->accept_rule, open->sampling.temperature);
    if (status == OR_OK) {
        status = check_lossy(open);
    }
    if (status != OR_OK) {
        return status;
    }
    return or_sampling_check(&open->sampling, or_vocab_size(judge->vocab));
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
    or_draws_store_fini(&session->draws);
    or_token_tree_destroy(&session->tree);
    or_token_log_fini(&session->log);
    or_terms_fini(&session->terms);
    memset(session, 0, sizeof *session);
}

// Where the token after the log begins, counted from the end of the prompt.
static or_noise_place_t place_after(const or_vsession_t *session, const or_judge_t *judge)
{
    const uint32_t *widths = or_vocab_widths(judge->vocab);
    or_noise_place_t place = {0, 0};
    for (uint32_t i = session->terms.open.prompt_length; i < session->log.length; i++) {
        place = or_noise_advance(place, widths[session->log.tokens[i]]);
    }
    return place;
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
    if (session->waiting && kept == length && session->log.length == length) {
        return OR_OK; // a late copy of what the waiting tree stands on
    }
    // The last token is the next round's root: its row always runs with the tree.
    uint32_t cached = session->log.length > 0 ? session->log.length - 1 : 0;
    or_kv_sequence_truncate(session->kv, kept < cached ? kept : cached);
    session->place = place_after(session, judge);
    session->round = prefix->round - 1;
    session->verdict = (or_verdict_t){0};
    session->waiting = false;
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
    digest = digest_numbers(message->law_index, message->law_index_count, digest);
    digest = digest_numbers(message->draw_order, message->draw_order_count, digest);
    for (uint32_t i = 0; i < message->law_count; i++) {
        digest = digest_numbers(message->laws[i].tokens, message->laws[i].count, digest);
        digest = digest_numbers(message->laws[i].weights, message->laws[i].count, digest);
    }
    return digest;
}

or_status_t or_vsession_tree(or_vsession_t *session, or_judge_t *judge,
                             const or_draft_tree_t *message, or_tree_fate_t *fate)
{
    uint64_t digest = digest_of(message);
    uint64_t known_round = session->waiting ? session->waiting_round : session->round;
    uint64_t known_digest = session->waiting ? session->waiting_digest : session->tree_digest;
    bool judged = !session->waiting && session->verdict.round == message->round;
    if (message->round < known_round) {
        *fate = OR_TREE_STALE;
        return OR_OK;
    }
    if (message->round == known_round && (session->waiting || judged)) {
        if (digest != known_digest) {
            return or_fail(OR_ERR_INVALID, "round %llu already has another tree",
                           (unsigned long long)message->round);
        }
        *fate = judged ? OR_TREE_REPEAT : OR_TREE_STALE;
        return OR_OK;
    }
    if (message->base_length != session->log.length || message->base_hash != session->log.hash ||
        session->log.length == 0) {
        return or_fail(OR_ERR_MISMATCH, "the tree of round %llu stands on %u tokens, we hold %u",
                       (unsigned long long)message->round, message->base_length,
                       session->log.length);
    }
    int32_t root = session->log.tokens[session->log.length - 1];
    or_accept_rule_t rule = (or_accept_rule_t)session->terms.open.accept_rule;
    or_status_t status =
        or_draft_tree_check(message, rule, root, or_vocab_size(judge->vocab), session->tree);
    if (status == OR_OK && or_accept_rule_uses_laws(rule) && message->count > 0) {
        const or_draws_t draws = or_draft_tree_draws(message);
        status = or_draws_store(&session->draws, &draws, message->count);
    }
    if (status != OR_OK) {
        return status == OR_ERR_FULL ? OR_ERR_INVALID : status;
    }
    const uint32_t *depths = or_token_tree_depths(session->tree);
    for (uint32_t i = 0; i <= message->count; i++) {
        if (session->log.length + depths[i] > or_model_context(judge->model)) {
            return or_fail(OR_ERR_INVALID, "the tree reaches beyond the context of %u",
                           or_model_context(judge->model));
        }
    }
    session->waiting = true;
    session->parked = false;
    session->waiting_round = message->round;
    session->waiting_digest = digest;
    *fate = OR_TREE_QUEUED;
    return OR_OK;
}

bool or_vsession_needs_prefill(const or_vsession_t *session)
{
    return session->log.length > 0 && or_kv_sequence_length(session->kv) < session->log.length - 1;
}

or_status_t or_vsession_prefill(or_vsession_t *session, or_judge_t *judge, uint32_t rows)
{
    uint32_t from = or_kv_sequence_length(session->kv);
    uint32_t left = session->log.length - 1 - from;
    uint32_t count = left < rows ? left : rows;
    for (uint32_t i = 0; i < count; i++) {
        judge->rows[i] = (or_model_row_t){session->kv, session->log.tokens[from + i], OR_KV_NO_SLOT,
                                          OR_KV_NO_SLOT};
    }
    return or_model_forward(judge->model, judge->rows, count);
}

static or_status_t row_logits(or_judge_t *judge, uint32_t row, const float **logits)
{
    if (row < judge->logits_first || row >= judge->logits_first + judge->logits_count) {
        uint32_t count = judge->logits_total - row;
        count = count < LOGIT_ROWS ? count : LOGIT_ROWS;
        int64_t started = or_clock_now(judge->clock);
        or_status_t status = or_model_logits(judge->model, row, count, judge->logits);
        judge->model_ns += or_clock_now(judge->clock) - started;
        if (status != OR_OK) {
            return status;
        }
        judge->logits_first = row;
        judge->logits_count = count;
    }
    *logits = judge->logits + (size_t)(row - judge->logits_first) * or_vocab_size(judge->vocab);
    return OR_OK;
}

// The acceptance rule asks node by node.
static or_status_t target_law(void *context, uint32_t node, const int32_t *history,
                              uint32_t history_count, or_law_t *law)
{
    or_judge_t *judge = context;
    const or_open_session_t *open = &judge->session->terms.open;
    const float *logits;
    or_status_t status = row_logits(judge, judge->row_of[node], &logits);
    if (status != OR_OK) {
        return status;
    }
    *law = or_sampler_law(judge->sampler, &open->sampling, logits, history, history_count);
    if (or_accept_rule_uses_laws(open->accept_rule) || or_accept_rule_is_lossy(open->accept_rule)) {
        or_sampler_weigh(judge->sampler, law);
    }
    return OR_OK;
}

static or_status_t run_tree(or_vsession_t *session, or_judge_t *judge)
{
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    const uint32_t *parents = or_token_tree_parents(session->tree);
    uint32_t rows = 0;
    // Node i's slot is i - 1; the root is a prefix row. A repeated sibling has the first one's row.
    judge->rows[rows] = (or_model_row_t){session->kv, tokens[0], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    judge->row_of[0] = rows++;
    for (uint32_t i = 1; i <= or_token_tree_count(session->tree); i++) {
        uint32_t first = or_token_tree_find_child(session->tree, parents[i], tokens[i]);
        if (first != i) {
            judge->row_of[i] = judge->row_of[first];
            continue;
        }
        uint32_t parent_slot = parents[i] == 0 ? OR_KV_NO_SLOT : parents[i] - 1;
        judge->rows[rows] = (or_model_row_t){session->kv, tokens[i], i - 1, parent_slot};
        judge->row_of[i] = rows++;
    }
    judge->logits_count = 0;
    judge->logits_first = 0;
    judge->logits_total = rows;
    return or_model_forward(judge->model, judge->rows, rows);
}

static or_status_t accept_tree(or_vsession_t *session, or_judge_t *judge)
{
    const or_open_session_t *open = &session->terms.open;
    or_accept_rule_t rule = (or_accept_rule_t)open->accept_rule;
    or_rng_key_t private_key = {open->private_key};
    or_rng_key_t noise_key = {rule == OR_ACCEPT_COUPLED ? open->noise_key : open->private_key};
    or_keyed_chooser_t chooser = or_keyed_chooser(private_key, session->waiting_round, noise_key,
                                                  or_vocab_noise_keys(judge->vocab));
    const or_accept_job_t job = {
        .tree = session->tree,
        .draws = &session->draws.draws,
        .law = target_law,
        .law_context = judge,
        .chooser = &chooser.chooser,
        .residual = judge->residual,
        .traversal = judge->traversal,
        .lenience = open->lenience,
        .typical_epsilon = open->typical_epsilon,
        .typical_delta = open->typical_delta,
        .history = session->log.tokens,
        .history_count = session->log.length,
        .place = session->place,
        .widths = or_vocab_widths(judge->vocab),
        .stop_ids = open->stop_ids,
        .stop_count = open->stop_count,
    };
    judge->session = session;
    return or_accept(rule, &job, &judge->acceptance);
}

// Make the accepted path and the token after it part of the prefix.
static or_status_t commit(or_vsession_t *session, or_judge_t *judge)
{
    const or_acceptance_t *acceptance = &judge->acceptance;
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    const uint32_t *widths = or_vocab_widths(judge->vocab);
    for (uint32_t i = 0; i < acceptance->accepted_count; i++) {
        judge->slots[i] = acceptance->accepted[i] - 1;
    }
    or_status_t status =
        or_kv_sequence_accept(session->kv, judge->slots, acceptance->accepted_count);
    if (status != OR_OK) {
        return status;
    }
    for (uint32_t i = 0; i <= acceptance->accepted_count; i++) {
        int32_t token =
            i < acceptance->accepted_count ? tokens[acceptance->accepted[i]] : acceptance->next;
        status = or_token_log_append(&session->log, &token, 1);
        if (status != OR_OK) {
            return status;
        }
        session->place = or_noise_advance(session->place, widths[token]);
    }
    return OR_OK;
}

or_status_t or_vsession_judge(or_vsession_t *session, or_judge_t *judge)
{
    uint32_t base_length = session->log.length;
    int64_t started = or_clock_now(judge->clock);
    or_status_t status = run_tree(session, judge);
    if (status != OR_OK) {
        return status;
    }
    judge->model_ns = or_clock_now(judge->clock) - started;
    status = accept_tree(session, judge);
    if (status == OR_OK) {
        status = commit(session, judge);
    }
    if (status != OR_OK) {
        // The prefix is as before; the root's row must run again.
        or_kv_sequence_truncate(session->kv, base_length - 1);
        return status;
    }
    int64_t total_ns = or_clock_now(judge->clock) - started;
    const or_acceptance_t *acceptance = &judge->acceptance;
    memcpy(session->accepted, acceptance->accepted,
           acceptance->accepted_count * sizeof *session->accepted);
    session->round = session->waiting_round;
    session->tree_digest = session->waiting_digest;
    session->waiting = false;
    session->verdict = (or_verdict_t){
        .round = session->round,
        .base_length = base_length,
        .accepted = session->accepted,
        .accepted_count = acceptance->accepted_count,
        .next = (uint32_t)acceptance->next,
        .finish = acceptance->stopped ? OR_FINISH_STOP : OR_FINISH_NONE,
        .forward_us = (uint32_t)(judge->model_ns / 1000),
        .accept_us = (uint32_t)((total_ns - judge->model_ns) / 1000),
        .hash = session->log.hash,
    };
    return OR_OK;
}
