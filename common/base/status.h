// status - how a function reports that the world, not the program, is wrong.
//
// Functions that can fail return or_status_t and set their outputs only on OR_OK. The function
// that detects a failure calls or_fail() once, with a sentence a user can act on. Callers pass
// the code up and may prefix the sentence with or_fail_context(). The program prints
// or_error_text() at the end. An error that only our own code can cause is an assert. The text
// is per thread: no locks, and a failure in one thread never overwrites another's.
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    OR_OK = 0,
    OR_ERR_INVALID,     // an argument, option or message makes no sense
    OR_ERR_NO_MEMORY,   // an allocation failed
    OR_ERR_IO,          // the system refused: errno's text is in the error text
    OR_ERR_FORMAT,      // a file or message is malformed
    OR_ERR_UNSUPPORTED, // well formed, but this version cannot do it
    OR_ERR_FULL,        // a bounded queue or pool has no room now
    OR_ERR_NOT_FOUND,   // no such key, tensor, session, file
    OR_ERR_TIMEOUT,     // nothing came in time
    OR_ERR_UNREACHABLE, // the peer is gone
    OR_ERR_MISMATCH,    // two sides disagree: version, vocabulary, prefix hash
    OR_ERR_AGAIN,       // nothing there now; try later (never recorded as an error text)
    OR_ERR_CANCELLED,   // somebody asked to stop
} or_status_t;

// "ok", "invalid", ...: for logs. Never NULL.
const char *or_status_name(or_status_t status);

// Record the sentence for this thread and return `status`, so that `return or_fail(OR_ERR_IO,
// "...", ...)` reads well.
or_status_t or_fail(or_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Put "<context>: " before the recorded sentence and return `status` unchanged; no-op on OR_OK.
or_status_t or_fail_context(or_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The last sentence recorded by this thread; "" if none. Valid until the thread's next failure.
const char *or_error_text(void);
