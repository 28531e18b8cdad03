#include "common/text/byte_level.h"

#include <stdbool.h>
#include <string.h>

#include "common/text/utf8.h"

static bool stands_for_itself(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

// -1 if the character is outside the map.
static int byte_of(uint32_t code_point)
{
    if (code_point <= 0xFF) {
        return stands_for_itself(code_point) ? (int)code_point : -1;
    }
    uint32_t rank = code_point - 0x100;
    for (uint32_t byte = 0; byte <= 0xFF; byte++) {
        if (!stands_for_itself(byte) && rank-- == 0) {
            return (int)byte;
        }
    }
    return -1;
}

size_t or_byte_level_decode(const char *piece, size_t length, char *bytes)
{
    size_t count = 0;
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        int byte = -1;
        if (or_utf8_next(piece + at, length - at, &used) == OR_UTF8_CHARACTER) {
            byte = byte_of(or_utf8_code_point(piece + at, used));
        }
        if (byte < 0) {
            memcpy(bytes, piece, length);
            return length;
        }
        bytes[count++] = (char)byte;
    }
    return count;
}
