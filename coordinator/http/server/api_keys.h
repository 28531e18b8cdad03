// api_keys - the keys of the HTTP face and their rights: a file with a line for each key.
//
//     # KEY [OWNER] [name=value ...]
//     sk-outrider-7Hq...      alice    sessions=4 tokens-per-minute=6000 nodes=64
//
// The limits are those of a keyring's line (proto/keys/keyring.h): texts at a time, tokens a minute, guesses a round;
// 0 or not given: no limit. Keys are compared in constant time and appear in no log. The file must be readable by its
// owner alone. It may change while we run: a key that is no longer in it opens nothing. One thread.
#pragma once

#include <stdbool.h>

#include "proto/keys/keyring.h"

typedef struct or_api_keys or_api_keys_t;

#define OR_API_KEY_BYTES_MIN 8 // shorter ones are guessed

// Read the file. OR_ERR_NOT_FOUND, OR_ERR_INVALID (line and reason, never the key; permissions, with the chmod to
// run), OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_api_keys_read(const char *path, or_api_keys_t **keys_p);
// Take one key without an owner, from the environment. It does not change.
or_status_t or_api_keys_one(const char *key, or_api_keys_t **keys_p);
void or_api_keys_destroy(or_api_keys_t **keys_p);

// Read the file again if it has changed; *changed says so. A file without a key revokes them all. A file that makes
// no sense, or is gone, leaves the keys as they were: OR_ERR_INVALID, once for each state of the file. So does one
// that cannot be read, which is tried again at each look: OR_ERR_IO, OR_ERR_NO_MEMORY. A file that revokes keys may
// be half written, so it counts when it is the same at a second look; until then OR_ERR_AGAIN asks for a look soon.
or_status_t or_api_keys_refresh(or_api_keys_t *keys, bool *changed);

// Return the rights of the key in an Authorization header, "Bearer KEY" or "Basic base64(anything:KEY)" (browsers);
// NULL if there is no such key. Its `key` is a name made of a hash. Good until the next refresh.
const or_key_grant_t *or_api_keys_find(const or_api_keys_t *keys, const char *authorization);
// Return what became of a grant that was found before; NULL if its key is gone or has another owner now.
const or_key_grant_t *or_api_keys_still(const or_api_keys_t *keys, const or_key_grant_t *grant);
