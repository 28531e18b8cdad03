// requests - many requests to a coordinator over one link, each in a slot of its own.
//
//     slot 0   ── request 81.. ──▶            deltas come out in order, slot by slot,
//     slot 1   ── request 17.. ──▶  one link  each token once, whatever the network
//     slot 2   (idle)                         loses or repeats
//
// What launch/generate/client.h does for one request, done for as many as a load test or the HTTP face has, in one thread
// and with one connection. A coordinator that takes a text up again later (BUSY to who resumes) is asked until it
// does. One thread.
#pragma once

#include "common/base/clock.h"
#include "proto/net/link.h"

typedef struct or_requests or_requests_t;

// Over `channel`, which it takes, also on failure; borrows clock and `owner` (whose texts they are; ""
// for nobody's in particular). `padding` as in or_link_set_padding. All `slots` are idle. OR_ERR_NO_MEMORY.
or_status_t or_requests_create(or_channel_t *channel, const or_clock_t *clock, const char *owner,
                               bool padding, uint32_t slots, or_requests_t **requests_p);
// Requests that have not ended are left to the coordinator, which notices that we are gone.
void or_requests_destroy(or_requests_t **requests_p);

// Has the coordinator welcomed us (since the last silence)?
bool or_requests_welcomed(const or_requests_t *requests);

// Ask for a text in an idle slot. `request` (its arrays too) is borrowed until the slot's first delta,
// its owner until the slot is idle again;
// its `request` number is chosen here. Sent once the coordinator has welcomed us.
void or_requests_begin(or_requests_t *requests, uint32_t slot,
                       const or_generate_request_t *request);
// Go on with a text that another connection, or an earlier one, began: by its secret, from where its reader is.
// `request` is what it was asked for with (its owner, too), borrowed as by begin.
void or_requests_resume(or_requests_t *requests, uint32_t slot,
                        const or_generate_request_t *request,
                        const uint8_t token[OR_SESSION_TOKEN_BYTES], uint32_t tokens,
                        uint64_t text_bytes);
// Keep the slot after its text's end, for a reader that may miss it: the coordinator keeps the text, too, until it
// hears what became of it, by or_requests_cancel (all is read: the slot is idle at once) or or_requests_leave.
void or_requests_hold(or_requests_t *requests, uint32_t slot);
// Let go of a text whose reader is away: the coordinator frees its work and keeps it for who resumes it; one of
// which nothing has come yet is cancelled. The slot is idle at once.
void or_requests_leave(or_requests_t *requests, uint32_t slot);
bool or_requests_is_idle(const or_requests_t *requests, uint32_t slot);
// Ask the coordinator to stop; the slot is idle after its last delta (finish CANCELLED, if the text has
// not ended otherwise meanwhile).
void or_requests_cancel(or_requests_t *requests, uint32_t slot);

// Ask for figures: Stats, or Metrics, as message.h has them; asked again until the answer comes, from
// or_requests_next with *slot OR_REQUESTS_NO_SLOT. While a question is open, asking again changes nothing.
void or_requests_ask_stats(or_requests_t *requests, bool metrics, uint64_t events_after);
#define OR_REQUESTS_NO_SLOT UINT32_MAX

// Wait until `deadline_ns` (of the clock) at most for the next delta of any slot, of which only what is
// new is left. *message is the caller's to fini. A delta with a finish, an error's included, makes its
// slot idle, unless it is held. A tree comes once, logprobs and the like are cut with the tokens. OR_ERR_AGAIN if
// there is none yet; OR_ERR_TIMEOUT if no coordinator answers at all, OR_ERR_UNREACHABLE if it fell silent, OR_ERR_MISMATCH if it refuses us.
or_status_t or_requests_next(or_requests_t *requests, int64_t deadline_ns, uint32_t *slot,
                             or_message_t *message);
