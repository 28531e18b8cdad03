// A session's drafters: which ones serve, and what they are told.
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/decode/methods.h"
#include "common/decode/shape.h"
#include "coordinator/coordinator_internal.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Without the verifier's key; with one of its own and its part of the shape.
void or_drafting_open(or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
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
    open->outside_ids = 0;
    open->vocab_method = OR_VOCAB_SAME;
    if (seat->translator != NULL) {
        status = or_translator_open(seat->translator, c->vocab, open);
    }
    if (status == OR_OK) { // else it asks for the session when it is sent the text
        or_coordinator_send(c, seat->peer, &message);
    }
}

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

// Tokens of the seat's log from `start` on, and where the next one begins.
static or_message_t make_prefix(const or_csession_t *session, const or_seat_t *seat, uint32_t start)
{
    or_message_t message = {
        .type = OR_MSG_PREFIX,
        .session = session->id,
        .body.prefix = or_token_log_prefix(or_drafting_log(session, seat), start, session->round)};
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
        or_log(OR_LOG_WARN, "session %llx: the drafter's text is not up to date: %s",
               (unsigned long long)session->id.value, or_error_text());
    }
    session->stats.translate_us += (uint64_t)(or_clock_now(c->clock) - started) / 1000;
}

void or_drafting_send_prefix(or_coordinator_t *c, or_csession_t *session, const or_seat_t *seat,
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
}

void or_drafting_leave(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (seat->peer.value == 0) {
        return;
    }
    or_member_t *member = or_coordinator_member(c, seat->peer);
    if (member != NULL) {
        member->sessions--;
    }
    session->stats.wire_bytes += or_link_bytes(c->link, seat->peer) - seat->link_bytes;
    seat->peer = (or_peer_t){0};
    seat->awaited = seat->late = false;
    seat->nudge_ns = OR_TIME_NEVER;
    or_translator_destroy(&seat->translator);
    or_trees_drop(session, seat);
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
    return member->trusted || !or_accept_rule_needs_trust(session->terms.open.accept_rule);
}

// Who may take a free seat of a session.
typedef struct {
    uint32_t count;
    or_member_t *best; // NULL: none
    // Why those that are here may not.
    bool distrusted;
    char stranger[480]; // of one whose vocabulary does not suit; "": none
} candidates_t;

static bool suits_vocabulary(const or_member_t *member, const or_csession_t *session,
                             candidates_t *candidates)
{
    or_vocab_method_t method;
    char why[256];
    if (or_meeting_choose(member, session, &method, why, sizeof why) == OR_OK) {
        return true;
    }
    snprintf(candidates->stranger, sizeof candidates->stranger, "%s", or_error_text());
    return false;
}

static bool is_fitting(const or_member_t *member, or_csession_t *session, candidates_t *candidates)
{
    if (member->peer.value == 0 || member->role != OR_ROLE_DRAFTER ||
        member->unknown_vocab || // its vocabulary is still to come
        is_unfit(session, member->peer) || or_csession_seat(session, member->peer) != NULL) {
        return false;
    }
    bool believed = is_believed(member, session);
    candidates->distrusted = candidates->distrusted || !believed;
    return believed && suits_vocabulary(member, session, candidates);
}

// Who has the fewest sessions drafts, and of equals who shares most of its vocabulary with the target:
// to share nothing weighs as much as four more sessions.
static double reluctance(const or_member_t *member)
{
    const or_known_vocab_t *known = member->vocab;
    double shared = known == NULL || known->pair->bijective ? 1 : known->figures.shared_of_bytes;
    return member->sessions + 4 * (1 - shared);
}

static candidates_t find_candidates(or_coordinator_t *c, or_csession_t *session)
{
    candidates_t found = {0};
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->members[i];
        if (is_fitting(member, session, &found)) {
            found.count++;
            found.best = found.best == NULL || reluctance(member) < reluctance(found.best)
                             ? member
                             : found.best;
        }
    }
    return found;
}

bool or_drafting_has_only_strangers(or_coordinator_t *c, or_csession_t *session, char *why,
                                    size_t capacity)
{
    candidates_t found = find_candidates(c, session);
    snprintf(why, capacity, "%s", found.stranger);
    return found.count == 0 && !found.distrusted && found.stranger[0] != '\0';
}

// The user is told why a drafter that is there does not serve.
static void explain_absence(or_csession_t *session, const candidates_t *found)
{
    const char *rule = or_accept_rule_name(session->terms.open.accept_rule);
    if (session->note[0] != '\0' || (!found->distrusted && found->stranger[0] == '\0')) {
        return;
    }
    if (found->distrusted) {
        snprintf(session->note, sizeof session->note,
                 "no drafter here is trusted, and rule %s would believe what it says it drew: "
                 "decoded plainly; use --accept coupled or naive, or a trusted drafter",
                 rule);
    } else {
        snprintf(session->note, sizeof session->note, "decoded plainly: %.480s", found->stranger);
    }
    or_log(OR_LOG_WARN, "session %llx: %s", (unsigned long long)session->id.value, session->note);
}

// As many as there are drafters now, but with a node and a sequence for each; 0 if there is none.
static uint32_t count_seats(const or_csession_t *session, uint32_t fitting)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t seats = least(fitting, or_csession_seats_max(session));
    uint32_t parts = open->draft_shape_count > 0 ? open->draft_shape[0] : open->draft_nodes;
    return seats > 1 && parts < seats ? (parts > 0 ? parts : 1) : seats;
}

static uint32_t part_of(uint32_t whole, uint32_t parts, uint32_t index)
{
    return whole / parts + (index < whole % parts);
}

