// A session's drafter: which one serves, what it is told, and which of its trees are judged.
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/decode/methods.h"
#include "coordinator/coordinator_internal.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Without the verifier's key.
void or_drafting_open(or_coordinator_t *c, const or_csession_t *session)
{
    or_message_t message = {.type = OR_MSG_OPEN_SESSION,
                            .session = session->id,
                            .body.open_session = session->terms.open};
    message.body.open_session.private_key = 0;
    message.body.open_session.draft_nodes = session->asked_nodes;
    or_coordinator_send(c, session->drafter, &message);
}

void or_drafting_leave(or_coordinator_t *c, or_csession_t *session)
{
    if (session->drafter.value == 0) {
        return;
    }
    or_member_t *member = or_coordinator_member(c, session->drafter);
    if (member != NULL) {
        member->sessions--;
    }
    session->stats.wire_bytes += or_link_bytes(c->link, session->drafter) - session->link_bytes;
    session->drafter = (or_peer_t){0};
    session->late = false;
    session->nudge_ns = OR_TIME_NEVER;
}

static bool is_unfit(const or_csession_t *session, or_peer_t drafter)
{
    for (uint32_t i = 0; i < session->unfit_count; i++) {
        if (session->unfit[i].value == drafter.value) {
            return true;
        }
    }
    return session->unfit_count == OR_UNFIT_MAX;
}

// A ratio rule believes that the drafter drew what it says: only those marked trusted may serve it.
static bool is_believed(const or_member_t *member, const or_csession_t *session)
{
    return member->trusted || !or_accept_rule_uses_laws(session->terms.open.accept_rule);
}

// The one with the fewest sessions; NULL if there is none. *distrusted: there would be one that is
// not believed.
static or_member_t *least_loaded_drafter(or_coordinator_t *c, const or_csession_t *session,
                                         bool *distrusted)
{
    or_member_t *best = NULL;
    *distrusted = false;
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->members[i];
        if (member->peer.value == 0 || member->role != OR_ROLE_DRAFTER ||
            is_unfit(session, member->peer)) {
            continue;
        }
        if (!is_believed(member, session)) {
            *distrusted = true;
        } else if (best == NULL || member->sessions < best->sessions) {
            best = member;
        }
    }
    return best;
}

// The user is told why a drafter that is there does not serve.
static void explain_distrust(or_csession_t *session)
{
    const char *rule = or_accept_rule_name(session->terms.open.accept_rule);
    if (session->note[0] != '\0') {
        return;
    }
    snprintf(session->note, sizeof session->note,
             "no drafter here is trusted, and rule %s would believe what it says it drew: "
             "decoded plainly; use --accept coupled or naive, or a trusted drafter",
             rule);
    or_log(OR_LOG_WARN, "session %llx: no drafter is trusted for rule %s",
           (unsigned long long)session->id.value, rule);
}

// True if the session has a drafter now.
bool or_drafting_join(or_coordinator_t *c, or_csession_t *session)
{
    if (session->plain || session->drafter.value != 0) {
        return !session->plain;
    }
    bool distrusted = false;
    or_member_t *member = NULL;
    if (or_clock_now(c->clock) >= session->rejoin_ns) {
        member = least_loaded_drafter(c, session, &distrusted);
    }
    if (member == NULL) {
        if (distrusted) {
            explain_distrust(session);
        }
        return false;
    }
    session->note[0] = '\0'; // why there was none is over
    member->sessions++;
    session->drafter = member->peer;
    session->link_bytes = or_link_bytes(c->link, member->peer);
    session->late = false;
    session->asked_nodes = least(session->terms.open.draft_nodes, member->nodes_max);
    if (c->verifier != NULL) {
        session->asked_nodes = least(session->asked_nodes, c->verifier->nodes_max);
    }
    or_drafting_open(c, session);
    or_coordinator_send_prefix(c, session, member->peer, 0);
    return true;
}

