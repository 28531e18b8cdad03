#include "common/gguf/packed_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/gguf/gguf_internal.h"
#include "common/gguf/packed_internal.h"

// Pieces of 4 MiB that are on their way at once, besides the caller's; the system cuts each into many requests.
#define READERS 2u

struct or_packed_reader {
    or_packed_t *packed;
    _Atomic bool direct; // past the page cache
    _Atomic bool *known; // [pieces] those that had their checksum when they were read first

    pthread_mutex_t lock;
    pthread_cond_t wanted, done;
    or_packed_reading_t *first, *last; // with pieces that nobody has taken
    bool stop;
    pthread_t threads[READERS];
    uint32_t thread_count;
};

// A piece of a reading.
typedef struct {
    or_packed_reading_t *reading;
    uint64_t piece;
    uint32_t span; // the first that has something in it
} task_t;

static uint64_t end_of(const or_packed_span_t *span)
{
    return span->at + span->bytes;
}

// ---- one piece ----

static void end_direct(or_packed_reader_t *reader)
{
    const int fd = reader->packed->file->fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT);
    atomic_store(&reader->direct, false); // last: who sees it may try again
}

static bool read_bytes(or_packed_reader_t *reader, uint64_t at, uint64_t bytes, unsigned char *to)
{
    const int fd = reader->packed->file->fd;
    for (uint64_t done = 0; done < bytes;) {
        bool direct = atomic_load(&reader->direct);
        ssize_t count = pread(fd, to + done, bytes - done, (off_t)(at + done));
        if (count > 0) {
            done += (uint64_t)count;
        } else if (count < 0 && errno == EINVAL && direct) {
            end_direct(reader); // the disk wants other places than whole pages
        } else if (count == 0 || errno != EINTR) {
            atomic_store(&reader->packed->unreadable, count == 0 ? -1 : errno);
            return false;
        }
    }
    if (!atomic_load(&reader->direct)) {
        posix_fadvise(fd, (off_t)at, (off_t)bytes, POSIX_FADV_DONTNEED);
    }
    return true;
}

// Return what of the span is in the piece.
static or_packed_span_t common_part(const or_packed_span_t *span, uint64_t piece)
{
    uint64_t begin = piece * OR_PACKED_PIECE, end = begin + OR_PACKED_PIECE;
    begin = span->at > begin ? span->at : begin;
    end = end_of(span) < end ? end_of(span) : end;
    return (or_packed_span_t){begin, end > begin ? end - begin : 0};
}

// Read what is wanted of the piece; from `whole`, if not NULL, which is all of it.
static void read_wanted(or_packed_reader_t *reader, const task_t *task, const unsigned char *whole)
{
    const or_packed_reading_t *reading = task->reading;
    bool good = true;
    for (uint32_t i = task->span; good && i < reading->count; i++) {
        or_packed_span_t part = common_part(&reading->spans[i], task->piece);
        unsigned char *to = reading->to + (part.at - reading->spans[0].at);
        if (part.bytes == 0) {
            break;
        }
        if (whole == NULL) {
            good = read_bytes(reader, part.at, part.bytes, to);
        } else {
            memcpy(to, whole + (part.at - task->piece * OR_PACKED_PIECE), part.bytes);
        }
    }
}

// Where a piece is wanted in part, it is read to another place first.
static void read_first_part(or_packed_reader_t *reader, const task_t *task)
{
    or_packed_t *packed = reader->packed;
    unsigned char *whole =
        mmap(NULL, OR_PACKED_PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) {
        atomic_store(&packed->unreadable, ENOMEM);
        return;
    }
    if (read_bytes(reader, task->piece * OR_PACKED_PIECE,
                   or_packed_piece_bytes(packed, task->piece), whole) &&
        or_packed_piece_check(packed, task->piece, whole)) {
        read_wanted(reader, task, whole);
        atomic_store(&reader->known[task->piece], true);
    }
    munmap(whole, OR_PACKED_PIECE);
}

static void read_first(or_packed_reader_t *reader, const task_t *task)
{
    const or_packed_reading_t *reading = task->reading;
    const uint64_t bytes = or_packed_piece_bytes(reader->packed, task->piece);
    const or_packed_span_t part = common_part(&reading->spans[task->span], task->piece);
    unsigned char *to = reading->to + (part.at - reading->spans[0].at);
    if (part.bytes < bytes) {
        read_first_part(reader, task);
    } else if (read_bytes(reader, part.at, bytes, to) &&
               or_packed_piece_check(reader->packed, task->piece, to)) {
        atomic_store(&reader->known[task->piece], true);
    }
}

