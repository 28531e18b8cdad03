// server_queue - whole requests, and when they are handled.
//
// The thread that handles them writes everybody's streams, too. So a turn handles one request, and others only until TURN_NS have
// passed; the rest wait, suspended, in the order of self-clocked fair queueing (S. J. Golestani, "A self-clocked fair queueing scheme
// for broadband applications", 1994):
//
//     finish = max(finish of the owner's last that waits, finish of the last that was taken from here) + its bytes
//
// The one with the smallest goes first: who has much to be read, over any number of connections, waits behind who has little.
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "coordinator/http/server_internal.h"

#define TURN_NS (4 * OR_NS_PER_MS)
#define CALL_BYTES 1024u // what a request costs without its body

static void handle(or_http_call_t *call)
{
    or_http_server_t *server = call->server;
    int64_t began_ns = or_clock_now(or_clock_monotonic());
    or_http_door_check_again(call); // a body takes its time
    if (call->status == 0) {
        call->handed = true;
        server->config.handle(server->config.context, call);
        or_http_call_forget_body(call); // it waits for its text, perhaps for long
    }
    server->handling_ns += or_clock_now(or_clock_monotonic()) - began_ns;
}

// The finish of the owner's last one; that of the last that was taken where none waits.
static uint64_t finish_before(const or_http_call_t *call)
{
    const or_http_call_t *other;
    uint64_t finish = call->server->finish;
    TAILQ_FOREACH(other, &call->server->waiting, waiting_links)
    {
        if (other->finish > finish && strcmp(other->grant.owner, call->grant.owner) == 0) {
            finish = other->finish;
        }
    }
    return finish;
}

static void insert(or_http_call_t *call)
{
    or_http_server_t *server = call->server;
    or_http_call_t *other = TAILQ_LAST(&server->waiting, or_http_calls);
    call->waiting = true;
    call->finish = finish_before(call) + CALL_BYTES + or_http_buffer_waiting(&call->body);
    while (other != NULL && other->finish > call->finish) {
        other = TAILQ_PREV(other, or_http_calls, waiting_links);
    }
    if (other != NULL) {
        TAILQ_INSERT_AFTER(&server->waiting, other, call, waiting_links);
    } else {
        TAILQ_INSERT_HEAD(&server->waiting, call, waiting_links);
    }
}

void or_http_queue_add(or_http_call_t *call)
{
    const or_http_server_t *server = call->server;
    if (call->status != 0) {
        return; // it was refused before it was whole
    }
    if (TAILQ_EMPTY(&server->waiting) && server->handling_ns < TURN_NS) {
        handle(call);
    } else {
        insert(call);
    }
}

void or_http_queue_leave(or_http_call_t *call)
{
    if (call->waiting) {
        TAILQ_REMOVE(&call->server->waiting, call, waiting_links);
        call->waiting = false;
    }
}

void or_http_queue_turn(or_http_server_t *server)
{
    or_http_call_t *first = TAILQ_FIRST(&server->waiting);
    server->handling_ns = 0;
    while (first != NULL && server->handling_ns < TURN_NS) {
        or_http_queue_leave(first);
        server->finish = first->finish;
        if (!first->gone) {
            handle(first);
        }
        first = TAILQ_FIRST(&server->waiting);
    }
}
