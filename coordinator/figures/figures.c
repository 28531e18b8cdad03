// Answers to clients that ask for statistics: the figures of coordinator, verifier, drafters and texts, as far as the
// client may see them.
#include <stdlib.h>
#include <string.h>

#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"

// The longest lists in a message: nobody reads a longer page, and a frame has a bound.
#define POLICIES_MAX 256u
#define PEERS_MAX 256u

// ---- what peers report of themselves ----

static void copy_of_verifier(const or_stats_t *from, or_stats_t *to)
{
    OR_VERIFIER_FIGURES(OR_FIGURE_COPY)
}

void or_figures_report(or_coordinator_t *c, or_member_t *member, const or_stats_t *from)
{
    or_peer_figures_t *to = &member->figures;
    OR_PEER_REPORTED_FIGURES(OR_FIGURE_COPY)
    if (member == c->verifier) {
        copy_of_verifier(from, &c->reported);
        c->reported_by = member->peer;
    }
}

// ---- who may see what ----

// A client on this machine without a name or a key sees everything, and so does our own HTTP face, which asks for
// operators.
static bool sees_all(const or_coordinator_t *c, const or_member_t *client)
{
    return client->inside || (client->owner[0] == '\0' && client->grant.key[0] == '\0' &&
                              or_link_is_local(c->link, client->peer));
}

// Return whose figures the client may see, as proto/wire/figures.h has it. NULL: all.
static const char *shown_to(const or_coordinator_t *c, const or_member_t *client)
{
    return sees_all(c, client) ? NULL : client->owner;
}

static bool may_see(const or_coordinator_t *c, const or_member_t *client, const char *owner)
{
    return or_stats_is_own(shown_to(c, client), owner);
}

// ---- texts ----

static or_policy_terms_t terms_of(const or_coordinator_t *c, const or_csession_t *session)
{
    or_policy_terms_t terms = or_policy_terms(&session->budget.policy);
    terms.session = session->id.value;
    terms.source = session->budget.source;
    terms.owner = or_csession_owner(session);
    terms.label = session->label;
    terms.prompt_tokens = session->prompt_length;
    terms.tokens = or_csession_written(session);
    terms.age_ms = (uint64_t)((or_clock_now(c->clock) - session->arrived_ns) / OR_NS_PER_MS);
    return terms;
}

static uint32_t list_policies(const or_coordinator_t *c, const or_member_t *client,
                              or_policy_terms_t policies[POLICIES_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->sessions.places && count < POLICIES_MAX; i++) {
        const or_csession_t *session = c->sessions.all[i];
        if (session != NULL && or_csession_is_live(session) &&
            may_see(c, client, or_csession_owner(session))) {
            policies[count++] = terms_of(c, session);
        }
    }
    return count;
}

// ---- peers ----

static bool is_late(const or_coordinator_t *c, const or_member_t *drafter)
{
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        or_csession_t *session = c->sessions.all[i];
        const or_seat_t *seat = session != NULL ? or_seats_find(session, drafter->peer) : NULL;
        if (seat != NULL && seat->late) {
            return true;
        }
    }
    return false;
}

static const char *state_of(const or_coordinator_t *c, const or_member_t *member, uint32_t sessions)
{
    if (member->unknown_vocab) {
        return "loading its vocabulary";
    }
    if (sessions == 0) {
        return "idle";
    }
    return member->role == OR_ROLE_DRAFTER && is_late(c, member) ? "late" : "serving";
}

static uint32_t count_live(const or_coordinator_t *c)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        live += c->sessions.all[i] != NULL && or_csession_is_live(c->sessions.all[i]);
    }
    return live;
}

static or_peer_figures_t peer_of(const or_coordinator_t *c, const or_member_t *member)
{
    or_peer_figures_t peer = member->figures;
    peer.sessions = member == c->verifier ? count_live(c) : member->sessions;
    peer.number = member->number;
    peer.role = member->role;
    peer.model = member->model;
    peer.owner = member->owner;
    peer.state = state_of(c, member, peer.sessions);
    peer.trusted = member->trusted;
    peer.connected_ms = (uint64_t)((or_clock_now(c->clock) - member->joined_ns) / OR_NS_PER_MS);
    peer.bytes = or_link_bytes(c->link, member->peer);
    return peer;
}

