// The verifier's passes: a prefix into the cache, a tree and then a verdict.
#include <stdlib.h>
#include <string.h>

#include "verifier/session_internal.h"

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

bool or_vsession_needs_prefill(const or_vsession_t *session)
{
    return session->question.state == OR_QUESTION_NONE && session->log.length > 0 &&
           or_kv_sequence_length(session->kv) < session->log.length - 1;
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

static bool compares_probabilities(uint32_t rule)
{
    return or_accept_rule_uses_laws(rule) || or_accept_rule_is_lossy(rule) ||
           rule == OR_ACCEPT_SLRS;
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
    if (compares_probabilities(open->accept_rule)) {
        or_sampler_weigh(judge->sampler, law);
    }
    return OR_OK;
}

// The same of a judgement that goes on.
static or_status_t kept_law(void *context, uint32_t node, const int32_t *history,
                            uint32_t history_count, or_law_t *law)
{
    const or_judge_t *judge = context;
    (void)node;
    (void)history;
    (void)history_count;
    *law = or_question_law(&judge->session->question);
    return OR_OK;
}

static or_status_t string_law(void *context, uint32_t node, const or_law_t *q, const double **psi)
{
    const or_judge_t *judge = context;
    or_question_t *question = &judge->session->question;
    if (question->state != OR_QUESTION_ANSWERED) {
        or_question_ask(question, node, q);
        return OR_ERR_AGAIN;
    }
    *psi = question->psi;
    return OR_OK;
}

static or_status_t run_tree(or_vsession_t *session, or_judge_t *judge)
{
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    const uint32_t *parents = or_token_tree_parents(session->tree);
    uint32_t rows = 0;
    // Node i's slot is i - 1; the root is a prefix row. A repeated sibling has the first one's row, a
    // token that the target does not have none.
    judge->rows[rows] = (or_model_row_t){session->kv, tokens[0], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    judge->row_of[0] = rows++;
    for (uint32_t i = 1; i <= or_token_tree_count(session->tree); i++) {
        if ((uint32_t)tokens[i] >= or_vocab_size(judge->vocab)) {
            continue;
        }
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
    bool resumes = session->question.state == OR_QUESTION_ANSWERED;
    const or_open_session_t *open = &session->terms.open;
    or_accept_rule_t rule = (or_accept_rule_t)open->accept_rule;
    or_rng_key_t private_key = {open->private_key};
    or_rng_key_t noise_key = {rule == OR_ACCEPT_COUPLED ? open->noise_key : open->private_key};
    or_keyed_chooser_t chooser = or_keyed_chooser(private_key, session->waiting_round, noise_key,
                                                  or_vocab_noise_keys(judge->vocab));
    const or_accept_job_t job = {
        .tree = session->tree,
        .draws = &session->draws.draws,
        .law = resumes ? kept_law : target_law,
        .law_context = judge,
        .psi = session->psi,
        .string_law = string_law,
        .string_context = judge,
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
    return resumes ? or_accept_resume(&job, session->question.node, &judge->acceptance)
                   : or_accept(rule, &job, &judge->acceptance);
}

// Keep what was computed of the accepted path, unless the pages were taken while the judgement waited.
static or_status_t keep_path(or_vsession_t *session, or_judge_t *judge)
{
    const or_acceptance_t *acceptance = &judge->acceptance;
    if (or_kv_sequence_length(session->kv) < session->log.length) {
        return OR_OK;
    }
    for (uint32_t i = 0; i < acceptance->accepted_count; i++) {
        judge->slots[i] = acceptance->accepted[i] - 1;
    }
    return or_kv_sequence_accept(session->kv, judge->slots, acceptance->accepted_count);
}

// Make the accepted path and the token after it part of the prefix.
static or_status_t commit(or_vsession_t *session, or_judge_t *judge)
{
    const or_acceptance_t *acceptance = &judge->acceptance;
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    const uint32_t *widths = or_vocab_widths(judge->vocab);
    or_status_t status = keep_path(session, judge);
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

static void conclude(or_vsession_t *session, const or_judge_t *judge, uint32_t base_length)
{
    const or_acceptance_t *acceptance = &judge->acceptance;
    memcpy(session->accepted, acceptance->accepted,
           acceptance->accepted_count * sizeof *session->accepted);
    session->round = session->waiting_round;
    session->tree_digest = session->waiting_digest;
    session->waiting = false;
    session->question.state = OR_QUESTION_NONE;
    session->verdict = (or_verdict_t){
        .round = session->round,
        .base_length = base_length,
        .accepted = session->accepted,
        .accepted_count = acceptance->accepted_count,
        .next = (uint32_t)acceptance->next,
        .finish = acceptance->stopped ? OR_FINISH_STOP : OR_FINISH_NONE,
        .forward_us = (uint32_t)(session->model_ns / 1000),
        .accept_us = (uint32_t)(session->accept_ns / 1000),
        .hash = session->log.hash,
    };
}

static or_status_t judge_tree(or_vsession_t *session, or_judge_t *judge)
{
    or_status_t status = OR_OK;
    judge->model_ns = 0;
    if (session->question.state == OR_QUESTION_NONE) {
        int64_t started = or_clock_now(judge->clock);
        status = run_tree(session, judge);
        judge->model_ns = or_clock_now(judge->clock) - started;
    }
    if (status == OR_OK) {
        status = accept_tree(session, judge);
    }
    return status == OR_OK ? commit(session, judge) : status;
}

or_status_t or_vsession_judge(or_vsession_t *session, or_judge_t *judge)
{
    uint32_t base_length = session->log.length;
    int64_t started = or_clock_now(judge->clock);
    or_status_t status = judge_tree(session, judge);
    if (status != OR_OK && status != OR_ERR_AGAIN) {
        // The prefix is as before; the root's row must run again.
        or_kv_sequence_truncate(session->kv, base_length - 1);
        return status;
    }
    session->model_ns += judge->model_ns;
    session->accept_ns += or_clock_now(judge->clock) - started - judge->model_ns;
    if (status == OR_OK) {
        conclude(session, judge, base_length);
    }
    return status;
}
