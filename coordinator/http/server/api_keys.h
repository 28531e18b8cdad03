// api_keys - who may use the HTTP face, and what each may do: a file with a line for each key.
//
//     # KEY [OWNER] [name=value ...]
//     sk-outrider-7Hq...      alice    sessions=4 tokens-per-minute=6000 nodes=64
//
// The limits are those of a keyring's line (proto/keys/keyring.h): texts at a time, tokens a minute, guesses a round; 0 or
// not given: no limit of its own. Keys are compared in constant time and appear in no log. The file must be readable by its
// owner alone. It may change while we run: a key that is no longer in it opens nothing. One thread.
#pragma once

#include <stdbool.h>

#include "proto/keys/keyring.h"

typedef struct or_api_keys or_api_keys_t;

#define OR_API_KEY_BYTES_MIN 8 // shorter ones are guessed

// OR_ERR_NOT_FOUND, OR_ERR_INVALID (line and reason; never the key; permissions, with the chmod to run), OR_ERR_IO,
// OR_ERR_NO_MEMORY.
or_status_t or_api_keys_read(const char *path, or_api_keys_t **keys_p);
// One key of nobody in particular, from the environment: it does not change.
or_status_t or_api_keys_one(const char *key, or_api_keys_t **keys_p);
void or_api_keys_destroy(or_api_keys_t **keys_p);

// Read again if the file has changed; *changed says so. One without a key revokes them all. A file that makes no sense, or is gone,
// leaves the keys as they were: OR_ERR_INVALID, once for each state of the file. So does one that cannot be read,
// which is tried again at each look: OR_ERR_IO, OR_ERR_NO_MEMORY. One that revokes keys may be half written: it does so when it is
// the same at a second look, for which it is time soon: OR_ERR_AGAIN.
or_status_t or_api_keys_refresh(or_api_keys_t *keys, bool *changed);

// What the key in an Authorization header may do, "Bearer KEY" or "Basic base64(anything:KEY)" (browsers); its `key` names it, and is
// made of a hash. Good until the next refresh. NULL: there is no such key.
const or_key_grant_t *or_api_keys_find(const or_api_keys_t *keys, const char *authorization);
// The same of a grant that was found before, as it is now; NULL: its key is not there any more, or another owner's.
const or_key_grant_t *or_api_keys_still(const or_api_keys_t *keys, const or_key_grant_t *grant);
