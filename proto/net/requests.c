#include "proto/net/requests.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "common/base/version.h"

#define CONNECT_PATIENCE_NS (10 * OR_NS_PER_S) // for the first Welcome
#define SILENCE_PATIENCE_NS (5 * OR_NS_PER_S)  // without a coordinator, after that
#define REPEAT_NS (2 * OR_NS_PER_S)            // nothing new for so long: ask again
#define QUESTION_NS (1 * OR_NS_PER_S)          // the same for figures
#define LOOK_NS (50 * OR_NS_PER_MS)            // between two looks at all slots

typedef struct {
    bool busy;
    bool
        begun; // a delta has come, or came to somebody before us: resume from now on, never ask anew
    bool cancelled;
    bool held, ended; // its end is here, and somebody may still miss it
    or_generate_request_t request;
    or_session_id_t session; // the coordinator's, from the first delta; 0: not known yet
    uint8_t token[OR_SESSION_TOKEN_BYTES];
    bool has_token;
    uint32_t tokens; // what is here
    uint64_t text_bytes;
    int64_t repeat_at_ns; // when to ask again
} slot_t;

// For figures: Stats or Metrics.
typedef struct {
    bool open;
    uint64_t events_after;
    int64_t repeat_at_ns;
} question_t;

struct or_requests {
    or_channel_t *channel;
    or_link_t *link;
    const or_clock_t *clock;
    slot_t *slots;
    uint32_t count;
    uint64_t slot_bits;      // of a request's number: its slot; the others are random
    int64_t look_at_ns;      // no slot is due before
    question_t questions[2]; // Stats, Metrics
    bool welcomed_once;
    int64_t give_up_at_ns; // OR_TIME_NEVER while the coordinator is there
};

static uint64_t bits_for(uint32_t slots)
{
    uint64_t bits = 1;
    while (bits < slots) {
        bits = bits << 1 | 1;
    }
    return bits;
}

or_status_t or_requests_create(or_channel_t *channel, const or_clock_t *clock, const char *owner,
                               bool padding, uint32_t slots, or_requests_t **requests_p)
{
    const or_hello_t hello = {.role = OR_ROLE_CLIENT,
                              .software = "outrider " OR_VERSION,
                              .arith_id = "",
                              .model = "",
                              .owner = owner};
    or_requests_t *requests = calloc(1, sizeof *requests);
    slot_t *places = calloc(slots, sizeof *places);
    if (requests == NULL || places == NULL) {
        free(places);
        free(requests);
        or_channel_destroy(&channel);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u requests", slots);
    }
    *requests = (or_requests_t){.channel = channel,
                                .clock = clock,
                                .slots = places,
                                .count = slots,
                                .slot_bits = bits_for(slots),
                                .give_up_at_ns = or_clock_now(clock) + CONNECT_PATIENCE_NS};
    or_status_t status =
        or_link_create(channel, clock, &hello, OR_LINK_HEARTBEAT_MS, &requests->link);
    if (status != OR_OK) {
        or_requests_destroy(&requests);
        return status;
    }
    or_link_set_padding(requests->link, padding);
    *requests_p = requests;
    return OR_OK;
}

void or_requests_destroy(or_requests_t **requests_p)
{
    or_requests_t *requests = *requests_p;
    if (requests != NULL) {
        or_link_destroy(&requests->link);
        or_channel_destroy(&requests->channel);
        free(requests->slots);
        free(requests);
        *requests_p = NULL;
    }
}

// Whatever the reason a send fails for, asking again later is the answer.
static void send(or_requests_t *requests, const or_message_t *message)
{
    if (or_link_send(requests->link, OR_PEER_HUB, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "asking the coordinator: %s", or_error_text());
    }
}

// Never for a session that is not known: that would be the good-bye of us all.
static void send_cancel(or_requests_t *requests, or_session_id_t session, const char *reason,
                        bool keep)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = reason, .keep = keep}};
    if (session.value != 0) {
        send(requests, &message);
    }
}

static void stop(or_requests_t *requests, const slot_t *slot)
{
    send_cancel(requests, slot->session, "its reader does not want it any more", false);
}

static void set_repeat(or_requests_t *requests, slot_t *slot, int64_t pause_ns)
{
    slot->repeat_at_ns = or_clock_now(requests->clock) + pause_ns;
    if (slot->repeat_at_ns < requests->look_at_ns) {
        requests->look_at_ns = slot->repeat_at_ns;
    }
}

