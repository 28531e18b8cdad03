// expert_slots - which experts are kept in memory where not all have room: those that passes use most.
//
//     experts     0     1     2     3     4     5     ...     of all layers
//     uses       160    12     0    96     3    16            OR_EXPERT_USE for each pass that took it, halved now and then
//     slots      [0]   [1]         [2]                        the next one that is missing replaces 1, if nobody needs it now
//
// An expert that is missing takes a free slot, or that of the expert with the fewest uses; of equal ones that of the one that was
// used longest ago. Uses are counted of all experts, kept or not. Every OR_EXPERT_AGE passes all counts are halved, so that what a
// text does not use any more gives way (least frequently used with ageing; Arlitt et al. 2000, "Evaluating content management
// techniques for Web proxy caches"). A pass with many rows takes all experts of each layer in turn:
// it counts one use for each, and so changes no order. To keep what was used last would keep nothing of use then.
//
// Experts of a layer that is computed, or read ahead, are held: they are not replaced until the layer is let go.
//
// Pure bookkeeping: no memory of experts, no reading. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define OR_EXPERT_NO_SLOT UINT32_MAX
#define OR_EXPERT_USE 16u
#define OR_EXPERT_AGE 64u // passes

typedef struct or_expert_slots or_expert_slots_t;

// An expert of a layer; `layer` is OR_EXPERT_NO_SLOT for none.
typedef struct {
    uint32_t layer, expert;
} or_expert_id_t;

// Create the books of `slots` slots, all free, for `experts` experts of each layer. slots >= 1. OR_ERR_NO_MEMORY.
or_status_t or_expert_slots_create(uint32_t layers, uint32_t experts, uint32_t slots,
                                   or_expert_slots_t **slots_p);
void or_expert_slots_destroy(or_expert_slots_t **slots_p);

// A pass begins: nobody holds anything, and counts age when it is time.
void or_expert_slots_begin(or_expert_slots_t *slots);
// Return the slot that has the expert, or OR_EXPERT_NO_SLOT.
uint32_t or_expert_slots_find(const or_expert_slots_t *slots, or_expert_id_t id);
// Count a use of the expert in this pass, once. Return false if it was counted before.
bool or_expert_slots_use(or_expert_slots_t *slots, or_expert_id_t id);
// Hold an expert that has a slot.
void or_expert_slots_hold(or_expert_slots_t *slots, or_expert_id_t id);
// Give an expert without a slot one, which holds it. *replaced is who had it. OR_EXPERT_NO_SLOT: all slots are held.
uint32_t or_expert_slots_take(or_expert_slots_t *slots, or_expert_id_t id,
                              or_expert_id_t *replaced);
// Let all experts of a layer go.
void or_expert_slots_let_go(or_expert_slots_t *slots, uint32_t layer);
