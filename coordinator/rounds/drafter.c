// Messages of a drafter about a round: its tree, its answer about psi, and what goes wrong there.
#include "common/base/log/log.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/hub.h"
#include "coordinator/rounds/rounds.h"

// Trees on another text, one after the other, each of which was answered or ignored: then its drafter
// does not mend. A network that repeats and reorders does not bring as many.
#define MISFITS_MAX 8u

// ---- trees ----

// A drafter spoke. One that was late gets the state of things, and is waited for again from the next round.
static void heard(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat, uint64_t round)
{
    if (seat->late && round < session->round) {
        if (or_seats_pool(session)) { // any of its trees is welcome: it is as far as it was told
            or_redraft_send_tail(c, session, seat);
        } else {
            or_redraft_send_prefix(c, session, seat, true);
        }
    }
    seat->late = false;
    seat->spoke = true;
    seat->unanswered_ns = 0;
}

// A tree that is not for now. Who missed something repeats its tree, or is late with it; other guesses
// for a round, or guesses for rounds to come, are nothing that a bad network brings about.
static void on_untimely_tree(or_coordinator_t *c, const or_csession_t *session,
                             const or_seat_t *seat, const or_draft_tree_t *tree)
{
    bool second = tree->round == session->round && seat->drafted &&
                  or_trees_digest(tree) != seat->tree_digest;
    if (second || tree->round > session->round) {
        or_peers_offend(c, seat->peer, OR_OFFENCE_TWO_TREES);
    }
}

// A tree on another text: bring the text again, or let a drafter that does not mend go.
static void on_misfit(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (or_hub_may_replay(c, &seat->replayed_ns)) {
        session->stats.resyncs++;
        or_redraft_send_prefix(c, session, seat, true);
    } else {
        or_peers_offend(c, seat->peer, OR_OFFENCE_WRONG_HASH);
    }
    if (++seat->misfits > MISFITS_MAX) {
        or_peers_offend(c, seat->peer, OR_OFFENCE_BAD_TREE);
        or_drafting_dismiss(c, session, seat,
                            "its trees stand on another text, whatever it is told");
        or_csession_mark(session, OR_MARK_SEATS);
    }
}

// It cannot be judged: that costs its sender the session.
static void on_bad_tree(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                        or_status_t status)
{
    or_link_send_error(c->link, seat->peer, session->id, OR_WIRE_INVALID, "%s", or_error_text());
    if (status == OR_ERR_INVALID) {
        or_peers_offend(c, seat->peer, OR_OFFENCE_BAD_TREE);
    }
    or_drafting_dismiss(c, session, seat, or_error_text());
    or_csession_mark(session, OR_MARK_SEATS);
}

void or_round_drafter_tree(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                           const or_draft_tree_t *tree)
{
    bool pools = or_seats_pool(session); // guesses are good whenever they come
    heard(c, session, seat, tree->round);
    or_budget_heard(c, session, tree);
    if (!pools && (session->phase != OR_PHASE_TREE || tree->round != session->round ||
                   c->verifier == NULL || seat->drafted)) {
        on_untimely_tree(c, session, seat, tree);
        return;
    }
    or_status_t status = or_trees_take(c, session, seat, tree);
    if (status == OR_ERR_MISMATCH) {
        on_misfit(c, session, seat);
    } else if (status != OR_OK) {
        on_bad_tree(c, session, seat, status);
    }
    if (c->verifier != NULL && (status == OR_OK || (pools && status == OR_ERR_MISMATCH))) {
        or_csession_mark(session, OR_MARK_TREES);
    }
}

// ---- psi ----

void or_round_drafter_psi(or_coordinator_t *c, or_csession_t *session, const or_seat_t *seat,
                          const or_psi_reply_t *reply)
{
    if (session->phase != OR_PHASE_VERDICT || reply->round != session->round ||
        !session->tree.psi_asked || seat != or_seats_guessing(session) || c->verifier == NULL) {
        return;
    }
    const or_message_t message = {
        .type = OR_MSG_PSI_REPLY, .session = session->id, .body.psi_reply = *reply};
    or_peers_send(c, c->verifier->peer, &message);
}

// ---- its troubles ----

// It asks to be brought up to date: not more often than that can help. True: it is to be answered. To have
// lost a session is no offence: who holds few says so to every message for one. The rest is held against
// it once a round, however many messages were on the way.
static bool may_ask(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat, uint32_t code,
                    int64_t *last_ns)
{
    if (or_hub_may_replay(c, last_ns)) {
        session->stats.resyncs++;
        return true;
    }
    if (code != OR_WIRE_UNKNOWN_SESSION && seat->nagged != session->round) {
        seat->nagged = session->round;
        or_peers_offend(c, seat->peer, OR_OFFENCE_NAGGING);
    }
    return false;
}

void or_round_drafter_error(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                            const or_error_t *error)
{
    seat->late = false;
    seat->spoke = true;
    or_log_of(OR_LOG_DEBUG, or_csession_subject(session), "round %llu: drafter says: %s",
              (unsigned long long)session->round, error->text);
    switch (error->code) {
    case OR_WIRE_UNKNOWN_SESSION:
    case OR_WIRE_NEED_PREFIX:
        if (may_ask(c, session, seat, error->code, &seat->replayed_ns)) {
            if (error->code == OR_WIRE_UNKNOWN_SESSION) {
                or_redraft_open(c, session, seat);
            }
            or_redraft_send_prefix(c, session, seat, true);
        }
        break;
    case OR_WIRE_NEED_MAP:
        if (may_ask(c, session, seat, error->code, &seat->mapped_ns)) {
            or_redraft_send_map(c, session, seat);
            or_redraft_open(c, session, seat);
            or_redraft_send_prefix(c, session, seat, true);
        }
        break;
    case OR_WIRE_BUSY:
        or_drafting_pause(c, session, seat,
                          error->retry_ms > 0 ? error->retry_ms : c->config.retry_ms);
        or_csession_mark(session, OR_MARK_SEATS);
        break;
    case OR_WIRE_FAILED:
        // Whether a drafter of strings can finish depends on what it drew: a plain step in its place would be biased.
        if (session->terms.open.accept_rule == OR_ACCEPT_SLRS) {
            or_csession_fail(session, OR_WIRE_FAILED, "the drafter failed: %s", error->text);
            break;
        }
        // fall through
    default:
        or_drafting_dismiss(c, session, seat, error->text);
        or_csession_mark(session, OR_MARK_SEATS);
    }
}

void or_round_drafter_lost(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    or_log_of(OR_LOG_WARN, or_csession_subject(session), "drafter lost; going on without it");
    bool needed = session->phase == OR_PHASE_VERDICT && session->tree.psi_asked && seat->drafted;
    or_drafting_leave(c, session, seat);
    if (needed) {
        or_round_verifier_lacks_psi(session);
    } else {
        or_csession_mark(session, OR_MARK_SEATS);
    }
}
