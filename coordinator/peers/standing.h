// standing - what is remembered of a key while its connections come and go.
//
//     a vocabulary that is not known ──▶ a bucket that holds four and fills in a minute: unpacking and comparing one takes
//                                        up to two seconds of everybody's time
//     a line of the log              ──▶ a bucket that holds sixteen and fills in a minute
//     an offence (conduct.h)         ──▶ points, halved every minute, over all connections of the key
//
// Who has no key is on this machine: it brings any vocabularies, and its offences are its connection's. Where more names
// than there is room for are remembered the one that was longest ago is forgotten. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/peers/conduct.h"
#include "proto/keys/keys.h"

#define OR_STANDINGS_KEPT 256u
#define OR_VOCABULARIES_PER_MINUTE 4u
#define OR_LINES_PER_MINUTE 16u // that a drafter came or went

typedef struct {
    char name[OR_KEY_BYTES]; // the key, or the connection; "": free
    double vocabularies;     // left in the bucket
    double lines;            // likewise
    double points;           // of offences
    int64_t at_ns;           // when these were so
} or_standing_t;

typedef struct {
    or_standing_t kept[OR_STANDINGS_KEPT];
} or_standings_t;

// May a vocabulary that is not known come with this key now? If not, *retry_ms is when it may.
bool or_standings_may_bring(or_standings_t *standings, const char *key, int64_t now_ns,
                            uint32_t *retry_ms);
// One came.
void or_standings_brought(or_standings_t *standings, const char *key, int64_t now_ns);
// May the log say that somebody with this key came or went? If so, that is taken from the bucket.
bool or_standings_may_log(or_standings_t *standings, const char *key, int64_t now_ns);
// Note an offence of this key, or of this connection that has none. Returns the points of all of them: who has
// OR_CONDUCT_POINTS_MAX is cut off.
double or_standings_offend(or_standings_t *standings, const char *name, or_offence_t offence,
                           int64_t now_ns);
