// patience - how long a client waits for its coordinator, and what its user reads meanwhile.
//
//     connecting ──Welcome──▶ there ──silence, or a connection that ends──▶ lost ──Welcome──▶ there
//         └──────── 10 s ──▶ given up                                        └── wait_s ──▶ given up
//
// A program with a user waits as long as it was told to, and warns now and then. A program without one (a load test, the
// HTTP face) gives a silent coordinator five seconds and says nothing. One thread.
#pragma once

#include "common/base/clock.h"
#include "proto/net/channel.h"
#include "proto/wire/message.h"

typedef struct {
    or_channel_t *channel;   // borrowed
    const or_clock_t *clock; // borrowed
    const char *endpoint;  // borrowed: what the user calls the coordinator; NULL: there is no user
    uint32_t wait_s;       // for a coordinator that was there
    bool welcomed;         // at least once
    uint32_t heartbeat_ms; // as the coordinator announced it
    uint64_t connection;   // as or_channel_connection last said
    int64_t welcomed_ns;   // when a Welcome last counted
    int64_t lost_ns;       // since when the coordinator is not there, where give_up_at_ns is set
    int64_t trouble_ns;    // since when connecting meets trouble; OR_TIME_NEVER: it meets none
    int64_t give_up_at_ns; // OR_TIME_NEVER while the coordinator is there
    int64_t warn_at_ns;    // when the user is warned again; OR_TIME_NEVER: no wait was announced
} or_patience_t;

void or_patience_init(or_patience_t *patience, or_channel_t *channel, const or_clock_t *clock,
                      const char *endpoint, uint32_t wait_s);

// A Welcome arrived. False if it is one of a crowd, as they come after a long silence, and asks for nothing new.
bool or_patience_welcome(or_patience_t *patience, const or_welcome_t *welcome);
// The link reported the coordinator as silent.
void or_patience_lose(or_patience_t *patience);

// Call often. Warns a user whose coordinator is lost. `begun`: a part of a text is here. OR_ERR_TIMEOUT once a coordinator that
// never answered is given up, OR_ERR_UNREACHABLE once one that fell silent is.
or_status_t or_patience_check(or_patience_t *patience, bool begun);
