// zmq_queue - frames that a hub has taken out of its sockets and not handled, urgent ones apart from the others.
//
// ROUTER gives the frames of all connections in turn. A verifier's connection, which carries the frames of many
// texts, would wait in that turn for every stranger, once for each of its frames. Frames keep their order within a
// connection.
//
// One thread. There is room for OR_ZMQ_QUEUE_FRAMES of each sort, which is more than zmq_relay lets through at once.
#pragma once

#include <stdbool.h>

#include <sys/queue.h>
#include <zmq.h>

#include "common/base/status.h"
#include "proto/zmq/zmq_peers.h"

#define OR_ZMQ_QUEUE_FRAMES 4096u

typedef struct or_zmq_waiting {
    or_door_t door;
    zmq_msg_t identity, frame;
    STAILQ_ENTRY(or_zmq_waiting) links;
} or_zmq_waiting_t;

typedef struct or_zmq_queue or_zmq_queue_t;

// OR_ERR_NO_MEMORY.
or_status_t or_zmq_queue_create(or_zmq_queue_t **queue_p);
void or_zmq_queue_destroy(or_zmq_queue_t **queue_p);

void or_zmq_waiting_destroy(or_zmq_waiting_t **waiting_p);

bool or_zmq_queue_is_empty(const or_zmq_queue_t *queue);
bool or_zmq_queue_has_urgent(const or_zmq_queue_t *queue);
// Make the waiting frames of this peer urgent.
void or_zmq_queue_hurry(or_zmq_queue_t *queue, const or_zmq_peer_t *peer);
