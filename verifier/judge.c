// The verifier's judgements: after a pass the acceptance rule decides which part of a tree is kept.
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
    judge->model = model;
    judge->vocab = vocab;
    judge->clock = clock;
    judge->nodes_max = nodes_max;
    judge->slots = calloc(nodes_max + 1, sizeof *judge->slots);
    or_status_t status =
        judge->slots != NULL
            ? OR_OK
            : or_fail(OR_ERR_NO_MEMORY, "no memory for trees of %u nodes", nodes_max);
    if (status == OR_OK) {
        status = or_sampler_create(or_vocab_size(vocab), &judge->sampler);
    }
    if (status == OR_OK) {
        status = or_residual_create(or_vocab_size(vocab), &judge->residual);
    }
    if (status == OR_OK) {
        status = or_traversal_create(nodes_max, &judge->traversal);
    }
    if (status == OR_OK) {
        status = or_head_create(model, clock, &judge->head);
    }
    if (status == OR_OK) {
        status = or_gpu_rejection_create(model, or_vocab_size(vocab), nodes_max, &judge->rejection);
    }
    if (status == OR_OK) {
        status = or_model_set_noise_keys(model, or_vocab_noise_keys(vocab), or_vocab_size(vocab));
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
    or_gpu_rejection_destroy(&judge->rejection);
    or_head_destroy(&judge->head);
    or_traversal_destroy(&judge->traversal);
    or_residual_destroy(&judge->residual);
    or_sampler_destroy(&judge->sampler);
    free(judge->slots);
    free(judge);
    *judge_p = NULL;
}

void or_judge_renew(or_judge_t *judge, uint32_t rows)
{
    or_head_renew(judge->head, rows);
}

int64_t or_judge_head_ns(const or_judge_t *judge)
{
    return or_head_spent_ns(judge->head) + judge->device_ns;
}

static bool compares_probabilities(uint32_t rule)
{
    return or_accept_rule_uses_distributions(rule) || or_accept_rule_is_lossy(rule) ||
           rule == OR_ACCEPT_SLRS;
}

// Return the distribution after a node; the acceptance rule asks node by node.
static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    or_judge_t *judge = context;
    const or_open_session_t *open = &judge->session->terms.open;
    const float *logits;
    uint32_t row = judge->first_row + judge->session->row_of[node];
    or_status_t status = or_head_contenders(judge->head, row, dist);
    if (status != OR_OK || dist->count > 0) {
        return status;
    }
    status = or_head_row(judge->head, row, judge->top, &logits);
    if (status != OR_OK) {
        return status;
    }
    *dist =
        or_sampler_distribution(judge->sampler, &open->sampling, logits, history, history_count);
    if (compares_probabilities(open->accept_rule)) {
        or_sampler_weigh(judge->sampler, dist);
    }
    return OR_OK;
}

// Return the kept distribution for a judgement that goes on.
static or_status_t kept_dist(void *context, uint32_t node, const int32_t *history,
                             uint32_t history_count, or_distribution_t *dist)
{
    const or_judge_t *judge = context;
    (void)node;
    (void)history;
    (void)history_count;
    *dist = or_question_distribution(&judge->session->question);
    return OR_OK;
}

static or_status_t string_dist(void *context, uint32_t node, const or_distribution_t *q,
                               const double **psi)
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

// Judge on the device if the rule and its sampling allow it.
static or_status_t accept_on_device(const or_vsession_t *session, or_judge_t *judge,
                                    const or_accept_job_t *job, const or_keyed_chooser_t *chooser,
                                    bool *done)
{
    const or_open_session_t *open = &session->terms.open;
    const or_device_rows_t rows = {.rejection = judge->rejection,
                                   .first_row = judge->first_row,
                                   .rows = session->tree_rows,
                                   .row_of = session->row_of};
    *done = false;
    if (session->logprobs != NULL ||
        !or_accept_suits_device((or_accept_rule_t)open->accept_rule, &open->sampling)) {
        return OR_OK;
    }
    int64_t started = or_clock_now(judge->clock);
    or_status_t status =
        or_accept_on_device(job, &open->sampling, chooser, &rows, &judge->acceptance, done);
    judge->device_ns += or_clock_now(judge->clock) - started;
    return status;
}

