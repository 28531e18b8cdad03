// Messages to drafters as the text grows.
#include <string.h>

#include "common/base/log/log.h"
#include "common/decode/shape.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/hub.h"

// A drafter that is not worth waiting for hears of the text this often, so that it is not far when it is tried.
#define RESTING_TOLD_NS (100 * OR_NS_PER_MS)

// Without the verifier's key; with one of its own and its part of the shape.
void or_redraft_open(or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
{
    or_status_t status = OR_OK;
    uint32_t shape[OR_SHAPE_LEVELS_MAX];
    or_message_t message = {.type = OR_MSG_OPEN_SESSION,
                            .session = session->id,
                            .body.open_session = session->terms.open};
    or_open_session_t *open = &message.body.open_session;
    open->private_key = 0;
    open->draft_key = seat->draft_key;
    open->draft_nodes = seat->asked_nodes;
    if (seat->sequences > 0) {
        memcpy(shape, open->draft_shape, open->draft_shape_count * sizeof *shape);
        shape[0] = seat->sequences;
        open->draft_shape = shape;
    }
    open->owner = "";
    open->logprobs = 0;
    open->outside_ids = 0;
    open->vocab_method = OR_VOCAB_SAME;
    if (seat->translator != NULL) {
        open->draft_ahead = 0;
        status = or_translator_open(seat->translator, c->vocab, open);
    }
    if (status == OR_OK) { // else it asks for the session when it is sent the text
        or_peers_send(c, seat->peer, &message);
    }
}

void or_redraft_send_map(or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
{
    const or_member_t *member = or_peers_find(c, seat->peer);
    if (member == NULL || member->vocab == NULL) {
        return;
    }
    const or_known_vocab_t *known = member->vocab;
    const or_message_t message = {.type = OR_MSG_VOCAB_MAP,
                                  .session = session->id,
                                  .body.vocab_map = {.from_hash = known->hash,
                                                     .to_hash = or_vocab_hash(c->vocab),
                                                     .to = known->pair->to_target,
                                                     .count = known->size,
                                                     .map_hash = known->map_hash}};
    or_peers_send(c, seat->peer, &message);
}

// The next trees may have, where that is less than the drafter was told at first; else 0.
static or_budget_t budget_to_tell(const or_csession_t *session, const or_seat_t *seat)
{
    const or_open_session_t *open = &session->terms.open;
    const or_policy_t *policy = &session->budget.policy;
    or_budget_t tell = {.nodes = seat->nodes < seat->asked_nodes ? seat->nodes : 0};
    if (policy->session.kind == OR_POLICY_AUTO && or_seats_can_cut(session)) {
        tell.depth = policy->budget.depth < open->draft_depth ? policy->budget.depth : 0;
    }
    if (policy->session.kind == OR_POLICY_AUTO && or_seats_pool(session)) {
        tell.ahead = policy->budget.ahead < open->draft_ahead ? policy->budget.ahead + 1 : 0;
    }
    return tell;
}

// Tokens of the seat's log from `start` on, and where the next one begins.
static or_message_t make_prefix(const or_csession_t *session, const or_seat_t *seat, uint32_t start)
{
    or_message_t message = {
        .type = OR_MSG_PREFIX,
        .session = session->id,
        .body.prefix = or_token_log_prefix(or_seats_log(session, seat), start, session->round)};
    const or_budget_t tell = budget_to_tell(session, seat);
    message.body.prefix.draft_nodes = tell.nodes;
    message.body.prefix.draft_depth = tell.depth;
    message.body.prefix.draft_ahead = tell.ahead;
    if (seat->translator != NULL) {
        or_prefix_t *prefix = &message.body.prefix;
        prefix->placed = true;
        prefix->byte_offset = session->place.byte_offset;
        prefix->zero_width = session->place.zero_width;
        prefix->next = OR_PREFIX_NO_TOKEN;
    }
    return message;
}

// Bring the seat's view of the text up to date. Where that fails the drafter's trees do not fit until it
// succeeds.
static void follow(or_coordinator_t *c, or_csession_t *session, const or_seat_t *seat,
                   uint32_t *changed)
{
    int64_t started = or_clock_now(c->clock);
    *changed = 0;
    if (or_translator_follow(seat->translator, &session->log, changed) != OR_OK) {
        or_log_of(OR_LOG_WARN, or_csession_subject(session),
                  "the drafter's text is not up to date: %s", or_error_text());
    }
    session->stats.translate_us += (uint64_t)(or_clock_now(c->clock) - started) / 1000;
}

// It knows the text as it is now, and has something to say to that.
static void note_told(const or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    seat->told_length = or_seats_log(session, seat)->length;
    seat->behind = false;
    seat->unanswered_ns = seat->unanswered_ns != 0 ? seat->unanswered_ns : or_clock_now(c->clock);
    or_budget_told(c, session);
}

void or_redraft_send_prefix(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                            bool whole)
{
    uint32_t changed;
    if (seat->translator != NULL) {
        follow(c, session, seat, &changed);
    }
    uint32_t length = or_seats_log(session, seat)->length;
    uint32_t start = whole || length <= OR_TREE_NODES_MAX ? 0 : length - OR_TREE_NODES_MAX;
    or_message_t message = make_prefix(session, seat, start);
    or_peers_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

void or_redraft_send_tail(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (seat->translator != NULL) { // whose tail may begin before that
        or_redraft_send_prefix(c, session, seat, false);
        return;
    }
    or_message_t message = make_prefix(session, seat, seat->told_length);
    or_peers_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

void or_redraft_catch_up(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->awaited && seat->behind) {
            or_redraft_send_tail(c, session, seat);
        }
    }
}

// A drafter with another vocabulary gets the text's new tail, and what became of its tree, of which the
// target took `accepted` nodes.
static void pass_on_text(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                         const or_verdict_t *verdict, uint32_t accepted)
{
    uint32_t next = accepted < verdict->accepted_count
                        ? session->tree.tokens[verdict->accepted[accepted] - 1]
                        : verdict->next;
    uint32_t length = or_seats_log(session, seat)->length;
    uint32_t changed;
    follow(c, session, seat, &changed);
    or_message_t message = make_prefix(session, seat, changed < length ? changed : length);
    if (seat->drafted) {
        or_translator_judge(seat->translator, accepted, next, length, changed,
                            &message.body.prefix);
    }
    or_peers_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

static void pass_on_verdict(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                            const or_verdict_t *verdict, const uint32_t *path, uint32_t accepted)
{
    if (accepted < verdict->accepted_count) {
        // Its guesses went another way: the tail of the text.
        or_message_t message = make_prefix(session, seat, verdict->base_length);
        or_peers_send(c, seat->peer, &message);
        note_told(c, session, seat);
        return;
    }
    or_message_t message = {
        .type = OR_MSG_VERDICT, .session = session->id, .body.verdict = *verdict};
    message.body.verdict.accepted = path;
    message.body.verdict.forward_us = 0;
    message.body.verdict.accept_us = 0;
    message.body.verdict.logprob_count = 0;
    message.body.verdict.reused = 0;
    const or_budget_t tell = budget_to_tell(session, seat);
    message.body.verdict.draft_nodes = tell.nodes;
    message.body.verdict.draft_depth = tell.depth;
    message.body.verdict.draft_ahead = tell.ahead;
    or_peers_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

// A drafter that the policy does without need not hear of every token; nor one that was given up on.
static bool may_wait(const or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
{
    return seat->late || (or_budget_rests(session) &&
                          or_clock_now(c->clock) - session->budget.told_ns < RESTING_TOLD_NS);
}

// Only the verdict on a drafter's own tree has numbers that it understands.
static bool takes_verdict(const or_csession_t *session, const or_seat_t *seat)
{
    bool bridged = session->budget.policy.session.kind == OR_POLICY_AUTO && !seat->drafted;
    return !seat->behind && !bridged && !or_seats_pool(session);
}

void or_redraft_pass_on(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                        const or_verdict_t *verdict, const uint32_t *path, uint32_t accepted)
{
    if (may_wait(c, session, seat)) {
        seat->behind = true;
    } else if (!takes_verdict(session, seat)) {
        or_redraft_send_tail(c, session, seat);
    } else if (seat->translator != NULL) {
        pass_on_text(c, session, seat, verdict, accepted);
    } else {
        pass_on_verdict(c, session, seat, verdict, path, accepted);
    }
}

static void nudge(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    // The tail is enough where the drafter only missed a verdict; one that lost more asks for all
    // of it.
    or_redraft_send_prefix(c, session, seat, false);
    seat->nudge_ns = seat->late ? or_hub_after_ms(c, c->config.heartbeat_ms) : OR_TIME_NEVER;
}

void or_redraft_nudge(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seat_t *seat = &session->drafters.seats[i];
        if (seat->peer.value != 0 && or_clock_now(c->clock) >= seat->nudge_ns) {
            nudge(c, session, seat);
        }
    }
}
