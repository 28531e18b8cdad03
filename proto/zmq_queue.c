#include "proto/zmq_queue.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    or_zmq_waiting_t items[OR_ZMQ_QUEUE_FRAMES];
    size_t begin, count;
} ring_t;

struct or_zmq_queue {
    ring_t urgent, others;
};

or_status_t or_zmq_queue_create(or_zmq_queue_t **queue_p)
{
    *queue_p = calloc(1, sizeof **queue_p);
    return *queue_p != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for a queue of frames");
}

static or_zmq_waiting_t *item(ring_t *ring, size_t at)
{
    return &ring->items[(ring->begin + at) % OR_ZMQ_QUEUE_FRAMES];
}

static void move(or_zmq_waiting_t *to, or_zmq_waiting_t *from)
{
    to->door = from->door;
    zmq_msg_move(&to->identity, &from->identity);
    zmq_msg_move(&to->frame, &from->frame);
}

static void push(ring_t *ring, or_zmq_waiting_t *waiting)
{
    or_zmq_waiting_t *place = item(ring, ring->count++);
    zmq_msg_init(&place->identity);
    zmq_msg_init(&place->frame);
    move(place, waiting);
}

static void pop(ring_t *ring, or_zmq_waiting_t *waiting)
{
    or_zmq_waiting_t *place = item(ring, 0);
    move(waiting, place);
    zmq_msg_close(&place->identity);
    zmq_msg_close(&place->frame);
    ring->count--;
    ring->begin = ring->count > 0 ? (ring->begin + 1) % OR_ZMQ_QUEUE_FRAMES : 0;
}

static void close_all(ring_t *ring)
{
    for (size_t i = 0; i < ring->count; i++) {
        zmq_msg_close(&item(ring, i)->identity);
        zmq_msg_close(&item(ring, i)->frame);
    }
}

void or_zmq_queue_destroy(or_zmq_queue_t **queue_p)
{
    if (*queue_p != NULL) {
        close_all(&(*queue_p)->urgent);
        close_all(&(*queue_p)->others);
        free(*queue_p);
        *queue_p = NULL;
    }
}

bool or_zmq_queue_has_room(const or_zmq_queue_t *queue)
{
    return queue->urgent.count < OR_ZMQ_QUEUE_FRAMES && queue->others.count < OR_ZMQ_QUEUE_FRAMES;
}

bool or_zmq_queue_is_empty(const or_zmq_queue_t *queue)
{
    return queue->urgent.count + queue->others.count == 0;
}

bool or_zmq_queue_has_urgent(const or_zmq_queue_t *queue)
{
    return queue->urgent.count > 0;
}

void or_zmq_queue_push(or_zmq_queue_t *queue, or_zmq_waiting_t *waiting, bool is_urgent)
{
    push(is_urgent ? &queue->urgent : &queue->others, waiting);
}

bool or_zmq_queue_pop(or_zmq_queue_t *queue, bool is_urgent, or_zmq_waiting_t *waiting)
{
    ring_t *ring = is_urgent ? &queue->urgent : &queue->others;
    bool has = ring->count > 0;
    if (has) {
        pop(ring, waiting);
    }
    return has;
}

static bool is_of(or_zmq_waiting_t *waiting, const or_zmq_peer_t *peer)
{
    return waiting->door == peer->door && zmq_msg_size(&waiting->identity) == peer->bytes &&
           memcmp(zmq_msg_data(&waiting->identity), peer->identity, peer->bytes) == 0;
}

void or_zmq_queue_hurry(or_zmq_queue_t *queue, const or_zmq_peer_t *peer)
{
    or_zmq_waiting_t waiting;
    zmq_msg_init(&waiting.identity);
    zmq_msg_init(&waiting.frame);
    for (size_t left = queue->others.count; left > 0; left--) { // once round, in order
        pop(&queue->others, &waiting);
        bool hurries = is_of(&waiting, peer) && queue->urgent.count < OR_ZMQ_QUEUE_FRAMES;
        push(hurries ? &queue->urgent : &queue->others, &waiting);
    }
    zmq_msg_close(&waiting.identity);
    zmq_msg_close(&waiting.frame);
}
