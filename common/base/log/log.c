#include "common/base/log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES OR_LOG_LINE_BYTES

#define S_NS INT64_C(1000000000)

typedef enum { NOT_STARTED, RUNS, NO_THREAD } writer_t;

// A ring of whole lines. It is in static storage, so that a line can be queued when memory has
// run out.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;    // signals the writer that there is a line
    pthread_cond_t written; // signals or_log_flush that all lines are written
    char bytes[OR_LOG_QUEUE_BYTES];
    size_t first, length;
    uint64_t lines;   // so far
    uint64_t dropped; // lines since the queue was last emptied
    bool writing;     // the writer has taken lines out and is in write(2)
    writer_t writer;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .came = PTHREAD_COND_INITIALIZER,
           .written = PTHREAD_COND_INITIALIZER};

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
static char log_role[96] = "outrider";
static or_log_level_t log_level = OR_LOG_INFO;
static bool log_json;

void or_log_init(const char *role, or_log_level_t level)
{
    pthread_mutex_lock(&queue.lock);
    snprintf(log_role, sizeof log_role, "%s", role);
    log_level = level;
    pthread_mutex_unlock(&queue.lock);
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
    pthread_mutex_lock(&queue.lock);
    log_json = strcmp(name, "json") == 0;
    pthread_mutex_unlock(&queue.lock);
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

// The length of the UTF-8 character that begins here; 0 if none does.
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

// Write a string of JSON, which is UTF-8 whatever bytes `text` has.
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

// Texts of peers are logged too. They must neither begin a line of their own nor move the cursor. U+0080 to
// U+009F move some terminals' cursors as escape sequences do.
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

// Write the whole line, from its time to its newline.
static void compose(line_t *line, or_log_level_t level, or_log_subject_t subject,
                    const char *message)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    (log_json ? put_as_json : put_as_text)(line, level, subject, &now, message);
    line->bytes[line->length++] = '\n';
}

// The line that says how many lines are missing, into `bytes`; returns its length. The lock is held.
static size_t compose_dropped(uint64_t lines, char bytes[LINE_BYTES])
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

// ---- the ring, under the lock ----

static void append(const char *line, size_t bytes)
{
    size_t at = (queue.first + queue.length) % OR_LOG_QUEUE_BYTES;
    size_t before_end = OR_LOG_QUEUE_BYTES - at;
    size_t part = bytes < before_end ? bytes : before_end;
    memcpy(queue.bytes + at, line, part);
    memcpy(queue.bytes, line + part, bytes - part);
    queue.length += bytes;
}

// Move as many whole lines as one write may have to `lines`.
static size_t take_lines(char lines[LINE_BYTES])
{
    size_t length = queue.length < LINE_BYTES ? queue.length : LINE_BYTES;
    for (size_t i = 0; i < length; i++) {
        lines[i] = queue.bytes[(queue.first + i) % OR_LOG_QUEUE_BYTES];
    }
    while (length > 0 && lines[length - 1] != '\n') {
        length--;
    }
    queue.first = (queue.first + length) % OR_LOG_QUEUE_BYTES;
    queue.length -= length;
    return length;
}

// Take the next bytes to write: lines, or the line that says how many are missing here. 0 if
// there is nothing.
static size_t take_or_report_dropped(char lines[LINE_BYTES])
{
    size_t length = take_lines(lines);
    if (length == 0 && queue.dropped > 0) {
        length = compose_dropped(queue.dropped, lines);
        queue.dropped = 0;
    }
    return length;
}

// ---- the writer ----

// Another process may have made the shared descriptor non-blocking, so wait for it to accept more. Other errors
// lose the lines, and there is nowhere to report that.
static void write_all(const char *bytes, size_t length)
{
    struct pollfd room = {STDERR_FILENO, POLLOUT, 0};
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, bytes, length);
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            (void)poll(&room, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return;
        }
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

static _Noreturn void *write_lines(void *unused)
{
    (void)unused;
    static char lines[LINE_BYTES];
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        size_t length = take_or_report_dropped(lines);
        if (length == 0) {
            pthread_cond_broadcast(&queue.written);
            pthread_cond_wait(&queue.came, &queue.lock);
            continue;
        }
        queue.writing = true;
        pthread_mutex_unlock(&queue.lock);
        write_all(lines, length);
        pthread_mutex_lock(&queue.lock);
        queue.writing = false;
    }
}

// ---- starting, forking, ending ----

static void before_fork(void)
{
    pthread_mutex_lock(&queue.lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&queue.lock);
}

// The waiting lines are the parent's to write, and so are those that its writer holds.
static void in_child(void)
{
    pthread_cond_init(&queue.came, NULL);
    pthread_cond_init(&queue.written, NULL);
    queue.first = queue.length = 0;
    queue.dropped = 0;
    queue.writing = false;
    queue.writer = NOT_STARTED;
    pthread_mutex_unlock(&queue.lock);
}

static bool flush(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += OR_LOG_FLUSH_NS / S_NS;
    int code = 0;
    pthread_mutex_lock(&queue.lock);
    while (code == 0 && queue.writer == RUNS &&
           (queue.length > 0 || queue.dropped > 0 || queue.writing)) {
        code = pthread_cond_clockwait(&queue.written, &queue.lock, CLOCK_MONOTONIC, &until);
    }
    pthread_mutex_unlock(&queue.lock);
    return code == 0;
}

static void at_exit(void)
{
    (void)flush();
}

static void prepare(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
    (void)atexit(at_exit);
}

static bool start_thread(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); // signals go to the threads that wait for them
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, write_lines, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        pthread_detach(thread);
    }
    return code == 0;
}

// Is there a writer thread? The first line starts it.
static bool has_writer(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (queue.writer == NOT_STARTED) {
        pthread_once(&once, prepare);
        queue.writer = start_thread() ? RUNS : NO_THREAD;
    }
    return queue.writer == RUNS;
}

static void queue_put(const char *line, size_t bytes)
{
    pthread_mutex_lock(&queue.lock);
    queue.lines++;
    bool queued = has_writer();
    if (!queued) {
        write_all(line, bytes);
    } else if (queue.dropped > 0 || queue.length + bytes > OR_LOG_QUEUE_BYTES) {
        queue.dropped++;
    } else {
        append(line, bytes);
        pthread_cond_signal(&queue.came);
    }
    pthread_mutex_unlock(&queue.lock);
}

// ---- logging ----

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
    queue_put(line.bytes, line.length);
}

void or_log_flush(void)
{
    (void)flush();
}

uint64_t or_log_lines(void)
{
    pthread_mutex_lock(&queue.lock);
    uint64_t lines = queue.lines;
    pthread_mutex_unlock(&queue.lock);
    return lines;
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
