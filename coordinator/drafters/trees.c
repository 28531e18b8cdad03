// Trees that the drafters of a session sent for a round: checked, kept, merged for the verifier.
#include <stdio.h>
#include <string.h>

#include "common/base/inline.h"
#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/hub.h"

// Trees without news that a drafter may send in a round before they count as guesses do: to look them up costs us as
// much. It repeats those of a round for a reminder, and what it sent before a cut comes twice.
#define REPEATS_FREE 16u

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
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_trees_drop(session, &session->drafters.seats[i]);
        session->drafters.seats[i].waited_ns = 0;
        session->drafters.seats[i].sent = session->drafters.seats[i].repeats = 0;
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

uint32_t or_trees_time_us(const or_draft_tree_t *tree)
{
    return tree->draft_us + or_min_u32(tree->read_us, UINT32_MAX - tree->draft_us);
}

uint64_t or_trees_digest(const or_draft_tree_t *tree)
{
    uint64_t digest = or_prefix_hash(tree->count, tree->tokens, tree->count);
    return or_prefix_hash(digest, tree->back, tree->count);
}

static or_status_t take_tree(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                             const or_draft_tree_t *sent)
{
    or_draft_tree_t tree;
    const or_token_log_t *held = or_seats_log(session, seat);
    if (held->length == 0 || sent->base_length != held->length || sent->base_hash != held->hash) {
        return OR_ERR_MISMATCH;
    }
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
        memcpy(session->tree.psi, tree.psi, tree.psi_count * sizeof *tree.psi);
    }
    seat->drafted = true;
    seat->tree_digest = or_trees_digest(sent);
    seat->draft_us = or_trees_time_us(&tree);
    seat->misfits = seat->busy_ms = 0;
    session->stats.draft_passes += sent->passes;
    or_seats_end_wait(c, seat);
    seat->nudge_ns = OR_TIME_NEVER;
    return OR_OK;
}

// ---- the pool: guesses of a drafter that works ahead ----
//
// Each round takes the first guesses of the pool. The drafter is told of the text alone, never of nodes, so it does not matter
// which of them were judged when.

// The most guesses that it may have sent before we take any: those of the round, and of the rounds in flight.
static uint32_t guesses_max(const or_csession_t *session, const or_seat_t *seat)
{
    uint32_t most = (session->terms.open.draft_ahead + 1) * seat->asked_nodes;
    return most < OR_TREE_NODES_MAX ? most : OR_TREE_NODES_MAX;
}

static or_status_t check_guesses(or_coordinator_t *c, const or_csession_t *session,
                                 const or_seat_t *seat, const or_draft_tree_t *tree)
{
    if (tree->count > guesses_max(session, seat)) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes, %u were asked for", tree->count,
                       guesses_max(session, seat));
    }
    return or_draft_tree_check(tree, (or_accept_rule_t)session->terms.open.accept_rule, 0,
                               or_vocab_size(c->vocab), c->scratch);
}

// Its tree stands on nothing that is here. Where it says that it stands on a guess of its own that guess was
// lost, if it knows the text as it is; else the text has gone another way meanwhile. So it gets the text
// again, which it answers with the whole tree.
static or_status_t on_alien(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                            const or_draft_tree_t *tree)
{
    if (tree->parent_round == 0) {
        return OR_ERR_MISMATCH;
    }
    if (tree->round == session->round && or_hub_may_replay(c, &seat->replayed_ns)) {
        session->stats.resyncs++;
        or_redraft_send_prefix(c, session, seat, false);
    }
    return OR_OK;
}

static void count_tree(or_csession_t *session, const or_draft_tree_t *tree)
{
    session->stats.draft_passes += tree->passes;
    session->stats.draft_us += session->round > 1 ? or_trees_time_us(tree) : 0;
}

static or_status_t pool(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                        const or_draft_tree_t *tree)
{
    uint32_t news;
    or_status_t status = check_guesses(c, session, seat, tree);
    if (status != OR_OK) {
        return status;
    }
    if (tree->round > session->round || seat->sent > 2 * guesses_max(session, seat)) {
        or_peers_offend(c, seat->peer, OR_OFFENCE_TWO_TREES);
        return OR_OK;
    }
    or_guesses_fate_t fate = or_guesses_add(session->budget.guesses, tree, &news);
    seat->sent += 1 + news; // what comes again, to stand on, is no news
    // A drafter that is a round trip behind sends much for a text that has gone another way. Only to send what is here
    // already, over and over, is an offence.
    if (fate == OR_GUESSES_KNOWN && ++seat->repeats > REPEATS_FREE) {
        seat->sent += tree->count;
    }
    or_log_of(OR_LOG_TRACE, or_csession_subject(session),
              "round %llu: %u guesses on %u tokens, %u are news",
              (unsigned long long)session->round, tree->count, tree->base_length, news);
    if (fate == OR_GUESSES_ALIEN) {
        return on_alien(c, session, seat, tree);
    }
    seat->misfits = seat->busy_ms = 0;
    count_tree(session, tree);
    if (tree->parent_round == 0 && tree->round == session->round) { // it answers what it was told
        or_seats_end_wait(c, seat);
        seat->nudge_ns = OR_TIME_NEVER;
    }
    return OR_OK;
}

