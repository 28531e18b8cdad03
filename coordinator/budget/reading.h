// reading - which rounds say nothing of a way's speed, because many prompts are read beside them.
//
// Texts that begin together have their prompts read in passes that are twice as long or more. A speed measured then is one
// that any try surpasses. But where texts come all the time nearly every round is such a one: once 2 s more of them were
// left out than of others, they count. Pure: no clock. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool on;           // as counted last
    int64_t last_ns;   // counted last; 0: never
    int64_t judged_ns; // the last round, beside prompts or not
    double out_ns;     // so much more time of rounds was left out than was not
} or_reading_t;

// So many texts are at work, and the prompts of so many of them are still to be read.
void or_reading_counted(or_reading_t *reading, uint32_t texts, uint32_t unread, int64_t clock_ns);

// Are rounds beside prompts left out still?
bool or_reading_leaves_out(const or_reading_t *reading);

// A round that took so long was judged, with so many texts at work. `now_ns` is of the clock that stands still while no text
// is at work. Return whether the round is left out; `time_ns` then is how much of the time since the last one that was.
bool or_reading_judged(or_reading_t *reading, uint32_t texts, double round_ns, int64_t clock_ns,
                       int64_t now_ns, int64_t *time_ns);

// Return the end of the time that counts so far: while many prompts are read, the last judged round, for the time since then
// may be left out. But it is not put off for ever.
int64_t or_reading_end(const or_reading_t *reading, int64_t now_ns);
