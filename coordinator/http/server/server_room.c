// server_room - the memory that an owner may make the server keep: bodies that come, and answers that wait.
//
// The ledger sets the bound. Beyond it something of the same owner goes that does not move, so that one program
// cannot stop another with the same key, or none. Of bodies the one goes for which nothing came for longest, of
// answers the one with the most unread. Other owners' are never touched.
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/server/server_internal.h"

// So many bytes of an answer may always wait: a reader that keeps up is not dropped because of others.
#define FREE_BYTES 8192u

static bool is_owners(const or_http_call_t *call, const or_http_call_t *other)
{
    return other != NULL && other != call && !other->gone &&
           strcmp(call->grant.owner, other->grant.owner) == 0;
}

// ---- bodies ----

// Return the body of the owner for which nothing came for longest; NULL if no other is on its way.
static or_http_call_t *find_still_body(const or_http_call_t *call)
{
    or_http_call_t *found = NULL;
    or_http_connection_t *connection;
    TAILQ_FOREACH(connection, &call->server->expecting, links)
    {
        or_http_call_t *other = connection->call;
        if (is_owners(call, other) && other->status == 0 && other->body_hold.bytes > 0 &&
            (found == NULL || other->came_ns < found->came_ns)) {
            found = other;
        }
    }
    return found;
}

// Give a body up. Its client hears why when it has sent the rest, which is read and not kept.
static void give_up_body(or_http_call_t *call)
{
    call->last = true;
    or_http_call_forget_body(call);
    or_http_reply_error(call, 408, NULL, "request_timeout",
                        "the body stood still for longest when there was no room for another");
}

static void refuse_body(or_http_call_t *call, uint64_t bytes)
{
    or_ledger_usage_t usage;
    or_ledger_usage(call->server->config.ledger, &usage);
    or_http_call_forget_body(call);
    bool never = bytes > usage.memory_max / 2;
    if (!never) {
        or_http_call_set_header(call, "Retry-After", "1");
    }
    or_http_reply_error(call, never ? 413 : 429, NULL,
                        never ? "request_too_large" : "rate_limit_exceeded", "%s", or_error_text());
}

static bool has_room(or_http_call_t *call, uint64_t bytes)
{
    or_http_call_t *still = call;
    if (call->body_hold.ledger == NULL &&
        or_hold_open(&call->body_hold, call->server->config.ledger, call->grant.owner,
                     OR_HELD_BODIES) != OR_OK) {
        or_http_reply_error(call, 503, NULL, NULL, "there is no memory for the body");
        return false;
    }
    while (still != NULL && or_hold_resize(&call->body_hold, bytes) != OR_OK) {
        still = find_still_body(call);
        if (still != NULL) {
            give_up_body(still);
        } else {
            refuse_body(call, bytes);
        }
    }
    return still != NULL;
}

bool or_http_room_for_body(or_http_call_t *call, size_t count)
{
    return has_room(call, or_http_buffer_capacity(&call->body, count));
}

bool or_http_room_to_read(or_http_call_t *call, size_t bytes)
{
    return has_room(call, call->body_hold.bytes + bytes);
}

// ---- answers ----

// Return the owner's call with the most unread, if that is more than `bytes`; NULL if there is none.
static or_http_call_t *find_slower_reader(const or_http_call_t *call, uint64_t bytes)
{
    or_http_call_t *found = NULL;
    or_http_connection_t *connection;
    TAILQ_FOREACH(connection, &call->server->answering, links)
    {
        or_http_call_t *other = connection->call;
        if (is_owners(call, other) && other->unsent_hold.bytes > bytes) {
            found = other;
            bytes = other->unsent_hold.bytes;
        }
    }
    return found;
}

// Its waiting bytes are freed in this turn, by us or by the library.
static void drop_reader(or_http_call_t *call)
{
    or_http_connection_cut(call->connection);
    free(call->stream.bytes);
    call->stream = (or_http_buffer_t){0};
    or_hold_close(&call->unsent_hold);
}

bool or_http_room_for_reader(or_http_call_t *call, size_t bytes)
{
    if (call->unsent_hold.ledger == NULL &&
        or_hold_open(&call->unsent_hold, call->server->config.ledger, call->grant.owner,
                     OR_HELD_UNSENT) != OR_OK) {
        return false;
    }
    if (bytes <= FREE_BYTES) {
        or_hold_force(&call->unsent_hold, bytes);
        return true;
    }
    while (or_hold_resize(&call->unsent_hold, bytes) != OR_OK) {
        or_http_call_t *slower = find_slower_reader(call, bytes);
        if (slower == NULL) {
            return false;
        }
        drop_reader(slower);
    }
    return true;
}
