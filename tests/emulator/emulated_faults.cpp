// Faults of kernels: what they do wrong is told with the thread that did it, and the first write to memory that is
// fresh is noted (emulated_memory.cpp). A test's own handler would go on with the next test, from the middle of a
// launch.
#include "tests/emulator/emulated_internal.hpp"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE};
#define FAULTS (sizeof faults / sizeof faults[0])

static pthread_t launcher; // the host's thread that runs kernels
static const char *launched;
static struct sigaction before[FAULTS];

void or_emulated_end(const char *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", call);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    fflush(nullptr); // what was said before, such as which test has failed
    abort();
}

[[noreturn]] static void end_touching(or_emulated_touch_t touch, const char *writer)
{
    switch (touch) {
    case OR_EMULATED_TOUCHES_WRITTEN:
        or_emulated_end_thread(
            "touches memory before or_await_before that kernels write, first of them %s", writer);
    case OR_EMULATED_WRITES_EARLY:
        or_emulated_end_thread("writes to device memory before or_await_before");
    default:
        or_emulated_end_thread("reads or writes where there is no memory");
    }
}

static void handle(int fault, siginfo_t *details, void *)
{
    if (!pthread_equal(pthread_self(), launcher)) {
        signal(fault, SIG_DFL); // not a kernel's, and it comes again
        return;
    }
    if (fault == SIGFPE) {
        or_emulated_end_thread("divides by zero");
    }
    const char *writer = nullptr;
    const or_emulated_touch_t touch = or_emulated_touch(details->si_addr, launched, &writer);
    if (touch != OR_EMULATED_WRITES_FIRST) {
        end_touching(touch, writer);
    }
}

void or_emulated_catch_faults(const char *call)
{
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    launcher = pthread_self();
    launched = call;
    for (size_t i = 0; i < FAULTS; i++) {
        sigaction(faults[i], &action, &before[i]);
    }
}

void or_emulated_leave_faults(void)
{
    for (size_t i = 0; i < FAULTS; i++) {
        sigaction(faults[i], &before[i], nullptr);
    }
}
