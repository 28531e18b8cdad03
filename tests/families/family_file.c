#include "tests/families/family_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define ALIGNMENT 32u
#define DATA_MAX (16u << 20) // bytes of a model's tensors
#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)
#define FNV_OFFSET UINT64_C(0xCBF29CE484222325)
#define FNV_PRIME UINT64_C(0x100000001B3)

static void require_ok(or_status_t status)
{
    if (status != OR_OK) {
        fail_msg("%s: %s", or_status_name(status), or_error_text());
    }
}

static uint64_t hash_of(or_gguf_string_t name)
{
    uint64_t hash = FNV_OFFSET;
    for (size_t i = 0; i < name.length; i++) {
        hash = (hash ^ (unsigned char)name.bytes[i]) * FNV_PRIME;
    }
    return hash;
}

// Return the next integer: the sum of four 16-bit parts less its mean, about normally distributed.
static int32_t draw(uint64_t *state)
{
    uint64_t z = test_random(state);
    return (int32_t)((z & 0xFFFF) + (z >> 16 & 0xFFFF) + (z >> 32 & 0xFFFF) + (z >> 48)) - 131070;
}

// Read the array of floats `key`, with one element a tensor.
static or_gguf_array_t floats_of(const or_gguf_t *gguf, const char *key, uint64_t count)
{
    or_gguf_array_t array;
    require_ok(or_gguf_get_array(gguf, key, OR_GGUF_F32, &array));
    assert_int_equal(array.count, count);
    return array;
}

static void fill_given(const or_gguf_t *gguf, const char *key, float *out, uint64_t count)
{
    or_gguf_array_t values = floats_of(gguf, key, count);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = or_gguf_array_f32(&values, i);
    }
}

// The product of scale and integer is exact in a double, so the sum is rounded once.
static void fill_drawn(const or_gguf_t *gguf, uint64_t index, float *out, uint64_t count)
{
    uint64_t tensors = or_gguf_tensor_count(gguf);
    or_gguf_array_t scales = floats_of(gguf, "recipe.scales", tensors);
    or_gguf_array_t shifts = floats_of(gguf, "recipe.shifts", tensors);
    double scale = (double)or_gguf_array_f32(&scales, index);
    double shift = (double)or_gguf_array_f32(&shifts, index);
    uint32_t seed;
    require_ok(or_gguf_get_u32(gguf, "recipe.seed", &seed));
    uint64_t state = hash_of(or_gguf_tensor(gguf, index)->name) ^ (seed * GOLDEN);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = (float)(scale * draw(&state) + shift);
    }
}

// Write the tensor's data at `offset` and return where the next tensor's begin.
static off_t write_tensor(const or_gguf_t *gguf, uint64_t index, int fd, off_t offset)
{
    const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, index);
    assert_int_equal(tensor->type, OR_TENSOR_F32);
    float *values = calloc(tensor->elements, sizeof *values);
    assert_non_null(values);
    char key[128];
    snprintf(key, sizeof key, "recipe.values.%.*s", (int)tensor->name.length, tensor->name.bytes);
    if (or_gguf_has(gguf, key)) {
        fill_given(gguf, key, values, tensor->elements);
    } else {
        fill_drawn(gguf, index, values, tensor->elements);
    }
    assert_int_equal(pwrite(fd, values, tensor->bytes, offset), tensor->bytes);
    assert_memory_equal(tensor->data, values, tensor->bytes); // the offset is the table's
    free(values);
    return offset + (off_t)((tensor->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

// Write over the number behind the metadata key that ends with `key`.
static void set_number(char *head, size_t bytes, const char *key, uint32_t value)
{
    uint32_t type;
    char *at = memmem(head, bytes, key, strlen(key));
    assert_non_null(at);
    at += strlen(key);
    memcpy(&type, at, sizeof type);
    assert_int_equal(type, OR_GGUF_U32);
    memcpy(at + sizeof type, &value, sizeof value);
}

// Copy the recipe to the file, with another number for a key unless that is NULL. Return its size, which is where data begin.
static off_t copy_head(const char *name, const char *key, uint32_t value, int fd)
{
    static char head[1u << 16];
    char path[128];
    snprintf(path, sizeof path, "tests/families/data/%s.gguf-head", name);
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        fail_msg("cannot open %s", path);
        abort(); // not reached
    }
    size_t bytes = fread(head, 1, sizeof head, in);
    fclose(in);
    assert_in_range(bytes, ALIGNMENT, sizeof head - 1);
    assert_int_equal(bytes % ALIGNMENT, 0);
    if (key != NULL) {
        set_number(head, bytes, key, value);
    }
    assert_int_equal(write(fd, head, bytes), bytes);
    return (off_t)bytes;
}

char *family_file_make_with(const char *name, const char *key, uint32_t value)
{
    int fd = memfd_create("family.gguf", MFD_CLOEXEC); // open until the process ends
    assert_true(fd >= 0);
    char *path = NULL;
    assert_true(asprintf(&path, "/proc/%d/fd/%d", (int)getpid(), fd) > 0);
    off_t offset = copy_head(name, key, value, fd);
    assert_int_equal(ftruncate(fd, offset + DATA_MAX), 0); // room for all data until they are known
    or_gguf_t *gguf = NULL;
    require_ok(or_gguf_open(path, &gguf));
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        offset = write_tensor(gguf, i, fd, offset);
    }
    or_gguf_close(&gguf);
    assert_int_equal(ftruncate(fd, offset), 0);
    return path;
}

char *family_file_make(const char *name)
{
    return family_file_make_with(name, NULL, 0);
}

uint32_t family_file_tokens(const or_gguf_t *gguf, int32_t *tokens, uint32_t max)
{
    or_gguf_array_t array;
    require_ok(or_gguf_get_array(gguf, "recipe.tokens", OR_GGUF_I32, &array));
    assert_in_range(array.count, 1, max);
    for (uint64_t i = 0; i < array.count; i++) {
        tokens[i] = or_gguf_array_i32(&array, i);
    }
    return (uint32_t)array.count;
}

void family_file_logits(const char *name, float *logits, size_t count)
{
    char path[128];
    snprintf(path, sizeof path, "tests/families/data/%s.f32", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fread(logits, sizeof *logits, count, in), count);
    fclose(in);
}
