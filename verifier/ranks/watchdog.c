#include "verifier/ranks/watchdog.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"

#define LOOKS_A_SECOND 4u

// The number of waits begun and ended: even between waits, and a different odd number in each.
static _Atomic uint64_t waits;
static _Atomic(const char *) waited_for;
static uint32_t patience_s;

void or_watchdog_begin(const char *what)
{
    atomic_store_explicit(&waited_for, what, memory_order_relaxed);
    uint64_t number = atomic_load_explicit(&waits, memory_order_relaxed) + 1;
    atomic_store_explicit(&waits, number, memory_order_release);
}

void or_watchdog_end(void)
{
    uint64_t number = atomic_load_explicit(&waits, memory_order_relaxed) + 1;
    atomic_store_explicit(&waits, number, memory_order_release);
}

static _Noreturn void *watch(void *unused)
{
    (void)unused;
    const struct timespec pause = {0, OR_NS_PER_S / LOOKS_A_SECOND};
    uint64_t seen = 0;
    uint64_t looks = 0; // in a row that found the same wait
    for (;;) {
        nanosleep(&pause, NULL);
        uint64_t now = atomic_load_explicit(&waits, memory_order_acquire);
        looks = now == seen && now % 2 == 1 ? looks + 1 : 0;
        seen = now;
        if (looks > (uint64_t)patience_s * LOOKS_A_SECOND) {
            or_log(OR_LOG_ERROR,
                   "nothing from the other ranks for %" PRIu32 " s in %s: one of them is stuck",
                   patience_s, atomic_load_explicit(&waited_for, memory_order_relaxed));
            // The thread that waits is the only one that may call MPI. mpirun ends the others.
            or_log_flush();
            _exit(1);
        }
    }
}

or_status_t or_watchdog_start(uint32_t timeout_s)
{
    pthread_t thread;
    sigset_t all, before;
    patience_s = timeout_s;
    sigfillset(&all); // signals are for the thread that we watch
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        return or_fail(OR_ERR_IO, "cannot start the watchdog: %s", strerror(code));
    }
    pthread_detach(thread);
    return OR_OK;
}
