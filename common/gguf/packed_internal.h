// packed_internal - an open packed file, for the sources of packed.
//
//     packed.c          where it is, whether it is trusted, what is in it
//     packed_compare.c  the threads that compare it with its checksums
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "common/gguf/packed.h"

#define COMPARERS_MAX 8u

struct or_packed {
    or_gguf_t *file;
    int fd;            // of the file, to ask whether it was changed
    struct stat found; // what the system said of it at first
    const or_gguf_tensor_t *checksums;
    const unsigned char *begin; // of the file
    uint64_t bytes;             // in front of the checksums
    uint64_t pieces;
    bool lost;

    _Atomic uint64_t next;   // piece that nobody compares yet
    _Atomic uint64_t broken; // 1 + the first piece that differs, as far as known; 0: none
    _Atomic bool stop;
    pthread_t threads[COMPARERS_MAX];
    uint32_t thread_count; // that were started and not joined
};

// Has this piece its checksum?
bool or_packed_piece_is_whole(const or_packed_t *packed, uint64_t piece);

// Begin to compare all pieces. Where no thread can be started the first or_packed_check does all.
void or_packed_compare_begin(or_packed_t *packed, uint32_t threads);
// Wait until that is done, or end it early.
void or_packed_compare_end(or_packed_t *packed, bool early);
