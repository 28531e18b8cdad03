// zmq_channel_internal - what the parts of a channel over ZeroMQ share. The file channel_zmq.c polls, waits and ends it,
// zmq_hub.c and zmq_edge.c are its two kinds, and zmq_queue.c has the frames that a hub has not handled yet.
#pragma once

#include <zmq.h>

#include "proto/zmq/channel_zmq.h"
#include "proto/zmq/relay/zmq_relay.h"
#include "proto/zmq/zmq_guard.h"
#include "proto/zmq/zmq_peers.h"
#include "proto/zmq/zmq_queue.h"

#define OR_ZMQ_SEND_FRAMES 1000 // most frames that wait for a peer

typedef struct or_zmq_watch or_zmq_watch_t;

typedef struct {
    or_channel_t channel; // first
    void *context;
    void *sockets[OR_DOORS]; // an edge has the first one only
    zmq_msg_t current;       // the frame that the last receive gave
    // Hub only.
    or_zmq_queue_t *queue;
    uint32_t handled;    // frames since the sockets of strangers were looked through
    uint32_t urgent_run; // urgent frames received since the last other one
    bool inside_first; // the last choice among the other frames began with those of our own process
    bool inside_is_empty;  // those of our own process, when they were looked for since then
    int64_t held_until_ns; // until then only urgent frames are received; 0: all are
    int wake_fd;           // -1: none
    or_zmq_peers_t peers;
    or_zmq_guard_t *guard; // NULL: nothing is encrypted
    or_zmq_relay_t *relay;
    // Edge only.
    or_zmq_watch_t *watch;
    char server_key[OR_KEY_BYTES]; // "": not encrypted
} or_zmq_channel_t;

// ---- both kinds (channel_zmq.c) ----

// Create a channel with these operations and one socket of this type (ZMQ_ROUTER, ZMQ_DEALER). OR_ERR_NO_MEMORY;
// OR_ERR_IO.
or_status_t or_zmq_channel_create(const or_channel_ops_t *ops, int type, or_zmq_channel_t **self_p);
// The operations wait and destroy.
or_status_t or_zmq_channel_wait(or_channel_t *channel, int64_t timeout_ns);
void or_zmq_channel_destroy(or_channel_t *channel);
// OR_ERR_UNSUPPORTED if this libzmq cannot encrypt.
or_status_t or_zmq_check_curve(void);
// Fail with the sentence that these keys do not do.
or_status_t or_zmq_fail_keys(void);

// ---- a hub's frames (zmq_queue.c) ----

// End the hold if its time has come. Return true if it lasts, and only urgent frames are received.
bool or_zmq_check_hold(or_zmq_channel_t *self);
// Take all frames out of the sockets of strangers, so that the urgent ones among them are known. OR_ERR_IO.
or_status_t or_zmq_look_through(or_zmq_channel_t *self);
// Take the frame to handle next: an urgent one, unless after many of them it is the turn of another. OR_ERR_AGAIN.
or_status_t or_zmq_choose(or_zmq_channel_t *self, or_zmq_waiting_t **waiting_p);

// ---- how the connection of an edge stands, and why it has none (zmq_edge.c) ----

void or_zmq_watch_destroy(or_zmq_watch_t **watch_p);
// Set what to poll besides the socket.
void or_zmq_watch_fill(const or_zmq_watch_t *watch, zmq_pollitem_t *item);
// Take ZeroMQ's events, and connect again if it has given up. Returns true if there is a connection again after a loss.
// Never blocks.
bool or_zmq_watch_look(or_zmq_watch_t *watch);
// Return when to look again at the latest; OR_TIME_NEVER.
int64_t or_zmq_watch_due(const or_zmq_watch_t *watch);
