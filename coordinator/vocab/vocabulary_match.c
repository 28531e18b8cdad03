#include "coordinator/vocab/vocabulary_match.h"

#include <stdio.h>

#include "common/base/log/log.h"
#include "coordinator/hub.h"
#include "proto/session/vocab_choice.h"

// Then the drafter is turned away: answers that are not what was announced, questions without one.
#define ANSWERS_MAX 3u
#define ASKS_MAX 8u

static void ask(or_coordinator_t *c, or_member_t *member)
{
    const or_message_t message = {.type = OR_MSG_VOCAB_REQUEST,
                                  .body.vocab_request = {.hash = member->announced_hash}};
    or_peers_send(c, member->peer, &message);
    member->vocab_asks++;
    member->vocab_due_ns = or_hub_after_ms(c, c->config.verifier_timeout_ms / 4);
}

static void know(or_member_t *member, or_known_vocab_t *known)
{
    member->vocab = known;
    member->unknown_vocab = false;
    member->vocab_due_ns = OR_TIME_NEVER;
    known->drafters++;
}

bool or_vocab_match_begin(or_coordinator_t *c, or_member_t *member, const or_hello_t *hello)
{
    member->vocab_due_ns = OR_TIME_NEVER;
    if (hello->vocab_hash == or_vocab_hash(c->vocab) &&
        hello->vocab_size == or_vocab_size(c->vocab)) {
        return true;
    }
    or_known_vocab_t *known =
        or_vocabularies_find(&c->vocabularies, hello->vocab_hash, hello->vocab_size);
    if (known != NULL) {
        know(member, known);
        return true;
    }
    member->unknown_vocab = true;
    member->announced_hash = hello->vocab_hash;
    member->announced_size = hello->vocab_size;
    ask(c, member);
    return false;
}

static void log_meeting(const or_member_t *member)
{
    const or_known_vocab_t *known = member->vocab;
    or_log(OR_LOG_INFO,
           "vocabulary of %s: %u tokens, %u of them the target's too (%.1f %% of the target's, "
           "%.1f %% of a sample text)",
           member->model, known->size, known->pair->shared, 100 * known->figures.shared_of_target,
           100 * known->figures.shared_of_text);
}

// Requests that wait for a drafter, and that it would have served, are told when the queue is settled.
static void turn_away(or_coordinator_t *c, or_member_t *member, const char *why)
{
    or_refused_drafter_t *refused = &c->queue.refused;
    or_peer_t peer = member->peer;
    *refused = (or_refused_drafter_t){.serves_all = member->serves_all};
    snprintf(refused->why, sizeof refused->why, "the drafter's vocabulary cannot be used: %.300s",
             why);
    snprintf(refused->owner, sizeof refused->owner, "%s", member->owner);
    or_peers_forget(member);
    or_peers_turn_away(c, peer, OR_WIRE_REFUSED, refused->why);
    c->queue.due = true;
}

bool or_vocab_match_take(or_coordinator_t *c, or_member_t *member, const or_vocabulary_t *message)
{
    if (!member->unknown_vocab) {
        return false; // it came before: a repetition
    }
    or_known_vocab_t *known =
        or_vocabularies_find(&c->vocabularies, member->announced_hash, member->announced_size);
    or_status_t status = OR_OK;
    if (known == NULL) {
        status = or_vocabularies_take(&c->vocabularies, message, member->announced_hash,
                                      member->announced_size, &known);
    }
    if (status == OR_OK) {
        know(member, known);
        log_meeting(member);
        return true;
    }
    or_log(OR_LOG_WARN, "vocabulary of %s: %s", member->model, or_error_text());
    if (++member->vocab_refused < ANSWERS_MAX) {
        ask(c, member);
    } else {
        char why[300];
        snprintf(why, sizeof why, "%s", or_error_text());
        turn_away(c, member, why);
    }
    return false;
}

void or_vocab_match_forget(or_member_t *member)
{
    if (member->vocab != NULL) {
        member->vocab->drafters--;
        member->vocab = NULL;
    }
}

bool or_vocab_match_goes_on(or_coordinator_t *c)
{
    const or_member_t *member;
    for (uint32_t at = 0; (member = or_peers_next(&c->peers, &at)) != NULL;) {
        if (member->unknown_vocab) {
            return true;
        }
    }
    return false;
}

int64_t or_vocab_match_tick(or_coordinator_t *c)
{
    int64_t due = OR_TIME_NEVER;
    or_member_t *member;
    for (uint32_t at = 0; (member = or_peers_next(&c->peers, &at)) != NULL;) {
        if (!member->unknown_vocab) {
            continue;
        }
        bool late = or_clock_now(c->clock) >= member->vocab_due_ns;
        if (late && member->vocab_asks == ASKS_MAX) {
            turn_away(c, member, "it was asked for often enough and never came");
            continue;
        }
        if (late) {
            ask(c, member);
        }
        due = member->vocab_due_ns < due ? member->vocab_due_ns : due;
    }
    return due;
}

