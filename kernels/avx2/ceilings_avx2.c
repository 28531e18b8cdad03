#include <immintrin.h>

#include "kernels/ceilings_internal.h"

static void multiply_add(uint32_t rounds, float *sum)
{
    const __m256 factor = _mm256_set1_ps(0.75f);
    const __m256 addend = _mm256_set1_ps(1.0f);
    OR_CEILING_RUN(__m256, _mm256_set1_ps((float)j),
                   chains[j] = _mm256_fmadd_ps(chains[j], factor, addend), _mm256_add_ps,
                   _mm256_cvtss_f32);
}

// vpmaddubsw, 32 products each. Where its results go costs kernels something; the multipliers it does not. By name: for the
// intrinsic, GCC 12 also stores most chains in every round, which takes longer than the multipliers do.
static void dot(uint32_t rounds, int32_t *sum)
{
    const __m256i quants = _mm256_set1_epi8(3);
    OR_CEILING_RUN(__m256i, _mm256_set1_epi8((char)j),
                   __asm__("vpmaddubsw %1, %0, %0"
                           : "+x"(chains[j])
                           : "x"(quants)),
                   _mm256_add_epi32, _mm256_cvtsi256_si32);
}

#define BLOCK_CHAINS 5u // with their sums, of sixteen registers

// By name again, lest chains are stored.
ALWAYS_INLINE void multiply_blocks(uint32_t groups, bool minima, uint32_t rounds, float *sum)
{
    const __m256 factor = _mm256_set1_ps(0.75f);
    const __m256i quants = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
    const __m256i weights = _mm256_set1_epi8(5);
    __m256 scale = _mm256_set1_ps(0.5f);
    __m256i pairs;
    OR_CEILING_BLOCKS(__m256, __m256i, BLOCK_CHAINS, groups, _mm256_setzero_ps(),
                      sums[j] = _mm256_setzero_si256();
                      OR_CEILING_UNKNOWN("x", sums[j]),
                      __asm__("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
                              : "+x"(sums[j]), "=&x"(pairs)
                              : "x"(weights), "x"(quants), "x"(ones)),
                      OR_CEILING_UNKNOWN("x", scale);
                      chains[j] = _mm256_fmadd_ps(_mm256_mul_ps(scale, factor),
                                                  _mm256_cvtepi32_ps(sums[j]), chains[j]);
                      chains[j] = minima ? _mm256_fnmadd_ps(scale, factor, chains[j]) : chains[j],
                      _mm256_add_ps, _mm256_cvtss_f32);
}

OR_CEILING_KINDS(blocks, multiply_blocks)

static void read_lines(const void *data, size_t lines, uint64_t *sum)
{
    const __m256i *halves = data;
    const size_t stream = 2 * (lines / OR_CEILING_STREAMS);
    __m256i all = _mm256_setzero_si256();
    for (size_t i = 0; i < stream; i += 2) {
#pragma GCC unroll 4
        for (size_t j = 0; j < OR_CEILING_STREAMS; j++) {
            const __m256i *line = &halves[j * stream + i];
            all = _mm256_add_epi64(
                all, _mm256_add_epi64(_mm256_load_si256(&line[0]), _mm256_load_si256(&line[1])));
        }
    }
    *sum = (uint64_t)_mm256_extract_epi64(all, 0);
}

const or_ceilings_t or_ceilings_avx2 = {.name = "avx2",
                                        .flops_a_round = 2 * 8 * OR_CEILING_CHAINS,
                                        .multiply_add = multiply_add,
                                        .ops_a_round = 2 * 32 * OR_CEILING_CHAINS,
                                        .dot = dot,
                                        .ops_a_block_round =
                                            2 * 32 * OR_CEILING_FOURS * BLOCK_CHAINS,
                                        .blocks = blocks,
                                        .read = read_lines};
