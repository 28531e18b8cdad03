#include "verifier/accept.h"

#include "verifier/accept_internal.h"

static const struct {
    or_accept_rule_t rule;
    or_accept_choose_t choose;
} rules[] = {
    {OR_ACCEPT_COUPLED, or_accept_coupled},
    {OR_ACCEPT_GREEDY, or_accept_greedy},
    {OR_ACCEPT_NAIVE, or_accept_coupled}, // under a key that no drafter receives
    {OR_ACCEPT_SPS, or_accept_sps},
    {OR_ACCEPT_MULTI_ROUND, or_accept_multi_round},
    {OR_ACCEPT_RECURSIVE, or_accept_recursive},
};

static or_accept_choose_t find_rule(or_accept_rule_t rule)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].rule == rule) {
            return rules[i].choose;
        }
    }
    return NULL;
}

static bool is_stop(const or_accept_job_t *job, int32_t token)
{
    for (uint32_t i = 0; i < job->stop_count; i++) {
        if (job->stop_ids[i] == (uint32_t)token) {
            return true;
        }
    }
    return false;
}

// From the root down: a token follows each node, and the walk goes on where a child carries it.
static or_status_t walk(or_accept_choose_t choose, const or_accept_job_t *job,
                        or_acceptance_t *acceptance)
{
    uint32_t history_count = job->history_count;
    or_noise_place_t place = job->place;
    uint32_t accepted_count = 0;
    uint32_t node = 0;
    for (;;) {
        or_law_t q;
        or_status_t status = job->law(job->law_context, node, job->history, history_count, &q);
        if (status != OR_OK) {
            return status;
        }
        int32_t token = choose(job, node, &q, place);
        bool stopped = is_stop(job, token);
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
    or_accept_choose_t choose = find_rule(rule);
    if (choose == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "acceptance rule %u is not known to this version",
                       (unsigned)rule);
    }
    return walk(choose, job, acceptance);
}
