// scheduler - decides which session is served next: start-time fair queueing (Goyal, Vin, Cheng 1996, "Start-time
// Fair Queueing", section 2), first among owners, then among the sessions of an owner.
//
//     owner a ─┬─ session 3   start 40 ─┐
//              └─ session 5   start 52  ├─ an owner's own virtual time: the start of the session it served last
//     owner b ─── session 1   start 96 ─┘
//       └ each owner has a start as well, and all of them one virtual time
//
// The session with the least start is served and charged the rows of the pass that it takes: its start moves on by so
// many. A session that comes, or comes back after it had nothing to do, starts at the virtual time if its own start
// is before it: being idle earns nothing. Among equals the one that has waited longest is served.
//
// A pass serves several sessions, each at most once: pick, charge, pick again. A session that is picked and takes
// nothing keeps its start, and so is among the first of the next pass.
//
// Sessions are numbers below flows_max. Pure: no clock, no peers. One thread; only join allocates.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

typedef struct or_scheduler or_scheduler_t;
#define OR_SCHEDULER_NOBODY UINT32_MAX

// Create a scheduler. OR_ERR_NO_MEMORY.
or_status_t or_scheduler_create(uint32_t flows_max, or_scheduler_t **scheduler_p);
void or_scheduler_destroy(or_scheduler_t **scheduler_p);

// Add a session of `owner` (compared as a string, copied), which has nothing to do yet. An owner whose last session
// has left is remembered while there is room, so that leaving and coming back earns nothing either. OR_ERR_NO_MEMORY.
or_status_t or_scheduler_join(or_scheduler_t *scheduler, uint32_t flow, const char *owner);
// Remove a session. Without effect if it is not there.
void or_scheduler_leave(or_scheduler_t *scheduler, uint32_t flow);

// Say whether the session has work that waits. Call it for each session before each pass.
void or_scheduler_set_ready(or_scheduler_t *scheduler, uint32_t flow, bool ready);
// Return the number of sessions with work that waits.
uint32_t or_scheduler_ready_count(const or_scheduler_t *scheduler);

// Begin a pass: all ready sessions may be picked.
void or_scheduler_begin(or_scheduler_t *scheduler);
// Pick the next session, which is not picked again in this pass; OR_SCHEDULER_NOBODY.
uint32_t or_scheduler_pick(or_scheduler_t *scheduler);
// Pick this session out of its turn; it is not picked again in this pass.
void or_scheduler_pick_first(or_scheduler_t *scheduler, uint32_t flow);
// Charge the session `rows` rows of the pass.
void or_scheduler_charge(or_scheduler_t *scheduler, uint32_t flow, uint32_t rows);
