#include "launch/speed/bench_timer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES 7u     // of threads together
#define BATCHES_MAX 64 // of a thread alone

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double or_timer_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

// ---- alone ----

static double time_batch(or_timed_work_t work, void *context, uint64_t calls)
{
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < calls; i++) {
        work(context, 0);
    }
    return now(CLOCK_THREAD_CPUTIME_ID) - start;
}

double or_timer_alone(or_timed_work_t work, void *context, double seconds)
{
    double times[BATCHES_MAX];
    uint64_t calls = 1;
    uint32_t batches = 0;
    work(context, 0);
    double end = now(CLOCK_MONOTONIC) + seconds;
    while (batches == 0 || (batches < BATCHES_MAX && now(CLOCK_MONOTONIC) < end)) {
        double elapsed = time_batch(work, context, calls);
        if (elapsed < seconds / BATCHES_MAX && now(CLOCK_MONOTONIC) < end) {
            calls *= 2;
            batches = 0;
        } else {
            times[batches++] = elapsed / (double)calls;
        }
    }
    return or_timer_median(times, batches);
}

// ---- together ----

typedef struct {
    or_timed_work_t work;
    void *context;
    uint32_t index;
    double end; // of the batch, for all its threads
    pthread_t thread;
    double calls_a_second;
} member_t;

static void *work_until_the_end(void *argument)
{
    member_t *member = argument;
    double start = now(CLOCK_MONOTONIC);
    double time;
    uint64_t calls = 0;
    do {
        member->work(member->context, member->index);
        calls++;
        time = now(CLOCK_MONOTONIC);
    } while (time < member->end);
    member->calls_a_second = (double)calls / (time - start);
    return NULL;
}

// How often a second all of them together; a thread takes far less time to start than a batch lasts.
static or_status_t run_batch(member_t *members, uint32_t threads, double seconds,
                             double *calls_a_second)
{
    double end = now(CLOCK_MONOTONIC) + seconds;
    uint32_t started = 0;
    int error = 0;
    while (error == 0 && started < threads) {
        member_t *member = &members[started];
        member->end = end;
        error = pthread_create(&member->thread, NULL, work_until_the_end, member);
        started += error == 0;
    }
    *calls_a_second = 0;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(members[i].thread, NULL);
        *calls_a_second += members[i].calls_a_second;
    }
    return error == 0 ? OR_OK : or_fail(OR_ERR_IO, "cannot start a thread: %s", strerror(error));
}

or_status_t or_timer_together(uint32_t threads, or_timed_work_t work, void *context, double seconds,
                              double *seconds_a_call)
{
    member_t members[OR_TIMER_THREADS_MAX];
    double rates[BATCHES];
    for (uint32_t i = 0; i < threads; i++) {
        members[i] = (member_t){.work = work, .context = context, .index = i};
    }
    for (uint32_t i = 0; i < BATCHES; i++) {
        or_status_t status = run_batch(members, threads, seconds / BATCHES, &rates[i]);
        if (status != OR_OK) {
            return status;
        }
    }
    *seconds_a_call = 1 / or_timer_median(rates, BATCHES);
    return OR_OK;
}
