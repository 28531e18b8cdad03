#include <immintrin.h>

#include "kernels/ceilings_internal.h"

static void multiply_add(uint32_t rounds, float *sum)
{
    const __m512 factor = _mm512_set1_ps(0.75f);
    const __m512 addend = _mm512_set1_ps(1.0f);
    OR_CEILING_RUN(__m512, _mm512_set1_ps((float)j),
                   chains[j] = _mm512_fmadd_ps(chains[j], factor, addend), _mm512_add_ps,
                   _mm512_cvtss_f32);
}

// vpmaddubsw, 64 products each. Where its results go costs kernels something; the multipliers it does not.
static void dot_bw(uint32_t rounds, int32_t *sum)
{
    const __m512i quants = _mm512_set1_epi8(3);
    OR_CEILING_RUN(__m512i, _mm512_set1_epi8((char)j),
                   chains[j] = _mm512_maddubs_epi16(chains[j], quants), _mm512_add_epi32,
                   _mm512_cvtsi512_si32);
}

// vpdpbusd, 64 products each, added to what it had. By name: for the intrinsic, GCC 12 also copies each
// chain, which takes half of the multipliers' time.
__attribute__((target("avx512vnni"))) static void dot_vnni(uint32_t rounds, int32_t *sum)
{
    const __m512i weights = _mm512_set1_epi8(5);
    const __m512i quants = _mm512_set1_epi8(3);
    OR_CEILING_RUN(__m512i, _mm512_set1_epi32((int)j),
                   __asm__("vpdpbusd %2, %1, %0"
                           : "+v"(chains[j])
                           : "v"(weights), "v"(quants)),
                   _mm512_add_epi32, _mm512_cvtsi512_si32);
}

// A sum made a float, times a product of two scales, added to chain j; and a minimum taken off.
#define STEP                                                                                       \
    OR_CEILING_UNKNOWN("v", scale);                                                                \
    chains[j] =                                                                                    \
        _mm512_fmadd_ps(_mm512_mul_ps(scale, factor), _mm512_cvtepi32_ps(sums[j]), chains[j]);     \
    chains[j] = minima ? _mm512_fnmadd_ps(scale, factor, chains[j]) : chains[j]

ALWAYS_INLINE void multiply_bw(uint32_t groups, bool minima, uint32_t rounds, float *sum)
{
    const __m512 factor = _mm512_set1_ps(0.75f);
    const __m512i ones = _mm512_set1_epi16(1);
    __m512i weights = _mm512_set1_epi8(5), quants = _mm512_set1_epi8(3);
    __m512 scale = _mm512_set1_ps(0.5f);
    OR_CEILING_BLOCKS(__m512, __m512i, OR_CEILING_CHAINS, groups, _mm512_setzero_ps(),
                      sums[j] = _mm512_setzero_si512();
                      OR_CEILING_UNKNOWN("v", sums[j]), OR_CEILING_UNKNOWN("v", weights);
                      sums[j] = _mm512_add_epi32(
                          sums[j], _mm512_madd_epi16(_mm512_maddubs_epi16(weights, quants), ones)),
                      STEP, _mm512_add_ps, _mm512_cvtss_f32);
}

OR_CEILING_KINDS(blocks_bw, multiply_bw)

ALWAYS_INLINE __attribute__((target("avx512vnni"))) void multiply_vnni(uint32_t groups, bool minima,
                                                                       uint32_t rounds, float *sum)
{
    const __m512 factor = _mm512_set1_ps(0.75f);
    const __m512i weights = _mm512_set1_epi8(5), quants = _mm512_set1_epi8(3);
    __m512 scale = _mm512_set1_ps(0.5f);
    OR_CEILING_BLOCKS(__m512, __m512i, OR_CEILING_CHAINS, groups, _mm512_setzero_ps(),
                      sums[j] = _mm512_setzero_si512();
                      OR_CEILING_UNKNOWN("v", sums[j]),
                      __asm__("vpdpbusd %2, %1, %0"
                              : "+v"(sums[j])
                              : "v"(weights), "v"(quants)),
                      STEP, _mm512_add_ps, _mm512_cvtss_f32);
}

__attribute__((target("avx512vnni"))) OR_CEILING_KINDS(blocks_vnni, multiply_vnni)

    static void read_lines(const void *data, size_t lines, uint64_t *sum)
{
    const __m512i *vectors = data;
    const size_t stream = lines / OR_CEILING_STREAMS;
    __m512i all = _mm512_setzero_si512();
    for (size_t i = 0; i < stream; i++) {
#pragma GCC unroll 4
        for (size_t j = 0; j < OR_CEILING_STREAMS; j++) {
            all = _mm512_add_epi64(all, _mm512_load_si512(&vectors[j * stream + i]));
        }
    }
    *sum = (uint64_t)_mm512_reduce_add_epi64(all);
}

const or_ceilings_t or_ceilings_avx512 = {.name = "avx512",
                                          .flops_a_round = 2 * 16 * OR_CEILING_CHAINS,
                                          .multiply_add = multiply_add,
                                          .ops_a_round = 2 * 64 * OR_CEILING_CHAINS,
                                          .dot = dot_bw,
                                          .ops_a_block_round =
                                              2 * 64 * OR_CEILING_FOURS * OR_CEILING_CHAINS,
                                          .blocks = blocks_bw,
                                          .read = read_lines};

const or_ceilings_t or_ceilings_avx512vnni = {.name = "avx512vnni",
                                              .flops_a_round = 2 * 16 * OR_CEILING_CHAINS,
                                              .multiply_add = multiply_add,
                                              .ops_a_round = 2 * 64 * OR_CEILING_CHAINS,
                                              .dot = dot_vnni,
                                              .ops_a_block_round =
                                                  2 * 64 * OR_CEILING_FOURS * OR_CEILING_CHAINS,
                                              .blocks = blocks_vnni,
                                              .read = read_lines};
