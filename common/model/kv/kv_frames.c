// Frames: the K and V of layers with a window, which a page has only as long as somebody may attend to it.
#include <stdlib.h>

#include "common/model/kv/kv_cache_internal.h"
#include "common/model/kv/kv_store.h"

// Return the bytes of one page of the layers that are in frames.
static uint64_t bounded_bytes(const or_kv_shape_t *shape, const bool *is_bounded)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape->layers; i++) {
        bytes += is_bounded[i] ? or_kv_page_bytes_of(shape, i) : 0;
    }
    return bytes;
}

or_status_t or_kv_frames_create(const or_kv_shape_t *shape, const or_kv_windows_t *windows,
                                uint32_t pages_max, or_kv_frames_t **frames_p)
{
    or_kv_frames_t *frames = calloc(1, sizeof *frames);
    if (frames == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the frames of a KV cache");
    }
    *frames = (or_kv_frames_t){.window = windows->window,
                               .slack = windows->slack,
                               .frames_max = windows->frames_max,
                               .free_count = windows->frames_max};
    frames->frame_of = malloc((size_t)pages_max * sizeof *frames->frame_of + 1);
    frames->users = calloc((size_t)pages_max + 1, sizeof *frames->users);
    frames->free = malloc((size_t)frames->frames_max * sizeof *frames->free + 1);
    if (frames->frame_of == NULL || frames->users == NULL || frames->free == NULL) {
        or_kv_frames_destroy(&frames);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the frames of a KV cache of %u pages",
                       pages_max);
    }
    frames->frame_bytes = bounded_bytes(shape, windows->is_bounded);
    for (uint32_t i = 0; i < pages_max; i++) {
        frames->frame_of[i] = OR_KV_NO_FRAME;
    }
    for (uint32_t i = 0; i < frames->frames_max; i++) {
        frames->free[i] = frames->frames_max - 1 - i; // frame 0 is taken first
    }
    *frames_p = frames;
    return OR_OK;
}

void or_kv_frames_destroy(or_kv_frames_t **frames_p)
{
    or_kv_frames_t *frames = *frames_p;
    if (frames == NULL) {
        return;
    }
    free(frames->free);
    free(frames->users);
    free(frames->frame_of);
    free(frames);
    *frames_p = NULL;
}

void or_kv_frames_take(or_kv_frames_t *frames, uint32_t page)
{
    if (frames != NULL) {
        frames->frame_of[page] = frames->free[--frames->free_count];
        frames->users[page] = 1;
    }
}

void or_kv_frames_use(or_kv_frames_t *frames, uint32_t page)
{
    if (frames != NULL) {
        frames->users[page]++;
    }
}

void or_kv_frames_give_up(or_kv_frames_t *frames, uint32_t page)
{
    if (frames != NULL && --frames->users[page] == 0) {
        frames->free[frames->free_count++] = frames->frame_of[page];
        frames->frame_of[page] = OR_KV_NO_FRAME;
    }
}

uint32_t or_kv_frames_seen_from(const or_kv_frames_t *frames, uint32_t length)
{
    return length >= frames->window ? length - frames->window + 1 : 0;
}

uint32_t or_kv_frames_kept_from(const or_kv_frames_t *frames, uint32_t length)
{
    uint32_t seen_from = or_kv_frames_seen_from(frames, length);
    return seen_from > frames->slack ? (seen_from - frames->slack) / OR_KV_PAGE : 0;
}
