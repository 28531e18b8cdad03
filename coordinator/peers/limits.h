// limits - what one key's grant allows it, counted over everything it has here (proto/keys/keyring.h).
//
// Tokens per minute is a bucket that holds a minute's worth. A round of a session begins only while it is not
// empty, and every committed token takes one out. So a text goes on, slower, and never fails for it. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "proto/keys/keyring.h"

#define OR_LIMITED_KEYS_MAX 4096u

typedef struct or_limits or_limits_t;

// OR_ERR_NO_MEMORY.
or_status_t or_limits_create(or_limits_t **limits_p);
void or_limits_destroy(or_limits_t **limits_p);

// May a text of this key be written now? If not, *due_ns is when it may. A key of "" has no limit.
bool or_limits_may_write(or_limits_t *limits, const or_key_grant_t *grant, int64_t now_ns,
                         int64_t *due_ns);
void or_limits_wrote(or_limits_t *limits, const or_key_grant_t *grant, uint32_t tokens,
                     int64_t now_ns);
