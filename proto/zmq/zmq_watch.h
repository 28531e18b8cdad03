// zmq_watch - how the connection of an edge stands, and why it has none. For channel_zmq only. One thread.
#pragma once

#include <zmq.h>

#include "proto/keys/keys.h"

typedef struct or_zmq_watch or_zmq_watch_t;

// For `socket` (borrowed), before it is connected. `keys`: what it encrypts with, NULL if it does not; their public
// halves are copied, as is the endpoint's name. OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_zmq_watch_create(void *context, void *socket, const char *endpoint,
                                const or_connect_keys_t *keys, or_zmq_watch_t **watch_p);
// After the socket has been closed.
void or_zmq_watch_destroy(or_zmq_watch_t **watch_p);

// What to poll besides the socket.
void or_zmq_watch_fill(const or_zmq_watch_t *watch, zmq_pollitem_t *item);
// Take what has happened, and connect again where ZeroMQ has given up; true if there is a connection again
// after a loss. Never blocks.
bool or_zmq_watch_look(or_zmq_watch_t *watch);
// When to look again at the latest; OR_TIME_NEVER.
int64_t or_zmq_watch_due(const or_zmq_watch_t *watch);

// As of the last look; see or_channel_connection and or_channel_zmq_trouble.
uint64_t or_zmq_watch_connection(const or_zmq_watch_t *watch);
const char *or_zmq_watch_trouble(const or_zmq_watch_t *watch);
bool or_zmq_watch_is_refused(const or_zmq_watch_t *watch);
