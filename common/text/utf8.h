// utf8 - one character at a time, strictly: no surrogates, nothing overlong, nothing above
// U+10FFFF.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum {
    OR_UTF8_CHARACTER,  // a whole character
    OR_UTF8_ILL_FORMED, // cannot become a character whatever follows
    OR_UTF8_INCOMPLETE, // the text ends inside what may become a character
} or_utf8_t;

#define OR_UTF8_REPLACEMENT "\xEF\xBF\xBD" // U+FFFD
#define OR_UTF8_REPLACEMENT_BYTES 3
#define OR_UTF8_MAX_BYTES 4

// Classify the start of `text` (length > 0). *used is the character's length, or `length` if it
// is incomplete. For an ill-formed sequence it is the length of its maximal subpart, at least 1.
// That is the unit that one U+FFFD replaces (Unicode 15 section 3.9 and the WHATWG Encoding
// Standard).
or_utf8_t or_utf8_next(const char *text, size_t length, size_t *used);

// The code point of a whole character, as or_utf8_next found it, of `used` bytes.
uint32_t or_utf8_code_point(const char *text, size_t used);

// Make a text from others safe to show: each byte that is not part of a character, and each control
// character, becomes '?'. In place.
void or_utf8_mend(char *text);
