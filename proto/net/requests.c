#include "proto/net/requests.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "common/base/version.h"
#include "proto/net/back_off.h"
#include "proto/net/requests_internal.h"
#include "proto/zmq/channel_zmq.h"

#define LOOK_NS (50 * OR_NS_PER_MS) // between two looks at all slots
#define STOP_NS (50 * OR_NS_PER_MS) // between two Cancels of a text that goes on all the same

static uint64_t bits_for(uint32_t slots)
{
    uint64_t bits = 1;
    while (bits < slots) {
        bits = bits << 1 | 1;
    }
    return bits;
}

or_status_t or_requests_create(or_channel_t *channel, const or_clock_t *clock,
                               const or_requests_config_t *config, uint32_t slots,
                               or_requests_t **requests_p)
{
    const or_hello_t hello = {.role = OR_ROLE_CLIENT,
                              .software = "outrider " OR_VERSION,
                              .arith_id = "",
                              .model = "",
                              .owner = config->owner != NULL ? config->owner : ""};
    or_requests_t *requests = calloc(1, sizeof *requests);
    or_slot_t *places = calloc(slots, sizeof *places);
    if (requests == NULL || places == NULL) {
        free(places);
        free(requests);
        or_channel_destroy(&channel);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u requests", slots);
    }
    *requests = (or_requests_t){.channel = channel,
                                .clock = clock,
                                .config = *config,
                                .slots = places,
                                .count = slots,
                                .slot_bits = bits_for(slots)};
    or_patience_init(&requests->patience, channel, clock, config->endpoint,
                     config->reconnect_wait_s);
    or_status_t status =
        or_link_create(channel, clock, &hello, OR_LINK_HEARTBEAT_MS, &requests->link);
    if (status != OR_OK) {
        or_requests_destroy(&requests);
        return status;
    }
    or_link_set_padding(requests->link, !config->no_padding);
    *requests_p = requests;
    return OR_OK;
}

or_status_t or_requests_connect(const char *endpoint, const or_key_options_t *keys,
                                const or_requests_config_t *config, uint32_t slots,
                                or_requests_t **requests_p)
{
    or_channel_t *channel = NULL;
    or_connect_keys_t chosen = {0};
    or_status_t status = or_keys_for_connecting(endpoint, keys, &chosen);
    if (status == OR_OK) {
        status = or_channel_zmq_connect(endpoint, &chosen, &channel);
    }
    or_key_pair_wipe(&chosen.own);
    return status == OR_OK
               ? or_requests_create(channel, or_clock_monotonic(), config, slots, requests_p)
               : status;
}

void or_requests_destroy(or_requests_t **requests_p)
{
    or_requests_t *requests = *requests_p;
    if (requests == NULL) {
        return;
    }
    for (uint32_t i = 0; or_requests_has_user(requests) && i < requests->count; i++) {
        if (requests->slots[i].busy && requests->slots[i].begun && !requests->slots[i].cancelled) {
            or_slot_stop(requests, &requests->slots[i]);
        }
    }
    or_link_destroy(&requests->link);
    or_channel_destroy(&requests->channel);
    free(requests->slots);
    free(requests);
    *requests_p = NULL;
}

static void keep_token(or_slot_t *slot, const uint8_t token[OR_SESSION_TOKEN_BYTES])
{
    memcpy(slot->token, token, sizeof slot->token);
    slot->has_token = true;
}

// The low bits of a request's number are its slot's index, the others are random.
static uint64_t draw_number(const or_requests_t *requests, const or_slot_t *slot)
{
    uint64_t index = (uint64_t)(slot - requests->slots);
    return (or_rng_system_seed() & ~requests->slot_bits) | index;
}

// Take the slot, and ask now if the coordinator is there; else its Welcome makes us ask.
static void begin(or_requests_t *requests, uint32_t index, const or_slot_t *slot)
{
    or_slot_t *place = &requests->slots[index];
    *place = *slot;
    place->busy = true;
    place->repeat_at_ns = OR_TIME_NEVER;
    place->request.request = draw_number(requests, place);
    if (or_link_welcomed(requests->link)) {
        or_slot_ask(requests, place);
    }
}

