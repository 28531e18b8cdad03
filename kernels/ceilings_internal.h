// ceilings_internal - the ceilings that are built for some processors only, and the loop that all are made of.
#pragma once

#include "kernels/ceilings.h"
#include "kernels/kernels_internal.h"

// Enough to keep two multipliers of latency 5 busy, few enough for the registers. Loops over chains are
// unrolled by pragma, or they would live in memory.
#define OR_CEILING_CHAINS 12u

// The body of a function of `rounds` and `sum`. Chain j begins with `first`, and every round does `step` to each chain.
// At the end *sum is `total` of all chains added up. `first` and `step` know j.
#define OR_CEILING_RUN(vector, first, step, add, total)                                            \
    vector chains[OR_CEILING_CHAINS];                                                              \
    _Pragma("GCC unroll 12") for (uint32_t j = 0; j < OR_CEILING_CHAINS; j++)                      \
    {                                                                                              \
        chains[j] = first;                                                                         \
    }                                                                                              \
    for (uint32_t i = 0; i < rounds; i++) {                                                        \
        _Pragma("GCC unroll 12") for (uint32_t j = 0; j < OR_CEILING_CHAINS; j++)                  \
        {                                                                                          \
            step;                                                                                  \
        }                                                                                          \
    }                                                                                              \
    _Pragma("GCC unroll 12") for (uint32_t j = 1; j < OR_CEILING_CHAINS; j++)                      \
    {                                                                                              \
        chains[0] = add(chains[0], chains[j]);                                                     \
    }                                                                                              \
    *sum = total(chains[0])

// Likewise for blocks: in every round each chain takes the sums of a block's groups, 1 or 2. `clear` begins sum j, `multiply`
// adds products to it, eight times in all groups, and `step` adds it to chain j. Chains and sums are in registers.
#define OR_CEILING_FOURS 8u // of weights, in a block
#define OR_CEILING_BLOCKS(vector, ivector, count, groups, zero, clear, multiply, step, add, total) \
    vector chains[count];                                                                          \
    _Pragma("GCC unroll 12") for (uint32_t j = 0; j < (count); j++)                                \
    {                                                                                              \
        chains[j] = zero;                                                                          \
    }                                                                                              \
    for (uint32_t i = 0; i < rounds; i++) {                                                        \
        for (uint32_t h = 0; h < (groups); h++) {                                                  \
            ivector sums[count];                                                                   \
            _Pragma("GCC unroll 12") for (uint32_t j = 0; j < (count); j++)                        \
            {                                                                                      \
                clear;                                                                             \
            }                                                                                      \
            const uint32_t fours = (groups) == 1 ? OR_CEILING_FOURS : OR_CEILING_FOURS / 2;        \
            _Pragma("GCC unroll 8") for (uint32_t g = 0; g < fours; g++)                           \
            {                                                                                      \
                _Pragma("GCC unroll 12") for (uint32_t j = 0; j < (count); j++)                    \
                {                                                                                  \
                    multiply;                                                                      \
                }                                                                                  \
            }                                                                                      \
            _Pragma("GCC unroll 12") for (uint32_t j = 0; j < (count); j++)                        \
            {                                                                                      \
                step;                                                                              \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    _Pragma("GCC unroll 12") for (uint32_t j = 1; j < (count); j++)                                \
    {                                                                                              \
        chains[0] = add(chains[0], chains[j]);                                                     \
    }                                                                                              \
    *sum = total(chains[0])

// The function `name` for or_ceilings_t from one whose groups and minima are constants.
#define OR_CEILING_KINDS(name, kind)                                                               \
    static void name(uint32_t groups, bool minima, uint32_t rounds, float *sum)                    \
    {                                                                                              \
        if (groups == 1 && !minima) {                                                              \
            kind(1, false, rounds, sum);                                                           \
        } else if (groups == 1) {                                                                  \
            kind(1, true, rounds, sum);                                                            \
        } else if (!minima) {                                                                      \
            kind(2, false, rounds, sum);                                                           \
        } else {                                                                                   \
            kind(2, true, rounds, sum);                                                            \
        }                                                                                          \
    }

// The compiler may not know what is in this register, and so computes with it anew each time.
#define OR_CEILING_UNKNOWN(constraint, variable) __asm__ volatile("" : "+" constraint(variable))

// Reading at several places at once keeps more prefetches under way: a tenth more than one after the other
// on an Ice Lake server.
#define OR_CEILING_STREAMS 4u

extern const or_ceilings_t or_ceilings_avx2;
extern const or_ceilings_t or_ceilings_avx512;
extern const or_ceilings_t or_ceilings_avx512vnni;
extern const or_ceilings_t or_ceilings_neon;
extern const or_ceilings_t or_ceilings_neon_dot;
