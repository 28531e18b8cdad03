#include "proto/wire/message.h"

static const char *name_of(const char *const *names, size_t count, uint32_t number)
{
    return number < count && names[number] != NULL ? names[number] : "unknown";
}

const char *or_role_name(or_role_t role)
{
    static const char *const names[] = {
        [OR_ROLE_NONE] = "none",
        [OR_ROLE_CLIENT] = "client",
        [OR_ROLE_DRAFTER] = "drafter",
        [OR_ROLE_VERIFIER] = "verifier",
        [OR_ROLE_COORDINATOR] = "coordinator",
    };
    return name_of(names, sizeof names / sizeof *names, (uint32_t)role);
}

const char *or_finish_name(uint32_t finish)
{
    static const char *const names[] = {
        [OR_FINISH_NONE] = "none",           [OR_FINISH_STOP] = "stop",
        [OR_FINISH_LENGTH] = "length",       [OR_FINISH_ERROR] = "error",
        [OR_FINISH_CANCELLED] = "cancelled",
    };
    return name_of(names, sizeof names / sizeof *names, finish);
}

const char *or_guess_source_name(uint32_t source)
{
    static const char *const names[] = {
        [OR_SOURCE_PLAIN] = "plain",
        [OR_SOURCE_LOOKUP] = "lookup",
        [OR_SOURCE_DRAFTER] = "drafter",
    };
    return name_of(names, sizeof names / sizeof *names, source);
}

const char *or_draft_policy_name(uint32_t policy)
{
    return policy == OR_POLICY_FIXED ? "fixed" : policy == OR_POLICY_AUTO ? "auto" : NULL;
}

const char *or_message_type_name(uint32_t type)
{
    static const char *const names[] = {
        [OR_MSG_HELLO] = "hello",
        [OR_MSG_WELCOME] = "welcome",
        [OR_MSG_OPEN_SESSION] = "open_session",
        [OR_MSG_PREFIX] = "prefix",
        [OR_MSG_DRAFT_TREE] = "draft_tree",
        [OR_MSG_VERDICT] = "verdict",
        [OR_MSG_CANCEL] = "cancel",
        [OR_MSG_VOCAB_MAP] = "vocab_map",
        [OR_MSG_PSI_REQUEST] = "psi_request",
        [OR_MSG_PSI_REPLY] = "psi_reply",
        [OR_MSG_KV_EVICTED] = "kv_evicted",
        [OR_MSG_STATS] = "stats",
        [OR_MSG_ERROR] = "error",
        [OR_MSG_GENERATE_REQUEST] = "generate_request",
        [OR_MSG_GENERATE_DELTA] = "generate_delta",
        [OR_MSG_RESUME] = "resume",
        [OR_MSG_HEARTBEAT] = "heartbeat",
        [OR_MSG_VOCAB_REQUEST] = "vocab_request",
        [OR_MSG_VOCABULARY] = "vocabulary",
        [OR_MSG_STATS_REQUEST] = "stats_request",
        [OR_MSG_METRICS] = "metrics",
    };
    return name_of(names, sizeof names / sizeof *names, type);
}
