#include "common/text/utf8.h"

#include <stdbool.h>
#include <string.h>

// Table 3-7 of the Unicode Standard: the length that a first byte announces (0: none starts so),
// and the range of the second byte. That range excludes overlong forms, surrogates and values
// above U+10FFFF.
typedef struct {
    unsigned length;
    unsigned char low;
    unsigned char high;
} lead_t;

static lead_t lead_of(unsigned char byte)
{
    if (byte < 0x80) {
        return (lead_t){1, 0, 0};
    }
    if (byte < 0xC2 || byte > 0xF4) {
        return (lead_t){0, 0, 0};
    }
    if (byte < 0xE0) {
        return (lead_t){2, 0x80, 0xBF};
    }
    if (byte < 0xF0) {
        return (lead_t){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    }
    return (lead_t){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
}

or_utf8_t or_utf8_next(const char *text, size_t length, size_t *used)
{
    const unsigned char *bytes = (const unsigned char *)text;
    lead_t lead = lead_of(bytes[0]);
    *used = 1;
    if (lead.length == 0) {
        return OR_UTF8_ILL_FORMED;
    }
    while (*used < lead.length) {
        if (*used == length) {
            return OR_UTF8_INCOMPLETE;
        }
        unsigned char byte = bytes[*used];
        bool fits = *used == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
        if (!fits) {
            return OR_UTF8_ILL_FORMED;
        }
        (*used)++;
    }
    return OR_UTF8_CHARACTER;
}

uint32_t or_utf8_code_point(const char *text, size_t used)
{
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code_point = (unsigned char)text[0] & lead_bits[used];
    for (size_t i = 1; i < used; i++) {
        code_point = code_point << 6 | ((unsigned char)text[i] & 0x3F);
    }
    return code_point;
}

void or_utf8_mend(char *text)
{
    size_t used = 0;
    for (size_t left = strlen(text); left > 0; left -= used, text += used) {
        bool whole = or_utf8_next(text, left, &used) == OR_UTF8_CHARACTER;
        if (!whole || (unsigned char)*text < ' ' || *text == 0x7F) {
            memset(text, '?', used);
        }
    }
}
