// A session's way into the journal, and back from there into a coordinator that was started anew.
//
//     commit ──▶ put ──▶ [ the journal writes ] ──▶ done ──▶ tell, and put what was committed meanwhile
//
// One write a session is under way at a time, so that a slow disk gets few large ones and nothing piles up: what is committed
// meanwhile lies in the session. What may be told is what is written, or was refused: the rounds go on either way.
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/coordinator_internal.h"

#define TOLD_NS (60 * OR_NS_PER_S)    // between warnings of trouble with the journal
#define PATIENCE_NS (5 * OR_NS_PER_S) // with a disk that neither writes nor refuses
#define FLUSH_MS 1000u
#define AGAIN_MS 500u // for who asks for a text that is just being written

static void warn(or_coordinator_t *c, const char *why)
{
    int64_t now = or_clock_now(c->clock);
    if (c->journal_told_ns == 0 || now - c->journal_told_ns >= TOLD_NS) {
        or_log(OR_LOG_WARN, "%s; texts go on, but may not survive this coordinator", why);
        c->journal_told_ns = now;
    }
}

// A text that is not in the journal is lost with this process, no more.
static void report(or_coordinator_t *c, or_status_t status)
{
    if (status != OR_OK) {
        warn(c, or_error_text());
    }
}

// ---- what may be told ----

static or_extent_t all_of(const or_csession_t *session)
{
    return (or_extent_t){.tokens = or_csession_written(session),
                         .text = session->text.released,
                         .over = session->finish != OR_FINISH_NONE};
}

bool or_coordinator_journal_holds(const or_coordinator_t *c, const or_csession_t *session)
{
    return session->journal.since_ns != 0 && !c->journal_late;
}

or_extent_t or_coordinator_journal_extent(const or_coordinator_t *c, const or_csession_t *session)
{
    return or_coordinator_journal_holds(c, session) ? session->journal.settled : all_of(session);
}

// ---- writing ----

// It goes on without: there is no room for it, or it was deleted.
static void leave(or_coordinator_t *c, or_csession_t *session)
{
    or_journal_drop(c->config.journal, session->journal.number);
    session->journal.number = 0;
    session->journal.kept = false;
}

// A write is done. What was refused is told all the same, and goes with the next one: there are never gaps.
static void note_written(or_coordinator_t *c, or_csession_t *session, or_status_t status)
{
    or_journaling_t *journal = &session->journal;
    journal->since_ns = 0;
    journal->begun = true;
    journal->settled = journal->writing;
    report(c, status);
    if (status == OR_OK) {
        journal->kept = true;
        journal->tokens = journal->writing.tokens;
        journal->ended = journal->writing.over;
    } else if (status == OR_ERR_FULL || status == OR_ERR_NOT_FOUND) {
        leave(c, session);
    }
}

// Called with `writing` filled in. True: it is done, and there may be more.
static bool note_put(or_coordinator_t *c, or_csession_t *session, or_status_t status)
{
    if (status == OR_OK && or_journal_is_busy(c->config.journal, session->journal.number)) {
        session->journal.since_ns = or_clock_now(c->clock);
        return false;
    }
    note_written(c, session, status);
    return status == OR_OK;
}

static bool put_tokens(or_coordinator_t *c, or_csession_t *session)
{
    or_journaling_t *journal = &session->journal;
    uint32_t count = or_csession_written(session) - journal->tokens;
    const int32_t *tokens = session->log.tokens + session->prompt_length + journal->tokens;
    journal->writing = all_of(session);
    journal->writing.over = false;
    return note_put(c, session,
                    or_journal_commit(c->config.journal, journal->number, tokens, count,
                                      journal->round, session->arith_id));
}

static bool put_end(or_coordinator_t *c, or_csession_t *session)
{
    session->journal.writing = all_of(session);
    return note_put(c, session,
                    or_journal_end(c->config.journal, session->journal.number, session->finish));
}

// What the journal does not have yet, unless something is under way: then that comes first.
static void put(or_coordinator_t *c, or_csession_t *session)
{
    const or_journaling_t *journal = &session->journal;
    bool more = true;
    while (more && journal->number != 0 && journal->since_ns == 0) {
        if (or_csession_written(session) > journal->tokens || !journal->kept) {
            more = put_tokens(c, session);
        } else if (session->finish != OR_FINISH_NONE && !journal->ended) {
            more = put_end(c, session);
        } else {
            more = false;
        }
    }
}

