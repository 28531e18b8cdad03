// What the drafters of a session sent for a round: checked, kept, merged for the verifier.
#include <stdio.h>
#include <string.h>

#include "common/decode/methods.h"
#include "coordinator/coordinator_internal.h"

static bool uses_dists(const or_csession_t *session)
{
    return or_accept_rule_uses_distributions(session->terms.open.accept_rule);
}

static int32_t root_of(const or_csession_t *session)
{
    return session->log.tokens[session->log.length - 1];
}

void or_trees_drop(const or_csession_t *session, or_seat_t *seat)
{
    or_token_tree_reset(seat->tree, root_of(session));
    seat->draws.draws = (or_draws_t){0};
    seat->drafted = false;
}

void or_trees_clear(or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_trees_drop(session, &session->seats[i]);
        session->seats[i].waited_ns = 0;
        session->seats[i].sent = session->seats[i].repeats = 0;
    }
}

// A tree that cannot be judged costs its sender the session.
static or_status_t check_tree(or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat,
                              const or_draft_tree_t *tree)
{
    const or_open_session_t *open = &session->terms.open;
    if (uses_dists(session) && tree->dist_count > tree->count) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes was drawn from %u distributions",
                       tree->count, tree->dist_count);
    }
    return or_draft_tree_check(tree, (or_accept_rule_t)open->accept_rule, root_of(session),
                               or_vocab_size(c->vocab) + open->outside_ids, seat->tree);
}

// In the target's ids.
static or_status_t translate(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                             const or_draft_tree_t *from, or_draft_tree_t *to)
{
    const or_open_session_t *open = &session->terms.open;
    *to = *from;
    if (from->count > seat->nodes) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes, %u were asked for", from->count,
                       seat->nodes);
    }
    if (seat->translator == NULL) {
        return OR_OK;
    }
    int64_t started = or_clock_now(c->clock);
    or_status_t status = or_translator_tree(seat->translator, open->accept_rule, &session->log,
                                            seat->asked_nodes, open->draft_depth, from, to);
    session->stats.translate_us += (uint64_t)(or_clock_now(c->clock) - started) / 1000;
    return status;
}

uint64_t or_trees_digest(const or_draft_tree_t *tree)
{
    uint64_t digest = or_prefix_hash(tree->count, tree->tokens, tree->count);
    return or_prefix_hash(digest, tree->back, tree->count);
}

or_status_t or_trees_take(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                          const or_draft_tree_t *sent)
{
    or_draft_tree_t tree;
    or_status_t status = translate(c, session, seat, sent, &tree);
    if (status == OR_OK) {
        status = check_tree(c, session, seat, &tree);
    }
    if (status != OR_OK) {
        return status;
    }
    if (tree.count > 0 && uses_dists(session)) {
        const or_draws_t draws = or_draft_tree_draws(&tree);
        if (or_draws_store(&seat->draws, &draws, tree.count) != OR_OK) {
            or_trees_drop(session, seat);
        }
    }
    if (tree.psi_count > 0) {
        memcpy(session->tree_psi, tree.psi, tree.psi_count * sizeof *tree.psi);
    }
    seat->drafted = true;
    seat->tree_digest = or_trees_digest(sent);
    seat->draft_us = tree.draft_us;
    return OR_OK;
}

// No tree is deeper than was asked for, or than its drafter's context reaches.
static uint32_t asked_depth(or_coordinator_t *c, const or_csession_t *session,
                            const or_seat_t *seat)
{
    const or_member_t *drafter = or_coordinator_member(c, seat->peer);
    if (session->terms.open.accept_rule == OR_ACCEPT_SLRS) {
        return session->terms.open
            .draft_depth; // in the target's tokens, whatever the drafter's are
    }
    uint32_t length = or_drafting_log(session, seat)->length;
    uint32_t depth = session->terms.open.draft_depth;
    uint32_t reach =
        drafter != NULL && drafter->context_max > length ? drafter->context_max - length : 0;
    return depth < reach ? depth : reach;
}

