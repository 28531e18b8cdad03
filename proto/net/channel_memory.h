// channel_memory - a network in memory on a virtual clock, for deterministic simulation.
//
// One hub, many edges. Each frame's fate (lost, repeated, delayed, hence reordered) is drawn from
// the seed, so a run replays exactly. A node can be cut off and come back, as after a crash: frames
// in flight to and from it are lost, and its next connection is a new peer to the hub. Each
// direction of each edge holds OR_NETWORK_QUEUE frames.
//
// An edge may have a line of its own instead, as a laboratory needs it: a delay, jitter, a rate, losses that a
// transport repairs (a lost frame comes later, and what is behind it waits), stalls, and cuts. Frames on a
// line never overtake each other. While a line is cut, what the edge sends waits in its queue, and what was on
// the way is lost; when it is mended the queue goes out and the edge is a new peer to the hub, as ZeroMQ does
// it over TCP. wait never sleeps: time moves only when the simulation moves it. The whole network is one
// thread's.
#pragma once

#include "common/base/clock.h"
#include "proto/net/channel.h"

#define OR_NETWORK_QUEUE 1000

typedef struct {
    double lose;          // probability that a frame vanishes
    double repeat;        // probability that it arrives twice
    int64_t delay_min_ns; // uniform delay, drawn per copy
    int64_t delay_max_ns;
} or_network_faults_t;

typedef struct or_network or_network_t;

// `clock` is borrowed; the frames' fates are drawn from `seed`. OR_ERR_NO_MEMORY.
or_status_t or_network_create(or_virtual_clock_t *clock, uint64_t seed,
                              const or_network_faults_t *faults, or_network_t **network_p);
// Channels must be destroyed before.
void or_network_destroy(or_network_t **network_p);

// The hub's channel; one at a time. Destroying it is the hub's crash: what is in flight is lost,
// what edges send before the next hub is lost, and to the next hub every edge is a new peer.
// OR_ERR_INVALID if there is a hub.
or_status_t or_network_hub(or_network_t *network, or_channel_t **channel_p);
// A new edge; its first frame makes it a peer of the hub. Destroying the channel is the crash.
or_status_t or_network_edge(or_network_t *network, or_channel_t **channel_p);

typedef struct {
    int64_t one_way_ns;
    double jitter;           // part of the delay, drawn per frame between -jitter and +jitter
    uint64_t bytes_per_s;    // of each direction; 0: as much as you like
    uint32_t frame_overhead; // bytes that each frame costs besides its own, where there is a rate
    double lose;             // probability that a frame is lost and comes repair_ns later
    int64_t repair_ns;
} or_network_line_t;
// From now on; the edge's channel. Frames in flight land as they would have.
void or_network_set_line(or_channel_t *edge, const or_network_line_t *line);
// Nothing lands, in either direction, before then; nothing is lost.
void or_network_stall(or_channel_t *edge, int64_t until_ns);
void or_network_cut(or_channel_t *edge);
void or_network_mend(or_channel_t *edge);
// What or_channel_key_of says of this edge at the hub: for tests of who may do what. Copied; NULL: "".
void or_network_set_key(or_channel_t *edge, const char *public_key);
// What or_channel_is_inside says of it; false at first.
void or_network_set_inside(or_channel_t *edge, bool inside);

// When the next frame in flight lands; OR_TIME_NEVER if none is in flight. The simulation moves the
// clock there. A frame that has landed and was not received counts too, as long as its node listens: one that
// has not called receive at this time is at work, and comes back by itself.
int64_t or_network_next_ns(const or_network_t *network);
// The same without those that have landed. They are for somebody who is at work, whenever it listened last, where a
// turn of everybody
int64_t or_network_next_landing_ns(const or_network_t *network);
// leaves this as it was: frames that were put on the way or received so far.
uint64_t or_network_traffic(const or_network_t *network);
void or_network_set_faults(or_network_t *network, const or_network_faults_t *faults);
