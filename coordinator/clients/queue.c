#include "coordinator/clients/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/drafters/drafters.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"
#include "coordinator/rounds/rounds.h"
#include "coordinator/session/name_hash.h"
#include "coordinator/vocab/vocabulary_match.h"

#define SHARE_NS (50 * OR_NS_PER_MS) // between looks whether places are shared fairly
#define UNKNOWN_MS 2000.0            // what a request takes before any was served

or_status_t or_queue_init(or_queue_t *queue, uint32_t sessions)
{
    queue->owner_places = 2;
    while (queue->owner_places < 2 * sessions) {
        queue->owner_places *= 2;
    }
    queue->owners = calloc(queue->owner_places, sizeof *queue->owners);
    return queue->owners != NULL ? OR_OK
                                 : or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", sessions);
}

void or_queue_fini(or_queue_t *queue)
{
    free(queue->owners);
}

// ---- counting ----

// The owner's place in the table, or the free one where it belongs.
static or_owner_count_t *find_owner(const or_coordinator_t *c, const char *owner, uint64_t hash)
{
    uint32_t mask = c->queue.owner_places - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (c->queue.owners[at].owner != NULL && strcmp(c->queue.owners[at].owner, owner) != 0) {
        at = (at + 1) & mask;
    }
    return &c->queue.owners[at];
}

const or_owner_count_t *or_queue_owner_of(const or_coordinator_t *c, const or_csession_t *session)
{
    return find_owner(c, or_csession_owner(session), session->owner_hash);
}

const or_owner_count_t *or_queue_owner(const or_coordinator_t *c, const char *owner)
{
    return find_owner(c, owner, or_name_hash(owner));
}

// A session whose text has ended is as good as done.
static void add(or_owner_count_t *count, const or_csession_t *session)
{
    if (session->finish != OR_FINISH_NONE) {
        count->done++;
        return;
    }
    count->waiting += session->phase == OR_PHASE_WAITING;
    count->live += or_csession_is_live(session);
    count->parked += session->phase == OR_PHASE_PARKED;
}

or_owner_count_t or_queue_count(const or_coordinator_t *c)
{
    or_owner_count_t all = {0};
    const or_csession_t *session;
    memset(c->queue.owners, 0, c->queue.owner_places * sizeof *c->queue.owners);
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        const char *name = or_csession_owner(session);
        or_owner_count_t *count = find_owner(c, name, session->owner_hash);
        count->owner = name;
        add(count, session);
        add(&all, session);
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

// Is everybody there that a request was told to expect?
static bool all_there(const or_coordinator_t *c, bool plain)
{
    return c->verifier != NULL && (plain || !c->config.expect_drafter || c->queue.drafter_seen);
}

// Does it wait to begin? (One whose text has ended is about to be done.)
static bool waits(const or_csession_t *session)
{
    return session->phase == OR_PHASE_WAITING && session->finish == OR_FINISH_NONE;
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
    or_csession_t *last = NULL, *session;
    uint32_t longest = more_than;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (!waits(session) || has_begun(session)) {
            continue;
        }
        uint32_t waiting = or_queue_owner_of(c, session)->waiting;
        bool later = last != NULL && waiting == longest && session->started_ns > last->started_ns;
        if (waiting > longest || later) {
            longest = waiting;
            last = session;
        }
    }
    return last;
}

uint32_t or_queue_retry_ms(const or_queue_t *queue, uint32_t before, uint32_t places)
{
    double mean_ms = queue->served_ms > 0 ? queue->served_ms : UNKNOWN_MS;
    double ms = mean_ms * (before + 1.0) / (places > 0 ? places : 1);
    if (ms < OR_RETRY_MS_MIN) {
        return OR_RETRY_MS_MIN;
    }
    return ms < OR_RETRY_MS_MAX ? (uint32_t)ms : OR_RETRY_MS_MAX;
}

or_status_t or_queue_admit(or_coordinator_t *c, const char *owner, bool plain, uint32_t *retry_ms)
{
    const or_owner_count_t all = or_queue_count(c);
    const or_owner_count_t *own = or_queue_owner(c, owner);
    char why[128];
    if (all.waiting < c->config.waiting_max || (all_there(c, plain) && has_room(c, &all, own))) {
        return OR_OK;
    }
    *retry_ms = or_queue_retry_ms(&c->queue, all.waiting, places_of(c));
    snprintf(why, sizeof why, "busy: %u request%s; retry after %.1f s", all.waiting,
             all.waiting == 1 ? " waits" : "s wait", (double)*retry_ms / 1000);
    // A full queue drops from its longest part (stochastic fairness queueing: McKenney 1990).
    or_csession_t *other = last_of_longest(c, own->waiting + 1);
    if (other == NULL) {
        return or_fail(OR_ERR_FULL, "%s", why);
    }
    c->figures.busy++;
    other->queue.busy_ms = *retry_ms;
    or_csession_fail(other, OR_WIRE_BUSY, "%s", why);
    return OR_OK;
}

