// log - lines on standard error: level, role, message. Lower case, `key value` pairs.
//
//     12:03:01.250 info coordinator: session 3f request chat-7: parked with 4 tokens
//     {"time":"2026-11-22T12:03:01.250Z","level":"info","role":"coordinator","session":"3f","request":"chat-7",
//      "message":"parked with 4 tokens"}                                     the same as JSON, in one line
//
// A caller never waits for the reader of standard error. A thread of the log's own writes the lines:
//
//     or_log ──line──▶ [ 256 KiB ] ──writer thread──▶ standard error: pipe, socket, file or terminal
//                        full: lines are dropped and counted
//
// O_NONBLOCK would do that too, but it belongs to the open file, which other processes share. Lines leave in the order
// in which they came, each whole in one write of at most PIPE_BUF bytes. So the lines of several processes on one pipe
// do not mix. A line that finds no room is dropped, and so are all further ones until the queue is written. Then a line
// says how many were dropped, exactly where they are missing.
//
// Thread safe. The thread starts with the first line, takes no signals, and does not survive fork: a child has an empty
// queue and starts a thread of its own. What is queued is written at exit, with the patience of or_log_flush. Call
// or_log_flush before _exit or abort, which would lose it, and before printing to standard error directly.
// Libraries log, they never print. Nothing per token above trace.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define OR_LOG_LINE_BYTES 4096u             // the longest line with its newline; PIPE_BUF on Linux
#define OR_LOG_QUEUE_BYTES (256u * 1024)    // of lines that wait
#define OR_LOG_FLUSH_NS INT64_C(1000000000) // how long a flush waits

typedef enum { OR_LOG_ERROR, OR_LOG_WARN, OR_LOG_INFO, OR_LOG_DEBUG, OR_LOG_TRACE } or_log_level_t;

// Set the role that every line names (copied, cut to 95 bytes) and the most detailed level shown. Call
// once, before threads start.
void or_log_init(const char *role, or_log_level_t level);

// "error", "warn", "info", "debug", "trace" to a level. OR_ERR_INVALID lists the names.
or_status_t or_log_parse_level(const char *text, or_log_level_t *level);

// Set the format of lines: "text" (the default) or "json". OR_ERR_INVALID lists the names. Call once, before
// threads start.
or_status_t or_log_set_format(const char *name);

bool or_log_shows(or_log_level_t level);

void or_log(or_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The session and the request that a line is about.
typedef struct {
    uint64_t session;    // 0: none
    const char *request; // the client's name for it; NULL or "": none
} or_log_subject_t;

void or_log_of(or_log_level_t level, or_log_subject_t subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Make text from others safe to show: control characters, U+0080 to U+009F included, become question marks.
// Lines of the log's text format are mended already.
void or_log_mend(char *text);

// Return how many lines this process has logged.
uint64_t or_log_lines(void);

// Wait until the lines logged so far are written, for OR_LOG_FLUSH_NS at most: nobody may be reading.
void or_log_flush(void);
