// What drafters are told as the text grows, and how they are waited for.
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/coordinator_internal.h"

// A drafter that is not worth waiting for hears of the text this often, so that it is not far when it is tried.
#define RESTING_TOLD_NS (100 * OR_NS_PER_MS)

const or_token_log_t *or_drafting_log(const or_csession_t *session, const or_seat_t *seat)
{
    return seat->translator != NULL ? or_translator_log(seat->translator) : &session->log;
}

void or_drafting_send_map(or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
{
    const or_member_t *member = or_coordinator_member(c, seat->peer);
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
    or_coordinator_send(c, seat->peer, &message);
}

static bool can_cut(const or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    return or_usefulness_can_cut(open->draft_method, open->accept_rule);
}

// The next trees may have, where that is less than the drafter was told at first; else 0.
static or_budget_t budget_to_tell(const or_csession_t *session, const or_seat_t *seat)
{
    const or_open_session_t *open = &session->terms.open;
    const or_policy_t *policy = &session->policy;
    or_budget_t tell = {.nodes = seat->nodes < seat->asked_nodes ? seat->nodes : 0};
    if (policy->session.kind == OR_POLICY_AUTO && can_cut(session)) {
        tell.depth = policy->budget.depth < open->draft_depth ? policy->budget.depth : 0;
    }
    if (policy->session.kind == OR_POLICY_AUTO && or_ahead_pools(session)) {
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
        .body.prefix = or_token_log_prefix(or_drafting_log(session, seat), start, session->round)};
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
    seat->told_length = or_drafting_log(session, seat)->length;
    seat->behind = false;
    seat->unanswered_ns = seat->unanswered_ns != 0 ? seat->unanswered_ns : or_clock_now(c->clock);
    or_budget_told(c, session);
}

void or_drafting_send_prefix(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                             bool whole)
{
    uint32_t changed;
    if (seat->translator != NULL) {
        follow(c, session, seat, &changed);
    }
    uint32_t length = or_drafting_log(session, seat)->length;
    uint32_t start = whole || length <= OR_TREE_NODES_MAX ? 0 : length - OR_TREE_NODES_MAX;
    or_message_t message = make_prefix(session, seat, start);
    or_coordinator_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

void or_drafting_send_tail(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (seat->translator != NULL) { // whose tail may begin before that
        or_drafting_send_prefix(c, session, seat, false);
        return;
    }
    or_message_t message = make_prefix(session, seat, seat->told_length);
    or_coordinator_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

void or_drafting_catch_up(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->awaited && seat->behind) {
            or_drafting_send_tail(c, session, seat);
        }
    }
}

uint32_t or_drafting_own_path(const or_csession_t *session, uint32_t seat,
                              const or_verdict_t *verdict, uint32_t *path)
{
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t node = verdict->accepted[i];
        path[i] = session->seat_count > 1 ? or_merge_origin(session->merge, seat, node) : node;
        if (path[i] == 0) {
            return i;
        }
    }
    return verdict->accepted_count;
}

