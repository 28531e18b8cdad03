// painter - an answer as it streams: the drafter's guesses in one colour, what the target wrote itself in another.
//
//     tokens      |Once| upon| a| time|       ends: where the text ends after each
//     drafted        0     1    1    0
//     text         Once upon a time           comes when it is settled, later than its tokens perhaps
//
// What a model thinks before its answer is shown on a terminal alone, dimmed or in brackets, and no part of the turn that the
// next prompt has.
//
// White space before the first word is not printed. On a terminal control characters are shown as "?": a model's text moves no
// cursor. Main thread.
#pragma once

#include <stdio.h>

#include "proto/wire/message.h"

typedef struct {
    bool colour;   // else plain text
    bool terminal; // somebody sees the answers
    bool begun;    // something but white space was printed
    bool thinking; // the last byte was one of a thought
    bool written;  // in the drafted colour, or in the target's own, as is `drafted`
    bool drafted;
    uint64_t *ends;   // malloc'd, of the tokens that are not printed yet ...
    uint8_t *origins; // ... and whether they were guesses
    size_t first, count, capacity;
    FILE *out; // where a delta is painted before it is written
} or_chat_painter_t;

#define OR_CHAT_DRAFTED "\033[32m"   // green
#define OR_CHAT_CORRECTED "\033[33m" // yellow
#define OR_CHAT_DIMMED "\033[2m"     // thoughts
#define OR_CHAT_NO_COLOUR "\033[0m"

// Print what a delta brings. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_chat_painter_take(or_chat_painter_t *painter, const or_generate_delta_t *delta);
// End the line, and be ready for the next answer. OR_ERR_IO.
or_status_t or_chat_painter_end(or_chat_painter_t *painter);
void or_chat_painter_fini(or_chat_painter_t *painter);
