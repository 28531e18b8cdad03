// doctor_probe - is there a coordinator at an endpoint, what does it say of itself, and how far
// away is it?
//
//     or_probe_open          Hello      ──▶  ◀── Welcome
//     or_probe_round_trips   Heartbeat  ──▶  ◀── Heartbeat
//
// It speaks as a client, over a channel of its own: a link would answer heartbeats unseen, and here
// they are what is measured. Every wait has a limit. One thread.
#pragma once

#include "proto/keys/keys.h"
#include "proto/net/channel.h"

#define OR_PROBE_PATIENCE_MS 3000 // to connect, and again to be welcomed

typedef struct {
    or_channel_t *channel; // owned
    bool loopback;         // it never leaves this machine
    int64_t trouble_ns;    // since when there is trouble connecting; 0: there is none
    bool keyed;            // it does not let us in for want of the right keys
    // The coordinator's own words; see or_welcome_t.
    char software[64], model[128], arith_id[64];
    uint64_t vocab_hash;
    uint32_t nodes_max, drafters;
    bool trusted;
} or_probe_t;

// It greets in this owner's name, or "" in nobody's in particular: a connection keeps its first greeting.
// OR_ERR_INVALID: not an endpoint, no such host. OR_ERR_UNREACHABLE: nobody listens there, or no
// way to it. OR_ERR_TIMEOUT: somebody listens and does not speak as a coordinator, or does not let our key in. OR_ERR_MISMATCH:
// a coordinator that speaks another protocol version or turns us away, in its words.
or_status_t or_probe_open(const char *endpoint, const or_connect_keys_t *keys, const char *owner,
                          or_probe_t *probe);
// Safe after a failed open.
void or_probe_close(or_probe_t *probe);

// Nanoseconds of `count` heartbeats there and back, one after the other, ascending. OR_ERR_TIMEOUT
// if one is not answered.
or_status_t or_probe_round_trips(or_probe_t *probe, int64_t *trips_ns, size_t count);
