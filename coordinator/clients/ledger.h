// ledger - how many bytes each owner makes the coordinator keep.
//
//     owner   bodies  requests  answers  unsent        journal
//     ada      4.0M     0.3M     2.1M     0.0M          1.2M
//     ben      0.0M     0.1M     0.4M     0.2M          0.3M
//              └── together at most memory_max ──┘      └── together at most disk_max
//
// Whatever grows by what a peer sends is charged where it grows and released where it ends. An or_hold_t is the part
// that one object (an HTTP body, a session, a stream, a text in the journal) has in its owner's account.
//
// No owner is given a fixed part. An owner may hold as much as is still free: alone half of everything, beside one other a
// third, and so on. For what waits for readers it is half as much. (These are the dynamic thresholds of Choudhury and Hahne,
// "Dynamic queue length thresholds for shared-memory packet switches", 1998.) Whoever holds little always finds room, whatever
// the others do.
//
// Any thread; a call takes a lock for a moment and never waits for anything else. A hold belongs to one thread at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

typedef struct or_ledger or_ledger_t;
typedef struct or_account or_account_t;

typedef enum {
    OR_HELD_BODIES,   // of HTTP requests, while they come and while they are read
    OR_HELD_REQUESTS, // prompts, stop strings, and what else was asked, until the text is forgotten
    OR_HELD_ANSWERS,  // tokens, text and log-probabilities, until the text is forgotten
    OR_HELD_UNSENT,   // what waits for readers
    OR_HELD_JOURNAL,  // on disk; all above are in memory
    OR_HELD_KINDS
} or_held_t;

// For metrics: "bodies", "requests", ...
const char *or_held_name(or_held_t kind);

// OR_ERR_NO_MEMORY.
or_status_t or_ledger_create(uint64_t memory_max, uint64_t disk_max, or_ledger_t **ledger_p);
// All holds are closed by now.
void or_ledger_destroy(or_ledger_t **ledger_p);

// The part of an account that one object holds. All zero: nothing is counted, and every size is granted.
typedef struct {
    or_ledger_t *ledger;
    or_account_t *account;
    or_held_t kind;
    uint64_t bytes;
} or_hold_t;

// A hold of no bytes. `owner` ("": nobody in particular) is copied; `ledger` may be NULL: nothing is counted then.
// OR_ERR_NO_MEMORY; the hold may be used and closed all the same, and counts nothing.
or_status_t or_hold_open(or_hold_t *hold, or_ledger_t *ledger, const char *owner, or_held_t kind);
// It holds so many bytes from now on. OR_ERR_FULL, and nothing has changed: they are more than its owner may hold now. The sentence
// names the limit and what the owner holds, and tells nothing of others. To hold less always succeeds.
or_status_t or_hold_resize(or_hold_t *hold, uint64_t bytes);
// The same, and never refused: for what is there already and is about to end.
void or_hold_force(or_hold_t *hold, uint64_t bytes);
// It holds nothing, and counts nothing from now on. May be closed already, or all zero.
void or_hold_close(or_hold_t *hold);

typedef struct {
    uint64_t bytes[OR_HELD_KINDS];   // held now
    uint64_t refused[OR_HELD_KINDS]; // how often more was asked for than was free, so far
    uint64_t memory_max, disk_max;
    uint64_t largest_owner; // bytes of memory that the owner with the most holds
    uint32_t owners;        // that hold anything
} or_ledger_usage_t;

void or_ledger_usage(or_ledger_t *ledger, or_ledger_usage_t *usage);
