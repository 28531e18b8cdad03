// demo_screen - two texts side by side in a terminal, drawn anew while they grow.
//
//     plain: 57 tokens/s       | drafted: 118 tokens/s
//     Once upon a time there   | Once upon a time there
//     was                      | was a king
//
// What is longer than the terminal is high shows its end. Main thread; standard output.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

typedef struct {
    char title[64];
    const char *prompt, *text; // one behind the other
    size_t prompt_bytes, text_bytes;
} or_demo_column_t;

// Zeroed before the first drawing.
typedef struct {
    unsigned lines;  // drawn last, above the cursor
    uint64_t logged; // lines of the log until then
    int64_t drawn_ns;
} or_demo_screen_t;

// Is standard output a terminal that is wide enough?
bool or_demo_screen_is_possible(void);
// Draw both columns, unless that was just done and more is to come (`last` false). The cursor stays below them. Where the log
// has written a line meanwhile they are drawn anew below it.
// OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_demo_screen_draw(or_demo_screen_t *screen, const or_demo_column_t columns[2],
                                bool last);
