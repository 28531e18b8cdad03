// server_buffer - a queue of bytes that grows, and gives its memory back when it has been long and is empty.
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/server/server_internal.h"

#define KEPT_BYTES 16384u

size_t or_http_buffer_capacity(const or_http_buffer_t *buffer, size_t count)
{
    size_t needed = or_http_buffer_waiting(buffer) + count;
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : 512;
    while (capacity < needed) {
        capacity *= 2;
    }
    return capacity;
}

bool or_http_buffer_add(or_http_buffer_t *buffer, const void *bytes, size_t count)
{
    if (count == 0) {
        return true;
    }
    if (buffer->start > 0 && count > buffer->capacity - buffer->end) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, or_http_buffer_waiting(buffer));
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    if (count > buffer->capacity - buffer->end) {
        size_t capacity = or_http_buffer_capacity(buffer, count); // all begins at 0 now
        uint8_t *grown = realloc(buffer->bytes, capacity);
        if (grown == NULL) {
            return false;
        }
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->bytes + buffer->end, bytes, count);
    buffer->end += count;
    return true;
}

size_t or_http_buffer_take(or_http_buffer_t *buffer, void *bytes, size_t count)
{
    size_t waiting = or_http_buffer_waiting(buffer);
    size_t taken = count < waiting ? count : waiting;
    if (taken == 0) {
        return 0;
    }
    memcpy(bytes, buffer->bytes + buffer->start, taken);
    buffer->start += taken;
    if (buffer->start == buffer->end) {
        buffer->start = buffer->end = 0;
        if (buffer->capacity > KEPT_BYTES) {
            free(buffer->bytes);
            *buffer = (or_http_buffer_t){0};
        }
    }
    return taken;
}
