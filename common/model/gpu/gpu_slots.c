#include "common/model/gpu/gpu_slots.h"

#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

static size_t bytes_of(const or_gpu_t *gpu, uint32_t slots_max)
{
    return gpu->functions->slots_bytes(&gpu->kv, slots_max);
}

// A place in the list for one more part, so that giving it back cannot fail.
static bool make_room(or_gpu_slots_t *slots)
{
    void **parts = realloc(slots->parts, (slots->room + (size_t)1) * sizeof *parts);
    if (parts == NULL) {
        return false;
    }
    slots->parts = parts;
    slots->room++;
    return true;
}

static bool take_new(or_gpu_t *gpu, void **at_p)
{
    return make_room(&gpu->slots) && or_gpu_alloc(gpu, gpu->slots.bytes, at_p) == OR_OK;
}

// ---- at load ----

uint32_t or_gpu_slots_reserve(or_gpu_t *gpu, uint32_t slots_max, uint32_t wanted, uint32_t sharers)
{
    or_gpu_slots_t *slots = &gpu->slots;
    slots->bytes = bytes_of(gpu, slots_max);
    if (slots->bytes == 0) {
        return wanted; // this rank keeps no K and V
    }
    slots->reserved = true;
    uint64_t most = or_gpu_free_bytes(gpu) / 2 / sharers / slots->bytes;
    most = most > 0 ? most : 1;
    void *at;
    while (slots->kept < wanted && slots->kept < most && take_new(gpu, &at)) {
        slots->parts[slots->kept++] = at;
    }
    return slots->kept;
}

void or_gpu_slots_keep(or_gpu_t *gpu, uint32_t count)
{
    or_gpu_slots_t *slots = &gpu->slots;
    while (slots->kept > count) {
        or_gpu_give(gpu, slots->parts[--slots->kept]);
    }
}

// ---- for sequences ----

// Parts of another size have served their time.
static void change_size(or_gpu_t *gpu, size_t bytes)
{
    or_gpu_slots_free(gpu);
    gpu->slots.bytes = bytes;
}

bool or_gpu_slots_take(or_gpu_t *gpu, uint32_t slots_max, void **at_p)
{
    or_gpu_slots_t *slots = &gpu->slots;
    size_t bytes = bytes_of(gpu, slots_max);
    *at_p = NULL;
    if (bytes == 0) {
        return true;
    }
    if (!slots->reserved && bytes != slots->bytes) {
        change_size(gpu, bytes);
    }
    if (bytes <= slots->bytes && slots->kept > 0) {
        *at_p = slots->parts[--slots->kept];
        return true;
    }
    return !slots->reserved && take_new(gpu, at_p);
}

void or_gpu_slots_give(or_gpu_t *gpu, uint32_t slots_max, void *at)
{
    or_gpu_slots_t *slots = &gpu->slots;
    bool fits = slots->reserved || bytes_of(gpu, slots_max) == slots->bytes;
    if (at != NULL && fits && slots->kept < slots->room) {
        slots->parts[slots->kept++] = at;
    } else {
        or_gpu_give(gpu, at);
    }
}

void or_gpu_slots_free(or_gpu_t *gpu)
{
    or_gpu_slots_t *slots = &gpu->slots;
    or_gpu_slots_keep(gpu, 0);
    free(slots->parts);
    *slots = (or_gpu_slots_t){0};
}
