// log - lines on standard error: level, role, message. Lower case, `key value` pairs.
//
//     12:03:01.250 info coordinator: session 3 round 7 accepted 4
//
// Thread safe (one write per line). Libraries log, they never print. Nothing per token above trace.
#pragma once

#include "common/base/status.h"

typedef enum { OR_LOG_ERROR, OR_LOG_WARN, OR_LOG_INFO, OR_LOG_DEBUG, OR_LOG_TRACE } or_log_level_t;

// Who speaks (copied, cut to 95 bytes) and the most detailed level shown. Call once, before threads
// start.
void or_log_init(const char *role, or_log_level_t level);

// "error", "warn", "info", "debug", "trace" to a level. OR_ERR_INVALID lists the names.
or_status_t or_log_parse_level(const char *text, or_log_level_t *level);

bool or_log_shows(or_log_level_t level);

void or_log(or_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
