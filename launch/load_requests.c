#include "launch/load_requests.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/version.h"

#define CONNECT_PATIENCE_NS (10 * OR_NS_PER_S) // for the first Welcome
#define SILENCE_PATIENCE_NS (5 * OR_NS_PER_S)  // without a coordinator, after that
#define REPEAT_NS (2 * OR_NS_PER_S)            // nothing new for so long: ask again

typedef struct {
    bool busy;
    bool begun; // a delta has come: resume from now on, never ask anew
    bool cancelled;
    or_generate_request_t request;
    or_session_id_t session; // the coordinator's, from the first delta
    uint32_t tokens;         // what is here
    uint64_t text_bytes;
    int64_t repeat_at_ns; // when to ask again
} slot_t;

struct or_load_requests {
    or_channel_t *channel;
    or_link_t *link;
    const or_clock_t *clock;
    slot_t *slots;
    uint32_t count;
    bool welcomed_once;
    int64_t give_up_at_ns; // OR_TIME_NEVER while the coordinator is there
};

or_status_t or_load_requests_create(or_channel_t *channel, const or_clock_t *clock,
                                    const char *owner, bool padding, uint32_t slots,
                                    or_load_requests_t **requests_p)
{
    const or_hello_t hello = {.role = OR_ROLE_CLIENT,
                              .software = "outrider " OR_VERSION,
                              .arith_id = "",
                              .model = "",
                              .owner = owner};
    or_load_requests_t *requests = calloc(1, sizeof *requests);
    slot_t *places = calloc(slots, sizeof *places);
    if (requests == NULL || places == NULL) {
        free(places);
        free(requests);
        or_channel_destroy(&channel);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u requests", slots);
    }
    *requests = (or_load_requests_t){.channel = channel,
                                     .clock = clock,
                                     .slots = places,
                                     .count = slots,
                                     .give_up_at_ns = or_clock_now(clock) + CONNECT_PATIENCE_NS};
    or_status_t status =
        or_link_create(channel, clock, &hello, OR_LINK_HEARTBEAT_MS, &requests->link);
    if (status != OR_OK) {
        or_load_requests_destroy(&requests);
        return status;
    }
    or_link_set_padding(requests->link, padding);
    *requests_p = requests;
    return OR_OK;
}

void or_load_requests_destroy(or_load_requests_t **requests_p)
{
    or_load_requests_t *requests = *requests_p;
    if (requests != NULL) {
        or_link_destroy(&requests->link);
        or_channel_destroy(&requests->channel);
        free(requests->slots);
        free(requests);
        *requests_p = NULL;
    }
}

// Whatever the reason a send fails for, asking again later is the answer.
static void send(or_load_requests_t *requests, const or_message_t *message)
{
    if (or_link_send(requests->link, OR_PEER_HUB, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "asking the coordinator: %s", or_error_text());
    }
}

static void send_cancel(or_load_requests_t *requests, or_session_id_t session, const char *reason)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = reason}};
    send(requests, &message);
}

// Say what a slot wants: the whole request, or what is missing of its text.
static void ask(or_load_requests_t *requests, slot_t *slot)
{
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST, .session = slot->session};
    if (slot->begun) {
        message.type = OR_MSG_RESUME;
        message.body.resume = (or_resume_t){.request = slot->request.request,
                                            .offset = slot->tokens,
                                            .text_offset = slot->text_bytes};
    } else {
        message.body.generate_request = slot->request;
    }
    send(requests, &message);
    if (slot->cancelled && slot->begun) {
        send_cancel(requests, slot->session, "the test is over");
    }
    slot->repeat_at_ns = or_clock_now(requests->clock) + REPEAT_NS;
}

void or_load_requests_begin(or_load_requests_t *requests, uint32_t slot,
                            const or_generate_request_t *request)
{
    slot_t *place = &requests->slots[slot];
    *place = (slot_t){.busy = true, .request = *request, .repeat_at_ns = OR_TIME_NEVER};
    place->request.request = or_rng_system_seed();
    if (or_link_welcomed(requests->link)) {
        ask(requests, place);
    }
}

bool or_load_requests_welcomed(const or_load_requests_t *requests)
{
    return or_link_welcomed(requests->link);
}

bool or_load_requests_is_idle(const or_load_requests_t *requests, uint32_t slot)
{
    return !requests->slots[slot].busy;
}

void or_load_requests_cancel(or_load_requests_t *requests, uint32_t slot)
{
    slot_t *place = &requests->slots[slot];
    place->cancelled = true;
    if (place->begun) {
        send_cancel(requests, place->session, "the test is over");
    }
}

// ---- receiving ----