// A drafter with another vocabulary gets the text's new tail, and what became of its tree, of which the
// target took `accepted` nodes.
static void pass_on_text(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                         const or_verdict_t *verdict, uint32_t accepted)
{
    uint32_t next = accepted < verdict->accepted_count
                        ? session->tree_tokens[verdict->accepted[accepted] - 1]
                        : verdict->next;
    uint32_t length = or_drafting_log(session, seat)->length;
    uint32_t changed;
    follow(c, session, seat, &changed);
    or_message_t message = make_prefix(session, seat, changed < length ? changed : length);
    if (seat->drafted) {
        or_translator_judge(seat->translator, accepted, next, length, changed,
                            &message.body.prefix);
    }
    or_coordinator_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

static void pass_on_verdict(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                            const or_verdict_t *verdict, const uint32_t *path, uint32_t accepted)
{
    if (accepted < verdict->accepted_count) {
        // Its guesses went another way: the tail of the text.
        or_message_t message = make_prefix(session, seat, verdict->base_length);
        or_coordinator_send(c, seat->peer, &message);
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
    or_coordinator_send(c, seat->peer, &message);
    note_told(c, session, seat);
}

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

// What became of its guesses, and how long they took, decides how many it is asked for next; false:
// none, and `why`. A tree that the verifier could not take is not its fault, and the first round reads
// the prompt.
static bool is_useful(const or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat,
                      uint32_t accepted, char *why, size_t capacity)
{
    int64_t verify_ns = or_clock_now(c->clock) - session->asked_ns;
    bool withheld =
        seat->drafted && or_token_tree_count(seat->tree) > 0 && session->tree_count == 0;
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
    seat->nodes = or_usefulness_nodes(&seat->usefulness, seat->asked_nodes, can_cut(session));
    or_use_t use = or_usefulness_of(&seat->usefulness, verify_ns);
    say_why(use, why, capacity);
    return use == OR_USE_GOOD && !is_silent(c, seat);
}

// The least of what it is allowed, and of what the policy finds worth its time.
static void keep_to_budget(const or_csession_t *session, or_seat_t *seat, const or_budget_t *budget)
{
    uint32_t nodes = budget->nodes > 0 ? budget->nodes : 1;
    if (can_cut(session) && nodes < seat->nodes) {
        seat->nodes = nodes;
    }
}

// The key may be allowed less than when the drafter joined. What cannot be cut is asked for anew, by whoever takes the
// seat next: false.
static bool keep_to_key(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    uint32_t allowed = or_drafting_allowed(c, session);
    seat->nodes = seat->nodes < allowed ? seat->nodes : allowed;
    return can_cut(session) || seat->asked_nodes <= allowed;
}

static void vacate(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    or_peer_t drafter = seat->peer;
    or_drafting_leave(c, session, seat);
    or_round_send_cancel(c, session, drafter, "fewer guesses are allowed now");
}

// A drafter that the policy does without need not hear of every token; nor one that was given up on.
static bool may_wait(const or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
{
    return seat->late || (or_budget_rests(session) &&
                          or_clock_now(c->clock) - session->told_ns < RESTING_TOLD_NS);
}

// Only the verdict on a drafter's own tree has numbers that it understands.
static bool takes_verdict(const or_csession_t *session, const or_seat_t *seat)
{
    bool bridged = session->policy.session.kind == OR_POLICY_AUTO && !seat->drafted;
    return !seat->behind && !bridged && !or_ahead_pools(session);
}

static void tell(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                 const or_verdict_t *verdict, const uint32_t *path, uint32_t accepted)
{
    if (may_wait(c, session, seat)) {
        seat->behind = true;
    } else if (!takes_verdict(session, seat)) {
        or_drafting_send_tail(c, session, seat);
    } else if (seat->translator != NULL) {
        pass_on_text(c, session, seat, verdict, accepted);
    } else {
        pass_on_verdict(c, session, seat, verdict, path, accepted);
    }
}

void or_drafting_pass_on(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    uint32_t path[OR_TREE_NODES_MAX];
    const or_budget_t budget = or_budget_chosen(c, session);
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value == 0) {
            continue;
        }
        char why[96];
        uint32_t accepted = or_drafting_own_path(session, i, verdict, path);
        if (!is_useful(c, session, seat, accepted, why, sizeof why)) {
            or_drafting_rest(c, session, seat, why);
        } else if (!keep_to_key(c, session, seat)) {
            vacate(c, session, seat);
        } else {
            keep_to_budget(session, seat, &budget);
            tell(c, session, seat, verdict, path, accepted);
        }
    }
}

void or_drafting_end_wait(const or_coordinator_t *c, or_seat_t *seat)
{
    if (seat->awaited) {
        seat->awaited = false;
        seat->waited_ns = or_clock_now(c->clock) - seat->awaited_ns;
    }
}

void or_drafting_await(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value != 0 && !seat->late && !seat->drafted && !seat->awaited) {
            seat->awaited = true;
            seat->awaited_ns = or_clock_now(c->clock);
            seat->nudge_ns = or_coordinator_after_ms(c, c->config.draft_timeout_ms / 4);
        }
    }
}

bool or_drafting_is_awaited(const or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        if (session->seats[i].awaited) {
            return true;
        }
    }
    return false;
}

void or_drafting_lose_patience(const or_coordinator_t *c, or_seat_t *seat)
{
    seat->late = true;
    seat->awaited = false;
    seat->awaited_ns = or_clock_now(c->clock);
    seat->nudge_ns = or_coordinator_after_ms(c, c->config.heartbeat_ms);
}

void or_drafting_bridge(or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->awaited) {
            seat->awaited = false;
            seat->nudge_ns = seat->behind ? OR_TIME_NEVER : seat->nudge_ns;
        }
    }
}

void or_drafting_give_up(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->awaited) {
            or_drafting_end_wait(c, seat);
            or_drafting_note(c, seat, OR_RECORD_LATE);
            or_drafting_lose_patience(c, seat);
        }
    }
}

static void nudge(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    // The tail is enough where the drafter only missed a verdict; one that lost more asks for all
    // of it.
    or_drafting_send_prefix(c, session, seat, false);
    seat->nudge_ns =
        seat->late ? or_coordinator_after_ms(c, c->config.heartbeat_ms) : OR_TIME_NEVER;
}

int64_t or_drafting_nudge(or_coordinator_t *c, or_csession_t *session)
{
    int64_t due = OR_TIME_NEVER;
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value == 0) {
            continue;
        }
        if (or_clock_now(c->clock) >= seat->nudge_ns) {
            nudge(c, session, seat);
        }
        due = seat->nudge_ns < due ? seat->nudge_ns : due;
    }
    return due;
}
