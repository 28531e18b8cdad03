// requests_internal - a slot of or_requests, and what is sent for it.
#pragma once

#include "proto/net/patience.h"
#include "proto/net/requests.h"

// A text of which no news comes for so long is asked for again.
#define OR_REQUESTS_REPEAT_NS (2 * OR_NS_PER_S)

typedef struct {
    bool busy;
    // A delta has come, here or to an earlier connection: resume from now on, never ask anew.
    bool begun;
    bool cancelled;
    bool resting;     // the coordinator was busy: ask again at repeat_at_ns, and not before
    bool held, ended; // ended: the end is here, and a reader may still miss it
    or_generate_request_t request;
    or_session_id_t session; // the coordinator's, from the first delta; 0: not known yet
    uint8_t token[OR_SESSION_TOKEN_BYTES];
    bool has_token;
    uint32_t tokens; // received
    uint64_t text_bytes;
    int64_t repeat_at_ns;  // when to ask again; OR_TIME_NEVER before it was asked for at all
    int64_t busy_until_ns; // when a busy coordinator is given up; 0: it was not busy
    uint32_t busy_ms;      // the last pause that it asked for
    int64_t stopped_ns;    // when the session was last asked to stop
} or_slot_t;

// A question for figures: Stats or Metrics.
typedef struct {
    bool open;
    uint64_t events_after;
    int64_t repeat_at_ns;
} or_question_t;

struct or_requests {
    or_channel_t *channel;
    or_link_t *link;
    const or_clock_t *clock;
    or_requests_config_t config;
    or_patience_t patience;
    or_slot_t *slots;
    uint32_t count;
    uint64_t slot_bits;         // of a request's number: its slot; the others are random
    int64_t look_at_ns;         // no slot is due before
    or_question_t questions[2]; // Stats, Metrics
};

// Is there a user, who has one text at a time?
bool or_requests_has_user(const or_requests_t *requests);

// Ask for the slot's text again after `pause_ns`.
void or_slot_set_repeat(or_requests_t *requests, or_slot_t *slot, int64_t pause_ns);
// Say what the slot wants: the whole request, or what is missing of its text. A send that fails is repeated later.
void or_slot_ask(or_requests_t *requests, or_slot_t *slot);
// Ask the coordinator to end the slot's text.
void or_slot_stop(or_requests_t *requests, or_slot_t *slot);
// A Cancel of session 0 is the good-bye of the whole link: it is sent only for a user, who has one text.
void or_requests_send_cancel(or_requests_t *requests, or_session_id_t session, const char *reason,
                             bool keep);

// Ask the open questions for figures that are due, or all of them. Returns when the next one is due.
int64_t or_requests_ask_questions(or_requests_t *requests, bool all);
// An answer is here. OR_ERR_AGAIN if no question is open, as after a repeated answer.
or_status_t or_requests_take_figures(or_requests_t *requests, bool metrics, uint32_t *slot);
