// log - lines on standard error: level, role, message. Lower case, `key value` pairs.
//
//     12:03:01.250 info coordinator: session 3f request chat-7: parked with 4 tokens
//     {"time":"2026-11-22T12:03:01.250Z","level":"info","role":"coordinator","session":"3f","request":"chat-7",
//      "message":"parked with 4 tokens"}                                     the same as JSON, in one line
//
// Thread safe, and nobody who logs waits for whoever reads standard error: a thread writes the lines, in their order, and
// says how many it had to drop while nobody read (log_queue.h). They are written at exit; before _exit, abort, or what is
// printed there directly, call or_log_flush.
// Libraries log, they never print. Nothing per token above trace.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

typedef enum { OR_LOG_ERROR, OR_LOG_WARN, OR_LOG_INFO, OR_LOG_DEBUG, OR_LOG_TRACE } or_log_level_t;

// Who speaks (copied, cut to 95 bytes) and the most detailed level shown. Call once, before threads
// start.
void or_log_init(const char *role, or_log_level_t level);

// "error", "warn", "info", "debug", "trace" to a level. OR_ERR_INVALID lists the names.
or_status_t or_log_parse_level(const char *text, or_log_level_t *level);

// How lines look: "text" (the usual) or "json". OR_ERR_INVALID lists the names. Once, before threads start.
or_status_t or_log_set_format(const char *name);

bool or_log_shows(or_log_level_t level);

void or_log(or_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// What a line is about.
typedef struct {
    uint64_t session;    // 0: none
    const char *request; // the client's name for it; NULL or "": none
} or_log_subject_t;

void or_log_of(or_log_level_t level, or_log_subject_t subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// What others say, as it may stand in a line for people: control characters, U+0080 to U+009F included, become question marks. Lines of
// the log's text format are mended already.
void or_log_mend(char *text);

// Wait until the lines logged so far are written: for a second at most, since nobody may be reading.
void or_log_flush(void);