// This drafter cannot serve this session; another may.
void or_drafting_dismiss(or_coordinator_t *c, or_csession_t *session, const char *why)
{
    or_log(OR_LOG_WARN, "session %llx: drafter dismissed: %s",
           (unsigned long long)session->id.value, why);
    snprintf(session->note, sizeof session->note, "a drafter was dismissed: %s", why);
    session->unfit[session->unfit_count++] = session->drafter; // it joined, so there is room
    or_drafting_leave(c, session);
}

// The drafter moves on with us. One that was given up on is not flooded: it gets a prefix when it
// speaks.
void or_drafting_pass_on(or_coordinator_t *c, const or_csession_t *session,
                         const or_verdict_t *verdict)
{
    if (session->drafter.value == 0 || session->late) {
        return;
    }
    or_message_t message = {
        .type = OR_MSG_VERDICT, .session = session->id, .body.verdict = *verdict};
    message.body.verdict.forward_us = 0;
    message.body.verdict.accept_us = 0;
    message.body.verdict.logprob_count = 0;
    or_coordinator_send(c, session->drafter, &message);
}

// What a drafter sent, checked: a tree that cannot be judged costs its sender the session.
static or_status_t check_tree(or_coordinator_t *c, const or_csession_t *session,
                              const or_draft_tree_t *tree)
{
    if (tree->count > session->asked_nodes) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes, %u were asked for", tree->count,
                       session->asked_nodes);
    }
    return or_draft_tree_check(tree, (or_accept_rule_t)session->terms.open.accept_rule,
                               session->log.tokens[session->log.length - 1],
                               or_vocab_size(c->vocab), c->scratch);
}

// No tree is deeper than was asked for, or than the drafter's context reaches.
static uint32_t asked_depth(const or_coordinator_t *c, const or_csession_t *session)
{
    const or_member_t *drafter = or_coordinator_member((or_coordinator_t *)c, session->drafter);
    uint32_t length = session->log.length;
    uint32_t reach =
        drafter != NULL && drafter->context_max > length ? drafter->context_max - length : 0;
    return least(session->terms.open.draft_depth, reach);
}

bool or_drafting_suits_verifier(const or_coordinator_t *c, or_csession_t *session)
{
    if (!or_accept_rule_uses_laws(session->terms.open.accept_rule)) {
        return true;
    }
    if (session->asked_nodes > c->verifier->nodes_max && session->note[0] == '\0') {
        snprintf(session->note, sizeof session->note,
                 "another verifier came, for trees of %u nodes at most: decoded plainly from there",
                 c->verifier->nodes_max);
    }
    return session->asked_nodes <= c->verifier->nodes_max &&
           session->log.length + asked_depth(c, session) <= c->verifier->context_max;
}

// Can the verifier we have now take the tree in c->scratch?
static bool fits_verifier(const or_coordinator_t *c, or_csession_t *session)
{
    if (!or_drafting_suits_verifier(c, session)) {
        return false;
    }
    const uint32_t *depths = or_token_tree_depths(c->scratch);
    for (uint32_t i = 0; i <= or_token_tree_count(c->scratch); i++) {
        if (session->log.length + depths[i] > c->verifier->context_max) {
            return false;
        }
    }
    return or_token_tree_count(c->scratch) <= c->verifier->nodes_max;
}

// Kept until the verifier has answered.
static or_status_t keep_tree(or_csession_t *session, const or_draft_tree_t *tree)
{
    session->tree_count = tree->count;
    if (tree->count > 0) {
        memcpy(session->tree_tokens, tree->tokens, tree->count * sizeof *tree->tokens);
        memcpy(session->tree_back, tree->back, tree->count * sizeof *tree->back);
    }
    if (tree->count == 0 || !or_accept_rule_uses_laws(session->terms.open.accept_rule)) {
        return OR_OK;
    }
    const or_draws_t draws = or_draft_tree_draws(tree);
    return or_draws_store(&session->tree_draws, &draws, tree->count);
}

or_status_t or_drafting_take(or_coordinator_t *c, or_csession_t *session,
                             const or_draft_tree_t *tree)
{
    or_status_t status = check_tree(c, session, tree);
    if (status == OR_OK && (!fits_verifier(c, session) || keep_tree(session, tree) != OR_OK)) {
        session->tree_count = 0;
    }
    return status;
}
