// The quantised types: their names and sizes, and what their numbers mean.
#include "kernels/quant_internal.h"

const int8_t or_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

const int8_t or_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
const int8_t or_iq3_s_values[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
const int8_t or_iq3_xxs_values[16] = {2,  6,  10,  14,  18,  22,  26,  31,
                                      -2, -6, -10, -14, -18, -22, -26, -31};
const int8_t or_iq2_values[16] = {8, 25, 43, 0, -8, -25, -43, 0};

// A row of the table: blocks of a unit, groups of a block, bits, bytes of a unit in a file, the panel's unit and its part
// that has all integers' low bits. What only some panels have comes behind.
#define ROW(type, blocks, groups_of_a_block, width, bytes, panel, part, ...)                       \
    [OR_QUANT_##type] = {.name = #type,                                                            \
                         .unit_blocks = blocks,                                                    \
                         .block_groups = groups_of_a_block,                                        \
                         .bits = width,                                                            \
                         .file_bytes = bytes,                                                      \
                         .unit_bytes = sizeof(panel),                                              \
                         .scales = offsetof(panel, scales),                                        \
                         .low = offsetof(panel, part),                                             \
                         __VA_ARGS__}
#define MINIMA(panel) .has_minima = true, .minima = offsetof(panel, minima)
#define HIGH(panel, part) .high = offsetof(panel, part)
#define GROUPS(panel, part) .groups = offsetof(panel, part)
#define BLOCK_SCALES(panel)                                                                        \
    MINIMA(panel), GROUPS(panel, block_scales), .block_minima = offsetof(panel, block_minima)

static const or_quant_layout_t layouts[OR_QUANT_TYPES] = {
    ROW(Q8_0, 1, 1, 8, 2 + 32, or_panel_q8_0_t, bytes, ),
    ROW(Q4_0, 1, 1, 4, 2 + 16, or_panel_q4_0_t, nibbles, ),
    ROW(IQ4_NL, 1, 1, 4, 2 + 16, or_panel_q4_0_t, nibbles, ),
    ROW(Q5_0, 1, 1, 5, 2 + 4 + 16, or_panel_q5_0_t, nibbles, HIGH(or_panel_q5_0_t, bits)),
    ROW(Q4_1, 1, 1, 4, 2 + 2 + 16, or_panel_q4_1_t, nibbles, MINIMA(or_panel_q4_1_t)),
    ROW(Q5_1, 1, 1, 5, 2 + 2 + 4 + 16, or_panel_q5_1_t, nibbles, MINIMA(or_panel_q5_1_t),
        HIGH(or_panel_q5_1_t, bits)),
    ROW(Q4_K, OR_SUPER_BLOCK, 1, 4, 2 + 2 + 12 + 128, or_panel_q4_k_t, nibbles,
        BLOCK_SCALES(or_panel_q4_k_t)),
    ROW(Q5_K, OR_SUPER_BLOCK, 1, 5, 2 + 2 + 12 + 32 + 128, or_panel_q5_k_t, nibbles,
        BLOCK_SCALES(or_panel_q5_k_t), HIGH(or_panel_q5_k_t, bits)),
    ROW(Q2_K, OR_SUPER_BLOCK, 2, 2, 16 + 64 + 2 + 2, or_panel_q2_k_t, pairs,
        MINIMA(or_panel_q2_k_t), GROUPS(or_panel_q2_k_t, groups)),
    ROW(Q3_K, OR_SUPER_BLOCK, 2, 3, 32 + 64 + 12 + 2, or_panel_q3_k_t, pairs,
        GROUPS(or_panel_q3_k_t, groups), HIGH(or_panel_q3_k_t, bits)),
    ROW(Q6_K, OR_SUPER_BLOCK, 2, 6, 128 + 64 + 16 + 2, or_panel_q6_k_t, nibbles,
        GROUPS(or_panel_q6_k_t, groups), HIGH(or_panel_q6_k_t, pairs)),
    ROW(IQ4_XS, OR_SUPER_BLOCK, 1, 4, 2 + 2 + 4 + 128, or_panel_iq4_xs_t, nibbles,
        GROUPS(or_panel_iq4_xs_t, block_scales)),
    ROW(MXFP4, 1, 1, 4, 1 + 16, or_panel_q4_0_t, nibbles, ),
    ROW(IQ3_S, OR_SUPER_BLOCK, 1, 4, 2 + 64 + 8 + 32 + 4, or_panel_iq4_xs_t, nibbles,
        GROUPS(or_panel_iq4_xs_t, block_scales)),
    ROW(IQ3_XXS, OR_SUPER_BLOCK, 1, 4, 2 + 64 + 32, or_panel_iq4_xs_t, nibbles,
        GROUPS(or_panel_iq4_xs_t, block_scales)),
    ROW(IQ2_S, OR_SUPER_BLOCK, 2, 3, 2 + 32 + 32 + 8 + 8, or_panel_q3_k_t, pairs,
        GROUPS(or_panel_q3_k_t, groups), HIGH(or_panel_q3_k_t, bits)),
    ROW(IQ2_XS, OR_SUPER_BLOCK, 2, 3, 2 + 64 + 8, or_panel_q3_k_t, pairs,
        GROUPS(or_panel_q3_k_t, groups), HIGH(or_panel_q3_k_t, bits)),
    ROW(IQ2_XXS, OR_SUPER_BLOCK, 2, 3, 2 + 64, or_panel_q3_k_t, pairs,
        GROUPS(or_panel_q3_k_t, groups), HIGH(or_panel_q3_k_t, bits)),
};

const or_quant_layout_t *or_quant_layout(or_quant_t type)
{
    return &layouts[type];
}

const char *or_quant_name(or_quant_t type)
{
    return layouts[type].name;
}

uint32_t or_quant_unit_blocks(or_quant_t type)
{
    return layouts[type].unit_blocks;
}

uint32_t or_quant_block_groups(or_quant_t type)
{
    return layouts[type].block_groups;
}

bool or_quant_has_minima(or_quant_t type)
{
    return layouts[type].has_minima;
}

size_t or_quant_unit_bytes(or_quant_t type)
{
    return layouts[type].unit_bytes;
}

uint32_t or_quant_file_bytes(or_quant_t type)
{
    return layouts[type].file_bytes;
}

static void decode_group(or_quant_t type, or_quant_group_t group, const uint8_t *stored,
                         uint32_t count, float *out)
{
    for (uint32_t i = 0; i < count; i++) {
        float product = group.scale * (float)or_quant_integer(type, stored[i]);
        out[i] = layouts[type].has_minima ? product - group.minimum : product;
    }
}

void or_quant_decode(or_quant_t type, const void *row, uint32_t units, float *out)
{
    const or_quant_layout_t *layout = &layouts[type];
    uint32_t group_size = OR_QUANT_BLOCK / layout->block_groups;
    for (size_t u = 0; u < units; u++) {
        or_quant_unit_t unit;
        or_quant_read(type, (const uint8_t *)row + u * layout->file_bytes, &unit);
        for (uint32_t g = 0; g < layout->unit_blocks * layout->block_groups; g++) {
            uint32_t block = g / layout->block_groups;
            or_quant_group_t group = or_quant_group(type, unit.scale, unit.minimum, unit.groups[g],
                                                    unit.block_minima[block]);
            decode_group(type, group, &unit.stored[0][0] + (size_t)g * group_size, group_size, out);
            out += group_size;
        }
    }
}
