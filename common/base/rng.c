#include "common/base/rng.h"

#include <Random123/philox.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

// Keeps the counters that make keys apart from those that make draws, should a seed ever equal a
// key.
#define KEY_DOMAIN_HIGH UINT32_C(0x4f757472) // "Outr"
#define KEY_DOMAIN_LOW UINT32_C(0x69646572)  // "ider"
#define LANES 32                             // counters at a time

static philox4x32_key_t split_key(or_rng_key_t key)
{
    return (philox4x32_key_t){{(uint32_t)key.value, (uint32_t)(key.value >> 32)}};
}

void or_philox(or_rng_key_t key, const uint32_t counter[4], uint32_t out[4])
{
    philox4x32_ctr_t in = {{counter[0], counter[1], counter[2], counter[3]}};
    philox4x32_ctr_t bits = philox4x32_R(10, in, split_key(key));
    for (int i = 0; i < 4; i++) {
        out[i] = bits.v[i];
    }
}

// Philox 4x32-10 on LANES counters side by side, written so that the compiler gives lanes to
// counters (3 times Random123's speed with AVX2; integers, so the same bits). rng_test holds it to
// Random123. Sanitizers cannot start programs with clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx2", "default"), optimize("O3")))
#endif
static void
philox_lanes(or_rng_key_t key, const uint32_t high[2], const uint64_t low[LANES],
             uint64_t bits[LANES])
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)key.value;
    uint32_t k1 = (uint32_t)(key.value >> 32);
    for (int i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)low[i];
        c1[i] = (uint32_t)(low[i] >> 32);
        c2[i] = high[0];
        c3[i] = high[1];
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t p0 = (uint64_t)PHILOX_M4x32_0 * c0[i];
            uint64_t p1 = (uint64_t)PHILOX_M4x32_1 * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += PHILOX_W32_0;
        k1 += PHILOX_W32_1;
    }
    for (int i = 0; i < LANES; i++) {
        bits[i] = (uint64_t)c1[i] << 32 | c0[i];
    }
}

void or_philox_many(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                    uint64_t *bits)
{
    for (; count >= LANES; count -= LANES, low += LANES, bits += LANES) {
        philox_lanes(key, high, low, bits);
    }
    if (count > 0) {
        uint64_t last_low[LANES] = {0};
        uint64_t last_bits[LANES];
        memcpy(last_low, low, count * sizeof *low);
        philox_lanes(key, high, last_low, last_bits);
        memcpy(bits, last_bits, count * sizeof *bits);
    }
}

static uint64_t first_64_bits(or_rng_key_t key, const uint32_t counter[4])
{
    uint32_t out[4];
    or_philox(key, counter, out);
    return (uint64_t)out[1] << 32 | out[0];
}

or_rng_key_t or_rng_key(uint64_t seed, uint64_t label)
{
    const uint32_t counter[4] = {(uint32_t)label, (uint32_t)(label >> 32), KEY_DOMAIN_LOW,
                                 KEY_DOMAIN_HIGH};
    return (or_rng_key_t){first_64_bits((or_rng_key_t){seed}, counter)};
}

uint64_t or_rng_draw(or_rng_key_t key, or_rng_purpose_t purpose, uint32_t round, uint32_t node,
                     uint32_t draw)
{
    const uint32_t counter[4] = {draw & 0xffffff, node, round, (uint32_t)purpose << 24};
    return first_64_bits(key, counter);
}

uint64_t or_rng_system_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) {
        return seed;
    }
    // A kernel without getrandom: time and process make a seed that is at least not the last one.
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    return or_rng_key(time_ns, (uint64_t)getpid()).value;
}
