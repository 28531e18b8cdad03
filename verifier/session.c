#include "verifier/session.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

// Nodes are depth first: the likely path is a run of neighbours, so compute a few at once
#define LOGIT_ROWS 8u

struct or_judge {
    or_model_t *model;
    const or_vocab_t *vocab;
    uint32_t nodes_max;
    or_sampler_t *sampler;
    or_model_row_t *rows; // nodes_max + 1, and at least the model's
    uint32_t *slots;
    or_acceptance_t acceptance;
    float *logits; // [LOGIT_ROWS][vocab]
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
    judge->slots = calloc(nodes_max + 1, sizeof *judge->slots);
    judge->logits = calloc((size_t)LOGIT_ROWS * or_vocab_size(vocab), sizeof *judge->logits);
    or_status_t status = or_sampler_create(or_vocab_size(vocab), &judge->sampler);
    if (status == OR_OK && (judge->rows == NULL || judge->slots == NULL || judge->logits == NULL)) {
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
    free(judge->slots);
    free(judge->rows);
    free(judge);
    *judge_p = NULL;
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

static uint64_t digest_of(const or_draft_tree_t *message)
{
    uint64_t digest = message->base_hash + message->base_length;
    digest = XXH64(message->tokens, message->count * sizeof *message->tokens, digest);
    return XXH64(message->back, message->count * sizeof *message->back, digest);
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
    or_status_t status =
        or_token_tree_set(session->tree, root, (const int32_t *)message->tokens, message->back,
                          message->count, or_vocab_size(judge->vocab), false);
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

// The acceptance rule asks node by node; row i of the pass is node i.
static or_status_t node_logits(void *context, uint32_t node, const float **logits)
{
    or_judge_t *judge = context;
    uint32_t vocab_size = or_vocab_size(judge->vocab);
    if (node < judge->logits_first || node >= judge->logits_first + judge->logits_count) {
        uint32_t count = judge->logits_total - node;
        count = count < LOGIT_ROWS ? count : LOGIT_ROWS;
        int64_t started = or_clock_now(judge->clock);
        or_status_t status = or_model_logits(judge->model, node, count, judge->logits);
        judge->model_ns += or_clock_now(judge->clock) - started;
        if (status != OR_OK) {
            return status;
        }
        judge->logits_first = node;
        judge->logits_count = count;
    }
    *logits = judge->logits + (size_t)(node - judge->logits_first) * vocab_size;
    return OR_OK;
}

static or_status_t run_tree(or_vsession_t *session, or_judge_t *judge)
{
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    const uint32_t *parents = or_token_tree_parents(session->tree);
    uint32_t count = or_token_tree_count(session->tree);
    // Node i's slot is i - 1; the root is a prefix row.
    judge->rows[0] = (or_model_row_t){session->kv, tokens[0], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t parent_slot = parents[i] == 0 ? OR_KV_NO_SLOT : parents[i] - 1;
        judge->rows[i] = (or_model_row_t){session->kv, tokens[i], i - 1, parent_slot};
    }
    judge->logits_count = 0;
    judge->logits_first = 0;
    judge->logits_total = count + 1;
    return or_model_forward(judge->model, judge->rows, count + 1);
}

static or_status_t accept_tree(or_vsession_t *session, or_judge_t *judge)
{
    const or_accept_job_t job = {
        .tree = session->tree,
        .logits = node_logits,
        .logits_context = judge,
        .sampler = judge->sampler,
        .sampling = &session->terms.open.sampling,
        .history = session->log.tokens,
        .history_count = session->log.length,
        .place = session->place,
        .noise_key = {session->terms.open.noise_key},
        .token_keys = or_vocab_noise_keys(judge->vocab),
        .widths = or_vocab_widths(judge->vocab),
        .stop_ids = session->terms.open.stop_ids,
        .stop_count = session->terms.open.stop_count,
    };
    return or_accept((or_accept_rule_t)session->terms.open.accept_rule, &job, &judge->acceptance);
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
