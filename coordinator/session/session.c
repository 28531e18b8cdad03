#include "coordinator/session/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"

void or_csession_destroy(or_csession_t **session_p)
{
    or_csession_t *session = *session_p;
    if (session == NULL) {
        return;
    }
    if (session->listed) {
        TAILQ_REMOVE(session->marked, session, marked_links);
    }
    or_hold_close(&session->held.request);
    or_hold_close(&session->held.answer);
    or_annotations_fini(&session->annotations);
    or_completion_fini(&session->text);
    or_token_log_fini(&session->log);
    or_terms_fini(&session->terms);
    or_csession_drop_rounds(session);
    free(session->stream.held_tree.words);
    free(session);
    *session_p = NULL;
}

void or_csession_drop_draws(or_csession_t *session)
{
    or_draws_store_fini(&session->tree.draws);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        or_draws_store_fini(&session->drafters.seats[i].draws);
    }
}

static void free_array(void *array_p)
{
    void **array = array_p;
    free(*array);
    *array = NULL;
}

void or_csession_drop_rounds(or_csession_t *session)
{
    or_csession_drop_draws(session);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        or_token_tree_destroy(&session->drafters.seats[i].tree);
        or_translator_destroy(&session->drafters.seats[i].translator);
    }
    or_merge_destroy(&session->drafters.merge);
    or_guesses_destroy(&session->budget.guesses);
    free_array(&session->tree.tokens);
    free_array(&session->tree.back);
    free_array(&session->tree.psi);
    free_array(&session->budget.lookup_guesses);
    session->tree.count = 0;
}

// A guess in a tree, in a pool or in a lookup, with what stands beside it: about.
#define GUESS_BYTES 64

// The bytes that only rounds need, but for distributions.
static size_t round_bytes(const or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    if (session->tree.tokens == NULL) {
        return 0; // dropped
    }
    uint32_t pooled = session->budget.guesses != NULL ? 2 * (open->draft_ahead + 1) : 0;
    size_t guesses = (size_t)open->draft_nodes * (or_seats_max(session) + pooled + 1);
    size_t room = OR_TREE_NODES_MAX * (sizeof *session->tree.tokens + sizeof *session->tree.back +
                                       sizeof *session->tree.psi);
    return room + guesses * GUESS_BYTES;
}

static size_t draws_bytes(const or_csession_t *session)
{
    size_t bytes = or_draws_store_bytes(&session->tree.draws);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        bytes += or_draws_store_bytes(&session->drafters.seats[i].draws);
    }
    return bytes;
}

size_t or_csession_request_bytes(const or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    return sizeof *session + round_bytes(session) + or_completion_stop_bytes(&session->text) +
           session->prompt_length * sizeof *session->log.tokens +
           open->sampling.bias_count * sizeof *open->sampling.bias;
}

size_t or_csession_answer_bytes(const or_csession_t *session)
{
    size_t tokens = session->log.capacity - session->prompt_length;
    return tokens * sizeof *session->log.tokens + session->text.capacity +
           or_annotations_bytes(&session->annotations) + draws_bytes(session);
}

const char *or_csession_owner(const or_csession_t *session)
{
    return session->terms.open.owner;
}

uint32_t or_csession_written(const or_csession_t *session)
{
    return session->log.length - session->prompt_length;
}

void or_csession_enter(or_csession_t *session, or_phase_t phase, int64_t deadline_ns)
{
    session->phase = phase;
    session->deadline_ns = deadline_ns;
}

void or_csession_wait_until(or_csession_t *session, int64_t deadline_ns)
{
    or_csession_enter(session, session->phase, deadline_ns);
}

static void join_marked(or_csession_t *session)
{
    if (session->marked != NULL && !session->listed) {
        TAILQ_INSERT_TAIL(session->marked, session, marked_links);
        session->listed = true;
    }
}

void or_csession_mark(or_csession_t *session, or_mark_t mark)
{
    session->marks |= mark;
    join_marked(session);
}

uint32_t or_csession_take_marks(or_csession_t *session, uint32_t marks)
{
    uint32_t taken = session->marks & marks;
    session->marks &= ~marks;
    return taken;
}

bool or_csession_is_live(const or_csession_t *session)
{
    return session->phase == OR_PHASE_TREE || session->phase == OR_PHASE_VERDICT;
}

// The soonest of a live session's timers: the phase's, the verifier's, and reminders of drafters.
static int64_t live_due(const or_csession_t *session)
{
    int64_t due = session->deadline_ns;
    due = session->target.abandoned_ns < due ? session->target.abandoned_ns : due;
    due = session->target.reopen_ns < due ? session->target.reopen_ns : due;
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
        due = seat->peer.value != 0 && seat->nudge_ns < due ? seat->nudge_ns : due;
    }
    return due;
}

int64_t or_csession_due(const or_csession_t *session)
{
    if (or_csession_is_live(session)) {
        return live_due(session);
    }
    bool paced = session->phase == OR_PHASE_WAITING && session->queue.paced_ns != 0 &&
                 session->queue.paced_ns < session->deadline_ns;
    return paced ? session->queue.paced_ns : session->deadline_ns;
}

