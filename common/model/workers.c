#include "common/model/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// Polls before sleeping: 5 to 20 microseconds on today's machines.
#define SPIN_POLLS 400u
// Waking a worker takes about as long as this many multiply-adds.
#define GRAIN_MULTIPLY_ADDS 65536u

// One worker's mailbox. The caller writes the job and raises `posted`; the worker raises `finished`. Both change under the
// lock, so that a sleeper misses neither, and are atomic, so that a spinner sees them without it.
typedef struct {
    or_workers_t *pool;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t done;
    atomic_uint posted;
    atomic_uint finished;
    or_work_t work; // NULL: end
    void *context;
    uint32_t index;
    uint32_t begin;
    uint32_t end;
} worker_t;

struct or_workers {
    uint32_t count; // with the caller
    uint32_t spin_polls;
    worker_t *workers; // [count - 1]
};

static uint32_t cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Until *counter is no longer `old`: spin a little, then sleep.
static void wait_change(worker_t *worker, atomic_uint *counter, unsigned old, pthread_cond_t *cond)
{
    for (uint32_t i = 0; i < worker->pool->spin_polls; i++) {
        if (atomic_load_explicit(counter, memory_order_acquire) != old) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&worker->lock);
    while (atomic_load_explicit(counter, memory_order_relaxed) == old) {
        pthread_cond_wait(cond, &worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
}

static void advance(worker_t *worker, atomic_uint *counter, pthread_cond_t *cond)
{
    pthread_mutex_lock(&worker->lock);
    atomic_fetch_add_explicit(counter, 1, memory_order_release);
    pthread_cond_signal(cond);
    pthread_mutex_unlock(&worker->lock);
}

static void *worker_main(void *argument)
{
    worker_t *worker = argument;
    for (unsigned seen = 0;; seen++) {
        wait_change(worker, &worker->posted, seen, &worker->wake);
        if (worker->work == NULL) {
            return NULL;
        }
        worker->work(worker->context, worker->index, worker->begin, worker->end);
        advance(worker, &worker->finished, &worker->done);
    }
}

static void post(worker_t *worker, or_work_t work, void *context, uint32_t begin, uint32_t end)
{
    worker->work = work;
    worker->context = context;
    worker->begin = begin;
    worker->end = end;
    advance(worker, &worker->posted, &worker->wake);
}

static void fini_worker(worker_t *worker)
{
    pthread_cond_destroy(&worker->done);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
}

static or_status_t start_worker(or_workers_t *pool, worker_t *worker, uint32_t index)
{
    worker->pool = pool;
    worker->index = index;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    pthread_cond_init(&worker->done, NULL);
    int error = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (error != 0) {
        fini_worker(worker);
        return or_fail(OR_ERR_IO, "cannot start thread %u of %u (%s); use fewer (-t)", index + 1,
                       pool->count, strerror(error));
    }
    return OR_OK;
}

static void stop_workers(or_workers_t *pool, uint32_t started)
{
    for (uint32_t i = 0; i < started; i++) {
        post(&pool->workers[i], NULL, NULL, 0, 0);
        pthread_join(pool->workers[i].thread, NULL);
        fini_worker(&pool->workers[i]);
    }
}

or_status_t or_workers_create(uint32_t threads, or_workers_t **workers_p)
{
    uint32_t core_count = cores();
    if (threads == 0) {
        threads = core_count < OR_THREADS_MAX ? core_count : OR_THREADS_MAX;
    }
    if (threads > OR_THREADS_MAX) {
        return or_fail(OR_ERR_INVALID, "%u threads are too many; at most %u", threads,
                       OR_THREADS_MAX);
    }
    or_workers_t *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        goto no_pool;
    }
    pool->count = threads;
    pool->spin_polls = threads > core_count ? 0 : SPIN_POLLS;
    pool->workers = calloc(threads, sizeof *pool->workers);
    if (pool->workers == NULL) {
        goto no_workers;
    }
    for (uint32_t i = 0; i + 1 < threads; i++) {
        or_status_t status = start_worker(pool, &pool->workers[i], i + 1);
        if (status != OR_OK) {
            stop_workers(pool, i);
            free(pool->workers);
            free(pool);
            return status;
        }
    }
    *workers_p = pool;
    return OR_OK;

no_workers:
    free(pool);
no_pool:
    return or_fail(OR_ERR_NO_MEMORY, "no memory for %u threads", threads);
}

void or_workers_destroy(or_workers_t **workers_p)
{
    or_workers_t *pool = *workers_p;
    if (pool == NULL) {
        return;
    }
    stop_workers(pool, pool->count - 1);
    free(pool->workers);
    free(pool);
    *workers_p = NULL;
}

uint32_t or_workers_count(const or_workers_t *workers)
{
    return workers->count;
}

void or_workers_run(or_workers_t *workers, uint32_t items, uint32_t grain, or_work_t work,
                    void *context)
{
    uint32_t parts = items / grain < workers->count ? items / grain : workers->count;
    if (parts <= 1) {
        work(context, 0, 0, items);
        return;
    }
    for (uint32_t i = 1; i < parts; i++) {
        post(&workers->workers[i - 1], work, context, (uint32_t)((uint64_t)i * items / parts),
             (uint32_t)((uint64_t)(i + 1) * items / parts));
    }
    work(context, 0, 0, items / parts);
    for (uint32_t i = 1; i < parts; i++) {
        worker_t *worker = &workers->workers[i - 1];
        unsigned before = atomic_load_explicit(&worker->posted, memory_order_relaxed) - 1;
        wait_change(worker, &worker->finished, before, &worker->done);
    }
}

uint32_t or_workers_grain(uint64_t multiply_adds)
{
    return (uint32_t)(GRAIN_MULTIPLY_ADDS / (multiply_adds + 1)) + 1;
}