// List the peers that the client may see. Verifiers, and drafters of nobody in particular, work for everybody.
static uint32_t list_peers(const or_coordinator_t *c, const or_member_t *client,
                           or_peer_figures_t peers[PEERS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OR_PEERS_MAX && count < PEERS_MAX; i++) {
        const or_member_t *member = &c->peers.members[i];
        bool works = member->peer.value != 0 && member->role != OR_ROLE_CLIENT;
        bool for_all = member->role == OR_ROLE_VERIFIER || member->serves_all;
        if (works && (for_all || may_see(c, client, member->owner))) {
            const or_peer_figures_t peer = peer_of(c, member);
            peers[count++] = or_peer_for_owner(&peer, shown_to(c, client));
        }
    }
    return count;
}

// ---- answers ----

// The lists of an answer, which borrows them.
typedef struct {
    or_policy_terms_t policies[POLICIES_MAX];
    or_peer_figures_t peers[PEERS_MAX];
    or_event_t events[OR_EVENTS_MAX];
    char choice[OR_WORTH_TEXT_BYTES];
} lists_t;

static void count_phases(const or_coordinator_t *c, or_stats_t *stats)
{
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        const or_csession_t *session = c->sessions.all[i];
        if (session != NULL && session->phase != OR_PHASE_DONE) {
            stats->waiting += session->phase == OR_PHASE_WAITING;
            stats->parked += session->phase == OR_PHASE_PARKED;
            stats->resyncs += session->stats.resyncs;
        }
    }
}

// Join our figures with the last ones that a verifier reported, and keep what the client may see. Events name texts and
// peers of all owners, so only who may see all gets them.
static or_stats_t collect(const or_coordinator_t *c, const or_member_t *client,
                          uint64_t events_after, lists_t *lists)
{
    or_stats_t stats = c->figures;
    copy_of_verifier(&c->reported, &stats);
    count_phases(c, &stats);
    stats.drafters = or_peers_count(c, OR_ROLE_DRAFTER);
    stats.verifiers = or_peers_count(c, OR_ROLE_VERIFIER);
    stats.refused = or_peers_refused(c);
    stats.model = c->config.model_name;
    uint32_t texts = count_live(c);
    or_worth_explain(&c->worth, texts > 0 ? texts : 1, lists->choice, sizeof lists->choice);
    stats.choice = lists->choice;
    stats.policies = lists->policies;
    stats.policy_count = list_policies(c, client, lists->policies);
    stats.peers = lists->peers;
    stats.peer_count = list_peers(c, client, lists->peers);
    stats.events = lists->events;
    stats.event_count =
        sees_all(c, client) ? or_events_after(&c->events, events_after, lists->events) : 0;
    return or_stats_for_owner(&stats, shown_to(c, client));
}

static void tell_metrics(or_coordinator_t *c, const or_member_t *client, const or_stats_t *stats)
{
    char *text = NULL;
    size_t length;
    if (or_telemetry_render(c->telemetry, stats, &text, &length) != OR_OK) {
        or_link_send_error(c->link, client->peer, (or_session_id_t){0}, OR_WIRE_FAILED, "%s",
                           or_error_text());
        return;
    }
    const or_message_t message = {
        .type = OR_MSG_METRICS,
        .body.metrics = {.text = (const uint8_t *)text, .bytes = (uint32_t)length}};
    or_peers_send(c, client->peer, &message);
    free(text);
}

void or_figures_tell(or_coordinator_t *c, const or_member_t *client,
                     const or_stats_request_t *request)
{
    lists_t lists;
    const or_stats_t stats = collect(c, client, request->events_after, &lists);
    if (!request->metrics) {
        const or_message_t message = {.type = OR_MSG_STATS, .body.stats = stats};
        or_peers_send(c, client->peer, &message);
    } else if (sees_all(c, client)) {
        tell_metrics(c, client, &stats);
    } else {
        or_link_send_error(c->link, client->peer, (or_session_id_t){0}, OR_WIRE_REFUSED,
                           "metrics are about all owners' texts: ask on the coordinator's own "
                           "machine, without --owner");
    }
}
