// requests - a client: texts asked of a coordinator over one link, each in a slot of its own.
//
//     slot 0   ── request 81.. ──▶            deltas come out in order, slot by slot,
//     slot 1   ── request 17.. ──▶  one link  each token and byte once, whatever the
//     slot 2   (idle)                         network loses or repeats
//
// A request is repeated until its text begins, and a text that stops coming is resumed where it is, by its secret: also at a
// coordinator that was started again. One thread.
//
// The HTTP face and the load test have many slots. A program that writes one text for a user has one slot and names the
// coordinator's endpoint. Then the client waits out busy and lost coordinators itself, warns the user meanwhile, passes on why
// a text does not begin, and says good-bye when it is destroyed.
#pragma once

#include "common/base/clock.h"
#include "proto/keys/keys.h"
#include "proto/net/link.h"

typedef struct or_requests or_requests_t;

#define OR_REQUESTS_NO_SLOT UINT32_MAX
#define OR_REQUESTS_BUSY_WAIT_S 60 // the usual wait for a busy coordinator
#define OR_REQUESTS_RECONNECT_WAIT_S                                                               \
    900 // and for a lost one: the time that a laptop's lid is closed

typedef struct {
    const char *owner; // whose texts they are; NULL or "": nobody's in particular
    bool no_padding;   // see or_link_set_padding
    const char
        *endpoint; // borrowed: for a program with a user, who sees it in warnings; NULL: without
    // These are for a program with a user:
    uint32_t busy_wait_s; // a busy coordinator is asked again for so long in all; 0: not again
    uint32_t
        reconnect_wait_s; // a coordinator that is lost in the middle of a text is called for so long
} or_requests_config_t;

// Over `channel`, which it takes, also on failure. Borrows the clock, copies `config`, and leaves all `slots` idle.
// OR_ERR_NO_MEMORY.
or_status_t or_requests_create(or_channel_t *channel, const or_clock_t *clock,
                               const or_requests_config_t *config, uint32_t slots,
                               or_requests_t **requests_p);
// The same with a connection to `endpoint`, which is made in the background. `keys` says who we are there; NULL: the usual.
// Fails also as or_keys_for_connecting does, and with OR_ERR_INVALID for an endpoint that makes no sense.
or_status_t or_requests_connect(const char *endpoint, const or_key_options_t *keys,
                                const or_requests_config_t *config, uint32_t slots,
                                or_requests_t **requests_p);
// Texts that have not ended are left to the coordinator, which notices that we are gone. With a user they are cancelled.
void or_requests_destroy(or_requests_t **requests_p);

// Has the coordinator welcomed us (since the last silence)?
bool or_requests_welcomed(const or_requests_t *requests);

// Ask for a text in an idle slot. `request` is copied and its `request` number chosen here. What it points to is borrowed until
// the slot's first delta (with a user, until destroy), its owner until the slot is idle again.
void or_requests_begin(or_requests_t *requests, uint32_t slot,
                       const or_generate_request_t *request);
// Go on with a text that another connection, or an earlier one, began: by its secret, from where its reader is.
// `request` is what it was asked for with, borrowed as by or_requests_begin.
void or_requests_resume(or_requests_t *requests, uint32_t slot,
                        const or_generate_request_t *request,
                        const uint8_t token[OR_SESSION_TOKEN_BYTES], uint32_t tokens,
                        uint64_t text_bytes);
// Keep the slot after its text's end, for a reader that may miss it. The coordinator keeps the text, too, until
// or_requests_cancel (all is read) or or_requests_leave, after which the slot is idle at once.
void or_requests_hold(or_requests_t *requests, uint32_t slot);
// Let go of a text whose reader is away: the coordinator frees its work and keeps it for whoever resumes it. A text of
// which nothing has come yet is cancelled. The slot is idle at once.
void or_requests_leave(or_requests_t *requests, uint32_t slot);
bool or_requests_is_idle(const or_requests_t *requests, uint32_t slot);
// Ask the coordinator to stop. The slot is idle after its last delta, whose finish is CANCELLED unless the text has ended
// otherwise meanwhile.
void or_requests_cancel(or_requests_t *requests, uint32_t slot);

// Ask for figures: Stats, or Metrics, as message.h has them. The question is repeated until or_requests_next gives the answer,
// with *slot OR_REQUESTS_NO_SLOT. While a question is open, asking again changes nothing.
void or_requests_ask_stats(or_requests_t *requests, bool metrics, uint64_t events_after);

// Wait until `deadline_ns` (of the clock) at most for the next delta of any slot, of which only what is new is left. A tree
// comes once; logprobs and the like are cut with the tokens. *message is the caller's to fini. A delta with a finish makes
// its slot idle, unless it is held.
// OR_ERR_AGAIN if there is none yet; OR_ERR_TIMEOUT if no coordinator answers or lets us in, OR_ERR_UNREACHABLE if it fell
// silent, OR_ERR_MISMATCH if it refuses us. With a user also OR_ERR_CANCELLED if nobody is there to hear of it,
// OR_ERR_UNREACHABLE if the coordinator forgot the text, and OR_ERR_INVALID with the sentence of its Error.
or_status_t or_requests_next(or_requests_t *requests, int64_t deadline_ns, uint32_t *slot,
                             or_message_t *message);
