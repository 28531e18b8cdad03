// A session's drafters: which ones serve it, and which ones leave.
#include <stdio.h>
#include <string.h>

#include "common/base/inline.h"
#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"
#include "coordinator/vocab/vocabulary_match.h"
#include "proto/net/back_off.h"

// A drafter that was no use to a session may try again after so long.
#define REST_MS 30000u
// The same of one that was late, if another could take its seat. That one may need as long to read the text.
#define LATE_REST_MS 10000u

// A label that no choice's index reaches: "drafter". The key of the first drafter has it, and the others' keys the labels that
// follow.
#define DRAFT_LABEL UINT64_C(0x6472616674657200)

void or_drafting_leave(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (seat->peer.value == 0) {
        return;
    }
    or_member_t *member = or_peers_find(c, seat->peer);
    if (member != NULL) {
        member->sessions--;
    }
    session->stats.wire_bytes += or_link_bytes(c->link, seat->peer) - seat->link_bytes;
    seat->before = seat->peer;
    seat->peer = (or_peer_t){0};
    seat->awaited = seat->late = false;
    seat->nudge_ns = OR_TIME_NEVER;
    or_translator_destroy(&seat->translator);
    or_trees_drop(session, seat);
}

void or_drafting_leave_all(or_coordinator_t *c, or_csession_t *session, const char *reason)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_peer_t drafter = session->drafters.seats[i].peer;
        if (drafter.value != 0) { // leave first, so that only what served this text is counted
            or_drafting_leave(c, session, &session->drafters.seats[i]);
            or_peers_send_cancel(c, session, drafter, reason);
        }
        session->drafters.seats[i].before = (or_peer_t){0};
    }
}

// ---- rests ----

static void keep_away(or_coordinator_t *c, or_csession_t *session, or_peer_t drafter, uint32_t ms)
{
    uint32_t at = session->drafters.rests++ % OR_RESTING_MAX;
    session->drafters.resting[at].drafter = drafter;
    session->drafters.resting[at].until_ns = or_hub_after_ms(c, ms);
}

// It was no use: that goes into its record, which counts in other sessions too.
static void note_rest(or_coordinator_t *c, const or_seat_t *seat, double rests)
{
    or_member_t *member = or_peers_find(c, seat->peer);
    if (member != NULL) {
        or_record_add(&member->record, rests, or_clock_now(c->clock));
    }
}

// It was no use to the session, for this reason: let it go for a while. Another may take its seat.
static void rest(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat, const char *why)
{
    or_peer_t drafter = seat->peer;
    note_rest(c, seat, OR_RECORD_REST);
    keep_away(c, session, drafter, REST_MS);
    snprintf(session->note, sizeof session->note, "%s: decoded plainly for a while", why);
    or_log_of(OR_LOG_INFO, or_csession_subject(session), "drafter dismissed for a while: %s", why);
    or_drafting_leave(c, session, seat);
    or_peers_send_cancel(c, session, drafter, why);
}

void or_drafting_pause(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat, uint32_t ms)
{
    seat->busy_ms = or_min_u32(or_back_off_ms(seat->busy_ms, ms), OR_BACK_OFF_MOST_MS);
    keep_away(c, session, seat->peer, seat->busy_ms);
    or_drafting_leave(c, session, seat);
}

// ---- candidates ----

static bool is_resting(const or_csession_t *session, or_peer_t drafter, int64_t now_ns)
{
    for (uint32_t i = 0; i < OR_RESTING_MAX; i++) {
        if (session->drafters.resting[i].drafter.value == drafter.value &&
            now_ns < session->drafters.resting[i].until_ns) {
            return true;
        }
    }
    return false;
}

static bool is_unfit(const or_csession_t *session, or_peer_t drafter)
{
    for (uint32_t i = 0; i < OR_UNFIT_MAX; i++) {
        if (session->drafters.unfit[i].value == drafter.value) {
            return true;
        }
    }
    return false;
}

// A ratio rule believes that the drafter drew what it says: only those marked trusted may serve it.
static bool is_believed(const or_member_t *member, const or_csession_t *session)
{
    return member->trusted || !or_accept_rule_needs_trust(session->terms.open.accept_rule);
}

// A drafter that has an owner serves, and so reads, nobody else's texts.
static bool serves(const or_member_t *member, const or_csession_t *session)
{
    return member->serves_all || strcmp(member->owner, or_csession_owner(session)) == 0;
}

// A drafter that is given more sessions than it holds forgets one for each.
static bool is_full(const or_member_t *member)
{
    return member->sessions_max > 0 && member->sessions >= member->sessions_max;
}

