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

// One worker's mailbox. The caller writes a job while it is idle and posts it; whoever takes it
// first runs it, so that a caller whose worker does not get a core in time does the work itself.
// The state changes under the lock where somebody may sleep until it does, and is atomic, so that a
// spinner sees it without.
//
//     idle ──caller──▶ posted ──worker──▶ taken ──worker──▶ idle
//                        └──caller, tired of waiting──▶ idle
typedef enum { IDLE, POSTED, TAKEN } state_t;

typedef struct {
    or_workers_t *pool;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t done;
    atomic_int state; // a state_t
    or_work_t work;   // NULL: end
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

// Spin a little, then sleep.
static void wait_for(worker_t *worker, state_t state, pthread_cond_t *change)
{
    for (uint32_t i = 0; i < worker->pool->spin_polls; i++) {
        if (atomic_load_explicit(&worker->state, memory_order_acquire) == (int)state) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&worker->lock);
    while (atomic_load_explicit(&worker->state, memory_order_acquire) != (int)state) {
        pthread_cond_wait(change, &worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
}

static void announce(worker_t *worker, state_t state, pthread_cond_t *change)
{
    pthread_mutex_lock(&worker->lock);
    atomic_store_explicit(&worker->state, state, memory_order_release);
    pthread_cond_signal(change);
    pthread_mutex_unlock(&worker->lock);
}

// Take the posted job, if nobody else has.
static bool take(worker_t *worker, state_t next)
{
    int posted = POSTED;
    return atomic_compare_exchange_strong(&worker->state, &posted, next);
}

static void *worker_main(void *argument)
{
    worker_t *worker = argument;
    for (;;) {
        wait_for(worker, POSTED, &worker->wake);
        if (!take(worker, TAKEN)) {
            continue;
        }
        if (worker->work == NULL) {
            return NULL;
        }
        worker->work(worker->context, worker->index, worker->begin, worker->end);
        announce(worker, IDLE, &worker->done);
    }
}

static void post(worker_t *worker, or_work_t work, void *context, uint32_t begin, uint32_t end)
{
    worker->work = work;
    worker->context = context;
    worker->begin = begin;
    worker->end = end;
    announce(worker, POSTED, &worker->wake);
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
        if (take(worker, IDLE)) {
            work(context, 0, worker->begin, worker->end);
        } else {
            wait_for(worker, IDLE, &worker->done);
        }
    }
}

uint32_t or_workers_grain(uint64_t multiply_adds)
{
    return (uint32_t)(GRAIN_MULTIPLY_ADDS / (multiply_adds + 1)) + 1;
}
