// byte_level - GPT-2's way to write any byte as a printable character, so that its pieces are text.
//
// Bytes that print ('!' to '~', 0xA1 to 0xAC, 0xAE to 0xFF) stand for themselves as Latin-1
// characters; the other 68, in order, are U+0100 onwards: a space is U+0120.
#pragma once

#include <stddef.h>

// The bytes that `piece` stands for, into `bytes` (at least `length` long); returns their count. A
// piece with a character outside the map stands for itself.
size_t or_byte_level_decode(const char *piece, size_t length, char *bytes);
