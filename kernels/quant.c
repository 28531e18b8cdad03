// The quantised types: their names and sizes, and what their numbers mean.
#include "kernels/quant_internal.h"

const int8_t or_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static const or_quant_layout_t layouts[OR_QUANT_TYPES] = {
    [OR_QUANT_Q8_0] = {.name = "Q8_0",
                       .unit_blocks = 1,
                       .block_groups = 1,
                       .bits = 8,
                       .file_bytes = 2 + 32,
                       .unit_bytes = sizeof(or_panel_q8_0_t),
                       .scales = offsetof(or_panel_q8_0_t, scales),
                       .low = offsetof(or_panel_q8_0_t, bytes)},
    [OR_QUANT_Q4_0] = {.name = "Q4_0",
                       .unit_blocks = 1,
                       .block_groups = 1,
                       .bits = 4,
                       .file_bytes = 2 + 16,
                       .unit_bytes = sizeof(or_panel_q4_0_t),
                       .scales = offsetof(or_panel_q4_0_t, scales),
                       .low = offsetof(or_panel_q4_0_t, nibbles)},
    [OR_QUANT_IQ4_NL] = {.name = "IQ4_NL",
                         .unit_blocks = 1,
                         .block_groups = 1,
                         .bits = 4,
                         .file_bytes = 2 + 16,
                         .unit_bytes = sizeof(or_panel_q4_0_t),
                         .scales = offsetof(or_panel_q4_0_t, scales),
                         .low = offsetof(or_panel_q4_0_t, nibbles)},
    [OR_QUANT_Q5_0] = {.name = "Q5_0",
                       .unit_blocks = 1,
                       .block_groups = 1,
                       .bits = 5,
                       .file_bytes = 2 + 4 + 16,
                       .unit_bytes = sizeof(or_panel_q5_0_t),
                       .scales = offsetof(or_panel_q5_0_t, scales),
                       .low = offsetof(or_panel_q5_0_t, nibbles),
                       .high = offsetof(or_panel_q5_0_t, bits)},
    [OR_QUANT_Q4_1] = {.name = "Q4_1",
                       .unit_blocks = 1,
                       .block_groups = 1,
                       .bits = 4,
                       .has_minima = true,
                       .file_bytes = 2 + 2 + 16,
                       .unit_bytes = sizeof(or_panel_q4_1_t),
                       .scales = offsetof(or_panel_q4_1_t, scales),
                       .minima = offsetof(or_panel_q4_1_t, minima),
                       .low = offsetof(or_panel_q4_1_t, nibbles)},
    [OR_QUANT_Q5_1] = {.name = "Q5_1",
                       .unit_blocks = 1,
                       .block_groups = 1,
                       .bits = 5,
                       .has_minima = true,
                       .file_bytes = 2 + 2 + 4 + 16,
                       .unit_bytes = sizeof(or_panel_q5_1_t),
                       .scales = offsetof(or_panel_q5_1_t, scales),
                       .minima = offsetof(or_panel_q5_1_t, minima),
                       .low = offsetof(or_panel_q5_1_t, nibbles),
                       .high = offsetof(or_panel_q5_1_t, bits)},
    [OR_QUANT_Q4_K] = {.name = "Q4_K",
                       .unit_blocks = OR_SUPER_BLOCK,
                       .block_groups = 1,
                       .bits = 4,
                       .has_minima = true,
                       .file_bytes = 2 + 2 + 12 + 128,
                       .unit_bytes = sizeof(or_panel_q4_k_t),
                       .scales = offsetof(or_panel_q4_k_t, scales),
                       .minima = offsetof(or_panel_q4_k_t, minima),
                       .groups = offsetof(or_panel_q4_k_t, block_scales),
                       .block_minima = offsetof(or_panel_q4_k_t, block_minima),
                       .low = offsetof(or_panel_q4_k_t, nibbles)},
    [OR_QUANT_Q5_K] = {.name = "Q5_K",
                       .unit_blocks = OR_SUPER_BLOCK,
                       .block_groups = 1,
                       .bits = 5,
                       .has_minima = true,
                       .file_bytes = 2 + 2 + 12 + 32 + 128,
                       .unit_bytes = sizeof(or_panel_q5_k_t),
                       .scales = offsetof(or_panel_q5_k_t, scales),
                       .minima = offsetof(or_panel_q5_k_t, minima),
                       .groups = offsetof(or_panel_q5_k_t, block_scales),
                       .block_minima = offsetof(or_panel_q5_k_t, block_minima),
                       .low = offsetof(or_panel_q5_k_t, nibbles),
                       .high = offsetof(or_panel_q5_k_t, bits)},
    [OR_QUANT_Q2_K] = {.name = "Q2_K",
                       .unit_blocks = OR_SUPER_BLOCK,
                       .block_groups = 2,
                       .bits = 2,
                       .has_minima = true,
                       .file_bytes = 16 + 64 + 2 + 2,
                       .unit_bytes = sizeof(or_panel_q2_k_t),
                       .scales = offsetof(or_panel_q2_k_t, scales),
                       .minima = offsetof(or_panel_q2_k_t, minima),
                       .groups = offsetof(or_panel_q2_k_t, groups),
                       .low = offsetof(or_panel_q2_k_t, pairs)},
    [OR_QUANT_Q3_K] = {.name = "Q3_K",
                       .unit_blocks = OR_SUPER_BLOCK,
                       .block_groups = 2,
                       .bits = 3,
                       .file_bytes = 32 + 64 + 12 + 2,
                       .unit_bytes = sizeof(or_panel_q3_k_t),
                       .scales = offsetof(or_panel_q3_k_t, scales),
                       .groups = offsetof(or_panel_q3_k_t, groups),
                       .low = offsetof(or_panel_q3_k_t, pairs),
                       .high = offsetof(or_panel_q3_k_t, bits)},
    [OR_QUANT_Q6_K] = {.name = "Q6_K",
                       .unit_blocks = OR_SUPER_BLOCK,
                       .block_groups = 2,
                       .bits = 6,
                       .file_bytes = 128 + 64 + 16 + 2,
                       .unit_bytes = sizeof(or_panel_q6_k_t),
                       .scales = offsetof(or_panel_q6_k_t, scales),
                       .groups = offsetof(or_panel_q6_k_t, groups),
                       .low = offsetof(or_panel_q6_k_t, nibbles),
                       .high = offsetof(or_panel_q6_k_t, pairs)},
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
