// api_keys - who may use the HTTP face: a file with a line for each key.
//
//     # KEY [OWNER]
//     sk-outrider-7Hq...      alice
//
// Keys are compared in constant time and appear in no log. The file must be readable by its owner alone. Immutable: any
// thread.
#pragma once

#include "common/base/status.h"

typedef struct or_api_keys or_api_keys_t;

#define OR_API_KEY_BYTES_MIN 8 // shorter ones are guessed

// OR_ERR_NOT_FOUND, OR_ERR_INVALID (line and reason; never the key; permissions, with the chmod to run), OR_ERR_NO_MEMORY.
or_status_t or_api_keys_read(const char *path, or_api_keys_t **keys_p);
// One key of nobody in particular, from the environment.
or_status_t or_api_keys_one(const char *key, or_api_keys_t **keys_p);
void or_api_keys_destroy(or_api_keys_t **keys_p);

// The owner of the key in an Authorization header, "Bearer KEY" or "Basic base64(anything:KEY)" (browsers); NULL: there is no such key.
const char *or_api_keys_owner(const or_api_keys_t *keys, const char *authorization);
