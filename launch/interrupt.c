#include "launch/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

void or_interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal}; // no SA_RESTART: waits must end
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int or_interrupt_count(void)
{
    return signals;
}
