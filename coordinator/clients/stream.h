// stream - what a client is told of its text: the tokens it has not heard of yet, what is known of them, and the end. One
// thread.
#pragma once

#include "coordinator/journal/journaling.h"

// A tree that was judged, for a client that wants to see it.
typedef struct {
    uint64_t round;
    uint32_t base_length, count, accepted_count;
    uint32_t *words; // owned: tokens, back and the accepted path, OR_TREE_NODES_MAX entries each
} or_told_tree_t;

// A session's part: what its client knows.
typedef struct {
    or_extent_t told;
    const or_verdict_t *judged; // the verdict that is just being settled; else NULL
    or_told_tree_t held_tree;   // the last tree that was judged, while its tokens are not told
    int64_t replayed_ns;        // when the client last asked for the rest and got it
} or_stream_t;

// Tell the client what it has not been told yet, as far as the journal has it; the end too. `why` tells why it waits;
// "" or NULL: nothing is to be said.
void or_stream_tell(or_coordinator_t *coordinator, or_csession_t *session, const char *why);
// Something new is there to be told: now or, if the journal is to have it first, when that has it.
void or_stream_tell_news(or_coordinator_t *coordinator, or_csession_t *session);
