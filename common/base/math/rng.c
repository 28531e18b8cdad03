#include "common/base/math/rng.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/math/lanes.h"
#include "common/base/math/rng_inline.h"

// These words keep the counters that make keys apart from those that make draws, should a seed
// ever equal a key.
#define KEY_DOMAIN_HIGH UINT32_C(0x4f757472) // "Outr"
#define KEY_DOMAIN_LOW UINT32_C(0x69646572)  // "ider"

void or_philox(or_rng_key_t key, const uint32_t counter[4], uint32_t out[4])
{
    inline_philox(key, counter, out);
}

void or_philox_many(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                    uint64_t *bits)
{
    or_lanes()->philox(key, high, low, count, bits);
}

or_rng_key_t or_rng_key(uint64_t seed, uint64_t label)
{
    const uint32_t counter[4] = {(uint32_t)label, (uint32_t)(label >> 32), KEY_DOMAIN_LOW,
                                 KEY_DOMAIN_HIGH};
    return (or_rng_key_t){inline_philox_64((or_rng_key_t){seed}, counter)};
}

uint64_t or_rng_draw(or_rng_key_t key, or_rng_purpose_t purpose, uint32_t round, uint32_t node,
                     uint32_t draw)
{
    return inline_rng_draw(key, purpose, round, node, draw);
}

uint64_t or_rng_system_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) {
        return seed;
    }
    // This kernel has no getrandom. Time and process make a seed that at least differs from
    // the last one.
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    return or_rng_key(time_ns, (uint64_t)getpid()).value;
}
