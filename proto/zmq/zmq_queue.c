#include "proto/zmq/zmq_queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "proto/zmq/zmq_channel_internal.h"
#include "proto/zmq/zmq_frames.h"

#define LOOK_EVERY 16 // the sockets are looked through for urgent frames after so many handled ones
#define URGENT_RUN 32 // another frame has its turn after so many urgent ones

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

static or_zmq_waiting_t *create_waiting(void)
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

static bool has_room(const or_zmq_queue_t *queue)
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

static void add(or_zmq_queue_t *queue, or_zmq_waiting_t *waiting, bool is_urgent)
{
    push(is_urgent ? &queue->urgent : &queue->others, waiting);
}

static or_zmq_waiting_t *take(or_zmq_queue_t *queue, bool is_urgent)
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

// ---- the frame to handle next ----

bool or_zmq_check_hold(or_zmq_channel_t *self)
{
    if (self->held_until_ns != 0 && or_clock_now(or_clock_monotonic()) >= self->held_until_ns) {
        self->held_until_ns = 0;
    }
    return self->held_until_ns != 0;
}

// Receive one frame of this socket into `waiting`, whose messages are empty.
static or_status_t take_out(or_zmq_channel_t *self, or_door_t door, or_zmq_waiting_t *waiting)
{
    void *socket = self->sockets[door];
    or_zmq_relay_t *relay = door != OR_DOOR_INSIDE ? self->relay : NULL;
    waiting->door = door;
    or_status_t status = or_zmq_receive_part(socket, &waiting->identity);
    return status == OR_OK ? or_zmq_receive_frame(socket, relay, &waiting->frame) : status;
}

static bool is_urgent(or_zmq_channel_t *self, or_zmq_waiting_t *waiting)
{
    const char *key =
        waiting->door == OR_DOOR_FAR ? or_zmq_guard_key_of(self->guard, &waiting->frame) : "";
    const or_zmq_peer_t *known =
        or_zmq_peers_recognise(&self->peers, waiting->door, &waiting->identity, key);
    return known != NULL && known->is_urgent;
}

or_status_t or_zmq_look_through(or_zmq_channel_t *self)
{
    or_status_t status = OR_OK;
    self->handled = 0;
    self->inside_is_empty = false; // as far as is known
    if (self->guard != NULL) {
        or_zmq_guard_serve(self->guard); // also of an owner that never waits
    }
    for (or_door_t door = 0; status == OR_OK && door < OR_DOOR_INSIDE; door++) {
        while (status == OR_OK && has_room(self->queue)) {
            or_zmq_waiting_t *waiting = create_waiting();
            if (waiting == NULL) {
                return OR_OK; // it waits where it is
            }
            status = take_out(self, door, waiting);
            if (status == OR_OK) {
                add(self->queue, waiting, is_urgent(self, waiting));
            } else {
                or_zmq_waiting_destroy(&waiting);
            }
        }
        status = status == OR_ERR_AGAIN ? OR_OK : status;
    }
    return status;
}

static or_status_t take_out_inside(or_zmq_channel_t *self, or_zmq_waiting_t **waiting_p)
{
    or_zmq_waiting_t *waiting = self->inside_is_empty ? NULL : create_waiting();
    or_status_t status = waiting != NULL ? take_out(self, OR_DOOR_INSIDE, waiting) : OR_ERR_AGAIN;
    if (status != OR_OK) {
        or_zmq_waiting_destroy(&waiting);
        self->inside_is_empty = true;
    }
    *waiting_p = waiting;
    return status;
}

// Choose a frame that is not urgent: strangers and our own process take turns.
static or_status_t choose_other(or_zmq_channel_t *self, or_zmq_waiting_t **waiting_p)
{
    self->inside_first = !self->inside_first;
    *waiting_p = self->inside_first ? NULL : take(self->queue, false);
    if (*waiting_p != NULL) {
        return OR_OK;
    }
    or_status_t status = take_out_inside(self, waiting_p);
    if (status == OR_ERR_AGAIN) {
        *waiting_p = take(self->queue, false);
    }
    return *waiting_p != NULL ? OR_OK : status;
}

or_status_t or_zmq_choose(or_zmq_channel_t *self, or_zmq_waiting_t **waiting_p)
{
    or_status_t status = OR_OK;
    bool held = or_zmq_check_hold(self);
    if (or_zmq_queue_is_empty(self->queue) || held || ++self->handled >= LOOK_EVERY) {
        status = or_zmq_look_through(self);
    }
    if (status != OR_OK) {
        return status;
    }
    bool others_turn = !held && self->urgent_run >= URGENT_RUN;
    *waiting_p = others_turn ? NULL : take(self->queue, true);
    if (*waiting_p != NULL) {
        self->urgent_run++;
        return OR_OK;
    }
    if (held) {
        return OR_ERR_AGAIN;
    }
    self->urgent_run = 0;
    status = choose_other(self, waiting_p);
    if (status == OR_ERR_AGAIN) {
        *waiting_p = take(self->queue, true);
    }
    if (*waiting_p != NULL) {
        return OR_OK;
    }
    if (status == OR_ERR_AGAIN) {
        or_zmq_relay_note_empty(self->relay);
    }
    return status;
}
