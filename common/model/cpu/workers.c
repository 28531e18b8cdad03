#include "common/model/cpu/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64u

// Usual polls before sleeping: 30 to 100 microseconds on today's machines, longer than what lies between two loops of a
// pass. A drafter and a verifier who share two CPUs gain by it too.
#define SPIN_POLLS 2000u
// Handing this many multiply-adds over to a worker who is awake pays.
#define GRAIN_MULTIPLY_ADDS 65536u
// A thread takes half of its share of the remaining items at a time. So hand-overs are few, and the last ones are
// small.
#define SHARE 2u

typedef struct {
    or_workers_t *pool;
    pthread_t thread;
    uint32_t index;
} worker_t;

// One job at a time. Its round is odd while there is something to take of it; whoever comes announces
// himself in `inside` first and looks at the round again then, so that the caller, who closes the round
// and waits until nobody is inside, may write the next job. Threads that come late find nothing to do,
// and nobody waits for one that did not get a core.
//
//     caller    write job, round 7 ─── take, take, take ─── round 8, wait until inside == 0
//     worker           sees 7, inside + 1, still 7 ─── take, take ─── inside - 1
//
// Who sleeps says so before he looks a last time, and who changes something looks for sleepers after
// it: both in the one order of all atomics here, so that no wake-up is lost.
struct or_workers {
    uint32_t count; // with the caller
    uint32_t spin_polls;
    or_work_t work;
    void *context;
    uint32_t items;
    uint32_t grain;
    _Alignas(CACHE_LINE) atomic_uint round;
    atomic_bool ends;
    _Alignas(CACHE_LINE) atomic_uint next; // item that nobody has taken
    _Alignas(CACHE_LINE) atomic_uint inside;
    atomic_uint sleepers;
    atomic_bool caller_sleeps;
    pthread_mutex_t lock; // only for sleeping
    pthread_cond_t wake;
    pthread_cond_t done;
    worker_t *workers; // [count - 1]
};

static uint32_t cores(const or_cpus_t *pins)
{
    or_cpus_t allowed = or_cpus_allowed();
    return or_cpus_count(pins != NULL ? pins : &allowed);
}

static uint32_t spin_polls(const or_workers_options_t *options)
{
    int32_t poll = options->poll == 0 ? OR_POLL_USUAL : options->poll;
    return poll < 0 ? 0 : SPIN_POLLS / OR_POLL_USUAL * (uint32_t)poll;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// The next items for a thread; false: all are taken.
static bool take(or_workers_t *pool, uint32_t *begin, uint32_t *end)
{
    uint32_t at = atomic_load_explicit(&pool->next, memory_order_relaxed);
    uint32_t count;
    do {
        if (at >= pool->items) {
            return false;
        }
        uint32_t left = pool->items - at;
        count = left / (SHARE * pool->count);
        count = count < pool->grain ? pool->grain : count;
        count = left < count + pool->grain ? left : count; // no rest that is less than the grain
    } while (!atomic_compare_exchange_weak(&pool->next, &at, at + count));
    *begin = at;
    *end = at + count;
    return true;
}

static void run_job(or_workers_t *pool, uint32_t index)
{
    uint32_t begin, end;
    while (take(pool, &begin, &end)) {
        pool->work(pool->context, index, begin, end);
    }
}

// Spin a little, then sleep.
static uint32_t wait_for_another_round(or_workers_t *pool, uint32_t seen)
{
    for (uint32_t i = 0; i < pool->spin_polls; i++) {
        uint32_t round = atomic_load(&pool->round);
        if (round != seen) {
            return round;
        }
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->round) == seen) {
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load(&pool->round);
}

static void wait_until_nobody_is_inside(or_workers_t *pool)
{
    for (uint32_t i = 0; i < pool->spin_polls; i++) {
        if (atomic_load(&pool->inside) == 0) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->inside) != 0) {
        pthread_cond_wait(&pool->done, &pool->lock);
    }
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

static void leave(or_workers_t *pool)
{
    if (atomic_fetch_sub(&pool->inside, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->lock);
    }
}

static void *worker_main(void *argument)
{
    worker_t *worker = argument;
    or_workers_t *pool = worker->pool;
    uint32_t seen = 0;
    for (;;) {
        seen = wait_for_another_round(pool, seen);
        if (atomic_load(&pool->ends)) {
            return NULL;
        }
        if (seen % 2 == 1) {
            atomic_fetch_add(&pool->inside, 1);
            if (atomic_load(&pool->round) == seen) {
                run_job(pool, worker->index);
            }
            leave(pool);
        }
    }
}

// Wake at most `wanted` of those who sleep: those who spin come anyway.
static void begin_round(or_workers_t *pool, uint32_t wanted)
{
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->lock);
        for (uint32_t i = 0; i < wanted; i++) {
            pthread_cond_signal(&pool->wake);
        }
        pthread_mutex_unlock(&pool->lock);
    }
}