or_status_t or_csession_check_verdict(const or_csession_t *session, const or_verdict_t *verdict,
                                      uint32_t vocab_size)
{
    if (verdict->base_length != session->log.length || verdict->next >= vocab_size) {
        return or_fail(OR_ERR_MISMATCH, "a verdict on %u tokens, we hold %u", verdict->base_length,
                       session->log.length);
    }
    uint64_t hash = session->log.hash;
    uint32_t parent = 0;
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t node = verdict->accepted[i];
        if (node == 0 || node > session->tree.count ||
            node - session->tree.back[node - 1] != parent) {
            return or_fail(OR_ERR_MISMATCH, "a verdict whose path is not in the tree");
        }
        if (session->tree.tokens[node - 1] >= vocab_size) {
            return or_fail(OR_ERR_MISMATCH, "a verdict that takes a token that is not its own");
        }
        hash = or_prefix_hash(hash, &session->tree.tokens[node - 1], 1);
        parent = node;
    }
    hash = or_prefix_hash(hash, &verdict->next, 1);
    if (hash != verdict->hash) {
        return or_fail(OR_ERR_MISMATCH, "a verdict whose prefix hash is not ours");
    }
    return or_annotations_check(session->terms.open.logprobs, verdict, session->tree.tokens,
                                vocab_size);
}

static bool is_stop_id(const or_csession_t *session, uint32_t token)
{
    const or_open_session_t *open = &session->terms.open;
    for (uint32_t i = 0; i < open->stop_count; i++) {
        if (open->stop_ids[i] == token) {
            return true;
        }
    }
    return false;
}

// Release what was held back. A text that was to end for its length may prove to have come to a stop string.
static or_status_t end_text(or_csession_t *session)
{
    bool stopped;
    or_status_t status = or_completion_finish(&session->text, &stopped);
    if (status == OR_OK) {
        session->finish =
            stopped && session->finish == OR_FINISH_LENGTH ? OR_FINISH_STOP : session->finish;
        or_annotations_finish(&session->annotations, session->text.length);
    }
    return status;
}

// A token of the text, an accepted guess or not; `logprob` NULL if it is not known.
typedef struct {
    uint32_t id;
    bool guessed;
    const or_token_logprob_t *logprob;
} token_t;

static or_status_t commit_token(or_csession_t *session, const token_t *token, uint32_t context_max)
{
    int32_t id = (int32_t)token->id;
    bool stopped = false;
    session->place = or_noise_advance(session->place, or_vocab_widths(session->vocab)[id]);
    or_status_t status = or_token_log_append(&session->log, &id, 1);
    if (status == OR_OK) {
        status = or_completion_push(&session->text, id, &stopped);
    }
    if (status == OR_OK) {
        status = or_annotations_add(&session->annotations, token->guessed, session->text.length,
                                    token->logprob);
    }
    if (status != OR_OK) {
        return status;
    }
    if (stopped || is_stop_id(session, token->id)) {
        session->finish = OR_FINISH_STOP;
    } else if (session->max_tokens > 0 && or_csession_written(session) >= session->max_tokens) {
        session->finish = OR_FINISH_LENGTH;
    } else if (session->log.length >= context_max) {
        session->finish = OR_FINISH_LENGTH;
    }
    return OR_OK;
}

or_status_t or_csession_commit(or_csession_t *session, const or_verdict_t *verdict,
                               uint32_t context_max)
{
    for (uint32_t i = 0; i <= verdict->accepted_count && session->finish == OR_FINISH_NONE; i++) {
        bool last = i == verdict->accepted_count;
        const token_t token = {
            .id = last ? verdict->next : session->tree.tokens[verdict->accepted[i] - 1],
            .guessed = !last,
            .logprob = verdict->logprob_count > 0 ? &verdict->logprobs[i] : NULL,
        };
        or_status_t status = commit_token(session, &token, context_max);
        if (status != OR_OK) {
            return status;
        }
        session->stats.accepted += last ? 0 : 1;
    }
    session->stats.completion_tokens = or_csession_written(session);
    return session->finish != OR_FINISH_NONE ? end_text(session) : OR_OK;
}

or_status_t or_csession_restore(or_csession_t *session, const int32_t *tokens, uint32_t count,
                                uint32_t finish)
{
    for (uint32_t i = 0; i < count && session->finish == OR_FINISH_NONE; i++) {
        const token_t token = {.id = (uint32_t)tokens[i]};
        if (token.id >= or_vocab_size(session->vocab)) {
            return or_fail(OR_ERR_INVALID, "token %u is not in the vocabulary", token.id);
        }
        // If the context ended the text, `finish` says so.
        or_status_t status = commit_token(session, &token, UINT32_MAX);
        if (status != OR_OK) {
            return status;
        }
    }
    session->stats.completion_tokens = or_csession_written(session);
    if (finish == OR_FINISH_ERROR) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "the text ended with an error before the coordinator was restarted");
        return OR_OK;
    }
    session->finish = session->finish != OR_FINISH_NONE ? session->finish : finish;
    return session->finish != OR_FINISH_NONE ? end_text(session) : OR_OK;
}

or_status_t or_csession_end(or_csession_t *session, or_finish_t finish)
{
    session->finish = finish;
    join_marked(session);
    return end_text(session);
}

void or_csession_fail(or_csession_t *session, or_wire_error_t code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(session->error, sizeof session->error, format, args);
    va_end(args);
    session->error_code = code;
    if (or_csession_end(session, OR_FINISH_ERROR) != OR_OK) {
        session->text.released = session->text.length;
    }
}

or_log_subject_t or_csession_subject(const or_csession_t *session)
{
    return (or_log_subject_t){.session = session->id.value, .request = session->label};
}