or_status_t or_trees_take(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                          const or_draft_tree_t *tree)
{
    return or_seats_pool(session) ? pool(c, session, seat, tree)
                                  : take_tree(c, session, seat, tree);
}

// ---- the round's tree ----

// No tree is deeper than was asked for, or than its drafter's context reaches. (Under slrs the depth is in the target's
// tokens, whatever the drafter's are.)
static uint32_t asked_depth(or_coordinator_t *c, const or_csession_t *session,
                            const or_seat_t *seat)
{
    const or_member_t *drafter = or_peers_find(c, seat->peer);
    uint32_t depth = session->terms.open.draft_depth;
    if (session->terms.open.accept_rule == OR_ACCEPT_SLRS) {
        return depth;
    }
    uint32_t length = or_seats_log(session, seat)->length;
    uint32_t reach =
        drafter != NULL && drafter->context_max > length ? drafter->context_max - length : 0;
    return depth < reach ? depth : reach;
}

static void note_what_was_asked(or_coordinator_t *c, or_csession_t *session)
{
    session->tree.asked_nodes = 0;
    session->tree.asked_depth = 0;
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
        if (seat->drafted) {
            uint32_t depth = asked_depth(c, session, seat);
            session->tree.asked_nodes += seat->asked_nodes;
            session->tree.asked_depth =
                depth > session->tree.asked_depth ? depth : session->tree.asked_depth;
        }
    }
}

bool or_trees_suit_verifier(const or_coordinator_t *c, or_csession_t *session)
{
    if (!or_accept_rule_needs_trust(session->terms.open.accept_rule)) {
        return true;
    }
    if (session->tree.asked_nodes > c->verifier->nodes_max && session->note[0] == '\0') {
        snprintf(session->note, sizeof session->note,
                 "another verifier came, for trees of %u nodes at most: decoded plainly from there",
                 c->verifier->nodes_max);
    }
    return session->tree.asked_nodes <= c->verifier->nodes_max &&
           session->log.length + session->tree.asked_depth <= c->verifier->context_max;
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
    or_token_tree_to_wire(tree, (int32_t *)session->tree.tokens, session->tree.back);
    session->tree.count = count;
    return count > 0 && uses_dists(session) ? or_draws_store(&session->tree.draws, draws, count)
                                            : OR_OK;
}

static void keep(or_coordinator_t *c, or_csession_t *session, const or_token_tree_t *tree,
                 const or_draws_t *draws)
{
    if (!fits_verifier(c, session, tree) || keep_tree(session, tree, draws) != OR_OK) {
        session->tree.count = 0;
    }
}

void or_trees_keep_scratch(or_coordinator_t *c, or_csession_t *session)
{
    keep(c, session, c->scratch, NULL);
}

// The trees of several; an absent one is empty.
static or_status_t merge_trees(or_coordinator_t *c, const or_csession_t *session)
{
    or_merge_part_t parts[OR_SEATS_MAX];
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
        parts[i] = (or_merge_part_t){seat->tree, uses_dists(session) ? &seat->draws.draws : NULL};
    }
    or_token_tree_reset(c->scratch, root_of(session));
    return or_merge_trees(session->drafters.merge, parts, session->drafters.count,
                          or_accept_rule_counts_repeats(session->terms.open.accept_rule),
                          c->scratch);
}

static void gather_trees(or_coordinator_t *c, or_csession_t *session)
{
    const or_token_tree_t *tree = session->drafters.seats[0].tree;
    const or_draws_t *draws = &session->drafters.seats[0].draws.draws;
    or_status_t status = OR_OK;
    note_what_was_asked(c, session);
    if (session->drafters.count > 1) {
        status = merge_trees(c, session);
        tree = c->scratch;
        draws = or_merge_draws(session->drafters.merge);
    }
    if (status != OR_OK) {
        session->tree.count = 0;
        return;
    }
    keep(c, session, tree, draws);
}

static void gather_guesses(or_coordinator_t *c, or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t context = c->verifier != NULL ? c->verifier->context_max : 0;
    uint32_t reach = context > session->log.length ? context - session->log.length : 0;
    uint32_t depth = open->draft_depth < reach ? open->draft_depth : reach;
    uint32_t nodes = session->drafters.seats[0].nodes;
    if (c->verifier != NULL && c->verifier->nodes_max < nodes) {
        nodes = c->verifier->nodes_max;
    }
    or_guesses_take(session->budget.guesses, nodes, depth, c->scratch);
    or_token_tree_depth_first(c->scratch, NULL);
    or_trees_keep_scratch(c, session);
}

void or_trees_gather(or_coordinator_t *c, or_csession_t *session)
{
    if (or_seats_pool(session)) {
        gather_guesses(c, session);
    } else {
        gather_trees(c, session);
    }
}
