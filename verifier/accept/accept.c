#include "verifier/accept/accept.h"

#include "verifier/accept/accept_internal.h"

static const or_accept_row_t *const rows[] = {
    &or_accept_coupled, &or_accept_greedy,    &or_accept_naive,       &or_accept_sps,
    &or_accept_kseq,    &or_accept_otm,       &or_accept_multi_round, &or_accept_recursive,
    &or_accept_block,   &or_accept_traversal, &or_accept_typical,     &or_accept_lenient,
    &or_accept_slrs,
};

static const or_accept_row_t *find_row(or_accept_rule_t rule)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i]->rule == rule) {
            return rows[i];
        }
    }
    return NULL;
}

bool or_accept_is_stop(const or_accept_job_t *job, int32_t token)
{
    for (uint32_t i = 0; i < job->stop_count; i++) {
        if (job->stop_ids[i] == (uint32_t)token) {
            return true;
        }
    }
    return false;
}

or_status_t or_accept_distribution_at(const or_accept_job_t *job, uint32_t node,
                                      or_distribution_t *q)
{
    uint32_t count = job->history_count + or_token_tree_depths(job->tree)[node];
    uint32_t above = node;
    for (uint32_t i = count; i > job->history_count; i--) {
        job->history[i - 1] = or_token_tree_tokens(job->tree)[above];
        above = or_token_tree_parents(job->tree)[above];
    }
    return job->dist(job->dist_context, node, job->history, count, q);
}

void or_accept_take(const or_accept_job_t *job, uint32_t node, int32_t next,
                    or_acceptance_t *acceptance)
{
    acceptance->accepted_count = or_token_tree_depths(job->tree)[node];
    for (uint32_t i = acceptance->accepted_count; i > 0; i--) {
        acceptance->accepted[i - 1] = node;
        node = or_token_tree_parents(job->tree)[node];
    }
    acceptance->next = next;
    acceptance->stopped = or_accept_is_stop(job, next);
}

void or_accept_take_stop(const or_accept_job_t *job, uint32_t node, or_acceptance_t *acceptance)
{
    or_accept_take(job, or_token_tree_parents(job->tree)[node],
                   or_token_tree_tokens(job->tree)[node], acceptance);
}

// Walk from the root down: a token follows each node, and the walk goes on if a child carries it.
static or_status_t walk(const or_accept_row_t *row, const or_accept_job_t *job,
                        or_acceptance_t *acceptance)
{
    uint32_t history_count = job->history_count;
    or_noise_place_t place = job->place;
    uint32_t accepted_count = 0;
    uint32_t node = 0;
    for (;;) {
        or_distribution_t q;
        or_status_t status = job->dist(job->dist_context, node, job->history, history_count, &q);
        if (status != OR_OK) {
            return status;
        }
        int32_t token = row->choose(job, node, &q, place);
        bool stopped = or_accept_is_stop(job, token);
        uint32_t child = stopped ? 0 : or_token_tree_find_child(job->tree, node, token);
        if (child == 0) {
            acceptance->accepted_count = accepted_count;
            acceptance->next = token;
            acceptance->stopped = stopped;
            return OR_OK;
        }
        acceptance->accepted[accepted_count++] = child;
        job->history[history_count++] = token; // penalties see the path
        place = or_noise_advance(place, job->widths[token]);
        node = child;
    }
}

or_status_t or_accept(or_accept_rule_t rule, const or_accept_job_t *job,
                      or_acceptance_t *acceptance)
{
    const or_accept_row_t *row = find_row(rule);
    if (row == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "acceptance rule %u is not known to this version",
                       (unsigned)rule);
    }
    return row->judge != NULL ? row->judge(job, acceptance) : walk(row, job, acceptance);
}
