// kept_experts - experts that are read from the packed file as passes choose them, and kept in memory by use.
//
//     slot      [ gate of one expert | its up | its down ]      all slots are of one size, each part begins at a page
//     places    matrix.places[expert], of every layer           where the expert's part is, or NULL
//
// Slots are one piece of memory, taken once. So what is resident is at most `slots` times the bytes of one, whatever is read, and
// the system can back it with huge pages. Missing experts of a layer are read together: each matrix of each is a request of its own,
// and all of the reader's threads have one. Which expert gives way says expert_slots.h.
//
// In a pass whose rows take nearly all experts those of the next layer are read while one is computed, if slots have room for two
// layers.
//
// A rank keeps its parts of experts, and chooses for itself: what is kept does not show in any bit. One thread calls.
#pragma once

#include <stdint.h>

#include "common/gguf/packed_reader.h"
#include "common/model/model.h"

typedef struct or_kept_experts or_kept_experts_t;

// The places of an expert's three matrices in a slot, whatever its layer; each begins so far in its first page as in the file.
typedef struct {
    uint64_t offsets[3]; // gate, up, down
    uint64_t bytes;      // of a slot; 0: the rank has no part of experts
} or_expert_layout_t;

// Find the layout for this rank's parts of all layers, which still are mapped.
or_expert_layout_t or_kept_experts_layout(const or_model_t *model);
// Return the most experts of a layer that one pass can take: so many slots are needed.
uint32_t or_kept_experts_slots_min(const or_model_t *model);
// Return how many experts all layers of the stage have.
uint64_t or_kept_experts_count(const or_model_t *model);

// Make room for so many, at least or_kept_experts_slots_min, and let the layers' matrices have their places here. The reader is
// borrowed. OR_ERR_NO_MEMORY.
or_status_t or_kept_experts_create(or_model_t *model, const or_expert_layout_t *layout,
                                   uint32_t slots, or_packed_reader_t *reader,
                                   or_kept_experts_t **kept_p);
// Free it, after the reader, which may still write to it.
void or_kept_experts_destroy(or_kept_experts_t **kept_p);

// A pass of so many rows begins. What the last one has left to be read is waited for. OR_ERR_IO: the file is lost. NULL: nothing
// happens.
or_status_t or_kept_experts_begin(or_kept_experts_t *kept, uint32_t rows);
// Have these experts of a layer in memory, `count` with repetitions, until or_kept_experts_let_go. OR_ERR_IO: the file is lost.
or_status_t or_kept_experts_need(or_kept_experts_t *kept, uint32_t layer, const uint32_t *chosen,
                                 uint32_t count);
// The layer is done. NULL: nothing happens.
void or_kept_experts_let_go(or_kept_experts_t *kept, uint32_t layer);

// Return what was needed, found and read: in the last pass, or in all. NULL: zeros.
or_model_kept_t or_kept_experts_of_pass(const or_kept_experts_t *kept);
or_model_kept_t or_kept_experts_of_all(const or_kept_experts_t *kept);
