// Who begins when: places, owners' shares of them, and the queue for them.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/coordinator_internal.h"
#include "coordinator/session/name_hash.h"

#define SHARE_NS (50 * OR_NS_PER_MS) // between looks whether places are shared fairly

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

const or_owner_count_t *or_waiting_owner_of(const or_coordinator_t *c, const or_csession_t *session)
{
    return owner_of(c, session);
}

const or_owner_count_t *or_waiting_owner(const or_coordinator_t *c, const char *owner)
{
    return find_owner(c, owner, or_name_hash(owner));
}

static void add(or_owner_count_t *count, const or_csession_t *session)
{
    count->waiting += session->phase == OR_PHASE_WAITING;
    count->live += or_csession_is_live(session);
    count->parked += session->phase == OR_PHASE_PARKED;
    count->done += session->phase == OR_PHASE_DONE;
}

or_owner_count_t or_waiting_count_owners(const or_coordinator_t *c)
{
    or_owner_count_t all = {0};
    memset(c->owners, 0, c->owner_places * sizeof *c->owners);
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session != NULL) {
            or_owner_count_t *count = owner_of(c, session);
            count->owner = or_csession_owner(session);
            add(count, session);
            add(&all, session);
        }
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

// Has somebody seen some of it, or come back for it? Then it is not told to ask anew.
static bool has_begun(const or_csession_t *session)
{
    return or_csession_written(session) > 0 || session->stats.resumes > 0;
}

// The latest request of the owner with the most that wait, of those that can be told to come back; NULL: nobody has
// more than `more_than`.
static or_csession_t *last_of_longest(const or_coordinator_t *c, uint32_t more_than)
{
    or_csession_t *last = NULL;
    uint32_t longest = more_than;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_WAITING || has_begun(session)) {
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
    const or_owner_count_t all = or_waiting_count_owners(c);
    const or_owner_count_t *own = or_waiting_owner(c, owner);
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
    other->busy_ms = *retry_ms;
    or_csession_fail(other, OR_WIRE_BUSY, "%s", why);
    or_round_finish(c, other);
    return true;
}

// ---- beginning ----

bool or_waiting_fits(const or_coordinator_t *c, uint64_t tokens, bool least, char *why,
                     size_t capacity)
{
    if (c->verifier == NULL || tokens < c->verifier->context_max) {
        return true;
    }
    snprintf(why, capacity,
             "the prompt has %s%" PRIu64 " tokens and the context holds %u: shorten it or start "
             "the verifier with a larger -c",
             least ? "at least " : "", tokens, c->verifier->context_max);
    return false;
}

static or_status_t check_beginning(or_coordinator_t *c, or_csession_t *session)
{
    char why[sizeof session->error];
    if (!session->plain && c->config.expect_drafter &&
        or_drafting_has_only_strangers(c, session, why, sizeof why)) {
        or_csession_fail(session, OR_WIRE_REFUSED, "%s", why);
        return OR_ERR_MISMATCH;
    }
    bool resumed = session->arith_id[0] != '\0';
    if (resumed && strcmp(session->arith_id, c->verifier->arith_id) != 0) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "the verifier has other arithmetic (%s) than the one that began the text "
                         "(%s): ask again",
                         c->verifier->arith_id, session->arith_id);
        return OR_ERR_MISMATCH;
    }
    if (resumed &&
        session->log.length >= c->verifier->context_max) { // the last coordinator saw no more of it
        session->finish = OR_FINISH_LENGTH;
        return or_csession_end_text(session) == OR_OK ? OR_ERR_FULL : OR_ERR_NO_MEMORY;
    }
    if (!or_waiting_fits(c, session->log.length, false, why, sizeof why)) {
        or_csession_fail(session, OR_WIRE_CONTEXT, "%s", why);
        return OR_ERR_FULL;
    }
    return OR_OK;
}

// Is the only drafter that came for it, so far, one that was turned away?
static bool is_refused_its_drafter(const or_coordinator_t *c, const or_csession_t *session)
{
    const or_refused_drafter_t *refused = &c->refused;
    return !session->plain && c->config.expect_drafter && !c->drafter_seen &&
           refused->why[0] != '\0' &&
           (refused->serves_all || strcmp(refused->owner, or_csession_owner(session)) == 0);
}

void or_waiting_begin(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_WAITING) {
        return;
    }
    if (is_refused_its_drafter(c, session)) {
        or_csession_fail(session, OR_WIRE_REFUSED, "%s", c->refused.why);
        or_round_finish(c, session);
        return;
    }
    const or_owner_count_t all = or_waiting_count_owners(c);
    if (!or_waiting_all_there(c, session) || !has_room(c, &all, owner_of(c, session)) ||
        !or_charges_may_begin(c) || !or_grants_may_write(c, session)) {
        return;
    }
    if (check_beginning(c, session) != OR_OK) {
        or_round_finish(c, session);
        return;
    }
    or_round_first(c, session);
}

// Does its key's limit hold it up, for all that is known? What was known is forgotten when it is over.
static bool is_held_up(or_csession_t *session, int64_t now)
{
    session->paced_ns = session->paced_ns > now ? session->paced_ns : 0;
    return session->paced_ns != 0;
}

