// builder_foresight_test_support - two builders over distributions that are a hash of the text. One of them has a device that
// runs ahead what its tree will ask for, more, less, or other things.
//
// What the device may rely on, it checks; what it brought is no longer there once something else is run. Of a row that
// is adopted it checks that it is the very guess that asks for it.
#pragma once

#include "common/model/kv/kv_test_support.h"
#include "drafter/build/builder_internal.h"

#define VOCABULARY 40u
#define POSITIONS 64u
#define ROOM 96u
#define SLOTS_MAX (2 * ROOM)

typedef struct {
    or_builder_t *builder;
    or_kv_sequence_t *sequence;
    or_token_tree_t *tree;
    uint64_t marks[SLOTS_MAX]; // of the nodes that were run there
    uint32_t passes;           // asked for
} side_t;

// The ways in which the device follows what it is told.
typedef enum { ALL, SOME, OTHERS, MORE, FEW, NOTHING, MANNERS } manner_t;

typedef struct {
    manner_t manner;
    bool fails_to_run, fails_to_adopt, fails_to_expand;
    bool ran_out; // of slots, in the last tree
    uint32_t passes, adopted;
    uint32_t begun; // trees of which there was more than the root's children
} device_t;

extern side_t ahead, plain;
extern device_t device; // of `ahead`
extern int32_t text[POSITIONS + 1];
extern uint32_t length;
extern uint64_t rng;

int sides_setup(void **state);
int sides_teardown(void **state);

void ok(or_status_t status);
uint32_t below(uint32_t n);
// Return the mark of the text's first `count` tokens.
uint64_t mark_of_text(uint32_t count);
or_noise_place_t place_of_text(void);
// Each slot that was ever taken is one guess's, and holds it, or free.
void assert_slots(const side_t *side);
