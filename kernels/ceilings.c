#include "kernels/ceilings.h"

#include <string.h>

#include "kernels/ceilings_internal.h"

// The ceilings of the reference table: plain C, one number at a time.

#define ADD(a, b) ((a) + (b))

static void multiply_add_ref(uint32_t rounds, float *sum)
{
    OR_CEILING_RUN(float, (float)j, chains[j] = chains[j] * 0.75f + 1.0f, ADD, );
}

static void dot_ref(uint32_t rounds, int32_t *sum)
{
    OR_CEILING_RUN(uint32_t, j, chains[j] += (chains[j] & 0x7F) * 3, ADD, (int32_t)0x7FFFFFFF &);
}

ALWAYS_INLINE void multiply_blocks(uint32_t groups, bool minima, uint32_t rounds, float *sum)
{
    float scale = 0.75f;
    OR_CEILING_BLOCKS(float, int32_t, OR_CEILING_CHAINS, groups, 0, sums[j] = (int32_t)(i + j),
                      sums[j] += (sums[j] & 0x7F) * 3, chains[j] += scale * 0.5f * (float)sums[j];
                      chains[j] -= minima ? scale * (float)j : 0, ADD, );
}

OR_CEILING_KINDS(blocks_ref, multiply_blocks)

static void read_ref(const void *data, size_t lines, uint64_t *sum)
{
    const uint64_t *words = data;
    uint64_t chains[8] = {0};
    for (size_t i = 0; i < lines; i++, words += 8) {
        for (size_t j = 0; j < 8; j++) {
            chains[j] += words[j];
        }
    }
    *sum = 0;
    for (size_t j = 0; j < 8; j++) {
        *sum += chains[j];
    }
}

static const or_ceilings_t ref = {.name = "ref",
                                  .flops_a_round = 2 * OR_CEILING_CHAINS,
                                  .multiply_add = multiply_add_ref,
                                  .ops_a_round = 2 * OR_CEILING_CHAINS,
                                  .dot = dot_ref,
                                  .ops_a_block_round = 2 * OR_CEILING_FOURS * OR_CEILING_CHAINS,
                                  .blocks = blocks_ref,
                                  .read = read_ref};

static const or_ceilings_t *const all[] = {
    &ref,
#ifdef OR_KERNELS_AVX2
    &or_ceilings_avx2,
#endif
#ifdef OR_KERNELS_AVX512
    &or_ceilings_avx512,
    &or_ceilings_avx512vnni,
#endif
#ifdef OR_KERNELS_NEON
    &or_ceilings_neon,
    &or_ceilings_neon_dot,
#endif
};

const or_ceilings_t *or_ceilings_find(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}
