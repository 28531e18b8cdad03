// chat_painter - an answer as it streams: what the drafter guessed in one colour, what the target wrote itself in another.
//
//     tokens      |Once| upon| a| time|       ends: where the text ends after each
//     drafted        0     1    1    0
//     text         Once upon a time           comes when it is settled, later than its tokens perhaps
//
// White space before the first word is not printed. On a terminal control characters are shown as "?": a model's text moves no
// cursor. One thread.
#pragma once

#include <stdio.h>

#include "proto/wire/message.h"

typedef struct {
    bool colour;   // else plain text
    bool terminal; // see above
    bool begun;    // something but white space was printed
    bool written;  // in the drafted colour, or in the target's own, as is `drafted`
    bool drafted;
    uint64_t *ends;   // malloc'd, of the tokens that are not printed yet ...
    uint8_t *origins; // ... and whether they were guesses
    size_t first, count, capacity;
    FILE *out; // where a delta is painted before it is written
} or_chat_painter_t;

#define OR_CHAT_DRAFTED "\033[32m"   // green
#define OR_CHAT_CORRECTED "\033[33m" // yellow
#define OR_CHAT_NO_COLOUR "\033[0m"

void or_chat_painter_fini(or_chat_painter_t *painter);
// Print what a delta brings on standard output. OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_chat_painter_take(or_chat_painter_t *painter, const or_generate_delta_t *delta);
// The end of the answer: a line's end, in no colour; ready for the next one. OR_ERR_IO.
or_status_t or_chat_painter_end(or_chat_painter_t *painter);