void or_requests_begin(or_requests_t *requests, uint32_t slot, const or_generate_request_t *request)
{
    begin(requests, slot, &(or_slot_t){.request = *request});
}

void or_requests_resume(or_requests_t *requests, uint32_t slot,
                        const or_generate_request_t *request,
                        const uint8_t token[OR_SESSION_TOKEN_BYTES], uint32_t tokens,
                        uint64_t text_bytes)
{
    or_slot_t begun = {
        .request = *request, .begun = true, .tokens = tokens, .text_bytes = text_bytes};
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
    or_slot_t *place = &requests->slots[slot];
    place->cancelled = true;
    place->busy = !place->ended;
    or_slot_stop(requests, place);
}

// A text of which no delta has come yet has no session to name: take_unread cancels it when the first one comes.
void or_requests_leave(or_requests_t *requests, uint32_t slot)
{
    or_slot_t *place = &requests->slots[slot];
    place->busy = false;
    or_requests_send_cancel(requests, place->session, "its reader is away", true);
}

// ---- receiving ----

static or_slot_t *find_slot(or_requests_t *requests, uint64_t request)
{
    uint64_t index = request & requests->slot_bits;
    or_slot_t *slot = index < requests->count ? &requests->slots[index] : NULL;
    return slot != NULL && slot->busy && slot->request.request == request ? slot : NULL;
}

