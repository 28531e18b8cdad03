#include "proto/net/padding.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/message.h"

// The field's tag, of two bytes, and a length of at least one.
#define FIELD_BYTES_LEAST 3u
#define TAG_FIRST 0xFAu // (31 << 3 | 2) as a varint
#define TAG_SECOND 0x01u

static bool holds(size_t class, size_t bytes)
{
    return class == bytes || class >= bytes + FIELD_BYTES_LEAST;
}

size_t or_padding_class(size_t bytes)
{
    size_t class = OR_PADDING_LEAST;
    while (!holds(class, bytes) && class < OR_FRAME_BYTES_MAX) {
        class += class < OR_PADDING_STEP ? class : OR_PADDING_STEP;
    }
    return holds(class, bytes) ? class : bytes; // no room below the limit
}

// Write the field of `bytes` bytes in all. Its length takes as many bytes as that needs; if the last one would then
// be left over, it takes one more.
static void write_field(uint8_t *field, size_t bytes)
{
    size_t length_bytes = 1;
    while ((bytes - 2 - length_bytes) >> (7 * length_bytes) != 0) {
        length_bytes++;
    }
    size_t length = bytes - 2 - length_bytes;
    memset(field, 0, bytes);
    field[0] = TAG_FIRST;
    field[1] = TAG_SECOND;
    for (size_t i = 0; i < length_bytes; i++) {
        uint8_t more = i + 1 < length_bytes ? 0x80 : 0;
        field[2 + i] = (uint8_t)(length >> (7 * i) & 0x7F) | more;
    }
}

or_status_t or_padding_apply(uint8_t **frame_p, size_t *bytes)
{
    size_t class = or_padding_class(*bytes);
    if (class == *bytes) {
        return OR_OK;
    }
    uint8_t *longer = realloc(*frame_p, class);
    if (longer == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", class);
    }
    write_field(longer + *bytes, class - *bytes);
    *frame_p = longer;
    *bytes = class;
    return OR_OK;
}