// Say what a slot wants: the whole request, or what is missing of its text.
static void ask(or_requests_t *requests, slot_t *slot)
{
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST, .session = slot->session};
    if (slot->begun) {
        message.type = OR_MSG_RESUME;
        message.body.resume = (or_resume_t){.request = slot->request.request,
                                            .offset = slot->tokens,
                                            .text_offset = slot->text_bytes,
                                            .token = slot->has_token ? slot->token : NULL,
                                            .token_bytes = slot->has_token ? sizeof slot->token : 0,
                                            .owner = slot->request.owner};
    } else {
        message.body.generate_request = slot->request;
    }
    send(requests, &message);
    if (slot->cancelled) {
        stop(requests, slot);
    }
    set_repeat(requests, slot, REPEAT_NS);
}

static void keep_token(slot_t *slot, const uint8_t token[OR_SESSION_TOKEN_BYTES])
{
    memcpy(slot->token, token, sizeof slot->token);
    slot->has_token = true;
}

// Take the slot, and ask if there is somebody to ask; else Welcome does.
static void begin(or_requests_t *requests, uint32_t index, const slot_t *slot)
{
    slot_t *place = &requests->slots[index];
    *place = *slot;
    place->busy = true;
    place->repeat_at_ns = OR_TIME_NEVER;
    place->request.request = (or_rng_system_seed() & ~requests->slot_bits) | index;
    if (or_link_welcomed(requests->link)) {
        ask(requests, place);
    }
}

void or_requests_begin(or_requests_t *requests, uint32_t slot, const or_generate_request_t *request)
{
    begin(requests, slot, &(slot_t){.request = *request});
}

void or_requests_resume(or_requests_t *requests, uint32_t slot,
                        const or_generate_request_t *request,
                        const uint8_t token[OR_SESSION_TOKEN_BYTES], uint32_t tokens,
                        uint64_t text_bytes)
{
    slot_t begun = {.request = *request, .begun = true, .tokens = tokens, .text_bytes = text_bytes};
    keep_token(&begun, token);
    begin(requests, slot, &begun);
}

bool or_requests_welcomed(const or_requests_t *requests)
{
    return or_link_welcomed(requests->link);
}

bool or_requests_is_idle(const or_requests_t *requests, uint32_t slot)
{
    return !requests->slots[slot].busy;
}

void or_requests_hold(or_requests_t *requests, uint32_t slot)
{
    requests->slots[slot].held = true;
}

void or_requests_cancel(or_requests_t *requests, uint32_t slot)
{
    slot_t *place = &requests->slots[slot];
    place->cancelled = true;
    place->busy = !place->ended;
    stop(requests, place);
}

// Where no delta has come yet there is no session to name: take_unread sees to it.
void or_requests_leave(or_requests_t *requests, uint32_t slot)
{
    slot_t *place = &requests->slots[slot];
    place->busy = false;
    send_cancel(requests, place->session, "its reader is away", true);
}

// ---- figures ----

static void ask_question(or_requests_t *requests, bool metrics)
{
    question_t *question = &requests->questions[metrics];
    const or_message_t message = {
        .type = OR_MSG_STATS_REQUEST,
        .body.stats_request = {.metrics = metrics, .events_after = question->events_after}};
    question->repeat_at_ns = or_clock_now(requests->clock) + QUESTION_NS;
    send(requests, &message);
}

void or_requests_ask_stats(or_requests_t *requests, bool metrics, uint64_t events_after)
{
    question_t *question = &requests->questions[metrics];
    if (question->open) {
        return;
    }
    *question = (question_t){.open = true, .events_after = events_after};
    if (or_link_welcomed(requests->link)) {
        ask_question(requests, metrics);
    }
}

// OR_ERR_AGAIN if nobody asked, or has the answer already.
static or_status_t take_figures(or_requests_t *requests, bool metrics, uint32_t *index)
{
    bool asked = requests->questions[metrics].open;
    requests->questions[metrics].open = false;
    *index = OR_REQUESTS_NO_SLOT;
    return asked ? OR_OK : OR_ERR_AGAIN;
}

// When the next question is due, those that are having been asked.
static int64_t repeat_questions(or_requests_t *requests)
{
    int64_t due = OR_TIME_NEVER;
    for (int metrics = 0; metrics < 2; metrics++) {
        question_t *question = &requests->questions[metrics];
        if (question->open && or_clock_now(requests->clock) >= question->repeat_at_ns) {
            ask_question(requests, metrics != 0);
        }
        if (question->open && question->repeat_at_ns < due) {
            due = question->repeat_at_ns;
        }
    }
    return due;
}

