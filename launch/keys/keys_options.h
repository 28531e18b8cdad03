// keys_options - what the subcommands of `outrider keys` share.
#pragma once

#include "common/base/options/options.h"
#include "proto/keys/keyring.h"

#define OR_KEYS_PATH_BYTES 1024

// The row every one of them has: the folder, which $OUTRIDER_KEYS names, too.
// clang-format off
#define OR_KEYS_FOLDER_OPTION(config_type, field)                                                  \
    {"keys", NULL, OR_OPTION_STRING, offsetof(config_type, field), "DIR",                          \
     "the key folder; ~/.config/outrider if not given"}
#define OR_KEYS_AUTHORIZED_OPTION(config_type, field)                                              \
    {"authorized", NULL, OR_OPTION_STRING, offsetof(config_type, field), "FILE",                   \
     "the coordinator's list of keys; not given: the file of this name in the key folder"}
// clang-format on

// From here on it is this folder; NULL: as it was.
void or_keys_use_folder(const char *folder);

// The list of who may connect. OR_ERR_INVALID, OR_ERR_IO.
or_status_t or_keys_open_authorized(const char *file, or_keyring_t **keyring_p);
