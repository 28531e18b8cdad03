// channel_memory - a network in memory on a virtual clock, for deterministic simulation.
//
// One hub, many edges. Each frame's fate (lost, repeated, delayed, hence reordered) is drawn from
// the seed, so a run replays exactly. A node can be cut off and come back, as after a crash: frames
// in flight to and from it are lost, and its next connection is a new peer to the hub. Each
// direction of each edge holds OR_NETWORK_QUEUE frames. wait never sleeps: time moves only when the
// simulation moves it. The whole network is one thread's.
#pragma once

#include "common/base/clock.h"
#include "proto/channel.h"

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

// When the next frame in flight lands; OR_TIME_NEVER if none is in flight. The simulation moves the
// clock there.
int64_t or_network_next_ns(const or_network_t *network);
void or_network_set_faults(or_network_t *network, const or_network_faults_t *faults);
