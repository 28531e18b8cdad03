// queue - who begins when: the places for texts at work, owners' shares of them, and the requests that wait.
//
//     request ──admit──▶ WAITING ──begin──▶ at work        the owner with the fewest at work first, then by arrival
//                           ▲                  │
//                           └──────yield───────┘            where an owner waits that has less at work
//
// Whatever frees a place, brings a peer or changes what may begin sets `due`; or_queue_settle begins what can begin.
// One thread.
#pragma once

#include "coordinator/coordinator.h"
#include "proto/keys/keyring.h"

typedef struct or_csession or_csession_t;

#define OR_RETRY_MS_MIN 500u   // a crowd of clients must not ask faster
#define OR_RETRY_MS_MAX 30000u // nobody should find an idle service asleep
#define OR_SERVED_WEIGHT 0.1   // of the latest request in the mean: the last ten or so count

// The sessions of one owner in each phase, counted anew for each decision.
typedef struct {
    const char *owner; // borrowed; NULL: free place
    uint32_t waiting, live, parked, done;
} or_owner_count_t;

// A drafter whose vocabulary cannot be used, for requests that wait for it.
typedef struct {
    char why[512]; // "": there was none
    char owner[OR_OWNER_BYTES];
    bool serves_all;
} or_refused_drafter_t;

typedef struct {
    bool due; // something may begin
    // A hash table of the owners that have sessions; owned. At most half of it is used.
    or_owner_count_t *owners;
    uint32_t owner_places;        // a power of two
    int64_t share_due_ns;         // when to look whether places are shared fairly
    bool begins_late;             // texts wait for the verifier to read
    double served_ms;             // what the requests served lately took on average; 0: none was
    bool drafter_seen;            // one has joined since the start
    or_refused_drafter_t refused; // the last one that was turned away
} or_queue_t;

// A session's part in it.
typedef struct {
    bool gives_way;   // its place is wanted by an owner that has less at work
    int64_t paced_ns; // its key's limit holds the next round up until then; 0: it does not
    uint32_t busy_ms; // it was told to come back: when its client may try again
} or_queued_t;

// For a table of `sessions`. OR_ERR_NO_MEMORY.
or_status_t or_queue_init(or_queue_t *queue, uint32_t sessions);
void or_queue_fini(or_queue_t *queue);

// Count what every owner has, in one pass; returns what all have together. Names are borrowed from the sessions, until
// one is destroyed.
or_owner_count_t or_queue_count(const or_coordinator_t *coordinator);
// The counts of an owner, or of the owner of a session, as they were counted last.
const or_owner_count_t *or_queue_owner(const or_coordinator_t *coordinator, const char *owner);
const or_owner_count_t *or_queue_owner_of(const or_coordinator_t *coordinator,
                                          const or_csession_t *session);

// May one more request of this owner be taken in? In a full queue the latest request of the owner that waits most makes
// room. That owner must be left with no less than this one has, and nothing of the request may be written. OR_ERR_FULL
// with a sentence: after *retry_ms.
or_status_t or_queue_admit(or_coordinator_t *coordinator, const char *owner, bool plain,
                           uint32_t *retry_ms);
// When a request with `before` others before it should be tried again: before x mean time a request takes / places.
uint32_t or_queue_retry_ms(const or_queue_t *queue, uint32_t before, uint32_t places);
// Does a prompt of so many tokens leave room in the context, where that is known? If not, why. `least`: it may have more
// tokens than that.
bool or_queue_fits(const or_coordinator_t *coordinator, uint64_t tokens, bool least, char *why,
                   size_t capacity);
// Begin a session that waits, if verifier and drafter are there and there is a place.
void or_queue_begin(or_coordinator_t *coordinator, or_csession_t *session);
// If something may begin: begin those that wait as far as there is room.
void or_queue_settle(or_coordinator_t *coordinator);
// Settle OR_MARK_YIELD: the session queues again if another would begin in its place; else its round goes on.
void or_queue_yield(or_coordinator_t *coordinator, or_csession_t *session);
// A text whose owner has more at work than one that waits gives its place away at the end of its round: its `gives_way`
// is set. Returns when to call again.
int64_t or_queue_share(or_coordinator_t *coordinator);
// The timers of a session that waits.
void or_queue_tick(or_coordinator_t *coordinator, or_csession_t *session);
// Why a request that waits has not begun, for its client; "" for any other.
void or_queue_why(const or_coordinator_t *coordinator, const or_csession_t *session, char *why,
                  size_t capacity);

// A request was served and took so long.
static inline void or_queue_note_served(or_queue_t *queue, uint64_t elapsed_us)
{
    double ms = (double)elapsed_us / 1000, mean = queue->served_ms;
    queue->served_ms = mean > 0 ? (1 - OR_SERVED_WEIGHT) * mean + OR_SERVED_WEIGHT * ms : ms;
}