void or_coordinator_journal_begin(or_coordinator_t *c, or_csession_t *session,
                                  const or_generate_request_t *request)
{
    if (c->config.journal == NULL) {
        return;
    }
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST, .body.generate_request = *request};
    if (request->message_count > 0) { // the next coordinator may have another template
        or_generate_request_t *journaled = &message.body.generate_request;
        journaled->message_count = 0;
        journaled->prompt_tokens = (const uint32_t *)session->log.tokens;
        journaled->prompt_token_count = session->prompt_length;
    }
    or_journal_entry_t entry = {.owner = or_csession_owner(session),
                                .key = session->key,
                                .model_hash = c->config.model_hash,
                                .seed = session->seed};
    memcpy(entry.token, session->token, sizeof entry.token);
    uint8_t *frame = NULL;
    or_status_t status = or_message_encode(&message, &frame, &entry.request_bytes);
    if (status == OR_OK) {
        entry.request = frame;
        status = or_journal_begin(c->config.journal, &entry, &session->journal.number);
        free(frame);
    }
    session->journal.round = session->round;
    session->journal.writing = all_of(session);
    note_put(c, session, status);
}

void or_coordinator_journal_commit(or_coordinator_t *c, or_csession_t *session)
{
    session->journal.round = session->round + 1;
    put(c, session);
}

void or_coordinator_journal_end(or_coordinator_t *c, or_csession_t *session)
{
    bool failed = session->finish == OR_FINISH_ERROR;
    bool revoked = failed && session->error_code == OR_WIRE_REFUSED; // nobody may fetch it
    if (revoked || (failed && or_csession_written(session) == 0)) {  // or it is asked for anew
        or_coordinator_journal_forget(c, session);
    } else {
        put(c, session);
    }
}

void or_coordinator_journal_forget(or_coordinator_t *c, or_csession_t *session)
{
    if (session->journal.number != 0) {
        or_journal_forget(c->config.journal, session->journal.number);
        session->journal = (or_journaling_t){.begun = true};
    }
}

void or_coordinator_journal_release(or_coordinator_t *c, const or_csession_t *session)
{
    if (session != NULL && session->journal.number != 0 && !session->journal.ended) {
        or_journal_abandon(c->config.journal, session->journal.number);
    }
}

// ---- what came of it ----

static or_csession_t *find_number(const or_coordinator_t *c, uint64_t number)
{
    for (uint32_t i = 0; i < c->places; i++) {
        if (c->sessions[i] != NULL && c->sessions[i]->journal.number == number) {
            return c->sessions[i];
        }
    }
    return NULL;
}

static bool has_news(const or_coordinator_t *c, const or_csession_t *session)
{
    const or_extent_t may = or_coordinator_journal_extent(c, session);
    return may.tokens > session->sent_tokens || may.text > session->sent_text ||
           (may.over && !session->sent_end);
}

// A write of this session is done.
static void take(or_coordinator_t *c, or_csession_t *session, or_status_t status)
{
    bool begins = !session->journal.begun;
    note_written(c, session, status);
    if (status == OR_OK) { // else it goes with what comes next, or after a while
        put(c, session);
    }
    if (begins || has_news(c, session)) {
        or_coordinator_tell_client(c, session);
    }
}

static void take_all(or_coordinator_t *c)
{
    uint64_t number;
    or_status_t status;
    while (or_journal_next(c->config.journal, &number, &status)) {
        or_csession_t *session = find_number(c, number);
        c->journal_late = false;
        if (session != NULL && session->journal.since_ns != 0) {
            take(c, session, status);
        }
    }
}

void or_coordinator_journal_flush(or_coordinator_t *c)
{
    for (int i = 0; c->config.journal != NULL && i < 2; i++) { // tokens, and an end behind them
        or_journal_wait(c->config.journal, FLUSH_MS);
        take_all(c);
    }
}

static void tell_held(or_coordinator_t *c, or_csession_t *session)
{
    if (session->journal.since_ns != 0) {
        or_coordinator_tell_client(c, session);
    }
}

// A disk that neither writes nor refuses is one that refuses, until it answers.
static void lose_patience(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    for (uint32_t i = 0; !c->journal_late && i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        c->journal_late = session != NULL && session->journal.since_ns != 0 &&
                          now - session->journal.since_ns >= PATIENCE_NS;
        if (c->journal_late) {
            warn(c, "the journal: the disk does not answer");
            or_coordinator_for_each_session(c, tell_held);
        }
    }
}

// ---- coming back ----

