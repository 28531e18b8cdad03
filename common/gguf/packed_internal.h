// packed_internal - an open packed file, for the sources of packed.
//
//     packed.c          where it is, whether it is trusted, what is in it
//     packed_compare.c  the threads that compare it with its checksums
//     packed_reader.c   the threads that read it past its mapping
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "common/gguf/packed.h"

#define COMPARERS_MAX 8u

struct or_packed {
    or_gguf_t *file;
    const or_gguf_tensor_t *checksums;
    const unsigned char *begin; // of the file
    uint64_t bytes;             // in front of the checksums
    uint64_t pieces;
    bool lost;

    bool *only;              // [pieces] those that are compared; NULL: all
    _Atomic uint64_t next;   // piece that nobody compares yet
    _Atomic uint64_t broken; // 1 + the first piece that differs, as far as known; 0: none
    _Atomic int unreadable;  // errno of a reading that failed; -1: the file ended; 0: none did
    _Atomic bool stop;
    pthread_t threads[COMPARERS_MAX];
    uint32_t thread_count; // that were started and not joined
};

// Return the bytes of a piece; the last may be shorter.
uint64_t or_packed_piece_bytes(const or_packed_t *packed, uint64_t piece);
// Compare these bytes with the checksum of a piece; where they differ that is noted.
bool or_packed_piece_check(or_packed_t *packed, uint64_t piece, const void *bytes);

// Start at most `wanted` threads, which take no signals; return how many there are.
uint32_t or_packed_threads_start(pthread_t *threads, uint32_t wanted, void *(*run)(void *),
                                 void *argument);

// Begin to compare. Where no thread can be started the first or_packed_check does all.
void or_packed_compare_begin(or_packed_t *packed, uint32_t threads);
// Wait until that is done, or end it early.
void or_packed_compare_end(or_packed_t *packed, bool early);

// See what is known of the file by now: as or_packed_check, but without waiting.
or_status_t or_packed_judge(or_packed_t *packed);
