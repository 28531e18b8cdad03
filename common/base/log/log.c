#include "common/base/log/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/log/log_queue.h"

#define LINE_BYTES OR_LOG_LINE_BYTES

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
static char log_role[96] = "outrider";
static or_log_level_t log_level = OR_LOG_INFO;
static bool log_json;

void or_log_init(const char *role, or_log_level_t level)
{
    or_log_queue_lock();
    snprintf(log_role, sizeof log_role, "%s", role);
    log_level = level;
    or_log_queue_unlock();
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

or_status_t or_log_set_format(const char *name)
{
    if (strcmp(name, "text") != 0 && strcmp(name, "json") != 0) {
        return or_fail(OR_ERR_INVALID, "log format '%s' is neither text nor json", name);
    }
    or_log_queue_lock();
    log_json = strcmp(name, "json") == 0;
    or_log_queue_unlock();
    return OR_OK;
}

bool or_log_shows(or_log_level_t level)
{
    return level <= log_level;
}

// ---- a line ----

typedef struct {
    char bytes[LINE_BYTES];
    size_t length; // below LINE_BYTES - 1: there is always room for the newline
} line_t;

static void put(line_t *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(line_t *line, const char *format, ...)
{
    size_t room = LINE_BYTES - 1 - line->length;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line->bytes + line->length, room, format, args);
    va_end(args);
    line->length += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

// Bytes of the UTF-8 character that begins here; 0 if none does.
static int character_bytes(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    int length = c[0] < 0x80   ? 1
                 : c[0] < 0xC2 ? 0
                 : c[0] < 0xE0 ? 2
                 : c[0] < 0xF0 ? 3
                 : c[0] < 0xF5 ? 4
                               : 0;
    for (int i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F);
    return length > 1 && (overlong || beyond) ? 0 : length;
}

// A string of JSON: UTF-8, whatever came.
static void put_json(line_t *line, const char *name, const char *text)
{
    put(line, ",\"%s\":\"", name);
    for (const char *at = text; *at != '\0' && line->length < LINE_BYTES - 16;) {
        int length = character_bytes(at);
        if (length == 0) {
            put(line, "\\ufffd");
        } else if (*at == '"' || *at == '\\') {
            put(line, "\\%c", *at);
        } else if (length == 1 && *at < ' ') {
            put(line, "\\u%04x", (unsigned)*at);
        } else {
            put(line, "%.*s", length, at);
        }
        at += length > 0 ? length : 1;
    }
    put(line, "\"");
}

static void put_as_json(line_t *line, or_log_level_t level, or_log_subject_t subject,
                        const struct timespec *now, const char *message)
{
    struct tm utc;
    char number[24];
    gmtime_r(&now->tv_sec, &utc);
    put(line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\"", utc.tm_year + 1900,
        utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now->tv_nsec / 1000000);
    put_json(line, "level", level_names[level]);
    put_json(line, "role", log_role);
    if (subject.session != 0) {
        snprintf(number, sizeof number, "%" PRIx64, subject.session);
        put_json(line, "session", number);
    }
    if (subject.request != NULL && subject.request[0] != '\0') {
        put_json(line, "request", subject.request);
    }
    put_json(line, "message", message);
    put(line, "}");
}

static void put_as_text(line_t *line, or_log_level_t level, or_log_subject_t subject,
                        const struct timespec *now, const char *message)
{
    struct tm local;
    bool has_request = subject.request != NULL && subject.request[0] != '\0';
    localtime_r(&now->tv_sec, &local);
    put(line, "%02d:%02d:%02d.%03ld %s %s: ", local.tm_hour, local.tm_min, local.tm_sec,
        now->tv_nsec / 1000000, level_names[level], log_role);
    if (subject.session != 0) {
        put(line, "session %" PRIx64 "%s", subject.session, has_request ? " " : ": ");
    }
    if (has_request) {
        put(line, "request %s: ", subject.request);
    }
    put(line, "%s", message);
}

// What peers say of themselves is told, too: it begins no line of its own and moves no cursor. U+0080 to U+009F move
// some terminals' as escape sequences do.
void or_log_mend(char *message)
{
    for (; *message != '\0'; message++) {
        const unsigned char *c = (const unsigned char *)message;
        if (*c < ' ' || *c == 0x7f) {
            *message = '?';
        } else if (*c == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0) {
            message[0] = message[1] = '?';
        }
    }
}

// All that a line has, from its time to its newline.
static void compose(line_t *line, or_log_level_t level, or_log_subject_t subject,
                    const char *message)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    (log_json ? put_as_json : put_as_text)(line, level, subject, &now, message);
    line->bytes[line->length++] = '\n';
}

size_t or_log_compose_dropped(uint64_t lines, char bytes[OR_LOG_LINE_BYTES])
{
    char message[128];
    line_t line = {.length = 0};
    snprintf(message, sizeof message,
             "%" PRIu64 " line%s dropped here: standard error was not read", lines,
             lines == 1 ? " was" : "s were");
    compose(&line, OR_LOG_WARN, (or_log_subject_t){0}, message);
    memcpy(bytes, line.bytes, line.length);
    return line.length;
}

static void log_line(or_log_level_t level, or_log_subject_t subject, const char *format,
                     va_list args) __attribute__((format(printf, 3, 0)));

static void log_line(or_log_level_t level, or_log_subject_t subject, const char *format,
                     va_list args)
{
    char message[LINE_BYTES / 2];
    line_t line = {.length = 0};
    if (vsnprintf(message, sizeof message, format, args) < 0) {
        message[0] = '\0';
    }
    if (!log_json) {
        or_log_mend(message);
    }
    compose(&line, level, subject, message);
    or_log_queue_put(line.bytes, line.length);
}

void or_log_flush(void)
{
    (void)or_log_queue_flush();
}

void or_log(or_log_level_t level, const char *format, ...)
{
    va_list args;
    if (or_log_shows(level)) {
        va_start(args, format);
        log_line(level, (or_log_subject_t){0}, format, args);
        va_end(args);
    }
}

void or_log_of(or_log_level_t level, or_log_subject_t subject, const char *format, ...)
{
    va_list args;
    if (or_log_shows(level)) {
        va_start(args, format);
        log_line(level, subject, format, args);
        va_end(args);
    }
}
