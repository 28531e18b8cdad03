#include "proto/zmq/zmq_queue.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    STAILQ_HEAD(, or_zmq_waiting) frames;
    size_t count;
} list_t;

struct or_zmq_queue {
    list_t urgent, others;
};

or_status_t or_zmq_queue_create(or_zmq_queue_t **queue_p)
{
    or_zmq_queue_t *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a queue of frames");
    }
    STAILQ_INIT(&queue->urgent.frames);
    STAILQ_INIT(&queue->others.frames);
    *queue_p = queue;
    return OR_OK;
}

or_zmq_waiting_t *or_zmq_waiting_create(void)
{
    or_zmq_waiting_t *waiting = calloc(1, sizeof *waiting);
    if (waiting != NULL) {
        zmq_msg_init(&waiting->identity);
        zmq_msg_init(&waiting->frame);
    }
    return waiting;
}

void or_zmq_waiting_destroy(or_zmq_waiting_t **waiting_p)
{
    if (*waiting_p != NULL) {
        zmq_msg_close(&(*waiting_p)->identity);
        zmq_msg_close(&(*waiting_p)->frame);
        free(*waiting_p);
        *waiting_p = NULL;
    }
}

static void push(list_t *list, or_zmq_waiting_t *waiting)
{
    STAILQ_INSERT_TAIL(&list->frames, waiting, links);
    list->count++;
}

static or_zmq_waiting_t *pop(list_t *list)
{
    or_zmq_waiting_t *waiting = STAILQ_FIRST(&list->frames);
    if (waiting != NULL) {
        STAILQ_REMOVE_HEAD(&list->frames, links);
        list->count--;
    }
    return waiting;
}

void or_zmq_queue_destroy(or_zmq_queue_t **queue_p)
{
    or_zmq_queue_t *queue = *queue_p;
    or_zmq_waiting_t *waiting;
    if (queue == NULL) {
        return;
    }
    while ((waiting = pop(&queue->urgent)) != NULL || (waiting = pop(&queue->others)) != NULL) {
        or_zmq_waiting_destroy(&waiting);
    }
    free(queue);
    *queue_p = NULL;
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

or_zmq_waiting_t *or_zmq_queue_pop(or_zmq_queue_t *queue, bool is_urgent)
{
    return pop(is_urgent ? &queue->urgent : &queue->others);
}

static bool is_of(or_zmq_waiting_t *waiting, const or_zmq_peer_t *peer)
{
    return waiting->door == peer->door && zmq_msg_size(&waiting->identity) == peer->bytes &&
           memcmp(zmq_msg_data(&waiting->identity), peer->identity, peer->bytes) == 0;
}

void or_zmq_queue_hurry(or_zmq_queue_t *queue, const or_zmq_peer_t *peer)
{
    for (size_t left = queue->others.count; left > 0; left--) { // once round, in order
        or_zmq_waiting_t *waiting = pop(&queue->others);
        push(is_of(waiting, peer) ? &queue->urgent : &queue->others, waiting);
    }
}
