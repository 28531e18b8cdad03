// Copies to shared memory while a thread goes on (or_copy_piece), in groups that it waits for.
//
// A device does them whenever it likes. Here one is done at once or when it is waited for, by turns that
// OR_EMULATED_SEED changes: so one that is not waited for, and one into what is still read, are both seen.
#include "tests/emulator/emulated_internal.hpp"

#define THREADS_MAX 1024u

typedef struct {
    void *to;
    const void *from; // NULL: zeros
    size_t bytes;
    uint32_t group;
} copy_t;

typedef struct {
    uint32_t groups; // that have ended
    std::vector<copy_t> late;
    bool at_once; // all of them
} copies_t;

static copies_t of_thread[THREADS_MAX];

static void do_copy(const copy_t &copy)
{
    if (copy.from) {
        memcpy(copy.to, copy.from, copy.bytes);
    } else {
        memset(copy.to, 0, copy.bytes);
    }
}

static void ask(void *to, const void *from, size_t bytes)
{
    static uint64_t state;
    copies_t *own = &of_thread[or_emulated_thread()];
    const copy_t copy = {to, from, bytes, own->groups};
    if (own->at_once || or_emulated_random_below(&state, 2) == 0) {
        do_copy(copy);
    } else {
        own->late.push_back(copy);
    }
}

// A GPU faults where an address is no multiple of what is copied.
static void check_aligned(const char *call, const void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) {
        or_emulated_end(call, "copies %zu bytes between addresses that are no multiples of that",
                        bytes);
    }
}

void or_copy_piece(void *to, const void *from, bool there)
{
    check_aligned("or_copy_piece", to, there ? from : nullptr, 16);
    ask(to, there ? from : nullptr, 16);
}

void or_copy_float(float *to, const float *from)
{
    check_aligned("or_copy_float", to, from, sizeof *to);
    ask(to, from, sizeof *to);
}

void or_copies_end(void)
{
    of_thread[or_emulated_thread()].groups++;
}

void or_emulated_copies_wait(uint32_t groups)
{
    copies_t *own = &of_thread[or_emulated_thread()];
    std::vector<copy_t> still;
    for (const copy_t &copy : own->late) {
        if (copy.group + groups < own->groups) {
            do_copy(copy);
        } else {
            still.push_back(copy);
        }
    }
    own->late.swap(still);
}

void or_emulated_copies_begin(uint32_t thread, bool at_once)
{
    of_thread[thread].groups = 0;
    of_thread[thread].late.clear();
    of_thread[thread].at_once = at_once;
}

size_t or_emulated_copies_left(uint32_t thread)
{
    return of_thread[thread].late.size();
}
