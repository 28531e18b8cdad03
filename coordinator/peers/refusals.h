// refusals - who was turned away, so that it is counted always and logged seldom, and who is
// banned.
//
// Everything goes by key: 100 attempts with one key are a line in the log now and one a minute
// later that says how many there were. Peers without a key ("") share one entry. Where more keys
// than there is room for are turned away, the one that was longest ago is forgotten, those that are
// banned last. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/keys/keys.h"

#define OR_REFUSALS_KEPT 256u

typedef struct {
    char key[OR_KEY_BYTES];
    bool used;
    int64_t at_ns;           // the last one
    int64_t logged_ns;       // when one was logged last
    uint32_t unlogged;       // since then
    int64_t banned_until_ns; // 0: it never was
} or_refusal_t;

typedef struct {
    or_refusal_t kept[OR_REFUSALS_KEPT];
    uint64_t count; // of all
} or_refusals_t;

// One more. True if it is to be logged; *unlogged then says how many others of this key were not.
bool or_refusals_note(or_refusals_t *refusals, const char *key, int64_t now_ns, uint32_t *unlogged);

// This key (not "") may not come in until then.
void or_refusals_ban(or_refusals_t *refusals, const char *key, int64_t now_ns, int64_t until_ns);
bool or_refusals_is_banned(const or_refusals_t *refusals, const char *key, int64_t now_ns);