// ---- beginning ----

bool or_queue_fits(const or_coordinator_t *c, uint64_t tokens, bool least, char *why,
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

// May it begin? If not its text has ended.
static bool may_begin(or_coordinator_t *c, or_csession_t *session)
{
    char why[sizeof session->error];
    bool resumed = session->arith_id[0] != '\0';
    if (!session->plain && c->config.expect_drafter &&
        or_drafting_has_only_strangers(c, session, why, sizeof why)) {
        or_csession_fail(session, OR_WIRE_REFUSED, "%s", why);
    } else if (resumed && strcmp(session->arith_id, c->verifier->arith_id) != 0) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "the verifier has other arithmetic (%s) than the one that began the text "
                         "(%s): ask again",
                         c->verifier->arith_id, session->arith_id);
    } else if (resumed && session->log.length >= c->verifier->context_max) {
        or_csession_end(session, OR_FINISH_LENGTH); // the last coordinator saw no more of it
    } else if (!or_queue_fits(c, session->log.length, false, why, sizeof why)) {
        or_csession_fail(session, OR_WIRE_CONTEXT, "%s", why);
    }
    return session->finish == OR_FINISH_NONE;
}

// Is the only drafter that came for it, so far, one that was turned away?
static bool is_refused_its_drafter(const or_coordinator_t *c, const or_csession_t *session)
{
    const or_refused_drafter_t *refused = &c->queue.refused;
    return !session->plain && c->config.expect_drafter && !c->queue.drafter_seen &&
           refused->why[0] != '\0' &&
           (refused->serves_all || strcmp(refused->owner, or_csession_owner(session)) == 0);
}

// Has the verifier read most of what it was sent? If not, what waits begins as soon as it has.
static bool verifier_has_read(or_coordinator_t *c)
{
    bool has_read = c->verifier == NULL || or_peers_has_read(c->verifier);
    c->queue.begins_late = c->queue.begins_late || !has_read;
    return has_read;
}

void or_queue_begin(or_coordinator_t *c, or_csession_t *session)
{
    if (!waits(session)) {
        return;
    }
    if (is_refused_its_drafter(c, session)) {
        or_csession_fail(session, OR_WIRE_REFUSED, "%s", c->queue.refused.why);
        return;
    }
    const or_owner_count_t all = or_queue_count(c);
    if (all_there(c, session->plain) && has_room(c, &all, or_queue_owner_of(c, session)) &&
        verifier_has_read(c) && or_grants_may_write(c, session) && may_begin(c, session)) {
        or_round_begin(c, session);
    }
}

// The session forgets its key's limit when that is over.
static void forget_pace(or_csession_t *session, int64_t now)
{
    session->queue.paced_ns = session->queue.paced_ns > now ? session->queue.paced_ns : 0;
}

// The request to begin next of those that have everybody they need, whose owner has a place left and whose key may
// write; NULL if there is none, or the verifier has enough to read. `leaving` (NULL: nobody) is at work, and taken for one that
// waits.
static or_csession_t *next_waiting(or_coordinator_t *c, const or_csession_t *leaving)
{
    if (!verifier_has_read(c)) {
        return NULL;
    }
    or_owner_count_t all = or_queue_count(c);
    if (leaving != NULL) {
        all.live--;
        find_owner(c, or_csession_owner(leaving), leaving->owner_hash)->live--;
    }
    int64_t now = or_clock_now(c->clock);
    or_csession_t *next = NULL, *session;
    uint32_t fewest = 0;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (!waits(session) && session != leaving) {
            continue;
        }
        forget_pace(session, now);
        if (session->queue.paced_ns != 0 || !all_there(c, session->plain)) {
            continue;
        }
        const or_owner_count_t *owner = or_queue_owner_of(c, session);
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

void or_queue_yield(or_coordinator_t *c, or_csession_t *session)
{
    const or_csession_t *next = next_waiting(c, session);
    if (next == NULL || next == session) {
        or_round_stay(c, session);
        return;
    }
    int64_t paced_ns = session->queue.paced_ns;
    or_round_park(c, session);
    or_csession_enter(session, OR_PHASE_WAITING, or_hub_after_ms(c, c->config.verifier_timeout_ms));
    session->queue.paced_ns = paced_ns;
    c->queue.due = true;
}

// A reason that keeps one from beginning may keep a crowd: all of them are looked at once, not for each of them.
static void end_unfit(or_coordinator_t *c)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (waits(session) && all_there(c, session->plain)) {
            may_begin(c, session);
        }
    }
}

// Requests that wait for a drafter that was turned away are told.
static void end_refused(or_coordinator_t *c)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (waits(session) && is_refused_its_drafter(c, session)) {
            or_csession_fail(session, OR_WIRE_REFUSED, "%s", c->queue.refused.why);
        }
    }
}