// Start a thread that runs on its CPU from its first instruction on.
static int start_thread(worker_t *worker, const or_cpus_t *pins)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    if (pins != NULL) {
        or_cpus_t cpu = or_cpus_nth(pins, worker->index);
        error = pthread_attr_setaffinity_np(&attributes, sizeof cpu.set, &cpu.set);
    }
    error = error != 0 ? error : pthread_create(&worker->thread, &attributes, worker_main, worker);
    pthread_attr_destroy(&attributes);
    return error;
}

static void stop_workers(or_workers_t *pool, uint32_t started)
{
    atomic_store(&pool->ends, true);
    begin_round(pool, started);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
}

static or_status_t start_workers(or_workers_t *pool, const or_cpus_t *pins)
{
    or_status_t status = OR_OK;
    if (pins != NULL) {
        or_cpus_t first = or_cpus_nth(pins, 0);
        status = or_cpus_pin(&first);
    }
    for (uint32_t i = 0; status == OR_OK && i + 1 < pool->count; i++) {
        pool->workers[i] = (worker_t){.pool = pool, .index = i + 1};
        int error = start_thread(&pool->workers[i], pins);
        if (error != 0) {
            stop_workers(pool, i);
            status = or_fail(OR_ERR_IO, "cannot start thread %u of %u (%s); use fewer (-t)", i + 2,
                             pool->count, strerror(error));
        }
    }
    return status;
}

static void free_pool(or_workers_t *pool)
{
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

or_status_t or_workers_create(const or_workers_options_t *options, or_workers_t **workers_p)
{
    uint32_t threads = options->threads;
    uint32_t core_count = cores(options->pins);
    if (threads == 0) {
        threads = core_count < OR_THREADS_MAX ? core_count : OR_THREADS_MAX;
    }
    if (threads > OR_THREADS_MAX) {
        return or_fail(OR_ERR_INVALID, "%u threads are too many; at most %u", threads,
                       OR_THREADS_MAX);
    }
    or_workers_t *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    worker_t *started = calloc(threads, sizeof *started);
    if (pool == NULL || started == NULL) {
        free(started);
        free(pool);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u threads", threads);
    }
    *pool = (or_workers_t){.count = threads, .workers = started};
    pool->spin_polls = threads > core_count ? 0 : spin_polls(options);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    or_status_t status = start_workers(pool, options->pins);
    if (status != OR_OK) {
        free_pool(pool);
        return status;
    }
    *workers_p = pool;
    return OR_OK;
}

void or_workers_destroy(or_workers_t **workers_p)
{
    or_workers_t *pool = *workers_p;
    if (pool == NULL) {
        return;
    }
    stop_workers(pool, pool->count - 1);
    free_pool(pool);
    *workers_p = NULL;
}

uint32_t or_workers_count(const or_workers_t *workers)
{
    return workers->count;
}

void or_workers_run(or_workers_t *pool, uint32_t items, uint32_t grain, or_work_t work,
                    void *context)
{
    if (pool->count == 1 || items / grain <= 1) {
        work(context, 0, 0, items);
        return;
    }
    pool->work = work;
    pool->context = context;
    pool->items = items;
    pool->grain = grain;
    atomic_store(&pool->next, 0);
    uint32_t most = items / grain < pool->count ? items / grain : pool->count;
    begin_round(pool, most - 1);
    run_job(pool, 0);
    atomic_fetch_add(&pool->round, 1);
    wait_until_nobody_is_inside(pool);
}

uint32_t or_workers_grain(uint64_t multiply_adds)
{
    return (uint32_t)(GRAIN_MULTIPLY_ADDS / (multiply_adds + 1)) + 1;
}
