#include "common/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
static char log_role[96] = "outrider";
static or_log_level_t log_level = OR_LOG_INFO;

void or_log_init(const char *role, or_log_level_t level)
{
    snprintf(log_role, sizeof log_role, "%s", role);
    log_level = level;
}

or_status_t or_log_parse_level(const char *text, or_log_level_t *level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (or_log_level_t)i;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "log level '%s' is not one of error, warn, info, debug, trace",
                   text);
}

bool or_log_shows(or_log_level_t level)
{
    return level <= log_level;
}

void or_log(or_log_level_t level, const char *format, ...)
{
    if (!or_log_shows(level)) {
        return;
    }
    char line[2048];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    int used =
        snprintf(line, sizeof line, "%02d:%02d:%02d.%03ld %s %s: ", local.tm_hour, local.tm_min,
                 local.tm_sec, now.tv_nsec / 1000000, level_names[level], log_role);
    va_list args;
    va_start(args, format);
    int text = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = strlen(line);
    (void)text;
    line[length++] = '\n';
    ssize_t written =
        write(STDERR_FILENO, line, length); // one call, so lines of several threads do not mix
    (void)written;
}