static void begin_all(or_coordinator_t *c)
{
    if (c->queue.refused.why[0] != '\0' && !c->queue.drafter_seen) {
        end_refused(c);
    }
    for (or_csession_t *next; (next = next_waiting(c, NULL)) != NULL;) {
        if (may_begin(c, next)) {
            or_round_begin(c, next);
        } else {
            end_unfit(c);
        }
    }
}

void or_queue_settle(or_coordinator_t *c)
{
    if (c->queue.begins_late && c->verifier != NULL && or_peers_has_read(c->verifier)) {
        c->queue.begins_late = false;
        c->queue.due = true;
    }
    if (c->queue.due) {
        c->queue.due = false;
        begin_all(c);
    }
}

void or_queue_tick(or_coordinator_t *c, or_csession_t *session)
{
    int64_t now = or_clock_now(c->clock);
    if (session->queue.paced_ns != 0 && now >= session->queue.paced_ns) {
        session->queue.paced_ns = 0;
        c->queue.due = true;
    }
    if (now < session->deadline_ns) {
        return;
    }
    if (all_there(c, session->plain) || (c->verifier != NULL && or_vocab_match_goes_on(c))) {
        // Only a place is missing, or a vocabulary that is on its way: wait on.
        or_csession_wait_until(session, or_hub_after_ms(c, c->config.verifier_timeout_ms));
        c->queue.due = true;
        return;
    }
    or_csession_fail(session, OR_WIRE_BUSY, "%s",
                     c->verifier == NULL
                         ? "no verifier is connected: start outrider-verifier with --connect "
                           "and this coordinator's endpoint"
                         : "the drafter did not come: see its log, or ask for --plain");
}

// ---- sharing ----

// Does another owner's request wait that would begin in a place of the owner who has `most` at work, and leave that owner
// with no less than its own then has?
static bool is_place_wanted(or_coordinator_t *c, const or_owner_count_t *all, uint32_t most)
{
    uint32_t share = c->config.sessions_per_owner_max;
    int64_t now = or_clock_now(c->clock);
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (!waits(session) || !all_there(c, session->plain)) {
            continue;
        }
        forget_pace(session, now);
        uint32_t live = or_queue_owner_of(c, session)->live;
        if (session->queue.paced_ns == 0 && all->live >= places_of(c) && live + 2 <= most &&
            (share == 0 || live < share) && or_grants_may_write(c, session)) {
            return true;
        }
    }
    return false;
}

// The most that an owner has at work.
static uint32_t most_live(const or_coordinator_t *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->queue.owner_places; i++) {
        const or_owner_count_t *owner = &c->queue.owners[i];
        most = owner->owner != NULL && owner->live > most ? owner->live : most;
    }
    return most;
}

// The shortest text of the owner with that many at work: it is the soonest computed again.
static or_csession_t *shortest_of_most(or_coordinator_t *c, uint32_t most)
{
    or_csession_t *shortest = NULL, *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (or_csession_is_live(session) && or_queue_owner_of(c, session)->live == most &&
            (shortest == NULL || session->log.length < shortest->log.length)) {
            shortest = session;
        }
    }
    return shortest;
}

int64_t or_queue_share(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    if (now < c->queue.share_due_ns) {
        return c->queue.share_due_ns;
    }
    const or_owner_count_t all = or_queue_count(c);
    c->queue.share_due_ns = now + SHARE_NS;
    uint32_t most = most_live(c);
    if (all.waiting == 0) {
        return OR_TIME_NEVER; // who comes makes a turn
    }
    if (is_place_wanted(c, &all, most)) {
        shortest_of_most(c, most)->queue.gives_way = true;
    }
    return c->queue.share_due_ns;
}

// ---- told ----

// Requests that came before this one and wait, too.
static uint32_t count_before(const or_coordinator_t *c, const or_csession_t *session)
{
    uint32_t before = 0;
    const or_csession_t *other;
    for (uint32_t at = 0; (other = or_sessions_next(&c->sessions, &at)) != NULL;) {
        before += other != session && waits(other) && other->started_ns <= session->started_ns;
    }
    return before;
}

void or_queue_why(const or_coordinator_t *c, const or_csession_t *session, char *why,
                  size_t capacity)
{
    why[0] = '\0';
    if (session->phase != OR_PHASE_WAITING) {
        return;
    }
    if (!all_there(c, session->plain)) {
        snprintf(why, capacity, "no %s is connected yet: waiting up to %u s",
                 c->verifier == NULL ? "verifier" : "drafter",
                 (unsigned)(c->config.verifier_timeout_ms / 1000));
        return;
    }
    if (session->queue.paced_ns != 0) {
        snprintf(why, capacity,
                 "your key has written as many tokens a minute as it may: waiting for %.1f s",
                 (double)(session->queue.paced_ns - or_clock_now(c->clock)) / (double)OR_NS_PER_S);
        return;
    }
    const or_owner_count_t all = or_queue_count(c);
    if (has_room(c, &all, or_queue_owner_of(c, session))) {
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
