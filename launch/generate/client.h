// client - one request to a coordinator: sent, repeated and resumed until its last delta is here.
//
// Deltas come out in order, each token and byte of text once, whatever the network loses or
// repeats. One thread.
#pragma once

#include "common/base/clock.h"
#include "proto/keys/keys.h"
#include "proto/net/link.h"

typedef struct or_client or_client_t;

typedef struct {
    const char *owner;    // whose request it is; NULL or "": nobody's in particular
    uint32_t busy_wait_s; // a busy coordinator is asked again for so long in all; 0: not again
    // A coordinator that is lost in the middle of a text is called for so long from then on, and the text goes on where
    // it was: the same one, restarted, or this machine at another address.
    uint32_t reconnect_wait_s;
    const or_connect_keys_t *keys; // NULL: not encrypted
    bool no_padding;               // see or_link_set_padding
} or_client_config_t;
#define OR_CLIENT_BUSY_WAIT_S 60       // the usual
#define OR_CLIENT_RECONNECT_WAIT_S 900 // the usual: a lid that was closed

// Connect to `endpoint` in the background. Borrows nothing of `config`. `request` (its arrays too) is borrowed until destroy;
// its `request` number is set here. OR_ERR_INVALID for an endpoint that makes no sense;
// OR_ERR_NO_MEMORY.
or_status_t or_client_create(const char *endpoint, const or_client_config_t *config,
                             const or_generate_request_t *request, or_client_t **client_p);
// The same over a channel, which it takes, also on failure; for simulations. Borrows the clock and
// the endpoint's name.
or_status_t or_client_create_on(or_channel_t *channel, const or_clock_t *clock,
                                const char *endpoint, const or_client_config_t *config,
                                const or_generate_request_t *request, or_client_t **client_p);
// A request that has not ended is cancelled.
void or_client_destroy(or_client_t **client_p);

// Wait until `deadline_ns` (of its clock) at most for the next delta, of which only what is new is
// left; before there is any text also why it is not begun (its note). *message is the caller's to fini. A
// busy coordinator's answer is shown to the caller only once the client has asked often enough. OR_ERR_AGAIN
// if there is none yet. OR_ERR_TIMEOUT if no coordinator answers or lets us in, OR_ERR_UNREACHABLE if it is
// lost or forgot the request, else what its Error message says.
or_status_t or_client_next(or_client_t *client, int64_t deadline_ns, or_message_t *message);

// Ask the coordinator to stop; a last delta (finish CANCELLED) follows.
void or_client_cancel(or_client_t *client);
