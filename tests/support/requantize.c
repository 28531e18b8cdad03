#include "tests/support/requantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/model/cpu/weights.h"
#include "tests/support/test_support.h"

#define HEADER_BYTES 24u // magic, version, number of tensors and of metadata entries
#define BLOCK 32u

static uint16_t round_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16); // to nearest even
}

// ggml's rule is scale = the largest magnitude / 127.
static void write_q8_0_block(const float *x, unsigned char *out)
{
    float largest = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
    }
    float scale = largest / 127.0f;
    float inverse = scale != 0 ? 1.0f / scale : 0;
    uint16_t half = or_f32_to_f16(scale);
    memcpy(out, &half, sizeof half);
    for (uint32_t i = 0; i < BLOCK; i++) {
        out[sizeof half + i] = (unsigned char)(int8_t)roundf(x[i] * inverse);
    }
}

// ggml's rule is scale = the number of largest magnitude, with its sign, / -8, so that this one
// is exact. Low nibbles are elements 0 to 15.
static void write_q4_0_block(const float *x, unsigned char *out)
{
    float largest = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
    }
    float scale = largest / -8.0f;
    float inverse = scale != 0 ? 1.0f / scale : 0;
    uint16_t half = or_f32_to_f16(scale);
    memcpy(out, &half, sizeof half);
    for (uint32_t i = 0; i < BLOCK / 2; i++) {
        int low = (int)(x[i] * inverse + 8.5f);
        int high = (int)(x[i + BLOCK / 2] * inverse + 8.5f);
        low = low < 15 ? low : 15;
        high = high < 15 ? high : 15;
        out[sizeof half + i] = (unsigned char)(low | high << 4);
    }
}

// No encoder finds places in the grids of IQ2 and IQ3. So any bits will do, which x gives, and a scale with which the
// largest weight is about that of x: the largest of a grid is 62, and of a group's scales 15.5 / 2.
static void write_any_unit(const float *x, uint32_t count, uint32_t bytes, unsigned char *out)
{
    float largest = 0;
    uint64_t random = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        random = random * 31 + bits;
        largest = fmaxf(largest, fabsf(x[i]));
    }
    uint16_t half = or_f32_to_f16(largest / (62 * 7.75f));
    memcpy(out, &half, sizeof half);
    for (uint32_t i = sizeof half; i < bytes; i++) {
        out[i] = (unsigned char)test_random(&random);
    }
}

static void write_row(const float *x, uint32_t columns, or_tensor_type_t type, unsigned char *out)
{
    uint32_t step = or_gguf_tensor_block(type).elements;
    for (uint32_t i = 0; i < columns; i += step, out += or_gguf_tensor_block(type).bytes) {
        or_quant_t quant;
        uint16_t half;
        switch (type) {
        case OR_TENSOR_F32:
            memcpy(out, &x[i], sizeof x[i]);
            break;
        case OR_TENSOR_F16:
        case OR_TENSOR_BF16:
            half = type == OR_TENSOR_F16 ? or_f32_to_f16(x[i]) : round_to_bf16(x[i]);
            memcpy(out, &half, sizeof half);
            break;
        case OR_TENSOR_Q8_0:
            write_q8_0_block(&x[i], out);
            break;
        case OR_TENSOR_Q4_0:
            write_q4_0_block(&x[i], out);
            break;
        default:
            assert_true(or_tensor_quant(type, &quant));
            if (quant < OR_QUANT_ENCODED) {
                or_quant_encode(quant, &x[i], NULL, 1, out);
            } else {
                write_any_unit(&x[i], step, or_gguf_tensor_block(type).bytes, out);
            }
            break;
        }
    }
}

// Return the type that the tensor gets.
static or_tensor_type_t new_type(const or_gguf_tensor_t *tensor, or_tensor_type_t type)
{
    static const char bias[] = ".bias"; // of experts, a vector for each
    const char *end = tensor->name.bytes + tensor->name.length;
    bool is_bias = tensor->name.length >= sizeof bias &&
                   memcmp(end - sizeof bias + 1, bias, sizeof bias - 1) == 0;
    bool fits = tensor->dim_count >= 2 && tensor->dims[1] > 1 && !is_bias &&
                tensor->dims[0] % or_gguf_tensor_block(type).elements == 0;
    return fits ? type : (or_tensor_type_t)tensor->type;
}

