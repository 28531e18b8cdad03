#include <arm_neon.h>

#include "kernels/neon/ceilings_neon_blocks.h"
#include "kernels/neon/kernels_neon_internal.h"

static void multiply_add(uint32_t rounds, float *sum)
{
    const float32x4_t factor = vdupq_n_f32(0.75f);
    const float32x4_t addend = vdupq_n_f32(1.0f);
    OR_CEILING_RUN(float32x4_t, vdupq_n_f32((float)j),
                   chains[j] = vfmaq_f32(addend, chains[j], factor), vaddq_f32, vaddvq_f32);
}

// smlal, 8 products each, added to what it had.
static void dot(uint32_t rounds, int32_t *sum)
{
    const int8x8_t weights = vdup_n_s8(5);
    const int8x8_t quants = vdup_n_s8(3);
    OR_CEILING_RUN(int16x8_t, vdupq_n_s16((int16_t)j),
                   chains[j] = vmlal_s8(chains[j], weights, quants), vaddq_s16, vaddvq_s16);
}

OR_CEILING_KINDS(blocks, multiply_blocks)

static void read_lines(const void *data, size_t lines, uint64_t *sum)
{
    const uint64_t *words = data;
    const size_t stream = 8 * (lines / OR_CEILING_STREAMS);
    uint64x2_t all[OR_CEILING_STREAMS] = {vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0),
                                          vdupq_n_u64(0)};
    for (size_t i = 0; i < stream; i += 8) {
#pragma GCC unroll 4
        for (size_t j = 0; j < OR_CEILING_STREAMS; j++) {
            const uint64_t *line = &words[j * stream + i];
            uint64x2_t low = vaddq_u64(vld1q_u64(line), vld1q_u64(line + 2));
            uint64x2_t high = vaddq_u64(vld1q_u64(line + 4), vld1q_u64(line + 6));
            all[j] = vaddq_u64(all[j], vaddq_u64(low, high));
        }
    }
    *sum = vaddvq_u64(vaddq_u64(vaddq_u64(all[0], all[1]), vaddq_u64(all[2], all[3])));
}

const or_ceilings_t or_ceilings_neon = {.name = "neon",
                                        .flops_a_round = 2 * 4 * OR_CEILING_CHAINS,
                                        .multiply_add = multiply_add,
                                        .ops_a_round = 2 * 8 * OR_CEILING_CHAINS,
                                        .dot = dot,
                                        .ops_a_block_round =
                                            2 * 16 * OR_CEILING_FOURS * OR_CEILING_BLOCK_CHAINS,
                                        .blocks = blocks,
                                        .read = read_lines};

const or_ceilings_t or_ceilings_neon_dot = {.name = "neon_dot",
                                            .flops_a_round = 2 * 4 * OR_CEILING_CHAINS,
                                            .multiply_add = multiply_add,
                                            .ops_a_round = 2 * 16 * OR_CEILING_CHAINS,
                                            .dot = dot_products_neon,
                                            .ops_a_block_round =
                                                2 * 16 * OR_CEILING_FOURS * OR_CEILING_BLOCK_CHAINS,
                                            .blocks = blocks_neon_dot,
                                            .read = read_lines};
