// This file sends a client's messages to its coordinator.
#include "common/base/log/log.h"
#include "proto/net/requests_internal.h"

#define QUESTION_NS (1 * OR_NS_PER_S) // without an answer before figures are asked for again

bool or_requests_has_user(const or_requests_t *requests)
{
    return requests->config.endpoint != NULL;
}

// A send that fails, for whatever reason, is made good by asking again later.
static void send(or_requests_t *requests, const or_message_t *message)
{
    if (or_link_send(requests->link, OR_PEER_HUB, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "asking the coordinator: %s", or_error_text());
    }
}

void or_requests_send_cancel(or_requests_t *requests, or_session_id_t session, const char *reason,
                             bool keep)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session, .body.cancel = {.reason = reason, .keep = keep}};
    if (session.value != 0 || or_requests_has_user(requests)) {
        send(requests, &message);
    }
}

void or_slot_stop(or_requests_t *requests, or_slot_t *slot)
{
    slot->stopped_ns = or_clock_now(requests->clock);
    or_requests_send_cancel(requests, slot->session,
                            or_requests_has_user(requests) ? "interrupted by the user"
                                                           : "its reader does not want it any more",
                            false);
}

void or_slot_set_repeat(or_requests_t *requests, or_slot_t *slot, int64_t pause_ns)
{
    slot->repeat_at_ns = or_clock_now(requests->clock) + pause_ns;
    if (slot->repeat_at_ns < requests->look_at_ns) {
        requests->look_at_ns = slot->repeat_at_ns;
    }
}

void or_slot_ask(or_requests_t *requests, or_slot_t *slot)
{
    if (or_requests_has_user(requests) && slot->cancelled && !slot->begun) {
        return; // the good-bye has ended it
    }
    slot->resting = false;
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
    if (slot->cancelled && !or_requests_has_user(requests)) {
        or_slot_stop(requests, slot);
    }
    or_slot_set_repeat(requests, slot, OR_REQUESTS_REPEAT_NS);
}

static void ask_question(or_requests_t *requests, bool metrics)
{
    or_question_t *question = &requests->questions[metrics];
    const or_message_t message = {
        .type = OR_MSG_STATS_REQUEST,
        .body.stats_request = {.metrics = metrics, .events_after = question->events_after}};
    question->repeat_at_ns = or_clock_now(requests->clock) + QUESTION_NS;
    send(requests, &message);
}

void or_requests_ask_stats(or_requests_t *requests, bool metrics, uint64_t events_after)
{
    or_question_t *question = &requests->questions[metrics];
    if (question->open) {
        return;
    }
    *question = (or_question_t){.open = true, .events_after = events_after};
    if (or_link_welcomed(requests->link)) {
        ask_question(requests, metrics);
    }
}

int64_t or_requests_ask_questions(or_requests_t *requests, bool all)
{
    int64_t due = OR_TIME_NEVER;
    for (int metrics = 0; metrics < 2; metrics++) {
        const or_question_t *question = &requests->questions[metrics];
        if (question->open && (all || or_clock_now(requests->clock) >= question->repeat_at_ns)) {
            ask_question(requests, metrics != 0);
        }
        if (question->open && question->repeat_at_ns < due) {
            due = question->repeat_at_ns;
        }
    }
    return due;
}

or_status_t or_requests_take_figures(or_requests_t *requests, bool metrics, uint32_t *slot)
{
    bool asked = requests->questions[metrics].open;
    requests->questions[metrics].open = false;
    *slot = OR_REQUESTS_NO_SLOT;
    return asked ? OR_OK : OR_ERR_AGAIN;
}
