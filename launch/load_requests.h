// load_requests - many requests to a coordinator over one link, each in a slot of its own.
//
//     slot 0   ── request 81.. ──▶            deltas come out in order, slot by slot,
//     slot 1   ── request 17.. ──▶  one link  each token once, whatever the network
//     slot 2   (idle)                         loses or repeats
//
// What client.h does for one request, done for as many as a load test has, in one thread and with one
// connection. One thread.
#pragma once

#include "common/base/clock.h"
#include "proto/link.h"

typedef struct or_load_requests or_load_requests_t;

// Over `channel`, which it takes, also on failure; borrows clock and `owner` (whose texts they are; ""
// for nobody's in particular). `padding` as in or_link_set_padding. All `slots` are idle. OR_ERR_NO_MEMORY.
or_status_t or_load_requests_create(or_channel_t *channel, const or_clock_t *clock,
                                    const char *owner, bool padding, uint32_t slots,
                                    or_load_requests_t **requests_p);
// Requests that have not ended are left to the coordinator, which notices that we are gone.
void or_load_requests_destroy(or_load_requests_t **requests_p);

// Has the coordinator welcomed us (since the last silence)?
bool or_load_requests_welcomed(const or_load_requests_t *requests);

// Ask for a text in an idle slot. `request` (its arrays too) is borrowed until the slot is idle again;
// its `request` number is chosen here. Sent once the coordinator has welcomed us.
void or_load_requests_begin(or_load_requests_t *requests, uint32_t slot,
                            const or_generate_request_t *request);
bool or_load_requests_is_idle(const or_load_requests_t *requests, uint32_t slot);
// Ask the coordinator to stop; the slot is idle after its last delta (finish CANCELLED, if the text has
// not ended otherwise meanwhile).
void or_load_requests_cancel(or_load_requests_t *requests, uint32_t slot);

// Wait until `deadline_ns` (of the clock) at most for the next delta of any slot, of which only what is
// new is left. *message is the caller's to fini. A delta with a finish, an error's included, makes its
// slot idle. OR_ERR_AGAIN if there is none yet; OR_ERR_TIMEOUT if no coordinator answers at all,
// OR_ERR_UNREACHABLE if it fell silent, OR_ERR_MISMATCH if it refuses us.
or_status_t or_load_requests_next(or_load_requests_t *requests, int64_t deadline_ns, uint32_t *slot,
                                  or_message_t *message);