static or_status_t accept_tree(or_vsession_t *session, or_judge_t *judge)
{
    bool resumes = session->question.state == OR_QUESTION_ANSWERED;
    const or_open_session_t *open = &session->terms.open;
    or_accept_rule_t rule = (or_accept_rule_t)open->accept_rule;
    or_rng_key_t private_key = {open->private_key};
    or_keyed_chooser_t chooser =
        or_keyed_chooser(private_key, session->waiting_round, or_vsession_noise_key(session),
                         or_vocab_noise_keys(judge->vocab));
    const or_accept_job_t job = {
        .tree = session->tree,
        .draws = &session->draws.draws,
        .dist = resumes ? kept_dist : target_dist,
        .dist_context = judge,
        .psi = session->psi,
        .string_dist = string_dist,
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
    uint32_t all = or_vocab_size(judge->vocab);
    judge->top = session->logprobs != NULL ? all : or_head_top(&open->sampling, all);
    bool done;
    or_status_t status = accept_on_device(session, judge, &job, &chooser, &done);
    if (status != OR_OK || done) {
        return status;
    }
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
    or_status_t status =
        or_kv_sequence_accept(session->kv, judge->slots, acceptance->accepted_count);
    // Pages were reserved for the longest path.
    or_kv_sequence_truncate(session->kv, or_kv_sequence_length(session->kv));
    return status;
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

// Note the log-probabilities of the path's tokens while its rows are here.
static or_status_t note_logprobs(or_vsession_t *session, or_judge_t *judge)
{
    const or_acceptance_t *acceptance = &judge->acceptance;
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    uint32_t node = 0;
    for (uint32_t i = 0; session->logprobs != NULL && i <= acceptance->accepted_count; i++) {
        const float *logits;
        uint32_t row = judge->first_row + session->row_of[node];
        or_status_t status = or_head_row(judge->head, row, judge->top, &logits);
        if (status != OR_OK) {
            return status;
        }
        bool last = i == acceptance->accepted_count;
        node = last ? 0 : acceptance->accepted[i];
        or_logprobs_set(session->logprobs, i, (uint32_t)(last ? acceptance->next : tokens[node]),
                        logits);
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
        .reused = session->reused,
    };
    if (session->logprobs != NULL) {
        session->verdict.logprobs = or_logprobs_entries(session->logprobs);
        session->verdict.logprob_count = acceptance->accepted_count + 1;
    }
    session->reused = 0;
}

static or_status_t judge_tree(or_vsession_t *session, or_judge_t *judge)
{
    uint32_t base_length = session->log.length;
    int64_t started = or_clock_now(judge->clock);
    int64_t head_before = or_judge_head_ns(judge);
    int64_t device_before = judge->device_ns;
    or_status_t status = accept_tree(session, judge);
    if (status == OR_OK) {
        status = note_logprobs(session, judge);
    }
    if (status == OR_OK) {
        status = commit(session, judge);
    }
    if (status != OR_OK && status != OR_ERR_AGAIN) {
        // The prefix is as before; the root's row must run again.
        or_kv_sequence_truncate(session->kv, base_length - 1);
        return status;
    }
    session->model_ns += or_head_rows_ns(judge->head, judge->first_row, judge->row_count) +
                         judge->device_ns - device_before;
    session->accept_ns +=
        or_clock_now(judge->clock) - started - (or_judge_head_ns(judge) - head_before);
    if (status == OR_OK) {
        conclude(session, judge, base_length);
    }
    return status;
}

or_status_t or_vsession_judge(or_vsession_t *session, or_judge_t *judge, uint32_t first_row,
                              int64_t model_ns)
{
    judge->first_row = first_row;
    judge->row_count = session->tree_rows;
    session->model_ns += model_ns;
    return judge_tree(session, judge);
}

or_status_t or_vsession_resume(or_vsession_t *session, or_judge_t *judge)
{
    judge->row_count = 0;
    return judge_tree(session, judge);
}