// The drafters that may take a free seat of a session.
typedef struct {
    int64_t now_ns;
    uint32_t count;
    or_member_t *best; // NULL: none
    // Why those that are here may not.
    bool foreign; // they serve another owner
    bool full;
    bool distrusted;
    char stranger[480]; // of one whose vocabulary does not suit; "": none
} candidates_t;

static bool suits_vocabulary(const or_member_t *member, const or_csession_t *session,
                             candidates_t *candidates)
{
    or_vocab_method_t method;
    char why[256];
    if (or_vocab_match_choose(member, session, &method, why, sizeof why) == OR_OK) {
        return true;
    }
    snprintf(candidates->stranger, sizeof candidates->stranger, "%s", or_error_text());
    return false;
}

// May this member take a seat? (One whose vocabulary is still to come may not.)
static bool is_fitting(const or_member_t *member, or_csession_t *session, candidates_t *candidates)
{
    if (member->peer.value == 0 || member->role != OR_ROLE_DRAFTER || member->unknown_vocab ||
        member->cut || is_unfit(session, member->peer) ||
        is_resting(session, member->peer, candidates->now_ns) ||
        or_seats_find(session, member->peer) != NULL) {
        return false;
    }
    if (!serves(member, session)) {
        candidates->foreign = true;
        return false;
    }
    bool believed = is_believed(member, session);
    candidates->distrusted = candidates->distrusted || !believed;
    if (!believed || !suits_vocabulary(member, session, candidates)) {
        return false;
    }
    candidates->full = candidates->full || is_full(member);
    return !is_full(member) && or_peers_has_read(member);
}

// The drafter with the fewest sessions drafts, and of equals the one that shares most of its vocabulary with the target,
// has offended least and was of use: to share nothing, to be about to be cut off, to be quiet, or to have been of no
// use four times just now, weighs as much as four more sessions.
static double reluctance(const or_coordinator_t *c, const or_member_t *member, int64_t now_ns)
{
    const or_known_vocab_t *known = member->vocab;
    double shared = known == NULL || known->pair->bijective ? 1 : known->figures.shared_of_bytes;
    double misconduct = member->conduct.points / OR_CONDUCT_POINTS_MAX;
    return member->sessions + 4 * (1 - shared) + 4 * misconduct +
           4 * or_seats_is_quiet(c, member->late_ns) + or_record_rests(&member->record, now_ns);
}

static candidates_t find_candidates(or_coordinator_t *c, or_csession_t *session)
{
    candidates_t found = {.now_ns = or_clock_now(c->clock)};
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->peers.members[i];
        if (is_fitting(member, session, &found)) {
            found.count++;
            bool better = found.best == NULL || reluctance(c, member, found.now_ns) <
                                                    reluctance(c, found.best, found.now_ns);
            found.best = better ? member : found.best;
        }
    }
    return found;
}

bool or_drafting_has_only_strangers(or_coordinator_t *c, or_csession_t *session, char *why,
                                    size_t capacity)
{
    candidates_t found = find_candidates(c, session);
    snprintf(why, capacity, "%s", found.stranger);
    return found.count == 0 && !found.distrusted && !found.full && found.stranger[0] != '\0';
}

// The user is told why a drafter that is there does not serve.
static void explain_absence(or_csession_t *session, const candidates_t *found)
{
    const char *rule = or_accept_rule_name(session->terms.open.accept_rule);
    bool nobody =
        !found->distrusted && !found->foreign && !found->full && found->stranger[0] == '\0';
    if (session->note[0] != '\0' || nobody) {
        return;
    }
    if (found->full) {
        snprintf(session->note, sizeof session->note,
                 "every drafter that suits has as many sessions as it takes: decoded plainly until "
                 "one has room; connect more, or start it with a larger --sessions-max");
    } else if (found->distrusted) {
        snprintf(session->note, sizeof session->note,
                 "no drafter here is trusted, and rule %s would believe what it says it drew: "
                 "decoded plainly; use --accept coupled or naive, or a trusted drafter",
                 rule);
    } else if (found->stranger[0] == '\0') {
        snprintf(session->note, sizeof session->note,
                 "the drafters here serve other owners: decoded plainly; connect one with your own "
                 "--owner, or with none");
    } else {
        snprintf(session->note, sizeof session->note, "decoded plainly: %.480s", found->stranger);
    }
    or_log_of(OR_LOG_WARN, or_csession_subject(session), "%s", session->note);
}

// ---- seats ----

// The guesses that the key of its client allows in a round.
static uint32_t nodes_allowed(const or_coordinator_t *c, const or_csession_t *session)
{
    const or_key_grant_t *grant = or_grants_find(c, session->key);
    return grant != NULL && grant->nodes_max > 0 ? grant->nodes_max : OR_TREE_NODES_MAX;
}

