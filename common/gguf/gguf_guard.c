// A mapped file that is cut short, or whose disk fails, kills whoever reads on (SIGBUS). The process then says which file
// it was before it ends.
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_internal.h"

#define MAPPINGS 64u // that are watched; further ones fail as any program's do
#define PATH_BYTES 512

typedef struct {
    _Atomic uintptr_t begin, end; // 0: nothing is watched here
    char sentence[PATH_BYTES];    // written before `end`
} mapping_t;

static mapping_t mappings[MAPPINGS];
static atomic_flag changing = ATOMIC_FLAG_INIT;
static struct sigaction before;

// The fault comes again, or the signal is sent again, when the former handler is back.
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < MAPPINGS; i++) {
        if (at < atomic_load(&mappings[i].end) && at >= atomic_load(&mappings[i].begin)) {
            ssize_t written =
                write(STDERR_FILENO, mappings[i].sentence, strlen(mappings[i].sentence));
            (void)written;
        }
    }
    sigaction(number, &before, NULL);
    if (info->si_code <= 0) { // of kill(2)
        raise(number);
    }
}

// A library may have put a handler of its own in its place meanwhile.
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    struct sigaction now;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_bus_error) {
        before = now;
        sigaction(SIGBUS, &action, NULL);
    }
}

static void lock(void)
{
    while (atomic_flag_test_and_set(&changing)) {
    }
}

void or_gguf_guard(const or_gguf_t *gguf)
{
    size_t i = 0;
    lock();
    while (i < MAPPINGS && atomic_load(&mappings[i].end) != 0) {
        i++;
    }
    if (i < MAPPINGS) {
        snprintf(mappings[i].sentence, PATH_BYTES,
                 "%.*s: it was cut short, or cannot be read any more, while it was in use: this "
                 "process ends\n",
                 PATH_BYTES / 2, gguf->path);
        atomic_store(&mappings[i].begin, (uintptr_t)gguf->map);
        atomic_store(&mappings[i].end, (uintptr_t)gguf->map + gguf->bytes);
    }
    install();
    atomic_flag_clear(&changing);
}

void or_gguf_unguard(const or_gguf_t *gguf)
{
    lock();
    for (size_t i = 0; i < MAPPINGS; i++) {
        if (atomic_load(&mappings[i].begin) == (uintptr_t)gguf->map) {
            atomic_store(&mappings[i].end, 0);
            atomic_store(&mappings[i].begin, 0);
        }
    }
    atomic_flag_clear(&changing);
}
