// emulated_fiber - functions that take turns on one host thread, each with a stack of its own.
//
// The host thread itself is a fiber as well, or_fiber_host. One host thread at a time. AddressSanitizer is told of
// every switch; all it forgets by one is what lies between the arrays on the stack that is left.
#pragma once

typedef struct or_fiber or_fiber_t;

extern or_fiber_t *const or_fiber_host;

// A fiber that calls `run` when it is first switched to; `run` never returns. Kept until the program ends, which is
// why callers keep those that have nothing to do for later use. Aborts without memory.
or_fiber_t *or_fiber_create(void (*run)(void));
// The one that runs.
or_fiber_t *or_fiber_current(void);
// Go on where `to` left; returns when somebody switches back to the caller.
void or_fiber_switch(or_fiber_t *to);
