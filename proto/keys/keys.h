// keys - the identity of a process: a Curve25519 pair, as ZeroMQ's CURVE uses it, and its place on disk.
//
//     $OUTRIDER_KEYS, or ~/.config/outrider        0700
//       identity.key       a pair: this user's, for clients and drafters and verifiers   0600
//       coordinator.key    a pair: the coordinator's own                                 0600
//       authorized         the keys that may connect to that coordinator (proto/keys/keyring.h)   0600
//       servers            lines "ENDPOINT KEY": coordinators that this user knows       0600
//
// A key file is text: a comment, `public Z85` and `secret Z85`. Z85 is 40 printable characters for 32 bytes (RFC 32
// of ZeroMQ). Secrets are wiped from memory that is given back, and appear in no log and no message. Files that
// others can read, or that belong to another user than us and root, are refused with a sentence that says how to mend
// it. Files that root makes in another user's folder get that user as owner. Any thread.
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

// Create a new pair. OR_ERR_UNSUPPORTED: this libzmq was built without CURVE.
or_status_t or_key_pair_create(or_key_pair_t *pair);
void or_key_pair_wipe(or_key_pair_t *pair);

// Check that this is a public key as Z85. OR_ERR_INVALID says what is wrong.
or_status_t or_key_check(const char *text);
// Write the first characters, for logs: enough to tell keys apart, too few to be one. `text` has 9 bytes.
void or_key_short(const char *public_key, char text[9]);

// Return the key folder, made with mode 0700 if it is not there. OR_ERR_IO; OR_ERR_INVALID (others can write to it or
// own it).
or_status_t or_keys_folder(char *path, size_t capacity);
// Return the path of a file in it.
or_status_t or_keys_path(const char *name, char *path, size_t capacity);

// Read a pair. OR_ERR_NOT_FOUND (and how to make one), OR_ERR_INVALID (not a key file; others can read it),
// OR_ERR_IO.
or_status_t or_key_file_read(const char *path, or_key_pair_t *pair);
// Write a pair to a new file. OR_ERR_INVALID if there is a file already.
or_status_t or_key_file_write(const char *path, const or_key_pair_t *pair, const char *comment);
// Read the pair, or create it if there is none.
or_status_t or_key_file_obtain(const char *path, const char *comment, or_key_pair_t *pair,
                               bool *created);

// The keys of a connecting edge: its own, and the one that it expects of the server. or_keys_for_connecting fills it
// from options.
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
// Choose the keys for this endpoint. OR_ERR_INVALID, with what to do: it is no endpoint (endpoint.h), or the server key
// of an encrypted one is not known, for example.
or_status_t or_keys_for_connecting(const char *endpoint, const or_key_options_t *options,
                                   or_connect_keys_t *keys);

// Return true if traffic on this endpoint is certain to stay on this machine: tcp://127.*, [::1], [::ffff:127.*],
// localhost, ipc.
bool or_endpoint_is_loopback(const char *endpoint);

// The rows of the option table of every program that connects; `field` is an or_key_options_t with char * members.
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
