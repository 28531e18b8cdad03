// keys_options - the options that the subcommands of `outrider keys` share.
#pragma once

#include "common/base/options/options.h"
#include "proto/keys/keyring.h"

#define OR_KEYS_PATH_BYTES 1024

// The row that each of them has: the key folder, which $OUTRIDER_KEYS also names.
// clang-format off
#define OR_KEYS_FOLDER_OPTION(config_type, field)                                                  \
    {"keys", NULL, OR_OPTION_STRING, offsetof(config_type, field), "DIR",                          \
     "the key folder; ~/.config/outrider if not given"}
#define OR_KEYS_AUTHORIZED_OPTION(config_type, field)                                              \
    {"authorized", NULL, OR_OPTION_STRING, offsetof(config_type, field), "FILE",                   \
     "the coordinator's list of keys; not given: the file of this name in the key folder"}
// clang-format on

// Use this key folder from here on; NULL: as before.
void or_keys_use_folder(const char *folder);

// Open the list of keys that may connect. OR_ERR_INVALID, OR_ERR_IO.
or_status_t or_keys_open_authorized(const char *file, or_keyring_t **keyring_p);
