// usefulness - is what a drafter guesses for a session worth judging? One whose nodes are never
// accepted gets a smaller budget, then none.
//
//     rounds without an accepted node    0 .. 7   8 .. 15   16 .. 23  ...  40
//     nodes of the next tree             16       8         4              none: it leaves the seat
//
// An accepted node restores everything. The budget follows from earlier rounds only, so that no rule is
// biased by it (ALGORITHMS.md section 3). Methods whose trees have a fixed shape are not cut: they go
// from all to none. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OR_FRUITLESS_A_STEP 8u // rounds until the budget is halved
// Then it leaves. One that helps in every sixth round gets here once in a thousand tries.
#define OR_FRUITLESS_ROUNDS_MAX 40u

typedef struct {
    uint32_t fruitless; // judged trees in a row, of at least a node, none of which was accepted
} or_usefulness_t;

// Can trees of this method be made smaller without another shape?
bool or_usefulness_can_cut(uint32_t method, uint32_t rule);

// A tree of this drafter, with at least one node, was judged.
void or_usefulness_judged(or_usefulness_t *usefulness, bool accepted);

// Nodes of its next tree, of `asked`; 0: it is not worth asking.
uint32_t or_usefulness_nodes(const or_usefulness_t *usefulness, uint32_t asked, bool can_cut);
