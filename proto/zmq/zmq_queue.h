// zmq_queue - frames that a hub has out of its sockets and has not handled, urgent ones apart from the others. For
// channel_zmq only.
//
// ROUTER gives the frames of all connections in turn. One connection with the frames of many texts, a verifier's, would
// wait in that turn for every stranger, once for each of its frames. Frames keep their order within a connection.
//
// One thread. Room is for OR_ZMQ_QUEUE_FRAMES of each sort, which is more than zmq_relay lets through at once.
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

// Of a frame that came: its messages are empty. NULL: no memory.
or_zmq_waiting_t *or_zmq_waiting_create(void);
void or_zmq_waiting_destroy(or_zmq_waiting_t **waiting_p);

// Whether there is room for a frame of either sort.
bool or_zmq_queue_has_room(const or_zmq_queue_t *queue);
bool or_zmq_queue_is_empty(const or_zmq_queue_t *queue);
bool or_zmq_queue_has_urgent(const or_zmq_queue_t *queue);
// Where there is room. It is the queue's.
void or_zmq_queue_push(or_zmq_queue_t *queue, or_zmq_waiting_t *waiting, bool is_urgent);
// The next one of this sort, the caller's now; NULL if there is none.
or_zmq_waiting_t *or_zmq_queue_pop(or_zmq_queue_t *queue, bool is_urgent);
// The frames that wait of this peer are urgent from now on.
void or_zmq_queue_hurry(or_zmq_queue_t *queue, const or_zmq_peer_t *peer);
