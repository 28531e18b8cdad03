// terms - the terms of a session: an OpenSession message that owns its lists. One thread.
#pragma once

#include "proto/wire/message.h"

typedef struct {
    or_open_session_t open; // lists point into `owned`
    void *owned;
} or_terms_t;

// Check that a peer's terms are no longer than those that our coordinator sends; or_sampling_check has the limit of biases. It
// comes before the copy, which lives as long as the session. OR_ERR_INVALID names the one that is too long.
or_status_t or_terms_check(const or_open_session_t *open);
// Make a deep copy. OR_ERR_NO_MEMORY.
or_status_t or_terms_copy(const or_open_session_t *open, or_terms_t *terms);
void or_terms_fini(or_terms_t *terms);