// It is large: only for who drafts by it, and not again before the last one can have been lost.
static or_status_t may_send_target(or_coordinator_t *c, const or_member_t *member,
                                   or_session_id_t session, uint64_t hash)
{
    if (c->config.gguf == NULL || hash != or_vocab_hash(c->vocab)) {
        return or_fail(OR_ERR_NOT_FOUND, "there is no vocabulary of hash %016llx here",
                       (unsigned long long)hash);
    }
    or_csession_t *asking = or_sessions_find(&c->sessions, session);
    const or_seat_t *seat = asking != NULL ? or_seats_find(asking, member->peer) : NULL;
    if (seat == NULL || asking->terms.open.accept_rule != OR_ACCEPT_SLRS) {
        return or_fail(OR_ERR_INVALID, "the target's vocabulary is for sessions that draft by it");
    }
    int64_t since = or_clock_now(c->clock) - member->target_sent_ns;
    if (member->target_sent_ns != 0 && since < c->config.retry_ms * OR_NS_PER_MS) {
        return OR_ERR_AGAIN;
    }
    return c->packed.bytes != NULL ? OR_OK
                                   : or_vocab_pack(c->config.gguf, &c->packed.bytes,
                                                   &c->packed.count, &c->packed.unpacked);
}

void or_vocab_match_send_target(or_coordinator_t *c, or_member_t *member, or_session_id_t session,
                                const or_vocab_request_t *request)
{
    or_status_t status = may_send_target(c, member, session, request->hash);
    if (status == OR_ERR_AGAIN) {
        return;
    }
    if (status != OR_OK) {
        or_link_send_error(c->link, member->peer, session, OR_WIRE_INVALID, "%s", or_error_text());
        return;
    }
    member->target_sent_ns = or_clock_now(c->clock);
    const or_message_t message = {
        .type = OR_MSG_VOCABULARY,
        .session = session,
        .body.vocabulary = {.hash = request->hash,
                            .unpacked_bytes = (uint32_t)c->packed.unpacked,
                            .packed = c->packed.bytes,
                            .packed_bytes = (uint32_t)c->packed.count}};
    or_peers_send(c, member->peer, &message);
}

static or_status_t choose_same(or_vocab_method_t asked, char *why, size_t capacity)
{
    if (asked == OR_VOCAB_SLRS) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "the drafter has the target's own vocabulary: string-level rejection "
                       "would only cost time; leave out --vocab-map slrs and use --accept sps");
    }
    snprintf(why, capacity, "the drafter has the target's own vocabulary");
    return OR_OK;
}

// May the drafter write the target's strings? `why` says what that takes.
static or_status_t choose_slrs(or_known_vocab_t *known, const or_open_session_t *open, char *why,
                               size_t capacity)
{
    const or_string_cost_t *cost;
    or_status_t status =
        or_vocab_choice_check(known->pair, &known->figures, OR_VOCAB_SLRS, open->accept_rule);
    if (status == OR_OK) {
        status = or_vocabularies_string_cost(known, &cost);
    }
    if (status == OR_OK) {
        status = or_string_cost_check(cost, open->distribution_entries);
    }
    if (status == OR_OK) {
        snprintf(why, capacity,
                 "--accept slrs judges text; an answer about a rejected guess takes the drafter "
                 "about %.0f rows of its model",
                 or_string_cost_rows(cost, open->distribution_entries));
    }
    return status;
}

or_status_t or_vocab_match_choose(const or_member_t *member, const or_csession_t *session,
                                  or_vocab_method_t *method, char *why, size_t capacity)
{
    const or_open_session_t *open = &session->terms.open;
    or_vocab_method_t asked = (or_vocab_method_t)open->vocab_method;
    or_known_vocab_t *known = member->vocab;
    if (asked == OR_VOCAB_AUTO && open->accept_rule == OR_ACCEPT_SLRS) {
        asked = OR_VOCAB_SLRS;
    }
    if (known == NULL) {
        *method = OR_VOCAB_SAME;
        return choose_same(asked, why, capacity);
    }
    if (asked == OR_VOCAB_AUTO) {
        return or_vocab_choose(known->pair, &known->figures, open->accept_rule,
                               open->sampling.temperature, method, why, capacity);
    }
    if (asked == OR_VOCAB_SLRS) {
        *method = OR_VOCAB_SLRS;
        return choose_slrs(known, open, why, capacity);
    }
    *method = known->pair->same ? OR_VOCAB_SAME : asked;
    if (*method == OR_VOCAB_UNION && known->size > OR_OUTSIDE_IDS_MAX) {
        return or_fail(OR_ERR_UNSUPPORTED, "union takes vocabularies of up to %u tokens, not %u",
                       OR_OUTSIDE_IDS_MAX, known->size);
    }
    snprintf(why, capacity, "asked for; %u tokens of the drafter's %u are the target's too",
             known->pair->shared, known->size);
    return or_vocab_choice_check(known->pair, &known->figures, *method, open->accept_rule);
}
