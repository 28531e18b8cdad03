#include "launch/model/convert/weights/quantised.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/log/log.h"
#include "kernels/kernels.h"

#define BLOCK_USUAL 128u // transformers' default
#define BLOCK_MAX 65536u

// ---- the config ----

static or_status_t read_blocks(or_json_t how, or_hf_quantised_t *quantised)
{
    const json_t *sizes = json_object_get(how.object, "weight_block_size");
    if (sizes == NULL || json_is_null(sizes)) {
        quantised->block_rows = quantised->block_columns = sizes == NULL ? BLOCK_USUAL : 0;
        return OR_OK;
    }
    const json_int_t rows = json_integer_value(json_array_get(sizes, 0));
    const json_int_t columns = json_integer_value(json_array_get(sizes, 1));
    if (json_array_size(sizes) != 2 || rows < 1 || columns < 1 || rows > BLOCK_MAX ||
        columns > BLOCK_MAX) {
        return or_fail(OR_ERR_FORMAT, "%s: \"weight_block_size\" is not two numbers from 1 to %u",
                       how.path, BLOCK_MAX);
    }
    quantised->block_rows = (uint32_t)rows;
    quantised->block_columns = (uint32_t)columns;
    return OR_OK;
}

static or_status_t read_fp8_config(or_json_t how, or_hf_quantised_t *quantised)
{
    or_gguf_string_t format = {"e4m3", 4};
    or_status_t status = or_json_get_string(how, "fmt", &format);
    if (status == OR_OK && strcmp(format.bytes, "e4m3") != 0) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: weights of FP8 are \"%.16s\" (\"fmt\"); only e4m3 is read", how.path,
                       format.bytes);
    }
    quantised->kind = OR_HF_FP8;
    status = status != OR_OK ? status : read_blocks(how, quantised);
    if (status == OR_OK) {
        or_log(OR_LOG_INFO,
               "%s: weights are of 8 bits (FP8); what they are multiplied with is not rounded to "
               "8 bits here, as it is where such a checkpoint is served",
               how.path);
    }
    return status;
}

or_status_t or_hf_quantised_read(or_json_t json, const or_hf_family_t *family,
                                 or_hf_quantised_t *quantised)
{
    or_json_t how;
    *quantised = (or_hf_quantised_t){.kind = OR_HF_WHOLE};
    or_status_t status = or_json_get_object(json, "quantization_config", &how);
    if (status != OR_OK || how.object == NULL) {
        return status;
    }
    const json_t *method = json_object_get(how.object, "quant_method");
    if (family->stacks_experts && or_json_is(method, "mxfp4")) {
        quantised->kind = OR_HF_MXFP4;
        return OR_OK;
    }
    if (!family->stacks_experts && or_json_is(method, "fp8")) {
        how.path = json.path;
        return read_fp8_config(how, quantised);
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s: the weights are quantised by \"%.40s\" (\"quantization_config\"), which is "
                   "not read; take the checkpoint they were made of, and --type",
                   json.path, json_is_string(method) ? json_string_value(method) : "");
}

// ---- elements ----

bool or_hf_is_fp8(const or_safetensor_t *tensor)
{
    return strcmp(tensor->dtype, "F8_E4M3") == 0;
}

bool or_hf_is_of_activations(const char *name)
{
    static const char ending[] = ".activation_scale";
    const size_t length = strlen(name), end = sizeof ending - 1;
    return length > end && strcmp(name + length - end, ending) == 0;
}

static uint64_t blocks_of(uint64_t size, uint32_t block)
{
    return (size + block - 1) / block;
}

or_status_t or_hf_check_scales(const or_hf_source_t *source)
{
    const or_safetensor_t *tensor = source->tensor, *scales = source->scales;
    const uint32_t block_rows = source->how.block_rows;
    const uint64_t rows = block_rows > 0 ? blocks_of(tensor->dims[0], block_rows) : 1;
    const uint64_t columns =
        block_rows > 0 ? blocks_of(tensor->dims[1], source->how.block_columns) : 1;
    if (tensor->dim_count != 2) {
        return or_fail(OR_ERR_UNSUPPORTED, "tensor %.96s is of FP8 and no matrix", tensor->name);
    }
    if (!scales->readable) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tensor %.96s is of dtype %s; scales of F32, F16 and BF16 are read",
                       scales->name, scales->dtype);
    }
    bool fits = block_rows > 0 ? scales->dim_count == 2 : scales->dim_count <= 2;
    return fits && scales->dims[0] == rows && scales->dims[1] == columns
               ? OR_OK
               : or_fail(OR_ERR_FORMAT,
                         "tensor %.96s has %u dimensions, [%" PRIu64 ", %" PRIu64
                         "]; the blocks of its weights make it [%" PRIu64 ", %" PRIu64 "]",
                         scales->name, scales->dim_count, scales->dims[0], scales->dims[1], rows,
                         columns);
}

// float8_e4m3fn: a sign, 4 bits of exponent less 7, and 3 bits; all ones are no number, and nothing is infinite.
static float fp8_to_f32(uint8_t code)
{
    const uint32_t exponent = code >> 3 & 0xFu, fraction = code & 7u;
    const float sign = code >> 7 != 0 ? -1.0f : 1.0f;
    if (exponent == 0xF && fraction == 7) {
        return NAN;
    }
    return sign * (exponent == 0 ? ldexpf((float)fraction, -9)
                                 : ldexpf((float)(8 + fraction), (int)exponent - 10));
}

static float read_float(const or_safetensor_t *tensor, uint64_t i)
{
    const char *at = tensor->data;
    uint16_t half;
    float whole;
    if (tensor->type == OR_TENSOR_F32) {
        memcpy(&whole, at + i * sizeof whole, sizeof whole);
        return whole;
    }
    memcpy(&half, at + i * sizeof half, sizeof half);
    return tensor->type == OR_TENSOR_F16 ? or_f16_to_f32(half) : or_bf16_to_f32(half);
}

static void read_floats(const or_safetensor_t *tensor, uint64_t first, uint32_t count,
                        float *values)
{
    for (uint32_t i = 0; i < count; i++) {
        values[i] = read_float(tensor, first + i);
    }
}

// The elements of a row that share a scale follow one another.
static void read_fp8(const or_hf_source_t *source, uint64_t first, uint32_t count, float *values)
{
    const or_safetensor_t *tensor = source->tensor;
    const uint8_t *codes = (const uint8_t *)tensor->data + first;
    const uint64_t width = tensor->dims[1], row = first / width, column = first % width;
    const uint32_t rows = source->how.block_rows, columns = source->how.block_columns;
    const uint64_t scales = rows > 0 ? row / rows * source->scales->dims[1] : 0;
    for (uint32_t i = 0; i < count;) {
        const uint64_t block = rows > 0 ? (column + i) / columns : 0;
        const float scale = read_float(source->scales, scales + block);
        const uint64_t end = rows > 0 ? (block + 1) * columns - column : count;
        for (; i < count && i < end; i++) {
            values[i] = fp8_to_f32(codes[i]) * scale;
        }
    }
}

void or_hf_read_elements(const or_hf_source_t *source, uint64_t first, uint32_t count,
                         float *values)
{
    if (source->scales != NULL) {
        read_fp8(source, first, count, values);
    } else {
        read_floats(source->tensor, first, count, values);
    }
}
