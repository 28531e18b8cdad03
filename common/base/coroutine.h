// coroutine - a function that can stop in the middle, and goes on there when it is resumed.
//
// It has a stack of its own (ucontext.h) and runs on the thread of its caller, while that waits in or_coroutine_resume.
// So nothing is locked, and a long calculation can be written as plain code although others take turns with it.
//
//     caller       resume ──┐           ┌──▶ ... resume ──┐            ┌──▶ (false: it has returned)
//     coroutine             └──▶ pause ─┘                 └──▶ return ─┘
//
// One thread: a coroutine is resumed by the thread that created it. A resumed coroutine may not resume another.
#pragma once

#include "common/base/status.h"

typedef struct or_coroutine or_coroutine_t;

// Create one that runs nothing yet. OR_ERR_NO_MEMORY.
or_status_t or_coroutine_create(or_coroutine_t **coroutine_p);
// A function that has not returned is given up; what it holds is lost.
void or_coroutine_destroy(or_coroutine_t **coroutine_p);

// Set what the next resume begins with. What ran before must have returned. Borrows `context`.
void or_coroutine_set(or_coroutine_t *coroutine, void (*function)(void *context), void *context);
// Run it until it pauses (true) or returns (false).
bool or_coroutine_resume(or_coroutine_t *coroutine);
// Called by the running function: let or_coroutine_resume return, and come back when it is called again.
void or_coroutine_pause(or_coroutine_t *coroutine);
