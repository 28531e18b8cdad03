// A fiber begins by setcontext, and from then on switches by _setjmp and _longjmp, which make no system calls.
#undef _FORTIFY_SOURCE // its longjmp takes another stack for a mistake

#include "tests/emulator/emulated_fiber.hpp"

#include <new>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES ((size_t)256 * 1024)
#define STACK_STARTS 32u

struct or_fiber {
    jmp_buf place;      // where it left
    ucontext_t context; // where it begins
    bool fresh;         // it has yet to begin
    void (*run)(void);
    const void *stack; // known of the host only when another fiber has begun
    size_t stack_bytes;
    void *fake_stack; // AddressSanitizer's
};

static or_fiber_t host;
or_fiber_t *const or_fiber_host = &host;

static or_fiber_t *current = &host;
static or_fiber_t *previous = &host;

static void tell_leaving(or_fiber_t *from, const or_fiber_t *to)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#else
    (void)from;
    (void)to;
#endif
}

static void tell_arrived(const or_fiber_t *here)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(here->fake_stack, &previous->stack, &previous->stack_bytes);
#else
    (void)here;
#endif
}

static void begin(void)
{
    tell_arrived(current);
    current->run();
    abort();
}

// Map a stack, with a page below it that ends the program if the stack overflows.
static void *map_stack(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(nullptr, page + STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0) {
        perror("emulated: no memory for the stack of a thread");
        abort();
    }
    return (char *)at + page;
}

// Stacks begin on different cache lines: what every fiber has at the same depth would otherwise share a few sets
// of the cache, which makes a wait of 1024 threads twice as slow.
or_fiber_t *or_fiber_create(void (*run)(void))
{
    static size_t created;
    or_fiber_t *fiber = new or_fiber_t{};
    fiber->fresh = true;
    fiber->run = run;
    fiber->stack = map_stack();
    fiber->stack_bytes = STACK_BYTES - created++ % STACK_STARTS * 128;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = const_cast<void *>(fiber->stack);
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    makecontext(&fiber->context, begin, 0);
    return fiber;
}

or_fiber_t *or_fiber_current(void)
{
    return current;
}

void or_fiber_switch(or_fiber_t *to)
{
    or_fiber_t *from = current;
    if (to == from) {
        return;
    }
    previous = from;
    current = to;
    tell_leaving(from, to);
    if (_setjmp(from->place) == 0) {
        if (!to->fresh) {
            _longjmp(to->place, 1);
        }
        to->fresh = false;
        setcontext(&to->context);
    }
    tell_arrived(from);
}