// What a seat is asked to build: the trees of all together fit what the session allows, so that
// none of them ever has to be cut.
static void share_out(const or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat,
                      uint32_t drafter_nodes)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t index = (uint32_t)(seat - session->seats);
    uint32_t count = session->seat_count;
    seat->sequences = 0;
    seat->asked_nodes = part_of(open->draft_nodes, count, index);
    if (count > 1 && open->draft_shape_count > 0) {
        seat->sequences = part_of(open->draft_shape[0], count, index);
        seat->asked_nodes = open->draft_nodes / open->draft_shape[0] * seat->sequences;
    }
    seat->asked_nodes = least(seat->asked_nodes, drafter_nodes);
    if (c->verifier != NULL) {
        seat->asked_nodes = least(seat->asked_nodes, c->verifier->nodes_max / count);
    }
}

// When there is no room for more, nobody joins any more.
static void rule_out(or_csession_t *session, or_peer_t drafter, const char *why)
{
    or_log(OR_LOG_WARN, "session %llx: drafter dismissed: %s",
           (unsigned long long)session->id.value, why);
    snprintf(session->note, sizeof session->note, "a drafter was dismissed: %.480s", why);
    if (session->unfit_count < OR_UNFIT_MAX) {
        session->unfit[session->unfit_count++] = drafter;
    }
}

// Every way that one of its drafters meets the target, in the order of the seats.
static void name_maps(or_csession_t *session)
{
    size_t used = 0;
    uint32_t named = 0; // bits
    session->vocab_map[0] = '\0';
    for (uint32_t i = 0; i < session->seat_count; i++) {
        const or_seat_t *seat = &session->seats[i];
        if (seat->vocab_method != OR_VOCAB_AUTO && (named >> seat->vocab_method & 1) == 0) {
            named |= 1U << seat->vocab_method;
            used += (size_t)snprintf(session->vocab_map + used, sizeof session->vocab_map - used,
                                     "%s%s", used > 0 ? "+" : "",
                                     or_vocab_method_name(seat->vocab_method));
        }
    }
}

// What its vocabulary needs, where it is another.
static or_status_t meet(or_csession_t *session, or_seat_t *seat, const or_member_t *member)
{
    or_vocab_method_t method;
    or_status_t status =
        or_meeting_choose(member, session, &method, session->vocab_why, sizeof session->vocab_why);
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
        or_log(OR_LOG_INFO, "session %llx: vocabulary map %s: %s",
               (unsigned long long)session->id.value, or_vocab_method_name(method),
               session->vocab_why);
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
    member->sessions++;
    seat->peer = member->peer;
    seat->link_bytes = or_link_bytes(c->link, member->peer);
    // A drafter that comes back may still draw with its old key: among several none is given twice.
    seat->draft_key = or_csession_draft_key(session, session->seat_count > 1 ? session->joined : 0);
    session->joined++;
    share_out(c, session, seat, member->nodes_max);
    or_drafting_open(c, session, seat);
    or_drafting_send_prefix(c, session, seat, true);
    return OR_OK;
}

bool or_drafting_join(or_coordinator_t *c, or_csession_t *session)
{
    if (session->plain || or_clock_now(c->clock) < session->rejoin_ns) {
        return false;
    }
    bool joined = false;
    bool served = false;
    candidates_t found = find_candidates(c, session);
    if (session->seat_count == 0) {
        session->seat_count = count_seats(session, found.count);
    }
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
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

// The accepted path in the numbers of this seat's own tree, as far as that has it: how many nodes.
static uint32_t own_path(const or_csession_t *session, uint32_t seat, const or_verdict_t *verdict,
                         uint32_t *path)
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

// A drafter with another vocabulary gets the text's new tail, and what became of its tree.
static void pass_on_text(or_coordinator_t *c, or_csession_t *session, uint32_t index,
                         const or_verdict_t *verdict)
{
    const or_seat_t *seat = &session->seats[index];
    uint32_t path[OR_TREE_NODES_MAX];
    uint32_t accepted = own_path(session, index, verdict, path);
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
}

static void pass_on_verdict(or_coordinator_t *c, or_csession_t *session, uint32_t index,
                            const or_verdict_t *verdict)
{
    const or_seat_t *seat = &session->seats[index];
    uint32_t path[OR_TREE_NODES_MAX];
    if (own_path(session, index, verdict, path) < verdict->accepted_count) {
        // Its guesses went another way: the tail of the text.
        or_message_t message = make_prefix(session, seat, verdict->base_length);
        or_coordinator_send(c, seat->peer, &message);
        return;
    }
    or_message_t message = {
        .type = OR_MSG_VERDICT, .session = session->id, .body.verdict = *verdict};
    message.body.verdict.accepted = path;
    message.body.verdict.forward_us = 0;
    message.body.verdict.accept_us = 0;
    message.body.verdict.logprob_count = 0;
    or_coordinator_send(c, seat->peer, &message);
}

void or_drafting_pass_on(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        const or_seat_t *seat = &session->seats[i];
        if (seat->peer.value == 0 || seat->late) {
            continue;
        }
        if (seat->translator != NULL) {
            pass_on_text(c, session, i, verdict);
        } else {
            pass_on_verdict(c, session, i, verdict);
        }
    }
}

void or_drafting_await(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value != 0 && !seat->late && !seat->drafted && !seat->awaited) {
            seat->awaited = true;
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

void or_drafting_give_up(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->awaited) {
            seat->awaited = false;
            seat->late = true;
            seat->nudge_ns = or_coordinator_after_ms(c, c->config.heartbeat_ms);
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