// A delta of a text that nobody reads: it was left before it began, or its request was given up for a new one, or the message
// that it was left got lost. It is worth keeping if its reader may have its secret, which came with its first delta.
static void take_unread(or_requests_t *requests, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    if (delta->finish == OR_FINISH_NONE) {
        bool keep = delta->offset > 0 && !or_requests_has_user(requests);
        if (message->session.value != 0) {
            or_requests_send_cancel(requests, message->session, "nobody reads it", keep);
        }
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
static void cut_known(or_slot_t *slot, or_generate_delta_t *delta)
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

// The next pause of a slot whose coordinator is busy.
static int64_t back_off_ns(or_slot_t *slot, uint32_t retry_ms)
{
    slot->busy_ms = or_back_off_ms(slot->busy_ms, retry_ms);
    return slot->busy_ms * OR_NS_PER_MS;
}

// The coordinator is busy. Plan to ask for the whole text again, by another number, so that the answer to the old request is
// not taken for one to the new. False if the user has waited long enough.
static bool rest(or_requests_t *requests, or_slot_t *slot, const or_generate_delta_t *delta)
{
    int64_t now = or_clock_now(requests->clock);
    int64_t pause_ns = back_off_ns(slot, delta->retry_ms);
    uint32_t wait_s = requests->config.busy_wait_s;
    bool first = slot->busy_until_ns == 0;
    if (first) {
        slot->busy_until_ns = now + wait_s * OR_NS_PER_S;
    }
    if (now + pause_ns > slot->busy_until_ns || slot->cancelled) {
        return false;
    }
    if (first) {
        or_log(OR_LOG_WARN, "the coordinator is %s; asking again for up to %" PRIu32 " s",
               delta->error, wait_s);
    }
    slot->request.request = draw_number(requests, slot);
    slot->session = (or_session_id_t){0};
    slot->begun = slot->has_token = false;
    slot->resting = true;
    or_slot_set_repeat(requests, slot, pause_ns);
    return true;
}

// The coordinator has no place for the text now. OR_ERR_AGAIN if it is asked again later; OR_OK if the answer is the caller's.
static or_status_t take_busy(or_requests_t *requests, or_slot_t *slot, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    if (slot->has_token && message->session.value == 0) { // the coordinator keeps the text for us
        if (!slot->cancelled) {
            or_slot_set_repeat(requests, slot,
                               delta->retry_ms > 0 ? back_off_ns(slot, delta->retry_ms)
                                                   : OR_REQUESTS_REPEAT_NS);
            return OR_ERR_AGAIN;
        }
        // It takes no Cancel of a text that is kept: that one ends in its time.
        return or_requests_has_user(requests) ? or_fail(OR_ERR_CANCELLED, "cancelled") : OR_OK;
    }
    bool rests = or_requests_has_user(requests) && slot->tokens == 0 && delta->retry_ms > 0 &&
                 rest(requests, slot, delta);
    return rests ? OR_ERR_AGAIN : OR_OK;
}

// Learn the session from its delta. A cancelled session that goes on has not heard of it: another coordinator was told, or it
// was kept while we were away.
static void learn_session(or_requests_t *requests, or_slot_t *slot, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    bool other = slot->session.value != message->session.value;
    slot->begun = true;
    slot->busy_ms = 0;
    slot->session = message->session;
    if (delta->token_bytes == sizeof slot->token) {
        keep_token(slot, delta->token);
    }
    bool untold = other || or_clock_now(requests->clock) - slot->stopped_ns >= STOP_NS;
    if (slot->cancelled && untold && slot->session.value != 0 && delta->finish == OR_FINISH_NONE) {
        or_slot_stop(requests, slot);
    }
}

// The last delta is here. A text that is not held may be forgotten by the coordinator.
static void take_end(or_requests_t *requests, or_slot_t *slot)
{
    slot->ended = slot->busy = slot->held && !slot->cancelled && slot->session.value != 0;
    slot->repeat_at_ns = OR_TIME_NEVER;
    if (!slot->busy && slot->session.value != 0) {
        or_requests_send_cancel(requests, slot->session, "all is here", false);
    }
}

// OR_ERR_AGAIN if it brings nothing, or if something before it is missing.
static or_status_t take_delta(or_requests_t *requests, or_message_t *message, uint32_t *index)
{
    or_generate_delta_t *delta = &message->body.generate_delta;
    or_slot_t *slot = find_slot(requests, delta->request);
    if (slot == NULL) {
        take_unread(requests, message);
        return OR_ERR_AGAIN;
    }
    if (slot->ended) {
        return OR_ERR_AGAIN; // the repetition of what we have
    }
    *index = (uint32_t)(slot - requests->slots);
    if (delta->finish == OR_FINISH_ERROR && delta->error_code == OR_WIRE_BUSY) {
        or_status_t status = take_busy(requests, slot, message);
        if (status != OR_OK) {
            return status;
        }
    }
    learn_session(requests, slot, message);
    if (delta->offset > slot->tokens || delta->text_offset > slot->text_bytes) {
        or_slot_ask(requests, slot);
        return OR_ERR_AGAIN;
    }
    or_slot_set_repeat(requests, slot, OR_REQUESTS_REPEAT_NS);
    cut_known(slot, delta);
    bool ends = delta->finish != OR_FINISH_NONE;
    if (ends) {
        take_end(requests, slot);
    }
    bool waits = or_requests_has_user(requests) && slot->tokens == 0 &&
                 delta->note[0] != '\0'; // and says why
    return delta->count > 0 || delta->text_bytes > 0 || ends || waits ? OR_OK : OR_ERR_AGAIN;
}

static void ask_all(or_requests_t *requests)
{
    for (uint32_t i = 0; i < requests->count; i++) {
        const or_slot_t *slot = &requests->slots[i];
        if (slot->busy && !slot->ended && !slot->resting) {
            or_slot_ask(requests, &requests->slots[i]);
        }
    }
    or_requests_ask_questions(requests, true);
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
        or_slot_t *slot = &requests->slots[i];
        if (slot->busy && now >= slot->repeat_at_ns) {
            or_slot_ask(requests, slot);
        }
        if (slot->busy && slot->repeat_at_ns < due) {
            due = slot->repeat_at_ns;
        }
    }
    requests->look_at_ns = due > now + LOOK_NS ? due : now + LOOK_NS;
}

// An Error about a user's text, or about the link.
static or_status_t take_users_error(or_requests_t *requests, const or_error_t *error)
{
    or_slot_t *slot = &requests->slots[0];
    switch (error->code) {
    case OR_WIRE_BUSY:
        or_log(OR_LOG_INFO, "coordinator busy: %s", error->text);
        or_slot_set_repeat(requests, slot, back_off_ns(slot, error->retry_ms));
        return OR_ERR_AGAIN;
    case OR_WIRE_UNKNOWN_SESSION:
        return slot->cancelled
                   ? or_fail(OR_ERR_CANCELLED, "cancelled")
                   : or_fail(OR_ERR_UNREACHABLE, "the coordinator no longer knows this request: %s",
                             error->text);
    default:
        return or_fail(OR_ERR_INVALID, "the coordinator says: %s", error->text);
    }
}

// An Error about the link ends all; one about a message of many texts is answered by repeating.
static or_status_t take_error(or_requests_t *requests, const or_error_t *error)
{
    if (error->code == OR_WIRE_VERSION || error->code == OR_WIRE_REFUSED) {
        return or_fail(OR_ERR_MISMATCH, "the coordinator says: %s", error->text);
    }
    if (or_requests_has_user(requests)) {
        return take_users_error(requests, error);
    }
    or_log(OR_LOG_INFO, "the coordinator says: %s", error->text);
    return OR_ERR_AGAIN;
}

static or_status_t take_message(or_requests_t *requests, or_message_t *message, uint32_t *index)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        if (or_patience_welcome(&requests->patience, &message->body.welcome)) {
            ask_all(requests);
        }
        return OR_ERR_AGAIN;
    case OR_MSG_GENERATE_DELTA:
        return take_delta(requests, message, index);
    case OR_MSG_STATS:
        return or_requests_take_figures(requests, false, index);
    case OR_MSG_METRICS:
        return or_requests_take_figures(requests, true, index);
    case OR_MSG_ERROR:
        return take_error(requests, &message->body.error);
    default:
        return OR_ERR_AGAIN;
    }
}

