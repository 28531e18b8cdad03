// memory_network - a network in memory on a virtual clock, for tests and for the deterministic simulation.
//
// There is one hub and there are many edges. The fate of each frame (lost, repeated, delayed, hence reordered) is drawn
// from the seed, so a run replays exactly. A node can be cut off and come back, as after a crash. Then frames in flight
// to and from it are lost, and its next connection is a new peer to the hub. Each direction of an edge holds
// OR_NETWORK_QUEUE frames.
//
// An edge may have a line of its own instead, as a laboratory needs it. A line has a delay, jitter, a rate, stalls, cuts,
// and losses that a transport repairs (a lost frame comes later, and the frames behind it wait). Frames on a line never
// overtake each other. While a line is cut, the edge's frames wait in its queue, and frames that were on the way are
// lost. When it is mended the queue goes out and the edge is a new peer to the hub, as ZeroMQ does it over TCP.
//
// wait never sleeps: time moves only when the simulation moves it. One thread owns the whole network.
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

// Create a network. Borrows the clock; draws the fates of frames from `seed`. OR_ERR_NO_MEMORY.
or_status_t or_network_create(or_virtual_clock_t *clock, uint64_t seed,
                              const or_network_faults_t *faults, or_network_t **network_p);
// Free the network. Its channels must have been destroyed.
void or_network_destroy(or_network_t **network_p);

// Create the hub's channel, one at a time. To destroy it is the hub's crash. Frames in flight are lost, and so are those
// that edges send before the next hub. Every edge is a new peer to the next hub. OR_ERR_INVALID if there is a hub.
or_status_t or_network_hub(or_network_t *network, or_channel_t **channel_p);
// Create an edge. Its first frame makes it a peer of the hub. To destroy the channel is its crash.
or_status_t or_network_edge(or_network_t *network, or_channel_t **channel_p);

typedef struct {
    int64_t one_way_ns;
    double jitter;           // part of the delay, drawn per frame between -jitter and +jitter
    uint64_t bytes_per_s;    // rate of each direction; 0: no limit
    uint32_t frame_overhead; // bytes that each frame costs on the line besides its own
    double lose;             // probability that a frame is lost and comes repair_ns later
    int64_t repair_ns;
} or_network_line_t;
// Give the edge a line from now on. Frames in flight land as they would have.
void or_network_set_line(or_channel_t *edge, const or_network_line_t *line);
// Let nothing land, in either direction, before `until_ns`. Nothing is lost.
void or_network_stall(or_channel_t *edge, int64_t until_ns);
void or_network_cut(or_channel_t *edge);
void or_network_mend(or_channel_t *edge);
// Set (copy) what or_channel_key_of says of this edge at the hub, for tests of who may do what. NULL: "".
void or_network_set_key(or_channel_t *edge, const char *public_key);
// Set what or_channel_is_inside says of this edge at the hub; false at first.
void or_network_set_inside(or_channel_t *edge, bool inside);

// Return when the next frame in flight lands; OR_TIME_NEVER if none is in flight. The simulation moves the clock there. A
// frame that has landed and was not received counts too, as long as its node listens. A node that has not called receive
// at this time is at work, and comes back by itself.
int64_t or_network_next_ns(const or_network_t *network);
// Return the same without frames that have landed. A simulation asks for it if a turn of all nodes left
// or_network_traffic as it was: those frames are for nodes at work, whenever these last listened.
int64_t or_network_next_landing_ns(const or_network_t *network);
// Return how many frames were put on the way or received so far.
uint64_t or_network_traffic(const or_network_t *network);
void or_network_set_faults(or_network_t *network, const or_network_faults_t *faults);
