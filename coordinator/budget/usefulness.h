// usefulness - is what a drafter guesses for a session worth judging, and worth waiting for?
//
// One whose nodes are never accepted gets a smaller budget, then none:
//
//     rounds without an accepted node    0 .. 7   8 .. 15   16 .. 23  ...  40
//     nodes of the next tree             16       8         4              none: it leaves the seat
//
// An accepted node restores everything. One that is waited for longer than its tokens save loses time.
// Losses add up, gains make up for them, and beyond a bound it leaves the seat too. That is the
// cumulative sum test of Page, "Continuous Inspection Schemes", Biometrika 41 (1954), section 2:
//
//     lost = max(0, lost + waited - accepted x plain round)
//
// Both follow from earlier rounds only, so that no rule is biased by them (docs/algorithms.md section 3).
// Methods whose trees have a fixed shape are not cut: they go from all to none. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"

#define OR_FRUITLESS_A_STEP 8u // rounds until the budget is halved
// Then it leaves. One that helps in every sixth round gets here once in a thousand tries.
#define OR_FRUITLESS_ROUNDS_MAX 40u

// Time that may be lost: three waits in vain of the usual draft time-out, for a hiccup or a long prompt,
#define OR_LOST_NS_MAX (3 * OR_NS_PER_S)
// and so many plain rounds, for a run of bad luck beside a slow target.
#define OR_LOST_ROUNDS_MAX 16

// A drafter that was given up on and says nothing for so long leaves its seat to others. To read the
// longest prompt may take a small machine half as long.
#define OR_SILENT_NS_MAX (30 * OR_NS_PER_S)

typedef enum {
    OR_USE_GOOD,
    OR_USE_FRUITLESS, // nothing of what it guesses is accepted
    OR_USE_SLOW,      // it takes more time than it saves
} or_use_t;

// The account of one drafter in one session.
typedef struct {
    uint32_t fruitless; // rounds in a row that waited for it and of which it got no node accepted
    int64_t lost_ns;
    double record; // its or_record_rests when it took the seat: the more, the less may be lost
} or_usefulness_t;

// Can trees of this method be made smaller without another shape?
bool or_usefulness_can_cut(uint32_t method, uint32_t rule);

// A round that waited `waited_ns` for this drafter was judged: `accepted` of its nodes were, with an
// empty tree or none 0. To judge took `verify_ns`, which a plain round takes at the most.
void or_usefulness_judged(or_usefulness_t *usefulness, uint32_t accepted, int64_t waited_ns,
                          int64_t verify_ns);

or_use_t or_usefulness_of(const or_usefulness_t *usefulness, int64_t verify_ns);

// Nodes of its next tree, of `asked`.
uint32_t or_usefulness_nodes(const or_usefulness_t *usefulness, uint32_t asked, bool can_cut);

// The times that a drafter was no use lately, in all sessions: halved every OR_RECORD_HALF_LIFE_S, so that it
// is tried again with the next texts. One wait in vain may be the network's, and counts less.
#define OR_RECORD_HALF_LIFE_S 120.0
#define OR_RECORD_REST 1.0
#define OR_RECORD_LATE 0.25
// More shorten the patience no further. What is left outlasts the waits that any drafter needs, so one that is good again is
// kept. Else a client's texts that accept nothing could rid all others of their drafter.
#define OR_RECORD_COUNTS_MAX 5.0
typedef struct {
    double rests;
    int64_t at_ns; // when it stood so
} or_record_t;

double or_record_rests(const or_record_t *record, int64_t now_ns);
void or_record_add(or_record_t *record, double rests, int64_t now_ns);
