#include "launch/cluster/draft_ahead.h"

#include <inttypes.h>
#include <string.h>

or_status_t or_draft_ahead_parse(const char *policy, int32_t ahead, or_generate_request_t *request)
{
    uint32_t kind = OR_POLICY_FIXED;
    while (or_draft_policy_name(kind) != NULL && strcmp(or_draft_policy_name(kind), policy) != 0) {
        kind++;
    }
    if (or_draft_policy_name(kind) == NULL) {
        return or_fail(OR_ERR_INVALID, "--draft-policy: '%s' is neither fixed nor auto", policy);
    }
    if (ahead != OR_DRAFT_AHEAD_USUAL && (ahead < 0 || ahead > OR_DRAFT_AHEAD_ROUNDS_MAX)) {
        return or_fail(OR_ERR_INVALID, "--draft-ahead: %" PRId32 " is not between 0 and %d", ahead,
                       OR_DRAFT_AHEAD_ROUNDS_MAX);
    }
    request->draft_policy = kind;
    request->draft_ahead = ahead != OR_DRAFT_AHEAD_USUAL ? (uint32_t)ahead
                           : kind == OR_POLICY_AUTO      ? OR_DRAFT_AHEAD_AUTO
                                                         : 0;
    return OR_OK;
}

bool or_draft_ahead_is_legal(or_draft_method_t method, or_accept_rule_t rule)
{
    bool best_ones = method == OR_DRAFT_COUPLED || method == OR_DRAFT_TOPK;
    return best_ones &&
           (rule == OR_ACCEPT_COUPLED || rule == OR_ACCEPT_GREEDY || rule == OR_ACCEPT_NAIVE);
}
