// Sessions whose drafter works ahead: what it sends becomes guesses in a pool, and each round takes the first of
// them. It is told of the text alone, never of nodes, so it does not matter which of them were judged when.
#include "common/base/log/log.h"
#include "coordinator/coordinator_internal.h"

// Trees without news that a drafter may send in a round before they count as guesses do: to look them up costs us as
// much. It repeats those of a round for a reminder, and what it sent before a cut comes twice.
#define REPEATS_FREE 16u

bool or_ahead_pools(const or_csession_t *session)
{
    return session->guesses != NULL && session->seats[0].translator == NULL;
}

// The most guesses that it may have sent before we take any: those of the round, and of the rounds in flight.
static uint32_t guesses_max(const or_csession_t *session, const or_seat_t *seat)
{
    uint32_t most = (session->terms.open.draft_ahead + 1) * seat->asked_nodes;
    return most < OR_TREE_NODES_MAX ? most : OR_TREE_NODES_MAX;
}

static or_status_t check(or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat,
                         const or_draft_tree_t *tree)
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
static void on_alien(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                     const or_draft_tree_t *tree)
{
    if (tree->parent_round == 0) {
        or_round_on_misfit(c, session, seat);
    } else if (tree->round == session->round && or_round_may_replay(c, &seat->replayed_ns)) {
        session->stats.resyncs++;
        or_drafting_send_prefix(c, session, seat, false);
    }
}

static void count_tree(or_csession_t *session, const or_draft_tree_t *tree)
{
    session->stats.draft_passes += tree->passes;
    session->stats.draft_us += session->round > 1 ? tree->draft_us : 0;
}

or_status_t or_ahead_take(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                          const or_draft_tree_t *tree)
{
    uint32_t news;
    or_status_t status = check(c, session, seat, tree);
    if (status != OR_OK) {
        return status;
    }
    if (tree->round > session->round || seat->sent > 2 * guesses_max(session, seat)) {
        or_coordinator_offend(c, seat->peer, OR_OFFENCE_TWO_TREES);
        return OR_OK;
    }
    or_guesses_fate_t fate = or_guesses_add(session->guesses, tree, &news);
    seat->sent += 1 + news; // what comes again, to stand on, is no news
    // Who is a round trip behind sends much for a text that has gone another way: only what is here already,
    // over and over, is an offence.
    if (fate == OR_GUESSES_KNOWN && ++seat->repeats > REPEATS_FREE) {
        seat->sent += tree->count;
    }
    or_log_of(OR_LOG_TRACE, or_csession_subject(session),
              "round %llu: %u guesses on %u tokens, %u are news",
              (unsigned long long)session->round, tree->count, tree->base_length, news);
    if (fate == OR_GUESSES_ALIEN) {
        on_alien(c, session, seat, tree);
        return OR_OK;
    }
    seat->misfits = 0;
    count_tree(session, tree);
    if (tree->parent_round == 0 && tree->round == session->round) { // it answers what it was told
        or_drafting_end_wait(c, seat);
        seat->nudge_ns = OR_TIME_NEVER;
    }
    return OR_OK;
}

void or_ahead_gather(or_coordinator_t *c, or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t context = c->verifier != NULL ? c->verifier->context_max : 0;
    uint32_t reach = context > session->log.length ? context - session->log.length : 0;
    uint32_t depth = open->draft_depth < reach ? open->draft_depth : reach;
    uint32_t nodes = session->seats[0].nodes;
    if (c->verifier != NULL && c->verifier->nodes_max < nodes) {
        nodes = c->verifier->nodes_max;
    }
    or_guesses_take(session->guesses, nodes, depth, c->scratch);
    or_token_tree_depth_first(c->scratch, NULL);
    or_trees_keep(c, session, c->scratch, NULL);
}
