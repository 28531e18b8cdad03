// conduct - how a drafter or a client behaves on its connection: what it may send, and what counts as an offence.
//
//     frame ──▶ bucket of messages and of bytes ──▶ read, or dropped unread (a small offence)
//     offence ──▶ points, halved every minute ──▶ cut off at OR_CONDUCT_POINTS_MAX (standing.h keeps them)
//
// Honest drafters on a bad network send stale, repeated and mistaken trees too. What a loss or a
// restart can bring about weighs little, what only malice or a broken program sends weighs much. The
// weights stand beside their reasons in conduct.c. It knows no peers and no messages. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OR_CONDUCT_POINTS_MAX 1000.0

typedef enum {
    OR_OFFENCE_FLOOD,      // a frame beyond what its bucket held
    OR_OFFENCE_MALFORMED,  // a frame that does not decode, or a message that drafters do not send
    OR_OFFENCE_BAD_TREE,   // malformed, larger than asked for, ids that do not exist
    OR_OFFENCE_TWO_TREES,  // a second, different tree for a round, or one for a round to come
    OR_OFFENCE_WRONG_HASH, // a tree on another text, again, right after it was sent the text
    OR_OFFENCE_NAGGING,    // asked for the text again right after it was sent
    OR_OFFENCE_NO_SESSION, // about a session that never was
} or_offence_t;
const char *or_offence_name(or_offence_t offence); // for the log and for the offender
double or_offence_points(or_offence_t offence);
// The points that are left of these after a while: half of them after a minute.
double or_offences_after(double points, int64_t ns);

typedef struct {
    double messages, bytes; // left in the buckets
    double requests;        // for texts: a client's
    double questions;       // about figures: a client's
    double points;          // of its key's offences, as they stood at `at_ns`
    int64_t at_ns;          // when these were last brought up to date
} or_conduct_t;

void or_conduct_init(or_conduct_t *conduct, int64_t now_ns);

// Take one frame from the buckets; false if they do not hold it: it is not to be read.
bool or_conduct_allows(or_conduct_t *conduct, size_t bytes, int64_t now_ns);

// Take a request for a text from its bucket; false: it is one too many now.
bool or_conduct_allows_request(or_conduct_t *conduct, int64_t now_ns);

// Take a question about figures from its bucket; false: it gets no answer. Clients repeat it.
bool or_conduct_allows_question(or_conduct_t *conduct, int64_t now_ns);
