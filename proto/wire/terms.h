// terms - what a session was opened with: an OpenSession message that owns its lists.
#pragma once

#include "proto/wire/message.h"

typedef struct {
    or_open_session_t open; // lists point into `owned`
    void *owned;
} or_terms_t;

// Are a peer's terms, biases aside (or_sampling_check), as short as a coordinator's of ours? They are kept as long as the
// session is, so this comes before the copy. OR_ERR_INVALID names what is too long.
or_status_t or_terms_check(const or_open_session_t *open);
// A deep copy. OR_ERR_NO_MEMORY.
or_status_t or_terms_copy(const or_open_session_t *open, or_terms_t *terms);
void or_terms_fini(or_terms_t *terms);