static void note_what_was_asked(or_coordinator_t *c, or_csession_t *session)
{
    session->asked_nodes = 0;
    session->asked_depth = 0;
    for (uint32_t i = 0; i < session->seat_count; i++) {
        const or_seat_t *seat = &session->seats[i];
        if (seat->drafted) {
            uint32_t depth = asked_depth(c, session, seat);
            session->asked_nodes += seat->asked_nodes;
            session->asked_depth = depth > session->asked_depth ? depth : session->asked_depth;
        }
    }
}

bool or_trees_suit_verifier(const or_coordinator_t *c, or_csession_t *session)
{
    if (!or_accept_rule_needs_trust(session->terms.open.accept_rule)) {
        return true;
    }
    if (session->asked_nodes > c->verifier->nodes_max && session->note[0] == '\0') {
        snprintf(session->note, sizeof session->note,
                 "another verifier came, for trees of %u nodes at most: decoded plainly from there",
                 c->verifier->nodes_max);
    }
    return session->asked_nodes <= c->verifier->nodes_max &&
           session->log.length + session->asked_depth <= c->verifier->context_max;
}

// Can the verifier we have now take this tree?
static bool fits_verifier(const or_coordinator_t *c, or_csession_t *session,
                          const or_token_tree_t *tree)
{
    if (c->verifier == NULL || !or_trees_suit_verifier(c, session)) {
        return false;
    }
    const uint32_t *depths = or_token_tree_depths(tree);
    for (uint32_t i = 0; i <= or_token_tree_count(tree); i++) {
        if (session->log.length + depths[i] > c->verifier->context_max) {
            return false;
        }
    }
    return or_token_tree_count(tree) <= c->verifier->nodes_max;
}

// Kept until the verifier has answered.
static or_status_t keep_tree(or_csession_t *session, const or_token_tree_t *tree,
                             const or_draws_t *draws)
{
    uint32_t count = or_token_tree_count(tree);
    or_token_tree_to_wire(tree, (int32_t *)session->tree_tokens, session->tree_back);
    session->tree_count = count;
    return count > 0 && uses_dists(session) ? or_draws_store(&session->tree_draws, draws, count)
                                            : OR_OK;
}

void or_trees_keep(or_coordinator_t *c, or_csession_t *session, const or_token_tree_t *tree,
                   const or_draws_t *draws)
{
    if (!fits_verifier(c, session, tree) || keep_tree(session, tree, draws) != OR_OK) {
        session->tree_count = 0;
    }
}

// The trees of several; an absent one is empty.
static or_status_t merge_trees(or_coordinator_t *c, const or_csession_t *session)
{
    or_merge_part_t parts[OR_SEATS_MAX];
    for (uint32_t i = 0; i < session->seat_count; i++) {
        const or_seat_t *seat = &session->seats[i];
        parts[i] = (or_merge_part_t){seat->tree, uses_dists(session) ? &seat->draws.draws : NULL};
    }
    or_token_tree_reset(c->scratch, root_of(session));
    return or_merge_trees(session->merge, parts, session->seat_count,
                          or_accept_rule_counts_repeats(session->terms.open.accept_rule),
                          c->scratch);
}

void or_trees_gather(or_coordinator_t *c, or_csession_t *session)
{
    const or_token_tree_t *tree = session->seats[0].tree;
    const or_draws_t *draws = &session->seats[0].draws.draws;
    or_status_t status = OR_OK;
    note_what_was_asked(c, session);
    if (session->seat_count > 1) {
        status = merge_trees(c, session);
        tree = c->scratch;
        draws = or_merge_draws(session->merge);
    }
    if (status != OR_OK) {
        session->tree_count = 0;
        return;
    }
    or_trees_keep(c, session, tree, draws);
}
