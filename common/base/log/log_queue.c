#include "common/base/log/log_queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define S_NS INT64_C(1000000000)

typedef enum { NOT_STARTED, RUNS, NO_THREAD } writer_t;

// A ring of whole lines, in static storage: a line is queued though there is no memory.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;    // a line, for the writer
    pthread_cond_t written; // all of them, for who flushes
    char bytes[OR_LOG_QUEUE_BYTES];
    size_t first, length;
    uint64_t dropped; // lines since the queue was last written out
    bool writing;     // the writer has taken lines out and is in write(2)
    writer_t writer;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .came = PTHREAD_COND_INITIALIZER,
           .written = PTHREAD_COND_INITIALIZER};

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

// As many whole lines as one write may have, into `lines`.
static size_t take(char lines[OR_LOG_LINE_BYTES])
{
    size_t length = queue.length < OR_LOG_LINE_BYTES ? queue.length : OR_LOG_LINE_BYTES;
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

// The next bytes to write: lines, or how many are missing here. 0: none.
static size_t take_or_confess(char lines[OR_LOG_LINE_BYTES])
{
    size_t length = take(lines);
    if (length == 0 && queue.dropped > 0) {
        length = or_log_compose_dropped(queue.dropped, lines);
        queue.dropped = 0;
    }
    return length;
}

// ---- the writer ----

// Somebody may have made the shared descriptor non-blocking: then it is waited for. Other errors lose the lines, and
// there is nowhere to say so.
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
    static char lines[OR_LOG_LINE_BYTES];
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        size_t length = take_or_confess(lines);
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

// The lines that wait are the parent's to write, and so are those that its writer holds.
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

static void at_exit(void)
{
    (void)or_log_queue_flush();
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
    sigfillset(&all); // signals are for the threads that wait for them
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, write_lines, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        pthread_detach(thread);
    }
    return code == 0;
}

// Is there a writer? Started by the first line.
static bool has_writer(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (queue.writer == NOT_STARTED) {
        pthread_once(&once, prepare);
        queue.writer = start_thread() ? RUNS : NO_THREAD;
    }
    return queue.writer == RUNS;
}

void or_log_queue_put(const char *line, size_t bytes)
{
    pthread_mutex_lock(&queue.lock);
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

bool or_log_queue_flush(void)
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

void or_log_queue_lock(void)
{
    pthread_mutex_lock(&queue.lock);
}

void or_log_queue_unlock(void)
{
    pthread_mutex_unlock(&queue.lock);
}