// The request as it came, with the seed it got, and its tokens once more through everything they went through.
static or_status_t make_again(or_coordinator_t *c, const or_journal_entry_t *entry,
                              uint64_t request_number, or_csession_t **session_p)
{
    or_message_t message = {0};
    or_status_t status = or_message_decode(entry->request, entry->request_bytes, &message);
    if (status != OR_OK) {
        return status;
    }
    or_generate_request_t *request = &message.body.generate_request;
    if (message.type != OR_MSG_GENERATE_REQUEST) {
        status = or_fail(OR_ERR_FORMAT, "a request that is none");
    } else {
        request->request = request_number;
        request->seed = entry->seed;
        request->has_seed = true;
        status = or_csession_create(&c->target, or_session_ids_next(&c->ids), (or_peer_t){0},
                                    entry->owner, request, session_p);
    }
    or_message_fini(&message);
    if (status == OR_OK) {
        status = or_csession_restore(*session_p, entry->tokens, entry->count, entry->finish);
        if (status != OR_OK) {
            or_csession_destroy(session_p);
        }
    }
    return status;
}

// It waits for its client like any other that was parked, or for the client to fetch its end.
static void adopt(or_coordinator_t *c, or_csession_t *session, const or_journal_entry_t *entry,
                  const or_resume_t *resume, uint64_t number)
{
    int64_t now = or_clock_now(c->clock);
    or_session_ids_take(&c->ids);
    session->stats.resumed_tokens = or_csession_written(session); // counted by another, if at all
    session->round = entry->round;
    session->arrived_ns = session->started_ns = session->done_ns = now;
    session->deadline_ns = or_coordinator_after_ms(c, c->config.resume_ms);
    session->phase = session->finish == OR_FINISH_NONE ? OR_PHASE_PARKED : OR_PHASE_DONE;
    memcpy(session->token, resume->token, sizeof session->token);
    memcpy(session->key, entry->key, strlen(entry->key) + 1);
    memcpy(session->arith_id, entry->arith_id, strlen(entry->arith_id) + 1);
    session->journal = (or_journaling_t){.number = number,
                                         .begun = true,
                                         .kept = true,
                                         .ended = session->phase == OR_PHASE_DONE,
                                         .tokens = entry->count,
                                         .round = entry->round,
                                         .settled = all_of(session)};
    if (session->phase == OR_PHASE_PARKED) {
        put_tokens(c, session); // none, but somebody works on it again
    } else {
        or_csession_drop_rounds(session);
        or_charges_shrink(session);
    }
    or_log_of(OR_LOG_INFO, or_csession_subject(session), "back from the journal: %u tokens",
              or_csession_written(session));
}

or_status_t or_coordinator_journal_restore(or_coordinator_t *c, const or_member_t *client,
                                           const or_resume_t *resume, or_csession_t **session_p,
                                           uint32_t *retry_ms)
{
    or_journal_entry_t entry;
    uint64_t number;
    or_csession_t **place = NULL;
    if (c->config.journal == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    or_status_t status =
        or_journal_find(c->config.journal, resume->token, resume->token_bytes, &entry, &number);
    if (status == OR_ERR_AGAIN) {
        *retry_ms = AGAIN_MS;
        return or_fail(OR_ERR_FULL, "busy: this text is just being written to the journal; retry "
                                    "after 0.5 s");
    }
    if (status != OR_OK) {
        report(c, status == OR_ERR_NOT_FOUND ? OR_OK : status);
        return OR_ERR_NOT_FOUND;
    }
    if (!or_parking_is_theirs(client, entry.owner, entry.key)) {
        return OR_ERR_MISMATCH;
    }
    if (entry.model_hash != c->config.model_hash) {
        or_log(OR_LOG_WARN, "a text in the journal was written by another target: it ends here");
        return OR_ERR_NOT_FOUND;
    }
    if (entry.finish == OR_FINISH_NONE) { // before the time is spent that making it again takes
        status = or_clients_admit(c, client, false, retry_ms);
    }
    if (status == OR_OK) {
        status = or_clients_place(c, client, &place, retry_ms);
    }
    if (status != OR_OK) {
        return status;
    }
    status = make_again(c, &entry, resume->request, place);
    if (status != OR_OK) {
        or_log(OR_LOG_WARN, "a text in the journal cannot go on: %s", or_error_text());
        return OR_ERR_NOT_FOUND;
    }
    status = or_charges_open(c, *place);
    if (status != OR_OK) {
        or_csession_destroy(place);
        *retry_ms = OR_CHARGES_RETRY_MS;
        return status;
    }
    adopt(c, *place, &entry, resume, number);
    *session_p = *place;
    return OR_OK;
}

int64_t or_coordinator_journal_tick(or_coordinator_t *c)
{
    if (c->config.journal == NULL) {
        return OR_TIME_NEVER;
    }
    int64_t now = or_clock_now(c->clock);
    take_all(c);
    if (now >= c->journal_due_ns) {
        lose_patience(c);
        or_coordinator_for_each_session(c, put); // what was refused
        c->journal_due_ns = or_journal_tick(c->config.journal, now);
    }
    return c->journal_due_ns;
}