// ---- receiving ----

static slot_t *find_slot(or_requests_t *requests, uint64_t request)
{
    uint64_t index = request & requests->slot_bits;
    slot_t *slot = index < requests->count ? &requests->slots[index] : NULL;
    return slot != NULL && slot->busy && slot->request.request == request ? slot : NULL;
}

// A text that nobody reads: the repetition of one that we know, or it was left before its first delta came, or
// the word that it was left got lost. Nobody has the secret of one that has not begun.
static void take_unread(or_requests_t *requests, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    if (delta->finish == OR_FINISH_NONE) {
        send_cancel(requests, message->session, "nobody reads it", delta->offset > 0);
    }
}

// Leave of a delta's details only what belongs to its new tokens.
static void cut_details(or_generate_delta_t *delta, uint32_t old_tokens)
{
    if (delta->logprob_count > 0) {
        delta->logprobs += old_tokens;
        delta->logprob_count -= old_tokens;
    }
    if (delta->origin_count > 0) {
        delta->origins += old_tokens;
        delta->origin_count -= old_tokens;
    }
    if (delta->token_end_count > 0) {
        delta->token_ends += old_tokens;
        delta->token_end_count -= old_tokens;
    }
}

// Leave in the delta only what is new to the slot.
static void cut_known(slot_t *slot, or_generate_delta_t *delta)
{
    uint32_t old_tokens = slot->tokens - delta->offset;
    uint64_t old_bytes = slot->text_bytes - delta->text_offset;
    old_tokens = old_tokens < delta->count ? old_tokens : delta->count;
    old_bytes = old_bytes < delta->text_bytes ? old_bytes : delta->text_bytes;
    if (old_tokens > 0) { // arrays without entries are NULL
        delta->tokens += old_tokens;
        delta->count -= old_tokens;
        delta->offset += old_tokens;
        cut_details(delta, old_tokens);
    }
    if (old_bytes > 0) {
        delta->text += old_bytes;
        delta->text_bytes -= (uint32_t)old_bytes;
        delta->text_offset += old_bytes;
    }
    slot->tokens += delta->count;
    slot->text_bytes += delta->text_bytes;
}

// A delta that is none: the coordinator cannot go on with the text, or not now. OR_ERR_AGAIN if it will.
static or_status_t take_failure(or_requests_t *requests, slot_t *slot,
                                const or_generate_delta_t *delta)
{
    bool parked = slot->begun && delta->error_code == OR_WIRE_BUSY; // nothing of it is lost
    if (parked && !slot->cancelled) {
        set_repeat(requests, slot,
                   delta->retry_ms > 0 ? delta->retry_ms * OR_NS_PER_MS : REPEAT_NS);
        return OR_ERR_AGAIN;
    }
    slot->busy = false;
    return OR_OK;
}

// What a delta says of the session it belongs to.
static void learn_session(or_requests_t *requests, slot_t *slot, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    bool first = slot->session.value == 0;
    slot->begun = true;
    slot->session = message->session;
    if (delta->token_bytes == sizeof slot->token) {
        keep_token(slot, delta->token);
    }
    if (first && slot->cancelled && delta->finish == OR_FINISH_NONE) {
        stop(requests, slot);
    }
}

// Its last delta is here. Is it held?
static bool take_end(slot_t *slot)
{
    slot->ended = slot->held && !slot->cancelled;
    slot->busy = slot->ended;
    slot->repeat_at_ns = OR_TIME_NEVER;
    return slot->busy;
}

// OR_ERR_AGAIN if it brings nothing, or if something before it is missing.
static or_status_t take_delta(or_requests_t *requests, or_message_t *message, uint32_t *index)
{
    or_generate_delta_t *delta = &message->body.generate_delta;
    slot_t *slot = find_slot(requests, delta->request);
    if (slot == NULL) {
        take_unread(requests, message);
        return OR_ERR_AGAIN;
    }
    if (slot->ended) {
        return OR_ERR_AGAIN; // the repetition of what we have
    }
    *index = (uint32_t)(slot - requests->slots);
    if (delta->finish == OR_FINISH_ERROR && message->session.value == 0) {
        return take_failure(requests, slot, delta);
    }
    learn_session(requests, slot, message);
    if (delta->offset > slot->tokens || delta->text_offset > slot->text_bytes) {
        ask(requests, slot);
        return OR_ERR_AGAIN;
    }
    set_repeat(requests, slot, REPEAT_NS);
    cut_known(slot, delta);
    bool ends = delta->finish != OR_FINISH_NONE;
    if (ends && !take_end(slot)) { // the coordinator may forget it
        send_cancel(requests, slot->session, "all is here", false);
    }
    return delta->count > 0 || ends ? OR_OK : OR_ERR_AGAIN;
}

