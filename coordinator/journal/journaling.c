#include "coordinator/journal/journaling.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/hub.h"

#define TOLD_NS (60 * OR_NS_PER_S)    // between warnings of trouble with the journal
#define PATIENCE_NS (5 * OR_NS_PER_S) // with a disk that neither writes nor refuses
#define FLUSH_MS 1000u

static void warn(or_coordinator_t *c, const char *why)
{
    int64_t now = or_clock_now(c->clock);
    if (c->journaling.told_ns == 0 || now - c->journaling.told_ns >= TOLD_NS) {
        or_log(OR_LOG_WARN, "%s; texts go on, but may not survive this coordinator", why);
        c->journaling.told_ns = now;
    }
}

// A text that is not in the journal is lost with this process, no more.
void or_journaling_report(or_coordinator_t *c, or_status_t status)
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

bool or_journaling_holds(const or_coordinator_t *c, const or_csession_t *session)
{
    return session->journal.since_ns != 0 && !c->journaling.late;
}

or_extent_t or_journaling_extent(const or_coordinator_t *c, const or_csession_t *session)
{
    return or_journaling_holds(c, session) ? session->journal.settled : all_of(session);
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
    or_journaling_report(c, status);
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

// Put what the journal does not have yet, unless something is under way: then that comes first.
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

void or_journaling_begin(or_coordinator_t *c, or_csession_t *session,
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
        journaled->reader = or_chat_name(c->target.chat);
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

void or_journaling_commit(or_coordinator_t *c, or_csession_t *session)
{
    session->journal.round = session->round + 1;
    put(c, session);
}

void or_journaling_end(or_coordinator_t *c, or_csession_t *session)
{
    bool failed = session->finish == OR_FINISH_ERROR;
    bool revoked = failed && session->error_code == OR_WIRE_REFUSED; // nobody may fetch it
    if (revoked || (failed && or_csession_written(session) == 0)) {  // or it is asked for anew
        or_journaling_forget(c, session);
    } else {
        put(c, session);
    }
}

void or_journaling_forget(or_coordinator_t *c, or_csession_t *session)
{
    if (session->journal.number != 0) {
        or_journal_forget(c->config.journal, session->journal.number);
        session->journal = (or_journaling_t){.begun = true};
    }
}

void or_journaling_release(or_coordinator_t *c, const or_csession_t *session)
{
    if (session != NULL && session->journal.number != 0 && !session->journal.ended) {
        or_journal_abandon(c->config.journal, session->journal.number);
    }
}

// ---- what came of it ----

static or_csession_t *find_number(const or_coordinator_t *c, uint64_t number)
{
    or_csession_t *session;
    uint32_t at = 0;
    do {
        session = or_sessions_next(&c->sessions, &at);
    } while (session != NULL && session->journal.number != number);
    return session;
}

static bool has_news(const or_coordinator_t *c, const or_csession_t *session)
{
    const or_extent_t may = or_journaling_extent(c, session);
    return may.tokens > session->stream.told.tokens || may.text > session->stream.told.text ||
           (may.over && !session->stream.told.over);
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
        or_csession_mark(session, OR_MARK_NEWS);
    }
}

static void take_all(or_coordinator_t *c)
{
    uint64_t number;
    or_status_t status;
    while (or_journal_next(c->config.journal, &number, &status)) {
        or_csession_t *session = find_number(c, number);
        c->journaling.late = false;
        if (session != NULL && session->journal.since_ns != 0) {
            take(c, session, status);
        }
    }
}

void or_journaling_flush(or_coordinator_t *c)
{
    if (c->config.journal != NULL) {
        or_journal_wait(c->config.journal, FLUSH_MS);
        take_all(c);
    }
}

static bool is_late(const or_csession_t *session, int64_t now)
{
    return session->journal.since_ns != 0 && now - session->journal.since_ns >= PATIENCE_NS;
}

// A disk that neither writes nor refuses is one that refuses, until it answers.
static void lose_patience(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    or_csession_t *session;
    bool late = false;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        late = late || is_late(session, now);
    }
    if (!late || c->journaling.late) {
        return;
    }
    c->journaling.late = true;
    warn(c, "the journal: the disk does not answer");
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (session->journal.since_ns != 0) {
            or_csession_mark(session, OR_MARK_NEWS);
        }
    }
}

void or_journaling_adopt(or_coordinator_t *c, or_csession_t *session,
                         const or_journal_entry_t *entry, uint64_t number)
{
    bool done = session->phase == OR_PHASE_DONE;
    session->journal = (or_journaling_t){.number = number,
                                         .begun = true,
                                         .kept = true,
                                         .ended = done,
                                         .tokens = entry->count,
                                         .round = entry->round,
                                         .settled = all_of(session)};
    if (!done) {
        put_tokens(c, session); // none, but somebody works on it again
    }
}

int64_t or_journaling_tick(or_coordinator_t *c)
{
    if (c->config.journal == NULL) {
        return OR_TIME_NEVER;
    }
    int64_t now = or_clock_now(c->clock);
    take_all(c);
    if (now >= c->journaling.due_ns) {
        lose_patience(c);
        or_csession_t *session;
        for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
            put(c, session); // what was refused
        }
        c->journaling.due_ns = or_journal_tick(c->config.journal, now);
    }
    return c->journaling.due_ns;
}
