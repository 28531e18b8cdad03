#include "common/model/expert_slots.h"

#include <stdlib.h>

typedef struct {
    or_expert_id_t id; // that it has
    bool held;
} slot_t;

// An expert of a layer.
typedef struct {
    uint32_t slot;
    uint32_t uses;
    uint64_t last; // pass that used it
} expert_t;

struct or_expert_slots {
    uint32_t layers, experts, count;
    uint32_t taken; // slots 0 .. taken - 1 are not free
    uint64_t pass;  // the number of this one, from 1
    expert_t *of;   // [layers][experts]
    slot_t *slots;  // [count]
};

static expert_t *of(const or_expert_slots_t *slots, or_expert_id_t id)
{
    return &slots->of[(size_t)id.layer * slots->experts + id.expert];
}

or_status_t or_expert_slots_create(uint32_t layers, uint32_t experts, uint32_t count,
                                   or_expert_slots_t **slots_p)
{
    or_expert_slots_t *slots = calloc(1, sizeof *slots);
    expert_t *all = calloc((size_t)layers * experts, sizeof *all);
    slot_t *of_slots = calloc(count, sizeof *of_slots);
    if (slots == NULL || all == NULL || of_slots == NULL) {
        free(of_slots);
        free(all);
        free(slots);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the places of %u experts", count);
    }
    for (size_t i = 0; i < (size_t)layers * experts; i++) {
        all[i].slot = OR_EXPERT_NO_SLOT;
    }
    *slots = (or_expert_slots_t){
        .layers = layers, .experts = experts, .count = count, .of = all, .slots = of_slots};
    *slots_p = slots;
    return OR_OK;
}

void or_expert_slots_destroy(or_expert_slots_t **slots_p)
{
    or_expert_slots_t *slots = *slots_p;
    if (slots == NULL) {
        return;
    }
    free(slots->slots);
    free(slots->of);
    free(slots);
    *slots_p = NULL;
}

void or_expert_slots_begin(or_expert_slots_t *slots)
{
    slots->pass++;
    for (uint32_t i = 0; i < slots->taken; i++) {
        slots->slots[i].held = false;
    }
    for (size_t i = 0;
         slots->pass % OR_EXPERT_AGE == 0 && i < (size_t)slots->layers * slots->experts; i++) {
        slots->of[i].uses /= 2;
    }
}

uint32_t or_expert_slots_find(const or_expert_slots_t *slots, or_expert_id_t id)
{
    return of(slots, id)->slot;
}

bool or_expert_slots_use(or_expert_slots_t *slots, or_expert_id_t id)
{
    expert_t *expert = of(slots, id);
    if (expert->last == slots->pass) {
        return false;
    }
    expert->uses += OR_EXPERT_USE;
    expert->last = slots->pass;
    return true;
}

void or_expert_slots_hold(or_expert_slots_t *slots, or_expert_id_t id)
{
    slots->slots[of(slots, id)->slot].held = true;
}

// Is `a` to be replaced before `b`?
static bool goes_first(const expert_t *a, const expert_t *b)
{
    return a->uses != b->uses ? a->uses < b->uses : a->last < b->last;
}

static uint32_t least_used(const or_expert_slots_t *slots)
{
    uint32_t least = OR_EXPERT_NO_SLOT;
    for (uint32_t i = 0; i < slots->taken; i++) {
        if (!slots->slots[i].held &&
            (least == OR_EXPERT_NO_SLOT ||
             goes_first(of(slots, slots->slots[i].id), of(slots, slots->slots[least].id)))) {
            least = i;
        }
    }
    return least;
}

uint32_t or_expert_slots_take(or_expert_slots_t *slots, or_expert_id_t id, or_expert_id_t *replaced)
{
    const bool free_one = slots->taken < slots->count;
    const uint32_t slot = free_one ? slots->taken++ : least_used(slots);
    *replaced = (or_expert_id_t){OR_EXPERT_NO_SLOT, 0};
    if (slot == OR_EXPERT_NO_SLOT) {
        return slot;
    }
    if (!free_one) {
        *replaced = slots->slots[slot].id;
        of(slots, *replaced)->slot = OR_EXPERT_NO_SLOT;
    }
    slots->slots[slot] = (slot_t){.id = id, .held = true};
    of(slots, id)->slot = slot;
    return slot;
}

void or_expert_slots_let_go(or_expert_slots_t *slots, uint32_t layer)
{
    for (uint32_t e = 0; e < slots->experts; e++) {
        const uint32_t slot = of(slots, (or_expert_id_t){layer, e})->slot;
        if (slot != OR_EXPERT_NO_SLOT) {
            slots->slots[slot].held = false;
        }
    }
}
