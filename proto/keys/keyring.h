// keyring - the keys a coordinator lets in, and what each may do.
//
//     authorized   # key                                      name=value ...
//                  rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7   name=laptop owner=ada roles=client,drafter trusted=no sessions=4 tokens-per-minute=6000 nodes=64
//
// Text, one key a line, edited by `outrider keys` under a lock and replaced as a whole; unknown names are
// kept and warned of. A coordinator looks every second whether the file has changed: who is no longer in it,
// or has another owner now, is cut off, and what else changed holds from then on. One thread.
#pragma once

#include <stdint.h>

#include "proto/keys/keys.h"

#define OR_KEY_NAME_BYTES 64

typedef enum {
    OR_KEY_CLIENT = 1,
    OR_KEY_DRAFTER = 2,
    OR_KEY_VERIFIER = 4,
} or_key_role_t;

// What one key may do; 0 of a limit: no limit of its own.
typedef struct {
    char key[OR_KEY_BYTES]; // public
    char name[OR_KEY_NAME_BYTES];
    char owner
        [OR_KEY_NAME_BYTES]; // whose texts it reads and writes; never "": outrider keys gives it the name if none is said
    uint32_t roles; // of or_key_role_t
    bool trusted;   // as a drafter: its distributions are believed (docs/design.md section 4)
    uint32_t sessions_max;      // live requests
    uint32_t tokens_per_minute; // of completions
    uint32_t nodes_max;         // guesses a round
} or_key_grant_t;

typedef struct or_keyring or_keyring_t;

// From a file; a file that is not there is an empty ring. OR_ERR_INVALID (line number and what is wrong with
// it), OR_ERR_IO. `path` is copied.
or_status_t or_keyring_open(const char *path, or_keyring_t **ring_p);
void or_keyring_close(or_keyring_t **ring_p);
// Read again if the file has changed; *changed says so. A file that makes no sense now leaves the ring as it
// was: OR_ERR_INVALID, once for each state of the file. So does one that cannot be read, which is tried again at
// each look: OR_ERR_IO, OR_ERR_NO_MEMORY. One that is gone is an empty ring at the second look: editors move
// files away for a moment. Descriptors are kept for it, so that a crowd of connections does not hinder reading.
or_status_t or_keyring_refresh(or_keyring_t *ring, bool *changed);

uint32_t or_keyring_count(const or_keyring_t *ring);
const or_key_grant_t *or_keyring_at(const or_keyring_t *ring, uint32_t index);
// NULL: it may not come in. Good until the next refresh or change.
const or_key_grant_t *or_keyring_find(const or_keyring_t *ring, const char *public_key);

// Change the file, whole or not at all, safe against another `outrider keys` at the same time. A key that is
// there already is replaced. OR_ERR_IO, OR_ERR_INVALID.
or_status_t or_keyring_authorize(or_keyring_t *ring, const or_key_grant_t *grant);
// By key or by name; OR_ERR_NOT_FOUND, OR_ERR_INVALID (a name that several keys have).
or_status_t or_keyring_revoke(or_keyring_t *ring, const char *key_or_name);

// "client,drafter" and back. OR_ERR_INVALID names those there are. `text` of 32 bytes.
or_status_t or_key_roles_parse(const char *text, uint32_t *roles);
void or_key_roles_name(uint32_t roles, char text[32]);
