#include "coordinator/vocab/vocabulary_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/hub.h"
#include "proto/session/vocab_choice.h"

// Then the drafter is turned away: answers that are not what was announced, questions without one.
#define ANSWERS_MAX 3u
#define ASKS_MAX 8u

// ---- the vocabularies that are known ----

void or_vocabularies_init(or_vocabularies_t *all, const or_vocab_t *target)
{
    *all = (or_vocabularies_t){.target = target};
}

static void free_known(or_known_vocab_t **known_p)
{
    or_known_vocab_t *known = *known_p;
    if (known == NULL) {
        return;
    }
    free(known->string_cost);
    or_vocab_pair_destroy(&known->pair);
    or_vocab_destroy(&known->vocab);
    free(known);
    *known_p = NULL;
}

void or_vocabularies_fini(or_vocabularies_t *all)
{
    for (uint32_t i = 0; i < OR_VOCABULARIES_MAX; i++) {
        free_known(&all->known[i]);
    }
}

// Return the vocabulary of this hash and size; NULL if it is not known.
static or_known_vocab_t *find_known(const or_vocabularies_t *all, uint64_t hash, uint32_t size)
{
    for (uint32_t i = 0; i < OR_VOCABULARIES_MAX; i++) {
        or_known_vocab_t *known = all->known[i];
        if (known != NULL && known->hash == hash && known->size == size) {
            return known;
        }
    }
    return NULL;
}

// A free place, or that of one nobody has any more; NULL if there is none.
static or_known_vocab_t **find_place(or_vocabularies_t *all)
{
    or_known_vocab_t **unused = NULL;
    for (uint32_t i = 0; i < OR_VOCABULARIES_MAX; i++) {
        if (all->known[i] == NULL) {
            return &all->known[i];
        }
        if (all->known[i]->drafters == 0) {
            unused = &all->known[i];
        }
    }
    return unused;
}

static or_status_t compare(or_known_vocab_t *known, const or_vocab_t *target)
{
    or_status_t status = or_vocab_pair_create(known->vocab, target, &known->pair);
    if (status == OR_OK) {
        known->map_hash = or_vocab_map_hash(known->pair->to_target, known->size);
        status = or_vocab_pair_measure(known->pair, or_vocab_sample_text,
                                       strlen(or_vocab_sample_text), &known->figures);
    }
    return status;
}

// Take a peer's answer and trust nothing in it: it must have the hash and size that the peer said in Hello.
// OR_ERR_MISMATCH if not; OR_ERR_FULL: as many as there is room for are in use; those of or_vocab_unpack.
static or_status_t take_vocabulary(or_vocabularies_t *all, const or_vocabulary_t *message,
                                   uint64_t hash, uint32_t size, or_known_vocab_t **known_p)
{
    or_known_vocab_t **place = find_place(all);
    if (place == NULL) {
        return or_fail(OR_ERR_FULL, "drafters with %u other vocabularies are connected already",
                       OR_VOCABULARIES_MAX);
    }
    or_known_vocab_t *known = calloc(1, sizeof *known);
    if (known == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a drafter's vocabulary");
    }
    known->hash = hash;
    known->size = size;
    or_status_t status = or_vocab_unpack(message->packed, message->packed_bytes,
                                         message->unpacked_bytes, &known->vocab);
    if (status == OR_OK &&
        (or_vocab_hash(known->vocab) != hash || or_vocab_size(known->vocab) != size)) {
        status =
            or_fail(OR_ERR_MISMATCH,
                    "the vocabulary that came (%u tokens, hash %016llx) is not the one that "
                    "was announced (%u tokens, hash %016llx)",
                    or_vocab_size(known->vocab), (unsigned long long)or_vocab_hash(known->vocab),
                    size, (unsigned long long)hash);
    }
    if (status == OR_OK) {
        status = compare(known, all->target);
    }
    if (status != OR_OK) {
        free_known(&known);
        return status;
    }
    free_known(place);
    *place = known;
    *known_p = known;
    return OR_OK;
}

// Return the cost of drafting the target's strings (slrs) with it. It is counted when it is first asked for, which takes as
// long as comparing. OR_ERR_NO_MEMORY.
static or_status_t string_cost(or_known_vocab_t *known, const or_string_cost_t **cost_p)
{
    if (known->string_cost == NULL) {
        or_string_cost_t *cost = malloc(sizeof *cost);
        if (cost == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory to estimate what slrs costs");
        }
        or_status_t status = or_string_cost_count(known->vocab, known->pair->target, cost);
        if (status != OR_OK) {
            free(cost);
            return status;
        }
        known->string_cost = cost;
    }
    *cost_p = known->string_cost;
    return OR_OK;
}

// ---- drafters ----

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

// May it bring a vocabulary that is not known? If not it is put off, and no member any more.
static bool may_bring(or_coordinator_t *c, or_member_t *member)
{
    char text[128];
    uint32_t retry_ms;
    or_peer_t peer = member->peer;
    if (or_standings_may_bring(&c->peers.standings, member->grant.key, or_clock_now(c->clock),
                               &retry_ms)) {
        return true;
    }
    snprintf(text, sizeof text,
             "busy: this key brings more than %u unknown vocabularies a minute; retry after %.1f s",
             OR_VOCABULARIES_PER_MINUTE, (double)retry_ms / 1000);
    or_peers_forget(member);
    or_peers_put_off(c, peer, retry_ms, text);
    c->queue.due = true;
    return false;
}

bool or_vocab_match_begin(or_coordinator_t *c, or_member_t *member, const or_hello_t *hello)
{
    member->vocab_due_ns = OR_TIME_NEVER;
    if (hello->vocab_hash == or_vocab_hash(c->vocab) &&
        hello->vocab_size == or_vocab_size(c->vocab)) {
        return true;
    }
    or_known_vocab_t *known = find_known(&c->vocabularies, hello->vocab_hash, hello->vocab_size);
    if (known != NULL) {
        know(member, known);
        return true;
    }
    if (!may_bring(c, member)) {
        return false;
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
    or_peers_turn_away(c, peer, refused->why);
    c->queue.due = true;
}

bool or_vocab_match_take(or_coordinator_t *c, or_member_t *member, const or_vocabulary_t *message)
{
    if (!member->unknown_vocab) {
        return false; // it came before: a repetition
    }
    or_known_vocab_t *known =
        find_known(&c->vocabularies, member->announced_hash, member->announced_size);
    or_status_t status = OR_OK;
    if (known == NULL) {
        if (!may_bring(c, member)) {
            return false;
        }
        or_standings_brought(&c->peers.standings, member->grant.key, or_clock_now(c->clock));
        status = take_vocabulary(&c->vocabularies, message, member->announced_hash,
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
    const or_string_cost_t *cost = NULL;
    or_status_t status =
        or_vocab_choice_check(known->pair, &known->figures, OR_VOCAB_SLRS, open->accept_rule);
    if (status == OR_OK) {
        status = string_cost(known, &cost);
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
