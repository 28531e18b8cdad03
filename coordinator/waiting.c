// Who begins when: places, owners' shares of them, and the queue for them.
#include <stdio.h>
#include <string.h>

#include "coordinator/coordinator_internal.h"

// ---- counting ----

// The owner's place in the table, or the free one where it belongs.
static or_owner_count_t *find_owner(const or_coordinator_t *c, const char *owner, uint64_t hash)
{
    uint32_t mask = c->owner_places - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (c->owners[at].owner != NULL && strcmp(c->owners[at].owner, owner) != 0) {
        at = (at + 1) & mask;
    }
    return &c->owners[at];
}

static or_owner_count_t *owner_of(const or_coordinator_t *c, const or_csession_t *session)
{
    return find_owner(c, or_csession_owner(session), session->owner_hash);
}

// Count what every owner has, in one pass; returns what all have together. Names are borrowed from the
// sessions: good until one is destroyed.
static or_owner_count_t count_owners(const or_coordinator_t *c)
{
    or_owner_count_t all = {0};
    memset(c->owners, 0, c->owner_places * sizeof *c->owners);
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase == OR_PHASE_DONE) {
            continue;
        }
        or_owner_count_t *count = owner_of(c, session);
        bool waits = session->phase == OR_PHASE_WAITING;
        count->owner = or_csession_owner(session);
        count->waiting += waits;
        count->live += !waits;
        all.waiting += waits;
        all.live += !waits;
    }
    return all;
}

// More sessions than the verifier holds would evict each other's caches in every round.
static uint32_t places_of(const or_coordinator_t *c)
{
    uint32_t places = c->config.sessions_max;
    uint32_t verifier = c->verifier != NULL ? c->verifier->sessions_max : 0;
    return verifier > 0 && verifier < places ? verifier : places;
}

static bool has_room(const or_coordinator_t *c, const or_owner_count_t *all,
                     const or_owner_count_t *owner)
{
    uint32_t share = c->config.sessions_per_owner_max;
    return all->live < places_of(c) && (share == 0 || owner->live < share);
}

static bool all_there(const or_coordinator_t *c, bool plain)
{
    return c->verifier != NULL && (plain || !c->config.expect_drafter || c->drafter_seen);
}

bool or_waiting_all_there(const or_coordinator_t *c, const or_csession_t *session)
{
    return all_there(c, session->plain);
}

// ---- admission ----

// The latest request of the owner with the most that wait; NULL: nobody has more than `more_than`.
static or_csession_t *last_of_longest(const or_coordinator_t *c, uint32_t more_than)
{
    or_csession_t *last = NULL;
    uint32_t longest = more_than;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_WAITING) {
            continue;
        }
        uint32_t waiting = owner_of(c, session)->waiting;
        bool later = last != NULL && waiting == longest && session->started_ns > last->started_ns;
        if (waiting > longest || later) {
            longest = waiting;
            last = session;
        }
    }
    return last;
}

static uint32_t say_busy(const or_coordinator_t *c, uint32_t before, char *why, size_t capacity)
{
    uint32_t retry_ms = or_admission_retry_ms(&c->admission, before, places_of(c));
    snprintf(why, capacity, "busy: %u request%s; retry after %.1f s", before,
             before == 1 ? " waits" : "s wait", (double)retry_ms / 1000);
    return retry_ms;
}

bool or_waiting_admit(or_coordinator_t *c, const char *owner, bool plain, uint32_t *retry_ms,
                      char *why, size_t capacity)
{
    const or_owner_count_t all = count_owners(c);
    const or_owner_count_t *own = find_owner(c, owner, or_owner_hash(owner));
    if (all.waiting < c->config.waiting_max || (all_there(c, plain) && has_room(c, &all, own))) {
        return true;
    }
    *retry_ms = say_busy(c, all.waiting, why, capacity);
    // A full queue drops from its longest part (stochastic fairness queueing: McKenney 1990).
    or_csession_t *other = last_of_longest(c, own->waiting + 1);
    if (other == NULL) {
        return false;
    }
    c->figures.busy++;
    or_csession_fail(other, OR_WIRE_BUSY, "%s", why);
    other->busy_ms = *retry_ms;
    or_round_finish(c, other);
    return true;
}

// ---- beginning ----

static or_status_t check_beginning(or_coordinator_t *c, or_csession_t *session)
{
    char why[sizeof session->error];
    if (!session->plain && c->config.expect_drafter &&
        or_drafting_has_only_strangers(c, session, why, sizeof why)) {
        or_csession_fail(session, OR_WIRE_REFUSED, "%s", why);
        return OR_ERR_MISMATCH;
    }
    if (session->log.length >= c->verifier->context_max) {
        or_csession_fail(
            session, OR_WIRE_CONTEXT,
            "the prompt has %u tokens and the context holds %u: shorten it or start the "
            "verifier with a larger -c",
            session->log.length, c->verifier->context_max);
        return OR_ERR_FULL;
    }
    return OR_OK;
}

void or_waiting_begin(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_WAITING) {
        return;
    }
    if (!session->plain && c->config.expect_drafter && !c->drafter_seen && c->refusal[0] != '\0') {
        or_csession_fail(session, OR_WIRE_REFUSED, "%s", c->refusal);
        or_round_finish(c, session);
        return;
    }
    const or_owner_count_t all = count_owners(c);
    if (!or_waiting_all_there(c, session) || !has_room(c, &all, owner_of(c, session))) {
        return;
    }
    if (check_beginning(c, session) != OR_OK) {
        or_round_finish(c, session);
        return;
    }
    or_round_first(c, session);
}

// The request to begin next of those that have everybody they need and whose owner has a place left;
// NULL if there is none.
static or_csession_t *next_waiting(const or_coordinator_t *c)
{
    const or_owner_count_t all = count_owners(c);
    or_csession_t *next = NULL;
    uint32_t fewest = 0;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_WAITING ||
            !or_waiting_all_there(c, session)) {
            continue;
        }
        const or_owner_count_t *owner = owner_of(c, session);
        if (!has_room(c, &all, owner)) {
            continue;
        }
        bool better = next == NULL || owner->live < fewest ||
                      (owner->live == fewest && session->started_ns < next->started_ns);
        if (better) {
            next = session;
            fewest = owner->live;
        }
    }
    return next;
}

void or_waiting_begin_all(or_coordinator_t *c)
{
    or_csession_t *next = next_waiting(c);
    while (next != NULL) {
        or_waiting_begin(c, next); // it has what it needs: it begins or fails, but waits no more
        next = next_waiting(c);
    }
}
