// sessions - the table of all sessions, and the list of those that are marked.
//
// A place is NULL where it is free. Sessions that are served, that wait, and that are done and kept for clients that missed the
// end share the table.
#pragma once

#include "coordinator/session/session.h"

// Numbers of sessions go to clients, drafters and logs, and tell nothing of each other.
//
//     0, 1, 2, ...  ──keyed permutation of 62 bits──▶  odd numbers in no order
//
// An owner that compared its own texts' numbers, were they counted, would know how many texts others began between them.
// The key is drawn for each process, so that a restarted coordinator's sessions are not taken for old ones.
typedef struct {
    uint8_t key[16];
    uint64_t count; // given out so far
} or_session_ids_t;

typedef struct {
    or_csession_t **all; // owned; `places` entries
    uint32_t places;
    or_session_ids_t ids;
    or_marked_sessions_t marked; // in the order in which they were marked
} or_sessions_t;

// OR_ERR_NO_MEMORY.
or_status_t or_sessions_init(or_sessions_t *sessions, uint32_t places);
void or_sessions_fini(or_sessions_t *sessions);

// The next session of a walk over the table; NULL: there is no more. *at is 0 before the first.
or_csession_t *or_sessions_next(const or_sessions_t *sessions, uint32_t *at);
// NULL: there is none of this number.
or_csession_t *or_sessions_find(const or_sessions_t *sessions, or_session_id_t id);
// Take the first marked session from the list; NULL: none is marked.
or_csession_t *or_sessions_take_marked(or_sessions_t *sessions);

// ---- numbers ----

void or_session_ids_init(or_session_ids_t *ids);
// The number of the next session: never 0. The same until it is taken.
or_session_id_t or_session_ids_next(const or_session_ids_t *ids);
void or_session_ids_take(or_session_ids_t *ids);
// Was there ever a session with this number?
bool or_session_ids_was(const or_session_ids_t *ids, or_session_id_t id);
