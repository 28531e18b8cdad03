#include "coordinator/drafters/seats.h"

#include <stdio.h>

#include "common/decode/methods.h"
#include "coordinator/hub.h"

uint32_t or_seats_max(const or_csession_t *session)
{
    return session->terms.open.draft_method == OR_DRAFT_MULTI ? OR_SEATS_MAX : 1;
}

or_seat_t *or_seats_find(or_csession_t *session, or_peer_t drafter)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        if (drafter.value != 0 && session->drafters.seats[i].peer.value == drafter.value) {
            return &session->drafters.seats[i];
        }
    }
    return NULL;
}

const or_token_log_t *or_seats_log(const or_csession_t *session, const or_seat_t *seat)
{
    return seat->translator != NULL ? or_translator_log(seat->translator) : &session->log;
}

bool or_seats_pool(const or_csession_t *session)
{
    return session->budget.guesses != NULL && session->drafters.seats[0].translator == NULL;
}

bool or_seats_can_cut(const or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    return or_usefulness_can_cut(open->draft_method, open->accept_rule);
}

uint32_t or_seats_own_path(const or_csession_t *session, uint32_t seat, const or_verdict_t *verdict,
                           uint32_t *path)
{
    bool merged = session->drafters.count > 1;
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t node = verdict->accepted[i];
        path[i] = merged ? or_merge_origin(session->drafters.merge, seat, node) : node;
        if (path[i] == 0) {
            return i;
        }
    }
    return verdict->accepted_count;
}

or_seat_t *or_seats_guessing(or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->peer.value != 0 && seat->drafted && seat->translator != NULL) {
            return seat;
        }
    }
    return NULL;
}

uint32_t or_seats_asked_nodes(const or_csession_t *session)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
        nodes += seat->peer.value != 0 ? seat->asked_nodes : 0;
    }
    return nodes;
}

// ---- waiting for trees ----

// A drafter that works on several texts may be late for one and in time for the next: it is quiet after a quarter of the
// draft time-out. After ten of them it is tried again.
static int64_t quiet_after_ns(const or_coordinator_t *c)
{
    return c->config.draft_timeout_ms * OR_NS_PER_MS / 4;
}

static int64_t forgotten_after_ns(const or_coordinator_t *c)
{
    return 10 * c->config.draft_timeout_ms * OR_NS_PER_MS;
}

bool or_seats_is_quiet(const or_coordinator_t *c, int64_t late_ns)
{
    const int64_t since_ns = or_clock_now(c->clock) - late_ns;
    return late_ns != 0 && since_ns > quiet_after_ns(c) && since_ns < forgotten_after_ns(c);
}

static bool is_late_at_once(or_coordinator_t *c, const or_seat_t *seat)
{
    const or_member_t *member = or_peers_find(c, seat->peer);
    return !seat->spoke && member != NULL && or_seats_is_quiet(c, member->late_ns);
}

void or_seats_await(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->peer.value == 0 || seat->late || seat->drafted || seat->awaited) {
            continue;
        }
        if (is_late_at_once(c, seat)) {
            or_seats_lose_patience(c, seat);
        } else {
            seat->awaited = true;
            seat->awaited_ns = or_clock_now(c->clock);
            seat->nudge_ns = or_hub_after_ms(c, c->config.draft_timeout_ms / 4);
        }
    }
}

bool or_seats_are_awaited(const or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        if (session->drafters.seats[i].awaited) {
            return true;
        }
    }
    return false;
}

void or_seats_end_wait(const or_coordinator_t *c, or_seat_t *seat)
{
    if (seat->awaited) {
        seat->awaited = false;
        seat->waited_ns = or_clock_now(c->clock) - seat->awaited_ns;
    }
}

void or_seats_lose_patience(or_coordinator_t *c, or_seat_t *seat)
{
    const int64_t now = or_clock_now(c->clock);
    or_member_t *member = or_peers_find(c, seat->peer);
    if (member != NULL &&
        (member->late_ns == 0 || now - member->late_ns >= forgotten_after_ns(c))) {
        member->late_ns = now;
    }
    seat->late = true;
    seat->awaited = false;
    seat->awaited_ns = now;
    seat->nudge_ns = or_hub_after_ms(c, c->config.heartbeat_ms);
}

void or_seats_bridge(or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->awaited) {
            seat->awaited = false;
            seat->nudge_ns = seat->behind ? OR_TIME_NEVER : seat->nudge_ns;
        }
    }
}

// ---- its use ----

static bool is_silent(const or_coordinator_t *c, const or_seat_t *seat)
{
    return seat->late && or_clock_now(c->clock) - seat->awaited_ns > OR_SILENT_NS_MAX;
}

static void say_why(or_use_t use, char *why, size_t capacity)
{
    if (use == OR_USE_FRUITLESS) {
        snprintf(why, capacity, "none of the drafter's guesses was accepted in %u rounds",
                 OR_FRUITLESS_ROUNDS_MAX);
    } else {
        snprintf(why, capacity, "the drafter %s",
                 use == OR_USE_SLOW ? "took more time than its guesses saved" : "fell silent");
    }
}

// A tree that the verifier could not take is not its fault, and the first round reads the prompt.
bool or_seats_judge(const or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat,
                    uint32_t accepted, char *why, size_t capacity)
{
    int64_t verify_ns = or_clock_now(c->clock) - session->target.asked_ns;
    bool withheld =
        seat->drafted && or_token_tree_count(seat->tree) > 0 && session->tree.count == 0;
    bool judged = seat->waited_ns > 0 || seat->drafted;
    if (judged && !withheld && seat->asked_nodes > 0) {
        or_usefulness_judged(&seat->usefulness, accepted, session->round > 2 ? seat->waited_ns : 0,
                             verify_ns);
    }
    if (session->measured) {
        seat->nodes = seat->asked_nodes;
        say_why(OR_USE_GOOD, why, capacity);
        return !is_silent(c, seat);
    }
    seat->nodes =
        or_usefulness_nodes(&seat->usefulness, seat->asked_nodes, or_seats_can_cut(session));
    or_use_t use = or_usefulness_of(&seat->usefulness, verify_ns);
    say_why(use, why, capacity);
    return use == OR_USE_GOOD && !is_silent(c, seat);
}
