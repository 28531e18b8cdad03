#include "common/base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t signals;
static volatile sig_atomic_t terminated;
static int ends[2] = {-1, -1}; // a pipe from the handler to the loops that wait

static void on_signal(int number)
{
    int saved = errno;
    signals++;
    terminated |= number != SIGINT;
    ssize_t written = write(ends[1], "", 1); // a full pipe is readable too
    (void)written;
    errno = saved;
}

// A process that was started with SIGHUP ignored, as by nohup, shall outlive the terminal.
static void watch_hangup(const struct sigaction *action)
{
    struct sigaction now;
    if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
        sigaction(SIGHUP, action, NULL);
    }
}

void or_interrupt_watch(void)
{
    if (ends[0] < 0 && pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1; // signals are still counted; a wait may notice one late
    }
    struct sigaction action = {.sa_handler = on_signal}; // no SA_RESTART: waits must end
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    watch_hangup(&action);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int or_interrupt_count(void)
{
    return signals;
}

bool or_interrupt_is_final(void)
{
    return terminated != 0;
}

int or_interrupt_fd(void)
{
    return ends[0];
}

void or_interrupt_drain(void)
{
    char buffer[64];
    while (read(ends[0], buffer, sizeof buffer) > 0) {
    }
}
