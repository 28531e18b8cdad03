#include "common/base/coroutine.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

// As much as a thread's: pages take memory once they are touched, which is some 64 KiB where a tree is built.
#define STACK_BYTES (8u << 20)

#ifdef __has_feature // clang
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define THREAD_SANITIZER
#endif

// A side of the switch: where it goes on, and what a sanitizer must know of its stack.
typedef struct {
    ucontext_t context;
    const void *bottom;
    size_t bytes;
    void *sanitizer; // its own notes
} side_t;

struct or_coroutine {
    uint8_t *memory; // a page that nobody may touch, then the stack
    size_t guard_bytes;
    side_t own, caller;
    void (*function)(void *context);
    void *context;
    bool runs; // the function has begun and not returned
};

// ---- switching ----

// Leave `from`, which comes back only if it is not `last`.
static void leaving(side_t *from, const side_t *to, bool last)
{
    (void)from, (void)to, (void)last;
#ifdef ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(last ? NULL : &from->sanitizer, to->bottom, to->bytes);
#endif
#ifdef THREAD_SANITIZER
    __tsan_switch_to_fiber(to->sanitizer, 0);
#endif
}

// Note that `here` runs, and which stack `from` has.
static void arrived(side_t *here, side_t *from)
{
    (void)here, (void)from;
#ifdef ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(here->sanitizer, &from->bottom, &from->bytes);
#endif
}

// The bottom of a coroutine's stack. Arguments of makecontext are ints, so it learns here whose it is.
static _Thread_local or_coroutine_t *beginning;

static void run(void)
{
    or_coroutine_t *coroutine = beginning;
    arrived(&coroutine->own, &coroutine->caller);
    coroutine->function(coroutine->context);
    coroutine->runs = false;
    leaving(&coroutine->own, &coroutine->caller, true);
    setcontext(&coroutine->caller.context);
}

static void begin(or_coroutine_t *coroutine)
{
    side_t *own = &coroutine->own;
    getcontext(&own->context);
    own->context.uc_stack.ss_sp = (void *)own->bottom;
    own->context.uc_stack.ss_size = own->bytes;
    own->context.uc_link = NULL;
    makecontext(&own->context, run, 0);
#ifdef ADDRESS_SANITIZER
    own->sanitizer = NULL;
#endif
    coroutine->runs = true;
    beginning = coroutine;
}

bool or_coroutine_resume(or_coroutine_t *coroutine)
{
    if (!coroutine->runs) {
        begin(coroutine);
    }
#ifdef THREAD_SANITIZER
    coroutine->caller.sanitizer = __tsan_get_current_fiber();
#endif
    leaving(&coroutine->caller, &coroutine->own, false);
    swapcontext(&coroutine->caller.context, &coroutine->own.context);
    arrived(&coroutine->caller, &coroutine->own);
    return coroutine->runs;
}

void or_coroutine_pause(or_coroutine_t *coroutine)
{
    leaving(&coroutine->own, &coroutine->caller, false);
    swapcontext(&coroutine->own.context, &coroutine->caller.context);
    arrived(&coroutine->own, &coroutine->caller);
}

// ---- memory ----

void or_coroutine_set(or_coroutine_t *coroutine, void (*function)(void *context), void *context)
{
    coroutine->function = function;
    coroutine->context = context;
}

or_status_t or_coroutine_create(or_coroutine_t **coroutine_p)
{
    or_coroutine_t *coroutine = calloc(1, sizeof *coroutine);
    if (coroutine == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a coroutine");
    }
    coroutine->guard_bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, coroutine->guard_bytes + STACK_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
        free(coroutine);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a coroutine's stack");
    }
    coroutine->memory = memory;
    coroutine->own.bottom = coroutine->memory + coroutine->guard_bytes;
    coroutine->own.bytes = STACK_BYTES;
#ifdef THREAD_SANITIZER
    coroutine->own.sanitizer = __tsan_create_fiber(0);
#endif
    if (mprotect((void *)coroutine->own.bottom, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) {
        or_coroutine_destroy(&coroutine);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a coroutine's stack");
    }
    *coroutine_p = coroutine;
    return OR_OK;
}

void or_coroutine_destroy(or_coroutine_t **coroutine_p)
{
    or_coroutine_t *coroutine = *coroutine_p;
    if (coroutine == NULL) {
        return;
    }
#ifdef THREAD_SANITIZER
    __tsan_destroy_fiber(coroutine->own.sanitizer);
#endif
#ifdef ADDRESS_SANITIZER
    // A function that is given up leaves its frames' red zones poisoned. What is mapped here next must not inherit that.
    __asan_unpoison_memory_region(coroutine->own.bottom, STACK_BYTES);
#endif
    munmap(coroutine->memory, coroutine->guard_bytes + STACK_BYTES);
    free(coroutine);
    *coroutine_p = NULL;
}
