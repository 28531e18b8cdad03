#include "verifier/pass/scheduler.h"

#include <stdlib.h>
#include <string.h>

// The turn of an owner or a session.
typedef struct {
    uint64_t start; // in rows, on the clock of its level
    uint64_t since; // order in which they had work
    bool ready;
} turn_t;

typedef struct {
    char *name; // NULL: this place is free
    uint32_t flows;
    uint32_t ready_flows;
    uint32_t pickable; // of those, not picked in this pass
    uint64_t virtual_time;
    turn_t turn;
} owner_t;

typedef struct {
    owner_t *owner; // NULL: nobody
    bool picked;    // in this pass
    turn_t turn;
} flow_t;

struct or_scheduler {
    uint32_t flows_max;
    flow_t *flows;   // [flows_max]
    owner_t *owners; // [flows_max]
    uint64_t virtual_time;
    uint64_t arrivals;
};

or_status_t or_scheduler_create(uint32_t flows_max, or_scheduler_t **scheduler_p)
{
    or_scheduler_t *scheduler = calloc(1, sizeof *scheduler);
    if (scheduler == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a scheduler");
    }
    scheduler->flows_max = flows_max;
    scheduler->flows = calloc(flows_max, sizeof *scheduler->flows);
    scheduler->owners = calloc(flows_max, sizeof *scheduler->owners);
    if (scheduler->flows == NULL || scheduler->owners == NULL) {
        or_scheduler_destroy(&scheduler);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to schedule %u sessions", flows_max);
    }
    *scheduler_p = scheduler;
    return OR_OK;
}

void or_scheduler_destroy(or_scheduler_t **scheduler_p)
{
    or_scheduler_t *scheduler = *scheduler_p;
    if (scheduler == NULL) {
        return;
    }
    for (uint32_t i = 0; scheduler->owners != NULL && i < scheduler->flows_max; i++) {
        free(scheduler->owners[i].name);
    }
    free(scheduler->owners);
    free(scheduler->flows);
    free(scheduler);
    *scheduler_p = NULL;
}

// Return the place of `name`; else a free one, or that of the owner without sessions who owes least. There are as
// many places as sessions, so one that joins finds one.
static owner_t *place_of(or_scheduler_t *scheduler, const char *name)
{
    owner_t *best = NULL;
    for (uint32_t i = 0; i < scheduler->flows_max; i++) {
        owner_t *owner = &scheduler->owners[i];
        if (owner->name != NULL && strcmp(owner->name, name) == 0) {
            return owner;
        }
        bool better = best == NULL || (best->name != NULL && owner->name == NULL) ||
                      (best->name != NULL && owner->turn.start < best->turn.start);
        if (owner->flows == 0 && better) {
            best = owner;
        }
    }
    return best;
}

or_status_t or_scheduler_join(or_scheduler_t *scheduler, uint32_t flow, const char *owner)
{
    owner_t *place = place_of(scheduler, owner);
    if (place->name == NULL || strcmp(place->name, owner) != 0) {
        char *name = strdup(owner);
        if (name == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for another owner");
        }
        free(place->name);
        *place = (owner_t){.name = name};
    }
    place->flows++;
    scheduler->flows[flow] = (flow_t){.owner = place};
    return OR_OK;
}

void or_scheduler_leave(or_scheduler_t *scheduler, uint32_t flow)
{
    if (scheduler->flows[flow].owner == NULL) {
        return;
    }
    or_scheduler_set_ready(scheduler, flow, false);
    scheduler->flows[flow].owner->flows--;
    scheduler->flows[flow] = (flow_t){0};
}

// Note that it has work from now on.
static void wake(or_scheduler_t *scheduler, turn_t *turn, uint64_t virtual_time)
{
    turn->ready = true;
    turn->since = ++scheduler->arrivals;
    turn->start = turn->start > virtual_time ? turn->start : virtual_time;
}

void or_scheduler_set_ready(or_scheduler_t *scheduler, uint32_t flow, bool ready)
{
    flow_t *f = &scheduler->flows[flow];
    owner_t *owner = f->owner;
    if (f->turn.ready == ready) {
        return;
    }
    if (!ready) {
        f->turn.ready = false;
        owner->pickable -= !f->picked;
        owner->ready_flows--;
        owner->turn.ready = owner->ready_flows > 0;
        return;
    }
    wake(scheduler, &f->turn, owner->virtual_time);
    f->picked = false;
    owner->pickable++;
    owner->ready_flows++;
    if (!owner->turn.ready) {
        wake(scheduler, &owner->turn, scheduler->virtual_time);
    }
}

uint32_t or_scheduler_ready_count(const or_scheduler_t *scheduler)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scheduler->flows_max; i++) {
        count += scheduler->owners[i].ready_flows;
    }
    return count;
}

void or_scheduler_begin(or_scheduler_t *scheduler)
{
    for (uint32_t i = 0; i < scheduler->flows_max; i++) {
        scheduler->flows[i].picked = false;
        scheduler->owners[i].pickable = scheduler->owners[i].ready_flows;
    }
}

static bool before(const turn_t *a, const turn_t *b)
{
    return a->start < b->start || (a->start == b->start && a->since < b->since);
}

static const owner_t *first_owner(const or_scheduler_t *scheduler)
{
    const owner_t *best = NULL;
    for (uint32_t i = 0; i < scheduler->flows_max; i++) {
        const owner_t *owner = &scheduler->owners[i];
        if (owner->pickable > 0 && (best == NULL || before(&owner->turn, &best->turn))) {
            best = owner;
        }
    }
    return best;
}

uint32_t or_scheduler_pick(or_scheduler_t *scheduler)
{
    const owner_t *owner = first_owner(scheduler);
    flow_t *best = NULL;
    for (uint32_t i = 0; owner != NULL && i < scheduler->flows_max; i++) {
        flow_t *flow = &scheduler->flows[i];
        if (flow->owner == owner && flow->turn.ready && !flow->picked &&
            (best == NULL || before(&flow->turn, &best->turn))) {
            best = flow;
        }
    }
    if (best == NULL) {
        return OR_SCHEDULER_NOBODY;
    }
    uint32_t picked = (uint32_t)(best - scheduler->flows);
    or_scheduler_pick_first(scheduler, picked);
    return picked;
}

void or_scheduler_pick_first(or_scheduler_t *scheduler, uint32_t flow)
{
    scheduler->flows[flow].picked = true;
    scheduler->flows[flow].owner->pickable--;
}

static void serve(turn_t *turn, uint64_t *virtual_time, uint32_t rows)
{
    *virtual_time = turn->start > *virtual_time ? turn->start : *virtual_time;
    turn->start += rows;
}

void or_scheduler_charge(or_scheduler_t *scheduler, uint32_t flow, uint32_t rows)
{
    owner_t *owner = scheduler->flows[flow].owner;
    serve(&scheduler->flows[flow].turn, &owner->virtual_time, rows);
    serve(&owner->turn, &scheduler->virtual_time, rows);
}
