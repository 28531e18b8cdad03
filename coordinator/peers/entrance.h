// entrance - where a coordinator listens, who it is there, and whom it lets in.
//
//     --listen tcp://127.0.0.1:5577     plain: whoever has this machine
//     --listen tcp://0.0.0.0:5577       encrypted: keys of the keyring, who know ours
//
// It owns the coordinator's key, the keyring and the channel. The channel asks about each key that
// connects; until a coordinator is named that answers, nobody comes in. Stays where it is: the
// channel has its address. One thread.
#pragma once

#include "common/base/options/options.h"
#include "coordinator/coordinator.h"
#include "proto/zmq/channel_zmq.h"

typedef struct {
    const or_option_list_t *listen; // at least one endpoint
    const char *encrypt;            // auto, on or off
    const char *authorized;         // the keyring's file; NULL: the one in the key folder
} or_entrance_options_t;

typedef struct {
    or_key_pair_t own;
    or_keyring_t *keyring; // NULL: nothing is encrypted
    or_channel_t *channel;
    char endpoint[256];                  // the first, as it really is
    const or_coordinator_t *coordinator; // borrowed; who may come in
} or_entrance_t;

// OR_ERR_INVALID names the option and what is allowed.
or_status_t or_entrance_check(const or_entrance_options_t *options);
// Get or make the key, read the keyring, listen; says in the log what an edge needs to know.
// or_entrance_close in any case. OR_ERR_IO, OR_ERR_INVALID, OR_ERR_UNSUPPORTED.
or_status_t or_entrance_open(const or_entrance_options_t *options, or_entrance_t *entrance);
void or_entrance_close(or_entrance_t *entrance);
