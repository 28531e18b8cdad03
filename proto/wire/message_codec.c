#include "proto/wire/message_codec.h"

or_status_t or_message_fail_memory(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "out of memory while encoding a message");
}

ProtobufCBinaryData or_message_borrow_bytes(const uint8_t *bytes, uint32_t length)
{
    return (ProtobufCBinaryData){.len = length, .data = (uint8_t *)bytes};
}

void *or_message_take_structs(or_message_scratch_t *scratch, uint32_t count, size_t bytes,
                              void ***pointers)
{
    char *items = or_message_arena_take(&scratch->arena, count, bytes);
    void **list = or_message_arena_take(&scratch->arena, count, sizeof *list);
    if (items == NULL || list == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        list[i] = items + i * bytes;
    }
    *pointers = list;
    return items;
}

or_status_t or_message_check_count(const char *what, size_t count)
{
    if (count > OR_WIRE_TOKENS_MAX) {
        return or_fail(OR_ERR_FORMAT, "%s has %zu entries where at most %u are allowed", what,
                       count, OR_WIRE_TOKENS_MAX);
    }
    return OR_OK;
}

or_status_t or_message_check_equal(const char *what, size_t a, size_t b)
{
    if (a != b) {
        return or_fail(OR_ERR_FORMAT, "%s differ in length: %zu and %zu", what, a, b);
    }
    return or_message_check_count(what, a);
}

or_status_t or_message_check_optional(const char *what, size_t count, size_t expected)
{
    return count == 0 ? OR_OK : or_message_check_equal(what, count, expected);
}

void *or_message_take_array(or_message_arena_t *arena, const char *what, size_t count, size_t bytes)
{
    if (or_message_check_count(what, count) != OR_OK) {
        return NULL;
    }
    void *array = or_message_arena_take(arena, count, bytes);
    if (array == NULL) {
        or_fail(OR_ERR_FORMAT, "%s with %zu entries need more memory than a frame may cost", what,
                count);
    }
    return array;
}