static void read_piece(or_packed_reader_t *reader, const task_t *task)
{
    const or_packed_t *packed = reader->packed;
    if (atomic_load(&packed->broken) > 0 || atomic_load(&packed->unreadable) != 0) {
        return; // nobody may use it any more
    }
    if (atomic_load(&reader->known[task->piece])) {
        read_wanted(reader, task, NULL);
    } else {
        read_first(reader, task);
    }
}

// ---- whose turn it is ----

// Go to the next piece that has something of a span.
static void advance(or_packed_reading_t *reading)
{
    uint64_t end = (reading->piece + 1) * OR_PACKED_PIECE;
    while (reading->span < reading->count && end_of(&reading->spans[reading->span]) <= end) {
        reading->span++;
    }
    if (reading->span < reading->count) {
        uint64_t begin = reading->spans[reading->span].at;
        reading->piece = begin > end ? begin / OR_PACKED_PIECE : reading->piece + 1;
    }
}

// Take a piece that nobody has; false if there is none. With the lock.
static bool take(or_packed_reader_t *reader, task_t *task)
{
    or_packed_reading_t *reading = reader->first;
    if (reading == NULL) {
        return false;
    }
    *task = (task_t){reading, reading->piece, reading->span};
    reading->open++;
    advance(reading);
    if (reading->span == reading->count) {
        reader->first = reading->after;
    }
    return true;
}

// Read a piece that was taken. With the lock, which is given back meanwhile.
static void run(or_packed_reader_t *reader, const task_t *task)
{
    pthread_mutex_unlock(&reader->lock);
    read_piece(reader, task);
    pthread_mutex_lock(&reader->lock);
    if (--task->reading->open == 0) {
        pthread_cond_signal(&reader->done);
    }
}

static void *read_pieces(void *argument)
{
    or_packed_reader_t *reader = argument;
    task_t task;
    pthread_mutex_lock(&reader->lock);
    while (!reader->stop) {
        if (take(reader, &task)) {
            run(reader, &task);
        } else {
            pthread_cond_wait(&reader->wanted, &reader->lock);
        }
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

void or_packed_reader_begin(or_packed_reader_t *reader, or_packed_reading_t *reading, bool urgent)
{
    reading->span = 0;
    reading->open = 0;
    reading->after = NULL;
    if (reading->count == 0) {
        return;
    }
    reading->piece = reading->spans[0].at / OR_PACKED_PIECE;
    pthread_mutex_lock(&reader->lock);
    if (urgent || reader->first == NULL) {
        reading->after = reader->first;
        reader->last = reader->first == NULL ? reading : reader->last;
        reader->first = reading;
    } else {
        reader->last->after = reading;
        reader->last = reading;
    }
    pthread_cond_broadcast(&reader->wanted);
    pthread_mutex_unlock(&reader->lock);
}

or_status_t or_packed_reader_wait(or_packed_reader_t *reader, or_packed_reading_t *reading)
{
    task_t task;
    pthread_mutex_lock(&reader->lock);
    while (reading->span < reading->count || reading->open > 0) {
        if (reading->span < reading->count && take(reader, &task)) {
            run(reader, &task);
        } else {
            pthread_cond_wait(&reader->done, &reader->lock);
        }
    }
    pthread_mutex_unlock(&reader->lock);
    return or_packed_judge(reader->packed);
}

// ---- life ----

or_status_t or_packed_reader_create(or_packed_t *packed, or_packed_reader_t **reader_p)
{
    or_packed_reader_t *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return or_gguf_no_memory(or_packed_path(packed));
    }
    reader->packed = packed;
    reader->known = calloc(packed->pieces, sizeof *reader->known);
    if (reader->known == NULL) {
        free(reader);
        return or_gguf_no_memory(or_packed_path(packed));
    }
    reader->direct =
        fcntl(packed->file->fd, F_SETFL, fcntl(packed->file->fd, F_GETFL) | O_DIRECT) == 0;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->wanted, NULL);
    pthread_cond_init(&reader->done, NULL);
    reader->thread_count = or_packed_threads_start(reader->threads, READERS, read_pieces, reader);
    *reader_p = reader;
    return OR_OK;
}

void or_packed_reader_destroy(or_packed_reader_t **reader_p)
{
    or_packed_reader_t *reader = *reader_p;
    if (reader == NULL) {
        return;
    }
    pthread_mutex_lock(&reader->lock);
    reader->stop = true;
    pthread_cond_broadcast(&reader->wanted);
    pthread_mutex_unlock(&reader->lock);
    while (reader->thread_count > 0) {
        pthread_join(reader->threads[--reader->thread_count], NULL);
    }
    pthread_cond_destroy(&reader->done);
    pthread_cond_destroy(&reader->wanted);
    pthread_mutex_destroy(&reader->lock);
    free(reader->known);
    free(reader);
    *reader_p = NULL;
}
