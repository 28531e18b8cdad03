// keyring - the keys a coordinator lets in, and what each may do.
//
//     authorized   # key                                      name=value ...
//                  rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7   name=laptop owner=ada roles=client,drafter trusted=no sessions=4 tokens-per-minute=6000 nodes=64
//
// The file is text with one key a line. `outrider keys` edits it under a lock and replaces it as a whole; it keeps
// unknown names and warns of them. A coordinator looks every second whether the file has changed. A key that is no
// longer in it, or has another owner now, is cut off; other changes hold from then on. One thread.
#pragma once

#include <stdint.h>

#include "proto/keys/keys.h"

#define OR_KEY_NAME_BYTES 64

typedef enum {
    OR_KEY_CLIENT = 1,
    OR_KEY_DRAFTER = 2,
    OR_KEY_VERIFIER = 4,
} or_key_role_t;

// The rights of one key. A limit of 0 is no limit.
typedef struct {
    char key[OR_KEY_BYTES]; // public
    char name[OR_KEY_NAME_BYTES];
    char owner
        [OR_KEY_NAME_BYTES]; // whose texts it reads and writes; never "": outrider keys gives it the name if none is said
    uint32_t roles; // a set of or_key_role_t
    bool trusted;   // if it drafts, its distributions are believed (docs/design.md section 4)
    uint32_t sessions_max;      // most live requests
    uint32_t tokens_per_minute; // tokens of completions a minute
    uint32_t nodes_max;         // most guesses a round
} or_key_grant_t;

typedef struct or_keyring or_keyring_t;

// Read a file; one that is not there is an empty ring. `path` is copied. OR_ERR_INVALID (line number and what is
// wrong with it), OR_ERR_IO.
or_status_t or_keyring_open(const char *path, or_keyring_t **ring_p);
void or_keyring_close(or_keyring_t **ring_p);
// Read the file again if it has changed; *changed says so. A file that makes no sense leaves the ring as it was:
// OR_ERR_INVALID, once for each state of the file. So does one that cannot be read, which is tried again at each
// look: OR_ERR_IO, OR_ERR_NO_MEMORY. A missing file is an empty ring at the second look, because editors move files
// away for a moment. Descriptors are kept in reserve, so that a crowd of connections does not hinder reading.
or_status_t or_keyring_refresh(or_keyring_t *ring, bool *changed);

uint32_t or_keyring_count(const or_keyring_t *ring);
const or_key_grant_t *or_keyring_at(const or_keyring_t *ring, uint32_t index);
// Return the rights of this key, good until the next refresh or change. NULL: it may not come in.
const or_key_grant_t *or_keyring_find(const or_keyring_t *ring, const char *public_key);

// Add or replace a key. The file changes whole or not at all, safe against another `outrider keys` at the same time.
// OR_ERR_IO, OR_ERR_INVALID.
or_status_t or_keyring_authorize(or_keyring_t *ring, const or_key_grant_t *grant);
// Remove a key, given by itself or by name. OR_ERR_NOT_FOUND; OR_ERR_INVALID (a name that several keys have).
or_status_t or_keyring_revoke(or_keyring_t *ring, const char *key_or_name);

// Read roles as "client,drafter", and write them so. OR_ERR_INVALID names the known ones. `text` has 32 bytes.
or_status_t or_key_roles_parse(const char *text, uint32_t *roles);
void or_key_roles_name(uint32_t roles, char text[32]);