// A session has as many seats as there are drafters now, but with a node and a sequence for each; 0 if there is none.
static uint32_t count_seats(const or_coordinator_t *c, const or_csession_t *session,
                            uint32_t fitting)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t seats = or_min_u32(fitting, or_seats_max(session));
    uint32_t parts = open->draft_shape_count > 0 ? open->draft_shape[0] : open->draft_nodes;
    parts = or_min_u32(parts, nodes_allowed(c, session));
    return seats > 1 && parts < seats ? (parts > 0 ? parts : 1) : seats;
}

// A seat's part of that, as the keyring is now: one at least. A limit that is lowered later may be below the number of seats.
static uint32_t allowed_for_seat(const or_coordinator_t *c, const or_csession_t *session)
{
    uint32_t part = nodes_allowed(c, session) / session->drafters.count;
    return part > 0 ? part : 1;
}

// The key that the n-th drafter to join draws with.
static uint64_t draft_key(const or_csession_t *session, uint32_t n)
{
    return or_rng_key(session->key_seed, DRAFT_LABEL + n).value;
}

static uint32_t part_of(uint32_t whole, uint32_t parts, uint32_t index)
{
    return whole / parts + (index < whole % parts);
}

// The least of what it is allowed, and of what the policy finds worth its time.
static void keep_to_budget(const or_csession_t *session, or_seat_t *seat, const or_budget_t *budget)
{
    uint32_t nodes = budget->nodes > 0 ? budget->nodes : 1;
    if (or_seats_can_cut(session) && nodes < seat->nodes) {
        seat->nodes = nodes;
    }
}

// A seat is asked to build its share: the trees of all together fit what the session allows, so that none of them ever
// has to be cut.
static void share_out(const or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat,
                      uint32_t drafter_nodes)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t index = (uint32_t)(seat - session->drafters.seats);
    uint32_t count = session->drafters.count;
    seat->sequences = 0;
    seat->asked_nodes = part_of(open->draft_nodes, count, index);
    if (count > 1 && open->draft_shape_count > 0) {
        seat->sequences = part_of(open->draft_shape[0], count, index);
        seat->asked_nodes = open->draft_nodes / open->draft_shape[0] * seat->sequences;
    }
    seat->asked_nodes = or_min_u32(seat->asked_nodes, drafter_nodes);
    if (c->verifier != NULL) {
        seat->asked_nodes = or_min_u32(seat->asked_nodes, c->verifier->nodes_max / count);
    }
    seat->asked_nodes = or_min_u32(seat->asked_nodes, allowed_for_seat(c, session));
    seat->nodes = seat->asked_nodes;
    keep_to_budget(session, seat, &session->budget.policy.budget);
    seat->misfits = 0;
}

static void rule_out(or_csession_t *session, or_peer_t drafter, const char *why)
{
    or_log_of(OR_LOG_WARN, or_csession_subject(session), "drafter dismissed: %s", why);
    snprintf(session->note, sizeof session->note, "a drafter was dismissed: %.480s", why);
    session->drafters.unfit[session->drafters.unfit_count++ % OR_UNFIT_MAX] = drafter;
}

// Every way that one of its drafters meets the target, in the order of the seats.
static void name_maps(or_csession_t *session)
{
    size_t used = 0;
    uint32_t named = 0; // bits
    session->drafters.vocab_map[0] = '\0';
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
        if (seat->vocab_method != OR_VOCAB_AUTO && (named >> seat->vocab_method & 1) == 0) {
            named |= 1U << seat->vocab_method;
            used += (size_t)snprintf(session->drafters.vocab_map + used,
                                     sizeof session->drafters.vocab_map - used, "%s%s",
                                     used > 0 ? "+" : "", or_vocab_method_name(seat->vocab_method));
        }
    }
}

// Make what its vocabulary needs, where that is another.
static or_status_t meet(or_csession_t *session, or_seat_t *seat, const or_member_t *member)
{
    or_vocab_method_t method;
    or_status_t status = or_vocab_match_choose(
        member, session, &method, session->drafters.vocab_why, sizeof session->drafters.vocab_why);
    if (status == OR_OK && member->vocab != NULL) {
        uint32_t changed;
        status = or_translator_create(member->vocab, method, session->terms.open.draft_nodes,
                                      &seat->translator);
        if (status == OR_OK) {
            status = or_translator_follow(seat->translator, &session->log, &changed);
        }
    }
    if (status == OR_OK) {
        seat->vocab_method = method;
        name_maps(session);
        or_log_of(OR_LOG_INFO, or_csession_subject(session), "vocabulary map %s: %s",
                  or_vocab_method_name(method), session->drafters.vocab_why);
    }
    return status;
}

