// server_queue - whole requests, and when they are handled.
//
// The thread that handles them writes everybody's streams, too. So a turn handles one request, and others only until TURN_NS have
// passed; the rest wait, suspended, in the order of self-clocked fair queueing (S. J. Golestani, "A self-clocked fair queueing scheme
// for broadband applications", 1994):
//
//     finish = max(finish of the owner's last that waits, finish of the last that was taken from here) + its bytes
//
// The one with the smallest goes first: who has much to be read, over any number of connections, waits behind who has little.
// Where one with a large body is worked on (server_task.c), others with large ones let the small ones pass.
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "coordinator/http/server/server_internal.h"

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

// Return the finish of the owner's last waiting call; if none waits, that of the last call taken.
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
    if (TAILQ_EMPTY(&server->waiting) && server->handling_ns < TURN_NS &&
        or_http_tasks_have_room(call)) {
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

// Return the call to handle next; NULL if none can be handled now.
static or_http_call_t *next_of(const or_http_server_t *server)
{
    or_http_call_t *call = TAILQ_FIRST(&server->waiting);
    while (call != NULL && !call->gone && !or_http_tasks_have_room(call)) {
        call = TAILQ_NEXT(call, waiting_links);
    }
    return call;
}

bool or_http_queue_is_ready(const or_http_server_t *server)
{
    return next_of(server) != NULL;
}

void or_http_queue_turn(or_http_server_t *server)
{
    or_http_call_t *next = next_of(server);
    server->handling_ns = 0;
    while (next != NULL && server->handling_ns < TURN_NS) {
        or_http_queue_leave(next);
        server->finish = next->finish > server->finish ? next->finish : server->finish;
        if (!next->gone) {
            handle(next);
        }
        next = next_of(server);
    }
}
