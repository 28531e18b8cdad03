#include "common/base/rng.h"

#include <Random123/philox.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/lanes.h"

// Keeps the counters that make keys apart from those that make draws, should a seed ever equal a
// key.
#define KEY_DOMAIN_HIGH UINT32_C(0x4f757472) // "Outr"
#define KEY_DOMAIN_LOW UINT32_C(0x69646572)  // "ider"

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

void or_philox_many(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                    uint64_t *bits)
{
    or_lanes()->philox(key, high, low, count, bits);
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