// The request to begin next of those that have everybody they need, whose owner has a place left and whose key may
// write; NULL if there is none, or the verifier has enough to read.
static or_csession_t *next_waiting(or_coordinator_t *c)
{
    if (!or_charges_may_begin(c)) {
        return NULL;
    }
    const or_owner_count_t all = or_waiting_count_owners(c);
    int64_t now = or_clock_now(c->clock);
    or_csession_t *next = NULL;
    uint32_t fewest = 0;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_WAITING || is_held_up(session, now) ||
            !or_waiting_all_there(c, session)) {
            continue;
        }
        const or_owner_count_t *owner = owner_of(c, session);
        if (!has_room(c, &all, owner) || !or_grants_may_write(c, session)) {
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

bool or_waiting_has_other(or_coordinator_t *c, or_csession_t *session)
{
    or_phase_t phase = session->phase;
    session->phase = OR_PHASE_WAITING;
    const or_csession_t *next = next_waiting(c);
    session->phase = phase;
    return next != NULL && next != session;
}

// ---- sharing ----

// Does another owner's request wait that would begin in a place of the owner who has `most` at work, and leave that owner
// with no less than its own then has?
static bool is_place_wanted(or_coordinator_t *c, const or_owner_count_t *all, uint32_t most)
{
    uint32_t share = c->config.sessions_per_owner_max;
    int64_t now = or_clock_now(c->clock);
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_WAITING ||
            !or_waiting_all_there(c, session) || is_held_up(session, now)) {
            continue;
        }
        uint32_t live = owner_of(c, session)->live;
        if (all->live >= places_of(c) && live + 2 <= most && (share == 0 || live < share) &&
            or_grants_may_write(c, session)) {
            return true;
        }
    }
    return false;
}

// The most that an owner has at work.
static uint32_t most_live(const or_coordinator_t *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->owner_places; i++) {
        const or_owner_count_t *owner = &c->owners[i];
        most = owner->owner != NULL && owner->live > most ? owner->live : most;
    }
    return most;
}

// Of the owner with that many at work, the text that is the shortest: it is the soonest computed again.
static or_csession_t *shortest_of_most(or_coordinator_t *c, uint32_t most)
{
    or_csession_t *shortest = NULL;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && or_csession_is_live(session) && owner_of(c, session)->live == most &&
            (shortest == NULL || session->log.length < shortest->log.length)) {
            shortest = session;
        }
    }
    return shortest;
}

int64_t or_waiting_share(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    if (now < c->share_due_ns) {
        return c->share_due_ns;
    }
    const or_owner_count_t all = or_waiting_count_owners(c);
    c->share_due_ns = now + SHARE_NS;
    uint32_t most = most_live(c);
    if (all.waiting == 0) {
        return OR_TIME_NEVER; // who comes makes a turn
    }
    if (is_place_wanted(c, &all, most)) {
        shortest_of_most(c, most)->gives_way = true;
    }
    return c->share_due_ns;
}

// What keeps one from beginning may keep a crowd: all of them are looked at once, not for each of them.
static void end_unfit(or_coordinator_t *c, or_csession_t *first)
{
    or_round_finish(c, first);
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && session->phase == OR_PHASE_WAITING &&
            or_waiting_all_there(c, session) && check_beginning(c, session) != OR_OK) {
            or_round_finish(c, session);
        }
    }
}

void or_waiting_begin_all(or_coordinator_t *c)
{
    if (c->beginning) { // one of them has ended at once: its place is given below
        return;
    }
    c->beginning = true;
    for (or_csession_t *next = next_waiting(c); next != NULL; next = next_waiting(c)) {
        if (check_beginning(c, next) == OR_OK) {
            or_round_first(c, next);
        } else {
            end_unfit(c, next);
        }
    }
    c->beginning = false;
}

// ---- told ----

// Requests that came before this one and wait, too.
static uint32_t count_before(const or_coordinator_t *c, const or_csession_t *session)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *other = c->sessions[i];
        before += other != NULL && other != session && other->phase == OR_PHASE_WAITING &&
                  other->started_ns <= session->started_ns;
    }
    return before;
}

void or_waiting_why(const or_coordinator_t *c, const or_csession_t *session, char *why,
                    size_t capacity)
{
    why[0] = '\0';
    if (session->phase != OR_PHASE_WAITING) {
        return;
    }
    if (!or_waiting_all_there(c, session)) {
        snprintf(why, capacity, "no %s is connected yet: waiting up to %u s",
                 c->verifier == NULL ? "verifier" : "drafter",
                 (unsigned)(c->config.verifier_timeout_ms / 1000));
        return;
    }
    if (session->paced_ns != 0) {
        snprintf(why, capacity,
                 "your key has written as many tokens a minute as it may: waiting for %.1f s",
                 (double)(session->paced_ns - or_clock_now(c->clock)) / (double)OR_NS_PER_S);
        return;
    }
    const or_owner_count_t all = or_waiting_count_owners(c);
    if (has_room(c, &all, owner_of(c, session))) {
        return; // it is about to begin
    }
    uint32_t before = count_before(c, session);
    if (before == 0) {
        snprintf(why, capacity, "every place is taken: this request is the next");
    } else {
        snprintf(why, capacity, "every place is taken, and %u request%s before this one", before,
                 before == 1 ? " waits" : "s wait");
    }
}
