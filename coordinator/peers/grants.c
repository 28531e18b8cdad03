#include "coordinator/peers/grants.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/hub.h"

// ---- greetings ----

static uint32_t role_bit(or_role_t role)
{
    switch (role) {
    case OR_ROLE_CLIENT:
        return OR_KEY_CLIENT;
    case OR_ROLE_DRAFTER:
        return OR_KEY_DRAFTER;
    case OR_ROLE_VERIFIER:
        return OR_KEY_VERIFIER;
    default:
        return 0;
    }
}

const or_key_grant_t *or_grants_find(const or_coordinator_t *c, const char *key)
{
    return c->config.keyring != NULL && key[0] != '\0' ? or_keyring_find(c->config.keyring, key)
                                                       : NULL;
}

bool or_grants_allow_role(const or_key_grant_t *grant, or_role_t role, const char *owner)
{
    return grant != NULL && (grant->roles & role_bit(role)) != 0 &&
           strcmp(grant->owner, owner) == 0;
}

// May a peer with this grant (NULL: its key has none) be what it says it is?
static bool is_granted(const or_key_grant_t *grant, const or_hello_t *hello, char *text,
                       size_t capacity)
{
    if (grant == NULL) {
        snprintf(text, capacity,
                 "this key is not authorised here; the coordinator's operator can: outrider keys "
                 "authorize");
        return false;
    }
    if ((grant->roles & role_bit(hello->role)) == 0) {
        char names[32];
        or_key_roles_name(grant->roles, names);
        snprintf(text, capacity, "this key may be %s here, not %s", names,
                 or_role_name(hello->role));
        return false;
    }
    if (hello->owner[0] != '\0' && strcmp(hello->owner, grant->owner) != 0) {
        snprintf(text, capacity, "this key is %s's: it cannot write in another owner's name",
                 grant->owner);
        return false;
    }
    return true;
}

// A name is believed of a key, and from this machine.
bool or_grants_identify(or_coordinator_t *c, const or_hello_t *hello, or_member_t *member,
                        char *text, size_t capacity)
{
    const char *key = or_link_key_of(c->link, member->peer);
    if (key[0] == '\0') {
        bool local = or_link_is_local(c->link, member->peer);
        const char *owner = local ? hello->owner : "";
        member->trusted = c->config.trust_loopback && local;
        member->serves_all = local && owner[0] == '\0';
        snprintf(member->owner, sizeof member->owner, "%s", owner);
        return true;
    }
    if (or_refusals_is_banned(&c->peers.refusals, key, or_clock_now(c->clock))) {
        snprintf(text, capacity, "this key is cut off for what was sent with it; try again later");
        return false;
    }
    const or_key_grant_t *grant = or_grants_find(c, key);
    if (!is_granted(grant, hello, text, capacity)) {
        return false;
    }
    member->grant = *grant;
    member->trusted = grant->trusted;
    snprintf(member->owner, sizeof member->owner, "%s", grant->owner);
    return true;
}

// ---- limits ----

bool or_grants_allow_session(const or_coordinator_t *c, const or_member_t *client, char *why,
                             size_t capacity)
{
    uint32_t most = client->grant.sessions_max, live = 0;
    if (client->grant.key[0] == '\0' || most == 0) {
        return true;
    }
    const or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        live += session->phase != OR_PHASE_DONE && session->phase != OR_PHASE_PARKED &&
                strcmp(session->key, client->grant.key) == 0;
    }
    if (live < most) {
        return true;
    }
    snprintf(why, capacity, "busy: your key allows %u at a time; retry after %.1f s", most,
             (double)OR_GRANTS_RETRY_MS / 1000);
    return false;
}

bool or_grants_may_write(or_coordinator_t *c, or_csession_t *session)
{
    const or_key_grant_t *grant = or_grants_find(c, session->key);
    session->queue.paced_ns = 0;
    return grant == NULL || or_limits_may_write(c->peers.limits, grant, or_clock_now(c->clock),
                                                &session->queue.paced_ns);
}

void or_grants_wrote(or_coordinator_t *c, const or_csession_t *session, uint32_t tokens)
{
    const or_key_grant_t *grant = or_grants_find(c, session->key);
    if (grant != NULL) {
        or_limits_wrote(c->peers.limits, grant, tokens, or_clock_now(c->clock));
    }
}
