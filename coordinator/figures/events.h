// events - the latest events for operators: peers that joined or were lost, texts that failed, what was refused.
//
// It is a ring in which the oldest event makes room. A zeroed ring is empty. It must not be copied, because its items
// point into it. One thread.
#pragma once

#include "proto/wire/message.h"

#define OR_EVENTS_MAX 128u
#define OR_EVENT_TEXT_BYTES 160

// The kinds of events, which are also the label's values of the metric events_total.
#define OR_EVENT_DRAFTER_JOINED "drafter joined"
#define OR_EVENT_DRAFTER_LOST "drafter lost"
#define OR_EVENT_VERIFIER_JOINED "verifier joined"
#define OR_EVENT_VERIFIER_LOST "verifier lost"
#define OR_EVENT_FAILOVER "fail-over"
#define OR_EVENT_REFUSED "refused"
#define OR_EVENT_CUT_OFF "cut off"
#define OR_EVENT_BUSY "busy"
#define OR_EVENT_FAILED "text failed"
#define OR_EVENT_KINDS                                                                             \
    OR_EVENT_DRAFTER_JOINED, OR_EVENT_DRAFTER_LOST, OR_EVENT_VERIFIER_JOINED,                      \
        OR_EVENT_VERIFIER_LOST, OR_EVENT_FAILOVER, OR_EVENT_REFUSED, OR_EVENT_CUT_OFF,             \
        OR_EVENT_BUSY, OR_EVENT_FAILED

typedef struct {
    or_event_t items[OR_EVENTS_MAX];
    char texts[OR_EVENTS_MAX][OR_EVENT_TEXT_BYTES];
    uint64_t count; // events so far, without those that were replaced by a later one of their kind
} or_events_t;

// Add an event. `kind` is borrowed for good. The text is cut to its bound and mended to be UTF-8 (or_utf8_mend). Events
// of one kind without a session within a second become one, the latest: a peer that is refused again and again does
// not hide the rest.
void or_events_note(or_events_t *events, const char *kind, uint64_t session, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
// Copy the events after number `after`, oldest first, and return how many. `out` has room for OR_EVENTS_MAX; the texts
// are borrowed from the ring.
uint32_t or_events_after(const or_events_t *events, uint64_t after, or_event_t *out);
