// keys - who a process is: a Curve25519 pair, as ZeroMQ's CURVE uses it, and where it is kept.
//
//     $OUTRIDER_KEYS, or ~/.config/outrider        0700
//       identity.key       a pair: this user's, for clients and drafters and verifiers   0600
//       coordinator.key    a pair: the coordinator's own                                 0600
//       authorized         who may connect to that coordinator (proto/keys/keyring.h)         0600
//       servers            lines "ENDPOINT KEY": coordinators this user knows            0600
//
// A key file is text: a comment, `public Z85` and `secret Z85`. Z85 is 40 printable characters for 32 bytes
// (RFC 32 of ZeroMQ). Secrets are wiped from memory that is given back, and are in no log and no message. Files that others can
// read, and what belongs to another user than us and root, are refused, with what mends it. What root makes in
// another user's folder is that user's. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

#define OR_KEY_CHARS 40
#define OR_KEY_BYTES (OR_KEY_CHARS + 1)

typedef struct {
    char public_key[OR_KEY_BYTES];
    char secret_key[OR_KEY_BYTES];
} or_key_pair_t;

// OR_ERR_UNSUPPORTED: this libzmq was built without CURVE.
or_status_t or_key_pair_create(or_key_pair_t *pair);
void or_key_pair_wipe(or_key_pair_t *pair);

// Is this a public key as Z85? OR_ERR_INVALID says what is wrong.
or_status_t or_key_check(const char *text);
// The first characters, for logs: enough to tell keys apart, too few to be one. `text` of 9 bytes.
void or_key_short(const char *public_key, char text[9]);

// The folder, made with mode 0700 if it is not there. OR_ERR_IO, OR_ERR_INVALID (others can write to it
// or own it).
or_status_t or_keys_folder(char *path, size_t capacity);
// A file in it.
or_status_t or_keys_path(const char *name, char *path, size_t capacity);

// OR_ERR_NOT_FOUND (and how to make one), OR_ERR_INVALID (not a key file; others can read it), OR_ERR_IO.
or_status_t or_key_file_read(const char *path, or_key_pair_t *pair);
// Never over a file that is there: OR_ERR_INVALID.
or_status_t or_key_file_write(const char *path, const or_key_pair_t *pair, const char *comment);
// The one that is there, or a new one.
or_status_t or_key_file_obtain(const char *path, const char *comment, or_key_pair_t *pair,
                               bool *created);

// What an edge shows and expects when it connects: filled from options by or_keys_for_connecting.
typedef struct {
    or_key_pair_t own;
    char server_key[OR_KEY_BYTES];
    bool encrypted; // false: the rest means nothing
} or_connect_keys_t;

typedef struct {
    const char *mode;     // --encrypt: "auto" (all but loopback and ipc), "on", "off"; NULL: auto
    const char *key_file; // --key; NULL: identity.key in the folder, made if it is not there
    const char *
        server_key; // --server-key: Z85, or a file with a `public` line; NULL: $OUTRIDER_SERVER_KEY,
                    // else what `servers` has for the endpoint
} or_key_options_t;
// OR_ERR_INVALID, with what to do: an encrypted endpoint whose server key nobody told us, say.
or_status_t or_keys_for_connecting(const char *endpoint, const or_key_options_t *options,
                                   or_connect_keys_t *keys);

// Is traffic to or on this endpoint certain to stay on this machine? tcp://127.*, [::1], [::ffff:127.*], localhost, ipc.
bool or_endpoint_is_loopback(const char *endpoint);

// The rows of an option table that every program which connects has; `keys` is an or_key_options_t with char * members.
#define OR_KEY_OPTIONS(config_type, field)                                                         \
    {"encrypt",        NULL,                                                                       \
     OR_OPTION_STRING, offsetof(config_type, field.mode),                                          \
     "WHEN",           "encrypt the connection: auto (all but loopback), on or off"},              \
        {"key",                                                                                    \
         NULL,                                                                                     \
         OR_OPTION_STRING,                                                                         \
         offsetof(config_type, field.key_file),                                                    \
         "FILE",                                                                                   \
         "who we are; not given: identity.key in the key folder (outrider keys)"},                 \
    {                                                                                              \
        "server-key", NULL, OR_OPTION_STRING, offsetof(config_type, field.server_key), "KEY",      \
            "the coordinator's public key, or a file that has it; not given: "                     \
            "$OUTRIDER_SERVER_KEY, or "                                                            \
            "what the key folder knows of the endpoint"                                            \
    }