// Take all messages that wait, up to the first one that the caller must see.
static or_status_t receive(or_requests_t *requests, uint32_t *index, or_message_t *message)
{
    or_link_event_t event;
    or_peer_t from;
    or_status_t status;
    while ((status = or_link_receive(requests->link, &event, &from, message)) == OR_OK) {
        if (event == OR_LINK_PEER_LOST) {
            or_patience_lose(&requests->patience);
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

// Check what may end a wait without a message: the coordinator is given up, or it cannot hear that the user has had enough.
static or_status_t check(or_requests_t *requests)
{
    const or_slot_t *slot = &requests->slots[0];
    bool alone = slot->resting || requests->patience.warn_at_ns != OR_TIME_NEVER;
    if (or_requests_has_user(requests) && slot->cancelled && alone) {
        return or_fail(OR_ERR_CANCELLED, "cancelled");
    }
    return or_patience_check(&requests->patience, slot->begun);
}

or_status_t or_requests_next(or_requests_t *requests, int64_t deadline_ns, uint32_t *slot,
                             or_message_t *message)
{
    or_status_t status = receive(requests, slot, message);
    if (status != OR_ERR_AGAIN) {
        return status;
    }
    status = check(requests);
    if (status != OR_OK) {
        return status;
    }
    int64_t until = or_link_tick(requests->link);
    until = until < deadline_ns ? until : deadline_ns;
    if (or_link_welcomed(requests->link)) {
        repeat_slots(requests);
        int64_t due = or_requests_ask_questions(requests, false);
        due = due < requests->look_at_ns ? due : requests->look_at_ns;
        until = due < until ? due : until;
    }
    or_link_wait(requests->link, until);
    return receive(requests, slot, message);
}
