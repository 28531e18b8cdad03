#include "coordinator/clients/completion.h"

#include <stdlib.h>
#include <string.h>

static or_status_t copy_stops(or_completion_t *completion, const or_wire_bytes_t *stops,
                              uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += stops[i].length;
    }
    completion->stops = malloc(count * sizeof *stops + bytes + 1);
    if (completion->stops == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u stop strings", count);
    }
    uint8_t *to = (uint8_t *)(completion->stops + count);
    for (uint32_t i = 0; i < count; i++) {
        if (stops[i].length == 0) {
            continue;
        }
        memcpy(to, stops[i].bytes, stops[i].length);
        completion->stops[completion->stop_count++] = (or_wire_bytes_t){to, stops[i].length};
        to += stops[i].length;
        if (stops[i].length > completion->stop_longest) {
            completion->stop_longest = stops[i].length;
        }
    }
    return OR_OK;
}

or_status_t or_completion_init(or_completion_t *completion, const or_vocab_t *vocab,
                               bool at_text_start, const or_wire_bytes_t *stops,
                               uint32_t stop_count)
{
    *completion = (or_completion_t){0};
    or_detok_init(&completion->detok, vocab, at_text_start, true);
    return copy_stops(completion, stops, stop_count);
}

size_t or_completion_stop_bytes(const or_completion_t *completion)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < completion->stop_count; i++) {
        bytes += sizeof *completion->stops + completion->stops[i].length;
    }
    return bytes;
}

void or_completion_fini(or_completion_t *completion)
{
    free(completion->bytes);
    free(completion->stops);
    *completion = (or_completion_t){0};
}

static or_status_t reserve(or_completion_t *completion, size_t more)
{
    size_t needed = completion->length + more;
    if (needed <= completion->capacity) {
        return OR_OK;
    }
    size_t capacity = completion->capacity > 0 ? completion->capacity : 256;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *bytes = realloc(completion->bytes, capacity);
    if (bytes == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu bytes of text", capacity);
    }
    completion->bytes = bytes;
    completion->capacity = capacity;
    return OR_OK;
}

// The first place at or behind `from` where a stop string stands; SIZE_MAX if none does.
static size_t find_stop(const or_completion_t *completion, size_t from)
{
    size_t first = SIZE_MAX;
    for (uint32_t i = 0; i < completion->stop_count; i++) {
        const char *hit = memmem(completion->bytes + from, completion->length - from,
                                 completion->stops[i].bytes, completion->stops[i].length);
        if (hit != NULL && (size_t)(hit - completion->bytes) < first) {
            first = (size_t)(hit - completion->bytes);
        }
    }
    return first;
}

// Bytes at the end that are the beginning of some stop string.
static size_t held_back(const or_completion_t *completion)
{
    size_t held = 0;
    for (uint32_t i = 0; i < completion->stop_count; i++) {
        size_t most = completion->stops[i].length - 1;
        most = most < completion->length ? most : completion->length;
        for (size_t n = most; n > held; n--) {
            if (memcmp(completion->bytes + completion->length - n, completion->stops[i].bytes, n) ==
                0) {
                held = n;
                break;
            }
        }
    }
    return held;
}

or_status_t or_completion_push(or_completion_t *completion, int32_t id, bool *stopped)
{
    uint32_t width = 0;
    or_vocab_bytes(completion->detok.vocab, id, &width);
    or_status_t status = reserve(completion, OR_DETOK_ROOM(width));
    if (status != OR_OK) {
        return status;
    }
    size_t before = completion->length;
    completion->length +=
        or_detok_push(&completion->detok, id, completion->bytes + completion->length);
    *stopped = false;
    if (completion->stop_count > 0 && completion->length > before) {
        size_t from = before > completion->stop_longest ? before - completion->stop_longest : 0;
        from = from > completion->released ? from : completion->released;
        size_t stop = find_stop(completion, from);
        if (stop != SIZE_MAX) {
            completion->length = stop;
            completion->released = stop;
            completion->detok.held_count = 0; // what follows the stop is not part of the answer
            *stopped = true;
            return OR_OK;
        }
    }
    completion->released = completion->length - held_back(completion);
    return OR_OK;
}

or_status_t or_completion_finish(or_completion_t *completion)
{
    or_status_t status = reserve(completion, OR_DETOK_ROOM(0));
    if (status != OR_OK) {
        return status;
    }
    completion->length +=
        or_detok_flush(&completion->detok, completion->bytes + completion->length);
    completion->released = completion->length;
    return OR_OK;
}
