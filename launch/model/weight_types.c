#include "launch/model/weight_types.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/model/cpu/weights.h"
#include "kernels/kernels.h"

#define QUANTIZATION_VERSION 2u // of the types' layouts, in ggml's counting
#define F16_MAX 65504.0f
#define BF16_MAX 0x1.fep+127f

// File types are llama.cpp's; of a _K type's that with all tensors alike ("S").
static const struct {
    or_tensor_type_t type;
    uint32_t file_type;
    or_tensor_type_t next; // where rows are no whole blocks
} types[] = {
    {OR_TENSOR_F32, 0, OR_TENSOR_F32},      {OR_TENSOR_F16, 1, OR_TENSOR_F16},
    {OR_TENSOR_BF16, 32, OR_TENSOR_BF16},   {OR_TENSOR_Q8_0, 7, OR_TENSOR_F16},
    {OR_TENSOR_Q4_0, 2, OR_TENSOR_F16},     {OR_TENSOR_Q4_1, 3, OR_TENSOR_F16},
    {OR_TENSOR_Q5_0, 8, OR_TENSOR_F16},     {OR_TENSOR_Q5_1, 9, OR_TENSOR_F16},
    {OR_TENSOR_Q2_K, 10, OR_TENSOR_IQ4_NL}, {OR_TENSOR_Q3_K, 11, OR_TENSOR_IQ4_NL},
    {OR_TENSOR_Q4_K, 14, OR_TENSOR_Q5_0},   {OR_TENSOR_Q5_K, 16, OR_TENSOR_Q5_1},
    {OR_TENSOR_Q6_K, 18, OR_TENSOR_Q8_0},   {OR_TENSOR_IQ4_NL, 25, OR_TENSOR_F16},
};
#define TYPE_COUNT (sizeof types / sizeof *types)

static size_t place_of(or_tensor_type_t type)
{
    size_t i = 0;
    while (types[i].type != type) {
        i++;
    }
    return i;
}

or_status_t or_weight_type_parse(const char *what, const char *name, or_tensor_type_t *type)
{
    char all[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        const char *known = or_gguf_tensor_type_name(types[i].type);
        if (strcasecmp(name, known) == 0) {
            *type = types[i].type;
            return OR_OK;
        }
        used += (size_t)snprintf(all + used, sizeof all - used, " %s", known);
    }
    return or_fail(OR_ERR_INVALID,
                   "%s: there is no type '%s'; it is one of%s; mixtures as Q4_K_M are not "
                   "written: say Q4_K, and --output-tensor-type",
                   what, name, all);
}

or_status_t or_weight_type_describe(or_tensor_type_t type, or_gguf_writer_t *writer)
{
    or_status_t status =
        or_gguf_writer_set_u32(writer, "general.file_type", types[place_of(type)].file_type);
    return status != OR_OK ? status
                           : or_gguf_writer_set_u32(writer, "general.quantization_version",
                                                    QUANTIZATION_VERSION);
}

or_tensor_type_t or_weight_type_for(or_tensor_type_t wanted, uint64_t width)
{
    while (width % or_gguf_tensor_block(wanted).elements != 0) {
        wanted = types[place_of(wanted)].next;
    }
    return wanted;
}

bool or_weight_is_matrix(const or_gguf_tensor_t *tensor)
{
    return tensor->elements > tensor->dims[0];
}

uint64_t or_weight_row_bytes(or_tensor_type_t type, uint64_t width)
{
    or_tensor_block_t block = or_gguf_tensor_block(type);
    return width / block.elements * block.bytes;
}

static float cut(float value, float most)
{
    value = value < most ? value : most;
    return value > -most ? value : -most;
}

// Rounded to the nearest, ties to even.
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void or_weight_row_write(or_tensor_type_t type, const float *weights, uint32_t width, void *row)
{
    if (type == OR_TENSOR_F32) {
        memcpy(row, weights, width * sizeof *weights);
        return;
    }
    or_quant_t quant;
    if (or_tensor_quant(type, &quant)) {
        or_quant_encode(quant, weights, width / or_gguf_tensor_block(type).elements, row);
        return;
    }
    for (uint32_t i = 0; i < width; i++) {
        uint16_t half = type == OR_TENSOR_F16 ? or_f32_to_f16(cut(weights[i], F16_MAX))
                                              : to_bf16(cut(weights[i], BF16_MAX));
        memcpy((char *)row + i * sizeof half, &half, sizeof half);
    }
}

void or_weight_row_read(or_tensor_type_t type, const void *row, uint32_t width, float *weights)
{
    const or_gguf_tensor_t tensor = {.type = type,
                                     .dim_count = 1,
                                     .dims = {width, 1, 1, 1},
                                     .elements = width,
                                     .data = row,
                                     .bytes = or_weight_row_bytes(type, width)};
    or_tensor_read_row(&tensor, 0, width, weights);
}

void or_weight_row_clear(or_tensor_type_t type, void *row, uint32_t block)
{
    or_quant_t quant;
    or_tensor_block_t unit = or_gguf_tensor_block(type);
    if (!or_tensor_quant(type, &quant)) {
        size_t bytes = (size_t)unit.bytes * OR_QUANT_BLOCK;
        memset((char *)row + block * bytes, 0, bytes);
        return;
    }
    uint32_t blocks = or_quant_unit_blocks(quant);
    or_quant_clear(quant, block % blocks, (char *)row + (size_t)(block / blocks) * unit.bytes);
}