static uint64_t row_bytes(const or_gguf_tensor_t *tensor, or_tensor_type_t type)
{
    or_tensor_block_t block = or_gguf_tensor_block(type);
    return tensor->dims[0] / block.elements * block.bytes;
}

static void put(FILE *out, const void *bytes, size_t count)
{
    assert_int_equal(fwrite(bytes, 1, count, out), count);
}

static void pad(FILE *out, uint32_t alignment)
{
    while (ftell(out) % alignment != 0) {
        put(out, "", 1);
    }
}

static void put_description(FILE *out, const or_gguf_tensor_t *tensor, or_tensor_type_t type,
                            uint64_t offset)
{
    uint32_t number = type;
    uint64_t length = tensor->name.length;
    put(out, &length, sizeof length);
    put(out, tensor->name.bytes, length);
    put(out, &tensor->dim_count, sizeof tensor->dim_count);
    put(out, tensor->dims, tensor->dim_count * sizeof tensor->dims[0]);
    put(out, &number, sizeof number);
    put(out, &offset, sizeof offset);
}

static void put_data(FILE *out, const or_gguf_tensor_t *tensor, or_tensor_type_t type)
{
    if (type == tensor->type) {
        put(out, tensor->data, tensor->bytes);
        return;
    }
    uint64_t to_bytes = row_bytes(tensor, type);
    float *floats = calloc(tensor->dims[0], sizeof *floats);
    unsigned char *row = calloc(to_bytes, 1);
    assert_non_null(floats);
    assert_non_null(row);
    for (uint64_t i = 0; i < tensor->elements / tensor->dims[0]; i++) {
        or_tensor_read_row(tensor, i, (uint32_t)tensor->dims[0], floats);
        write_row(floats, (uint32_t)tensor->dims[0], type, row);
        put(out, row, to_bytes);
    }
    free(row);
    free(floats);
}

// Header and metadata are copied as they lie in the mapping: from HEADER_BYTES before the first key
// to the first tensor's description. Both begin with the length of a name.
static void put_head(FILE *out, const or_gguf_t *gguf)
{
    or_gguf_string_t key;
    char ignored[8];
    or_gguf_describe(gguf, 0, &key, ignored, sizeof ignored);
    const char *begin = key.bytes - sizeof(uint64_t) - HEADER_BYTES;
    const char *end = or_gguf_tensor(gguf, 0)->name.bytes - sizeof(uint64_t);
    put(out, begin, (size_t)(end - begin));
}

static void put_file(FILE *out, const or_gguf_t *gguf, or_tensor_type_t type)
{
    uint32_t alignment = 32;
    uint64_t offset = 0;
    if (or_gguf_has(gguf, "general.alignment")) {
        assert_int_equal(or_gguf_get_u32(gguf, "general.alignment", &alignment), OR_OK);
    }
    put_head(out, gguf);
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        or_tensor_type_t becomes = new_type(tensor, type);
        put_description(out, tensor, becomes, offset);
        offset += row_bytes(tensor, becomes) * (tensor->elements / tensor->dims[0]);
        offset = (offset + alignment - 1) / alignment * alignment;
    }
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        pad(out, alignment);
        put_data(out, tensor, new_type(tensor, type));
    }
    pad(out, alignment);
}

char *test_requantize(const char *path, or_tensor_type_t type)
{
    or_gguf_t *gguf = NULL;
    if (or_gguf_open(path, &gguf) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    int fd = memfd_create("requantized.gguf", MFD_CLOEXEC); // open until the process ends
    assert_true(fd >= 0);
    FILE *out = fdopen(dup(fd), "wb");
    assert_non_null(out);
    put_file(out, gguf, type);
    assert_int_equal(fclose(out), 0);
    or_gguf_close(&gguf);
    char *made = NULL;
    assert_true(asprintf(&made, "/proc/%d/fd/%d", (int)getpid(), fd) > 0);
    return made;
}
