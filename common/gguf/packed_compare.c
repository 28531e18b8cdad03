#include <signal.h>
#include <string.h>

#include <xxhash.h>

#include "common/gguf/gguf_internal.h"
#include "common/gguf/packed_internal.h"

uint64_t or_packed_piece_bytes(const or_packed_t *packed, uint64_t piece)
{
    uint64_t left = packed->bytes - piece * OR_PACKED_PIECE;
    return left < OR_PACKED_PIECE ? left : OR_PACKED_PIECE;
}

static void note_broken(or_packed_t *packed, uint64_t piece)
{
    uint64_t known = atomic_load(&packed->broken);
    while ((known == 0 || piece + 1 < known) &&
           !atomic_compare_exchange_weak(&packed->broken, &known, piece + 1)) {
    }
}

bool or_packed_piece_check(or_packed_t *packed, uint64_t piece, const void *bytes)
{
    XXH128_canonical_t is, said;
    XXH128_canonicalFromHash(&is, XXH3_128bits(bytes, or_packed_piece_bytes(packed, piece)));
    memcpy(&said, (const char *)packed->checksums->data + piece * sizeof said, sizeof said);
    bool is_whole = memcmp(&is, &said, sizeof is) == 0;
    if (!is_whole) {
        note_broken(packed, piece);
    }
    return is_whole;
}

static void *compare(void *argument)
{
    or_packed_t *packed = argument;
    uint64_t piece = atomic_fetch_add(&packed->next, 1);
    while (piece < packed->pieces && !atomic_load(&packed->stop)) {
        const unsigned char *at = packed->begin + piece * OR_PACKED_PIECE;
        if (packed->only == NULL) {
            or_packed_piece_check(packed, piece, at);
        } else if (packed->only[piece]) {
            or_packed_piece_check(packed, piece, at);
            // Much of it may be what the caller reads himself. What he does not comes again when it is used.
            or_gguf_release_bytes(packed->file, at, or_packed_piece_bytes(packed, piece));
        }
        piece = atomic_fetch_add(&packed->next, 1);
    }
    return NULL;
}

// Signals are for the main thread, but for a fault of their own: the kernel would end the process without a word if that
// was blocked.
uint32_t or_packed_threads_start(pthread_t *threads, uint32_t wanted, void *(*run)(void *),
                                 void *argument)
{
    uint32_t count = 0;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (count < wanted && pthread_create(&threads[count], NULL, run, argument) == 0) {
        count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return count;
}

void or_packed_compare_begin(or_packed_t *packed, uint32_t threads)
{
    packed->thread_count = or_packed_threads_start(
        packed->threads, threads < COMPARERS_MAX ? threads : COMPARERS_MAX, compare, packed);
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
