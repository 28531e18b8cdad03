// thread_world - several ranks as threads of this process, for tests (common/model/ranks/ranks.h).
//
//     the test's thread              thread 1                     thread 2 ...
//     rank 0 of stage 0: leader      open the file, load,         the same
//     load, use, destroy  ─────────▶ or_model_follow, destroy
//     join
//
// An exchange is a meeting: each lays down what it sends, all wait for each other, take what they need
// and wait again. Whoever brings another number of bytes than the rest fails, and who waits for a rank whose
// life is over gets OR_ERR_UNREACHABLE, so that no test hangs.
#pragma once

#include "common/model/model.h"

#define THREAD_WORLD_MAX 16 // ranks

typedef struct thread_world thread_world_t;

// Make `stages` groups of `size` ranks. Fails the test if it cannot be done.
thread_world_t *thread_world_create(int size, int stages);
// Destroy the world, after joining it.
void thread_world_destroy(thread_world_t **world_p);

// Rank index % size of stage index / size; 0 is the leader. Valid until destroy.
const or_ranks_t *thread_world_ranks(thread_world_t *world, int index);

// Start a thread for every rank but the leader, which lives `life` and ends with what that returns.
// `context` is borrowed until join.
typedef or_status_t thread_world_life_t(const or_ranks_t *ranks, void *context);
void thread_world_start(thread_world_t *world, thread_world_life_t *life, void *context);
// The life of most ranks: open `path` (borrowed), load with `options` and the rank's own ranks,
// follow, destroy.
void thread_world_follow(thread_world_t *world, const char *path,
                         const or_model_options_t *options);

// Wait for the other ranks to end, when the leader is done. Returns OR_OK, or the status of the
// first that failed, with its sentence. A rank that still waits for the leader fails. May be
// repeated.
or_status_t thread_world_join(thread_world_t *world);
// The sentence that rank `index` ended with, after join; "" if it ended well.
const char *thread_world_error(const thread_world_t *world, int index);

// The bytes that the leader has sent to all, and those collected for it, so far. For its thread.
uint64_t thread_world_broadcasts(const thread_world_t *world);
uint64_t thread_world_collected_bytes(const thread_world_t *world);
