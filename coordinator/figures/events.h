// events - the last things that an operator may want to know of: who joined, who was lost, what was refused.
//
// A ring: the oldest makes room. Empty when zeroed; not to be copied, its items point into it. One thread.
#pragma once

#include "proto/wire/message.h"

#define OR_EVENTS_MAX 128u
#define OR_EVENT_TEXT_BYTES 160

// Kinds; also the values of the label of events_total.
#define OR_EVENT_DRAFTER_JOINED "drafter joined"
#define OR_EVENT_DRAFTER_LOST "drafter lost"
#define OR_EVENT_VERIFIER_JOINED "verifier joined"
#define OR_EVENT_VERIFIER_LOST "verifier lost"
#define OR_EVENT_FAILOVER "fail-over"
#define OR_EVENT_REFUSED "refused"
#define OR_EVENT_CUT_OFF "cut off"
#define OR_EVENT_BUSY "busy"
#define OR_EVENT_FAILED "text failed"

typedef struct {
    or_event_t items[OR_EVENTS_MAX];
    char texts[OR_EVENTS_MAX][OR_EVENT_TEXT_BYTES];
    uint64_t count; // so far, those that made room for a later one left out
} or_events_t;

// `kind` is borrowed for good; the text is cut, and made fit to be shown (or_utf8_mend). Several of one kind without a
// session within a second are one, the latest: a peer that is refused again and again does not hide the rest.
void or_events_note(or_events_t *events, const char *kind, uint64_t session, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
// Those after number `after`, oldest first; `out` has OR_EVENTS_MAX entries, which borrow from the ring.
uint32_t or_events_after(const or_events_t *events, uint64_t after, or_event_t *out);