static slot_t *find_slot(or_load_requests_t *requests, uint64_t request)
{
    for (uint32_t i = 0; i < requests->count; i++) {
        slot_t *slot = &requests->slots[i];
        if (slot->busy && slot->request.request == request) {
            return slot;
        }
    }
    return NULL;
}

// Leave in the delta only what is new to the slot.
static void cut_known(slot_t *slot, or_generate_delta_t *delta)
{
    uint32_t old_tokens = slot->tokens - delta->offset;
    uint64_t old_bytes = slot->text_bytes - delta->text_offset;
    old_tokens = old_tokens < delta->count ? old_tokens : delta->count;
    old_bytes = old_bytes < delta->text_bytes ? old_bytes : delta->text_bytes;
    delta->tokens += old_tokens;
    delta->count -= old_tokens;
    delta->offset += old_tokens;
    delta->text += old_bytes;
    delta->text_bytes -= (uint32_t)old_bytes;
    delta->text_offset += old_bytes;
    slot->tokens += delta->count;
    slot->text_bytes += delta->text_bytes;
}

// OR_ERR_AGAIN if it brings nothing, or if something before it is missing.
static or_status_t take_delta(or_load_requests_t *requests, or_message_t *message, uint32_t *index)
{
    or_generate_delta_t *delta = &message->body.generate_delta;
    slot_t *slot = find_slot(requests, delta->request);
    if (slot == NULL) {
        return OR_ERR_AGAIN; // the repetition of an end that we know
    }
    bool first = !slot->begun;
    bool failed = delta->finish == OR_FINISH_ERROR && message->session.value == 0;
    if (!failed) {
        slot->begun = true;
        slot->session = message->session;
    }
    if (first && slot->cancelled && delta->finish == OR_FINISH_NONE) {
        send_cancel(requests, slot->session, "the test is over");
    }
    if (!failed && (delta->offset > slot->tokens || delta->text_offset > slot->text_bytes)) {
        ask(requests, slot);
        return OR_ERR_AGAIN;
    }
    slot->repeat_at_ns = or_clock_now(requests->clock) + REPEAT_NS;
    if (!failed) {
        cut_known(slot, delta);
    }
    slot->busy = delta->finish == OR_FINISH_NONE;
    if (!slot->busy && !failed) {
        send_cancel(requests, slot->session, "all is here"); // the coordinator may forget it
    }
    *index = (uint32_t)(slot - requests->slots);
    return delta->count > 0 || !slot->busy ? OR_OK : OR_ERR_AGAIN;
}

static void ask_all(or_load_requests_t *requests, bool due_only)
{
    int64_t now = or_clock_now(requests->clock);
    for (uint32_t i = 0; i < requests->count; i++) {
        slot_t *slot = &requests->slots[i];
        if (slot->busy && (!due_only || now >= slot->repeat_at_ns)) {
            ask(requests, slot);
        }
    }
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

static or_status_t take_message(or_load_requests_t *requests, or_message_t *message,
                                uint32_t *index)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        requests->give_up_at_ns = OR_TIME_NEVER;
        requests->welcomed_once = true;
        ask_all(requests, false);
        return OR_ERR_AGAIN;
    case OR_MSG_GENERATE_DELTA:
        return take_delta(requests, message, index);
    case OR_MSG_ERROR:
        return take_error(&message->body.error);
    default:
        return OR_ERR_AGAIN;
    }
}

// Everything that waits, up to the first thing the caller must see.
static or_status_t receive(or_load_requests_t *requests, uint32_t *index, or_message_t *message)
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

static or_status_t give_up(const or_load_requests_t *requests)
{
    if (requests->welcomed_once) {
        return or_fail(OR_ERR_UNREACHABLE, "the coordinator has been silent for %d s",
                       (int)(SILENCE_PATIENCE_NS / OR_NS_PER_S));
    }
    return or_fail(OR_ERR_TIMEOUT,
                   "no coordinator answers; is it running, and is the endpoint right?");
}

or_status_t or_load_requests_next(or_load_requests_t *requests, int64_t deadline_ns, uint32_t *slot,
                                  or_message_t *message)
{
    or_status_t status = receive(requests, slot, message);
    if (status != OR_ERR_AGAIN) {
        return status;
    }
    if (or_clock_now(requests->clock) >= requests->give_up_at_ns) {
        return give_up(requests);
    }
    if (or_link_welcomed(requests->link)) {
        ask_all(requests, true);
    }
    int64_t due = or_link_tick(requests->link);
    or_link_wait(requests->link, due < deadline_ns ? due : deadline_ns);
    return receive(requests, slot, message);
}
