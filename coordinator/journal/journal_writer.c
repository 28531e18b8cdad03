#include "coordinator/journal/journal_writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"

#define SYNC_S 2
#define STOP_S 5
#define NAMES_MAX 4096 // of texts to be synced; of more the system takes care, in half a minute

typedef struct {
    or_journal_work_t *first, **last;
} queue_t;

struct or_journal_writer {
    int folder, wake;
    pthread_mutex_t lock;
    pthread_cond_t submitted, finished, stopped; // by CLOCK_MONOTONIC
    queue_t todo, done;
    uint32_t under_way; // submitted, and not done
    bool stopping;      // end when nothing is left to do
    uint32_t name_count;
    uint8_t names[NAMES_MAX][OR_JOURNAL_HASH_BYTES];   // written since the last sync
    uint8_t syncing[NAMES_MAX][OR_JOURNAL_HASH_BYTES]; // the syncer's own
    pthread_t writer, syncer;
};

static void push(queue_t *queue, or_journal_work_t *work)
{
    work->next = NULL;
    *queue->last = work;
    queue->last = &work->next;
}

static or_journal_work_t *pop(queue_t *queue)
{
    or_journal_work_t *work = queue->first;
    if (work != NULL) {
        queue->first = work->next;
        queue->last = queue->first != NULL ? queue->last : &queue->first;
    }
    return work;
}

static struct timespec seconds_from_now(int seconds, clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_sec += seconds;
    return at;
}

// ---- the threads ----

// The same text is noted again and again while it is written.
static void note_name(or_journal_writer_t *w, const uint8_t *hash)
{
    if (w->name_count > 0 &&
        memcmp(w->names[w->name_count - 1], hash, OR_JOURNAL_HASH_BYTES) == 0) {
        return;
    }
    for (uint32_t i = 0; i < w->name_count; i++) {
        if (memcmp(w->names[i], hash, OR_JOURNAL_HASH_BYTES) == 0) {
            return;
        }
    }
    if (w->name_count < NAMES_MAX) {
        memcpy(w->names[w->name_count++], hash, OR_JOURNAL_HASH_BYTES);
    }
}

static void finish(or_journal_writer_t *w, or_journal_work_t *work)
{
    const uint64_t one = 1;
    if (work->error == 0 && !work->remove) {
        note_name(w, work->hash);
    }
    push(&w->done, work);
    w->under_way--;
    pthread_cond_signal(&w->finished);
    (void)!write(w->wake, &one, sizeof one); // it is readable already if there is no room
}

static void *write_on(void *context)
{
    or_journal_writer_t *w = context;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        or_journal_work_t *work = pop(&w->todo);
        if (work != NULL) {
            pthread_mutex_unlock(&w->lock);
            or_journal_disk_do(w->folder, work);
            pthread_mutex_lock(&w->lock);
            finish(w, work);
        } else if (w->stopping) {
            break;
        } else {
            pthread_cond_wait(&w->submitted, &w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static uint32_t take_names(or_journal_writer_t *w)
{
    uint32_t count = w->name_count;
    memcpy(w->syncing, w->names, count * sizeof *w->names);
    w->name_count = 0;
    return count;
}

// The folder last: a name that survives without its text would be nothing.
static void sync_all(or_journal_writer_t *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        or_journal_disk_sync(w->folder, w->syncing[i]);
    }
    if (count > 0) {
        fsync(w->folder);
    }
}

static void *sync_on(void *context)
{
    or_journal_writer_t *w = context;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        const struct timespec due = seconds_from_now(SYNC_S, CLOCK_MONOTONIC);
        while (!w->stopping && pthread_cond_timedwait(&w->stopped, &w->lock, &due) != ETIMEDOUT) {
        }
        uint32_t count = take_names(w);
        pthread_mutex_unlock(&w->lock);
        sync_all(w, count);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// ---- life ----

// Signals are the main thread's.
static or_status_t start_thread(pthread_t *thread, void *(*body)(void *), void *context)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "cannot start a thread for the journal: %s", strerror(error));
}

static void free_writer(or_journal_writer_t *w)
{
    pthread_cond_destroy(&w->submitted);
    pthread_cond_destroy(&w->finished);
    pthread_cond_destroy(&w->stopped);
    pthread_mutex_destroy(&w->lock);
    close(w->wake);
    free(w);
}

static void init_locks(or_journal_writer_t *w)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->submitted, &attributes);
    pthread_cond_init(&w->finished, &attributes);
    pthread_cond_init(&w->stopped, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void ask_to_stop(or_journal_writer_t *w)
{
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->submitted);
    pthread_cond_signal(&w->stopped);
    pthread_mutex_unlock(&w->lock);
}

or_status_t or_journal_writer_start(int folder, or_journal_writer_t **writer_p)
{
    or_journal_writer_t *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the journal's threads");
    }
    w->folder = folder;
    w->todo.last = &w->todo.first;
    w->done.last = &w->done.first;
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake < 0) {
        free(w);
        return or_fail(OR_ERR_IO, "cannot start the journal: %s", strerror(errno));
    }
    init_locks(w);
    or_status_t status = start_thread(&w->writer, write_on, w);
    if (status != OR_OK) {
        free_writer(w);
        return status;
    }
    status = start_thread(&w->syncer, sync_on, w);
    if (status != OR_OK) {
        ask_to_stop(w);
        pthread_join(w->writer, NULL);
        free_writer(w);
        return status;
    }
    *writer_p = w;
    return OR_OK;
}

bool or_journal_writer_stop(or_journal_writer_t **writer_p)
{
    or_journal_writer_t *w = *writer_p;
    *writer_p = NULL;
    if (w == NULL) {
        return true;
    }
    ask_to_stop(w);
    const struct timespec due = seconds_from_now(STOP_S, CLOCK_REALTIME); // as the call wants it
    if (pthread_timedjoin_np(w->writer, NULL, &due) != 0 ||
        pthread_timedjoin_np(w->syncer, NULL, &due) != 0) {
        or_log(OR_LOG_WARN, "the journal's disk does not answer: its last moments may be lost");
        return false;
    }
    free_writer(w);
    return true;
}

// ---- work ----

void or_journal_writer_submit(or_journal_writer_t *w, or_journal_work_t *work)
{
    pthread_mutex_lock(&w->lock);
    push(&w->todo, work);
    w->under_way++;
    pthread_cond_signal(&w->submitted);
    pthread_mutex_unlock(&w->lock);
}

or_journal_work_t *or_journal_writer_next(or_journal_writer_t *w)
{
    uint64_t count;
    pthread_mutex_lock(&w->lock);
    or_journal_work_t *work = pop(&w->done);
    if (work == NULL) {
        (void)!read(w->wake, &count, sizeof count); // under the lock: nothing is done meanwhile
    }
    pthread_mutex_unlock(&w->lock);
    return work;
}

int or_journal_writer_fd(const or_journal_writer_t *w)
{
    return w->wake;
}

void or_journal_writer_wait(or_journal_writer_t *w, uint32_t ms)
{
    struct timespec due = seconds_from_now((int)(ms / 1000), CLOCK_MONOTONIC);
    due.tv_nsec += (long)(ms % 1000) * OR_NS_PER_MS;
    if (due.tv_nsec >= OR_NS_PER_S) {
        due.tv_sec++;
        due.tv_nsec -= OR_NS_PER_S;
    }
    pthread_mutex_lock(&w->lock);
    while (w->under_way > 0 && pthread_cond_timedwait(&w->finished, &w->lock, &due) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&w->lock);
}