static or_status_t take_seat(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                             or_member_t *member)
{
    or_status_t status = meet(session, seat, member);
    if (status != OR_OK) {
        or_translator_destroy(&seat->translator);
        rule_out(session, member->peer, or_error_text());
        return status;
    }
    session->note[0] = '\0'; // why there was none is over
    seat->usefulness =
        (or_usefulness_t){.record = or_record_rests(&member->record, or_clock_now(c->clock))};
    seat->nagged = 0;
    seat->behind = seat->spoke = false;
    seat->unanswered_ns = 0;
    if (seat->before.value != 0 && seat->before.value != member->peer.value) {
        session->stats.failovers++;
        c->figures.failovers++;
        or_counters_event(c, OR_EVENT_FAILOVER, session, "%s takes over after %u tokens",
                          member->model, or_csession_written(session));
    }
    member->sessions++;
    seat->peer = member->peer;
    or_policy_spoke(&session->budget.policy); // what others owed it does not
    seat->link_bytes = or_link_bytes(c->link, member->peer);
    // A drafter that comes back may still draw with its old key: among several none is given twice.
    seat->draft_key =
        draft_key(session, session->drafters.count > 1 ? session->drafters.joined : 0);
    session->drafters.joined++;
    share_out(c, session, seat, member->nodes_max);
    or_policy_builds(&session->budget.policy, or_seats_asked_nodes(session));
    or_redraft_open(c, session, seat);
    or_redraft_send_prefix(c, session, seat, true);
    return OR_OK;
}

// A drafter that was given up on makes room where another can take over; it may come back later.
static void relieve(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    or_peer_t late = seat->peer;
    or_log_of(OR_LOG_INFO, or_csession_subject(session),
              "another drafter takes over from one that is late");
    keep_away(c, session, late, LATE_REST_MS);
    or_drafting_leave(c, session, seat);
    or_peers_send_cancel(c, session, late, "another drafter takes over");
}

bool or_drafting_join(or_coordinator_t *c, or_csession_t *session)
{
    if (session->plain || or_budget_is_plain(session)) {
        return false;
    }
    bool joined = false;
    bool served = false;
    candidates_t found = find_candidates(c, session);
    if (session->drafters.count == 0) {
        session->drafters.count = count_seats(c, session, found.count);
    }
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->late && found.best != NULL) {
            relieve(c, session, seat);
        }
        if (seat->peer.value == 0 && found.best != NULL) {
            joined = take_seat(c, session, seat, found.best) == OR_OK || joined;
            found = find_candidates(c, session);
        }
        served = served || seat->peer.value != 0;
    }
    if (!served) {
        explain_absence(session, &found);
    }
    return joined;
}

// This drafter cannot serve this session; another may.
void or_drafting_dismiss(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                         const char *why)
{
    rule_out(session, seat->peer, why);
    or_drafting_leave(c, session, seat);
}

// ---- a round is over ----

// The key may be allowed less than when the drafter joined. What cannot be cut is asked for anew, by whoever takes the
// seat next: false.
static bool keep_to_key(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    uint32_t allowed = allowed_for_seat(c, session);
    seat->nodes = seat->nodes < allowed ? seat->nodes : allowed;
    return or_seats_can_cut(session) || seat->asked_nodes <= allowed;
}

static void vacate(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    or_peer_t drafter = seat->peer;
    or_drafting_leave(c, session, seat);
    or_peers_send_cancel(c, session, drafter, "fewer guesses are allowed now");
}

void or_drafting_pass_on(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    uint32_t path[OR_TREE_NODES_MAX];
    or_budget_steer(c, session);
    if (or_budget_is_plain(session)) {
        // Who is told nothing would go on drafting.
        or_drafting_leave_all(c, session, "plain decoding is faster now");
        return;
    }
    const or_budget_t budget = or_budget_chosen(c, session);
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->peer.value == 0) {
            continue;
        }
        char why[96];
        uint32_t accepted = or_seats_own_path(session, i, verdict, path);
        if (!or_seats_judge(c, session, seat, accepted, why, sizeof why)) {
            rest(c, session, seat, why);
        } else if (!keep_to_key(c, session, seat)) {
            vacate(c, session, seat);
        } else {
            keep_to_budget(session, seat, &budget);
            or_redraft_pass_on(c, session, seat, verdict, path, accepted);
        }
    }
}

void or_drafting_give_up(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->awaited) {
            or_seats_end_wait(c, seat);
            note_rest(c, seat, OR_RECORD_LATE);
            or_seats_lose_patience(c, seat);
        }
    }
}