static void ask_all(or_requests_t *requests)
{
    for (uint32_t i = 0; i < requests->count; i++) {
        if (requests->slots[i].busy && !requests->slots[i].ended) {
            ask(requests, &requests->slots[i]);
        }
    }
    for (int metrics = 0; metrics < 2; metrics++) {
        if (requests->questions[metrics].open) {
            ask_question(requests, metrics != 0);
        }
    }
}

// Ask for what has not come. Slots are looked at together, and not often: there are thousands.
static void repeat_slots(or_requests_t *requests)
{
    int64_t now = or_clock_now(requests->clock);
    if (now < requests->look_at_ns) {
        return;
    }
    int64_t due = OR_TIME_NEVER;
    for (uint32_t i = 0; i < requests->count; i++) {
        slot_t *slot = &requests->slots[i];
        if (slot->busy && now >= slot->repeat_at_ns) {
            ask(requests, slot);
        }
        if (slot->busy && slot->repeat_at_ns < due) {
            due = slot->repeat_at_ns;
        }
    }
    requests->look_at_ns = due > now + LOOK_NS ? due : now + LOOK_NS;
}

// An Error about the link ends all; one about a message is answered by repeating.
static or_status_t take_error(const or_error_t *error)
{
    if (error->code == OR_WIRE_VERSION || error->code == OR_WIRE_REFUSED) {
        return or_fail(OR_ERR_MISMATCH, "the coordinator says: %s", error->text);
    }
    or_log(OR_LOG_INFO, "the coordinator says: %s", error->text);
    return OR_ERR_AGAIN;
}

static or_status_t take_message(or_requests_t *requests, or_message_t *message, uint32_t *index)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        requests->give_up_at_ns = OR_TIME_NEVER;
        requests->welcomed_once = true;
        ask_all(requests);
        return OR_ERR_AGAIN;
    case OR_MSG_GENERATE_DELTA:
        return take_delta(requests, message, index);
    case OR_MSG_STATS:
        return take_figures(requests, false, index);
    case OR_MSG_METRICS:
        return take_figures(requests, true, index);
    case OR_MSG_ERROR:
        return take_error(&message->body.error);
    default:
        return OR_ERR_AGAIN;
    }
}

// Everything that waits, up to the first thing the caller must see.
static or_status_t receive(or_requests_t *requests, uint32_t *index, or_message_t *message)
{
    or_link_event_t event;
    or_peer_t from;
    or_status_t status;
    while ((status = or_link_receive(requests->link, &event, &from, message)) == OR_OK) {
        if (event == OR_LINK_PEER_LOST) {
            requests->give_up_at_ns = or_clock_now(requests->clock) + SILENCE_PATIENCE_NS;
            continue;
        }
        status = take_message(requests, message, index);
        if (status == OR_OK) {
            return OR_OK;
        }
        or_message_fini(message);
        if (status != OR_ERR_AGAIN) {
            return status;
        }
    }
    return status;
}

static or_status_t give_up(const or_requests_t *requests)
{
    if (requests->welcomed_once) {
        return or_fail(OR_ERR_UNREACHABLE, "the coordinator has been silent for %d s",
                       (int)(SILENCE_PATIENCE_NS / OR_NS_PER_S));
    }
    return or_fail(OR_ERR_TIMEOUT,
                   "no coordinator answers; is it running, and is the endpoint right?");
}

or_status_t or_requests_next(or_requests_t *requests, int64_t deadline_ns, uint32_t *slot,
                             or_message_t *message)
{
    or_status_t status = receive(requests, slot, message);
    if (status != OR_ERR_AGAIN) {
        return status;
    }
    if (or_clock_now(requests->clock) >= requests->give_up_at_ns) {
        return give_up(requests);
    }
    int64_t until = or_link_tick(requests->link);
    until = until < deadline_ns ? until : deadline_ns;
    if (or_link_welcomed(requests->link)) {
        repeat_slots(requests);
        int64_t due = repeat_questions(requests);
        due = due < requests->look_at_ns ? due : requests->look_at_ns;
        until = due < until ? due : until;
    }
    or_link_wait(requests->link, until);
    return receive(requests, slot, message);
}
