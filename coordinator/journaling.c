// A session's way into the journal, and back from there into a coordinator that was started anew.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/coordinator_internal.h"

#define TOLD_NS (60 * OR_NS_PER_S) // between warnings of trouble with the journal

// A text that is not in the journal is lost with this process, no more.
static void report(or_coordinator_t *c, or_status_t status)
{
    int64_t now = or_clock_now(c->clock);
    if (status != OR_OK && (c->journal_told_ns == 0 || now - c->journal_told_ns >= TOLD_NS)) {
        or_log(OR_LOG_WARN, "%s; texts go on, but may not survive this coordinator",
               or_error_text());
        c->journal_told_ns = now;
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
        status = or_journal_begin(c->config.journal, &entry, &session->journal_number);
        free(frame);
    }
    report(c, status);
}

void or_coordinator_journal_commit(or_coordinator_t *c, or_csession_t *session)
{
    uint32_t written = or_csession_written(session);
    if (session->journal_number == 0 || written == session->journaled) {
        return;
    }
    const int32_t *tokens = session->log.tokens + session->prompt_length + session->journaled;
    or_status_t status =
        or_journal_commit(c->config.journal, session->journal_number, tokens,
                          written - session->journaled, session->round + 1, session->arith_id);
    if (status == OR_OK) {
        session->journaled = written;
    } // else they go with the next ones: there are never gaps
    report(c, status);
}

void or_coordinator_journal_end(or_coordinator_t *c, or_csession_t *session)
{
    bool failed = session->finish == OR_FINISH_ERROR;
    bool revoked = failed && session->error_code == OR_WIRE_REFUSED; // nobody may fetch it
    if (revoked || (failed && or_csession_written(session) == 0)) {  // or it is asked for anew
        or_coordinator_journal_forget(c, session);
    } else if (session->journal_number != 0) {
        report(c, or_journal_end(c->config.journal, session->journal_number, session->finish));
    }
}

void or_coordinator_journal_forget(or_coordinator_t *c, or_csession_t *session)
{
    if (session->journal_number != 0) {
        report(c, or_journal_forget(c->config.journal, session->journal_number));
        session->journal_number = 0;
    }
}

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
        status = or_csession_create(&c->target, (or_session_id_t){c->next_id}, (or_peer_t){0},
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
    c->next_id += 2;
    session->journal_number = number;
    session->journaled = entry->count;
    session->stats.resumed_tokens = or_csession_written(session); // counted by another, if at all
    session->round = entry->round;
    session->arrived_ns = session->started_ns = session->done_ns = now;
    session->deadline_ns = or_coordinator_after_ms(c, c->config.resume_ms);
    session->phase = session->finish == OR_FINISH_NONE ? OR_PHASE_PARKED : OR_PHASE_DONE;
    memcpy(session->token, resume->token, sizeof session->token);
    memcpy(session->key, entry->key, strlen(entry->key) + 1);
    memcpy(session->arith_id, entry->arith_id, strlen(entry->arith_id) + 1);
    if (session->phase == OR_PHASE_PARKED) {
        report(c, or_journal_commit(c->config.journal, number, NULL, 0, session->round,
                                    session->arith_id));
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
    if (now >= c->journal_due_ns) {
        c->journal_due_ns = or_journal_tick(c->config.journal, now);
    }
    return c->journal_due_ns;
}
