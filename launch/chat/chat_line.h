// chat_line - what the user types, a line at a time: edited and remembered on a terminal, read as it is from elsewhere.
//
// Main thread, with or_interrupt_watch.
#pragma once

#include "common/base/status.h"

typedef struct or_chat_line or_chat_line_t;

typedef enum {
    OR_CHAT_LINE,        // a line
    OR_CHAT_LINE_END,    // Ctrl-D, or the end of the input
    OR_CHAT_LINE_BROKEN, // Ctrl-C, or SIGTERM
} or_chat_line_event_t;

// OR_ERR_NO_MEMORY; OR_ERR_IO for a terminal that cannot be used.
or_status_t or_chat_line_create(or_chat_line_t **line_p);
void or_chat_line_destroy(or_chat_line_t **line_p);

// Is it typed by somebody who sees what we write?
bool or_chat_line_is_terminal(const or_chat_line_t *line);
// Wait for the next line. *text (without its newline) is borrowed until the next call, and set with OR_CHAT_LINE only.
or_chat_line_event_t or_chat_line_read(or_chat_line_t *line, const char **text);
