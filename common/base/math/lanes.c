#include "common/base/math/lanes.h"

#include <Random123/philox.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/lanes_internal.h"
#include "common/base/math/math.h"

#define COUNTERS 32 // processed at a time

static double largest(const double *x, uint32_t count)
{
    double most = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

static void widen(const float *x, uint32_t count, double *y)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = isfinite(x[i]) ? (double)x[i] : -INFINITY;
    }
}

static uint32_t divide(double *x, uint32_t count, double divisor, int32_t *places)
{
    return or_lanes_divide_from(0, 0, x, count, divisor, places);
}

static void exp_from(const double *x, uint32_t count, double origin, double *y)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = or_exp(x[i] - origin);
    }
}

static void bands(const double *x, uint32_t count, double origin, double per_unit, uint16_t last,
                  uint16_t *bands)
{
    for (uint32_t i = 0; i < count; i++) {
        double band = (origin - x[i]) * per_unit;
        bands[i] = band < last ? (uint16_t)band : last;
    }
}

static uint32_t within(const uint16_t *x, uint32_t count, uint16_t first, uint16_t last,
                       uint32_t *list)
{
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (x[i] >= first && x[i] <= last) {
            list[listed++] = i;
        }
    }
    return listed;
}

// Philox 4x32-10 on COUNTERS counters side by side, so that a compiler can vectorise it.
// rng_test compares it with Random123.
static void philox_side_by_side(or_rng_key_t key, const uint32_t high[2],
                                const uint64_t low[COUNTERS], uint64_t bits[COUNTERS])
{
    uint32_t c0[COUNTERS], c1[COUNTERS], c2[COUNTERS], c3[COUNTERS];
    uint32_t k0 = (uint32_t)key.value;
    uint32_t k1 = (uint32_t)(key.value >> 32);
    for (int i = 0; i < COUNTERS; i++) {
        c0[i] = (uint32_t)low[i];
        c1[i] = (uint32_t)(low[i] >> 32);
        c2[i] = high[0];
        c3[i] = high[1];
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < COUNTERS; i++) {
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
    for (int i = 0; i < COUNTERS; i++) {
        bits[i] = (uint64_t)c1[i] << 32 | c0[i];
    }
}

static void philox(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                   uint64_t *bits)
{
    for (; count >= COUNTERS; count -= COUNTERS, low += COUNTERS, bits += COUNTERS) {
        philox_side_by_side(key, high, low, bits);
    }
    if (count > 0) {
        uint64_t last_low[COUNTERS] = {0};
        uint64_t last_bits[COUNTERS];
        memcpy(last_low, low, count * sizeof *low);
        philox_side_by_side(key, high, last_low, last_bits);
        memcpy(bits, last_bits, count * sizeof *bits);
    }
}

static uint32_t philox_ones(or_rng_key_t key, const uint32_t high[2], const uint64_t *low,
                            uint32_t count, unsigned ones, uint32_t *list)
{
    const uint64_t wanted = ~(UINT64_MAX >> ones);
    uint32_t listed = 0;
    for (uint32_t first = 0; first < count; first += COUNTERS) {
        uint64_t bits[COUNTERS];
        uint32_t part = count - first < COUNTERS ? count - first : COUNTERS;
        philox(key, high, low + first, part, bits);
        for (uint32_t i = 0; i < part; i++) {
            if ((bits[i] & wanted) == wanted) {
                list[listed++] = first + i;
            }
        }
    }
    return listed;
}

const or_lanes_t or_lanes_plain = {"ref", largest, widen,  divide,     exp_from,
                                   bands, within,  philox, philox_ones};

const or_lanes_t *or_lanes_find(const char *name)
{
    if (strcmp(name, or_lanes_plain.name) == 0) {
        return &or_lanes_plain;
    }
#ifdef OR_LANES_X86
    if (strcmp(name, or_lanes_avx2.name) == 0 && __builtin_cpu_supports("avx2")) {
        return &or_lanes_avx2;
    }
    if (strcmp(name, or_lanes_avx512.name) == 0 && __builtin_cpu_supports("avx512f")) {
        return &or_lanes_avx512;
    }
#endif
    return NULL;
}

// Return the loops that the environment names, or the fastest.
static const or_lanes_t *pick(void)
{
    const char *names[] = {getenv("OUTRIDER_KERNELS"), "avx512", "avx2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const or_lanes_t *lanes = names[i] != NULL ? or_lanes_find(names[i]) : NULL;
        if (lanes != NULL) {
            return lanes;
        }
    }
    return &or_lanes_plain;
}

const or_lanes_t *or_lanes(void)
{
    static _Atomic(const or_lanes_t *) picked;
    const or_lanes_t *lanes = atomic_load_explicit(&picked, memory_order_relaxed);
    if (lanes == NULL) {
        lanes = pick();
        atomic_store_explicit(&picked, lanes, memory_order_relaxed);
    }
    return lanes;
}
