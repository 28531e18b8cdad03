// The limits of an API key: texts at a time, tokens a minute, and whether it is still a key.
//
// A text begins only while its key's bucket of tokens is not empty (coordinator/peers/limits.h). What it writes beyond that is
// owed: the next one waits for it. The first text of a request is refused where it cannot begin; its others wait.
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/http/api/api_internal.h"

#define LOOK_NS OR_NS_PER_S             // between two looks at the file
#define LOOK_AGAIN_NS (OR_NS_PER_S / 5) // at one that may not be whole yet
#define COMPLAIN_NS (60 * OR_NS_PER_S)  // about a file that cannot be read
#define PLACE_NS (OR_NS_PER_S / 10)     // a key's place may be free again

// ---- texts ----

// The grant of a work's key as it is now; NULL: the key was revoked. A grant of all zero is nobody's, and has no limits.
static const or_key_grant_t *grant_of(const or_api_t *api, const or_api_work_t *work)
{
    if (api->config.keys == NULL || work->grant.key[0] == '\0') {
        return &work->grant;
    }
    return or_api_keys_still(api->config.keys, &work->grant);
}

// The texts of a key that have begun and not ended, beside the one that `work` goes on with: the loss of its stream may not
// have been noticed yet.
static uint32_t count_texts(const or_api_t *api, const char *key, const or_api_work_t *work)
{
    uint32_t texts = 0;
    for (const or_api_work_t *other = api->works.next; other != &api->works; other = other->next) {
        bool counts =
            strcmp(other->grant.key, key) == 0 && !or_api_work_reads_the_same(other, work);
        texts += counts ? or_api_work_running(other) : 0;
    }
    return texts;
}

bool or_api_limits_allow(or_api_t *api, const or_api_work_t *work, or_api_wait_t *wait)
{
    const or_key_grant_t *grant = grant_of(api, work);
    int64_t now = or_clock_now(api->config.clock);
    wait->until_ns = now + PLACE_NS;
    if (grant == NULL) {
        snprintf(wait->why, sizeof wait->why, "This API key was revoked.");
        return false;
    }
    if (grant->key[0] == '\0') {
        return true;
    }
    if (grant->sessions_max > 0 && count_texts(api, grant->key, work) >= grant->sessions_max) {
        snprintf(wait->why, sizeof wait->why, "This API key allows %u texts at a time.",
                 grant->sessions_max);
        return false;
    }
    if (!or_limits_may_write(api->limits, grant, now, &wait->until_ns)) {
        snprintf(wait->why, sizeof wait->why, "This API key allows %u tokens a minute.",
                 grant->tokens_per_minute);
        return false;
    }
    return true;
}

void or_api_limits_wrote(or_api_t *api, const or_api_work_t *work, uint32_t tokens)
{
    const or_key_grant_t *grant = grant_of(api, work);
    if (grant != NULL) {
        or_limits_wrote(api->limits, grant, tokens, or_clock_now(api->config.clock));
    }
}

uint32_t or_api_limits_nodes(const or_api_work_t *work, uint32_t nodes)
{
    uint32_t most = work->grant.nodes_max;
    return most > 0 && most < nodes ? most : nodes;
}

// ---- the file ----

static void end_revoked(or_api_t *api)
{
    or_api_work_t *next;
    for (or_api_work_t *work = api->works.next; work != &api->works; work = next) {
        next = work->next;
        if (grant_of(api, work) != NULL) {
            continue;
        }
        if (work->held.call != NULL && !work->held.answered) {
            or_api_work_fail(api, work, 401, NULL, "invalid_api_key", "This API key was revoked.");
        } else {
            or_api_work_drop(api, work);
        }
    }
}

// A file that makes no sense says so once; one that cannot be read now and then.
static void complain(or_api_t *api, or_status_t status, int64_t now)
{
    if (status == OR_ERR_INVALID || now >= api->complain_ns) {
        or_log(OR_LOG_ERROR, "http: %s; the API keys stay as they were", or_error_text());
        api->complain_ns = status == OR_ERR_INVALID ? api->complain_ns : now + COMPLAIN_NS;
    }
}

int64_t or_api_keys_turn(or_api_t *api, int64_t now)
{
    bool changed;
    if (api->config.keys == NULL) {
        return OR_TIME_NEVER;
    }
    if (now >= api->keys_due_ns) {
        api->keys_due_ns = now + LOOK_NS;
        or_status_t status = or_api_keys_refresh(api->config.keys, &changed);
        if (status == OR_ERR_AGAIN) {
            api->keys_due_ns = now + LOOK_AGAIN_NS;
        } else if (status != OR_OK) {
            complain(api, status, now);
        } else if (changed) {
            or_log(OR_LOG_INFO, "http: the API keys have changed");
            end_revoked(api);
        }
    }
    return api->keys_due_ns;
}
