#include <signal.h>
#include <string.h>

#include <xxhash.h>

#include "common/gguf/packed_internal.h"

bool or_packed_piece_is_whole(const or_packed_t *packed, uint64_t piece)
{
    uint64_t at = piece * OR_PACKED_PIECE;
    uint64_t left = packed->bytes - at;
    XXH128_canonical_t is, said;
    XXH128_hash_t hash =
        XXH3_128bits(packed->begin + at, left < OR_PACKED_PIECE ? left : OR_PACKED_PIECE);
    XXH128_canonicalFromHash(&is, hash);
    memcpy(&said, (const char *)packed->checksums->data + piece * sizeof said, sizeof said);
    return memcmp(&is, &said, sizeof is) == 0;
}

static void note_broken(or_packed_t *packed, uint64_t piece)
{
    uint64_t known = atomic_load(&packed->broken);
    while ((known == 0 || piece + 1 < known) &&
           !atomic_compare_exchange_weak(&packed->broken, &known, piece + 1)) {
    }
}

static void *compare(void *argument)
{
    or_packed_t *packed = argument;
    uint64_t piece = atomic_fetch_add(&packed->next, 1);
    while (piece < packed->pieces && !atomic_load(&packed->stop)) {
        if (!or_packed_piece_is_whole(packed, piece)) {
            note_broken(packed, piece);
        }
        piece = atomic_fetch_add(&packed->next, 1);
    }
    return NULL;
}

// They take no signals, which are for the main thread, but for a fault of their own: the kernel would end the process without a
// word if that was blocked.
void or_packed_compare_begin(or_packed_t *packed, uint32_t threads)
{
    uint32_t wanted = threads < COMPARERS_MAX ? threads : COMPARERS_MAX;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (packed->thread_count < wanted &&
           pthread_create(&packed->threads[packed->thread_count], NULL, compare, packed) == 0) {
        packed->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void or_packed_compare_end(or_packed_t *packed, bool early)
{
    if (early) {
        atomic_store(&packed->stop, true);
    } else {
        compare(packed); // the caller waits anyway
    }
    while (packed->thread_count > 0) {
        pthread_join(packed->threads[--packed->thread_count], NULL);
    }
}
