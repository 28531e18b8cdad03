#include "common/gguf/gguf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/gguf/gguf_internal.h"

#define CHUNK_BYTES (UINT64_C(64) << 20) // hashed at once for a fingerprint

static const struct {
    const char *name;
    uint32_t bytes; // of one number
} types[] = {
    [OR_GGUF_U8] = {"u8", 1},       [OR_GGUF_I8] = {"i8", 1},     [OR_GGUF_U16] = {"u16", 2},
    [OR_GGUF_I16] = {"i16", 2},     [OR_GGUF_U32] = {"u32", 4},   [OR_GGUF_I32] = {"i32", 4},
    [OR_GGUF_F32] = {"f32", 4},     [OR_GGUF_BOOL] = {"bool", 1}, [OR_GGUF_STRING] = {"string", 0},
    [OR_GGUF_ARRAY] = {"array", 0}, [OR_GGUF_U64] = {"u64", 8},   [OR_GGUF_I64] = {"i64", 8},
    [OR_GGUF_F64] = {"f64", 8},
};
#define TYPE_COUNT (sizeof types / sizeof *types)

// The names in ggml's numbering. Gaps are types that ggml has removed.
static const char *const tensor_types[] = {
    [0] = "F32",     [1] = "F16",      [2] = "Q4_0",   [3] = "Q4_1",    [6] = "Q5_0",
    [7] = "Q5_1",    [8] = "Q8_0",     [9] = "Q8_1",   [10] = "Q2_K",   [11] = "Q3_K",
    [12] = "Q4_K",   [13] = "Q5_K",    [14] = "Q6_K",  [15] = "Q8_K",   [16] = "IQ2_XXS",
    [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",
    [22] = "IQ2_S",  [23] = "IQ4_XS",  [24] = "I8",    [25] = "I16",    [26] = "I32",
    [27] = "I64",    [28] = "F64",     [29] = "IQ1_M", [30] = "BF16",   [34] = "TQ1_0",
    [35] = "TQ2_0",  [39] = "MXFP4",
};

uint32_t or_gguf_type_bytes(uint32_t type)
{
    return type < TYPE_COUNT ? types[type].bytes : 0;
}

or_gguf_string_t or_gguf_string_at(const unsigned char *value)
{
    uint64_t length;
    memcpy(&length, value, sizeof length);
    return (or_gguf_string_t){(const char *)value + sizeof length, length};
}

const char *or_gguf_path(const or_gguf_t *gguf)
{
    return gguf->path;
}

uint64_t or_gguf_file_bytes(const or_gguf_t *gguf)
{
    uint64_t bytes = gguf->bytes;
    for (uint32_t i = 0; i < gguf->later_count; i++) {
        bytes += gguf->later_parts[i]->bytes;
    }
    return bytes;
}

static uint64_t fingerprint_file(const or_gguf_t *gguf, uint64_t seed)
{
    uint64_t hash = seed;
    for (uint64_t at = 0; at < gguf->bytes; at += CHUNK_BYTES) {
        uint64_t left = gguf->bytes - at;
        uint64_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        hash = XXH3_64bits_withSeed(gguf->map + at, bytes, hash);
        or_gguf_release_bytes(gguf, gguf->map + at, bytes);
    }
    return hash;
}

uint64_t or_gguf_fingerprint(const or_gguf_t *gguf)
{
    if (gguf->fingerprint == 0) {
        uint64_t hash = fingerprint_file(gguf, 0);
        for (uint32_t i = 0; i < gguf->later_count; i++) {
            hash = fingerprint_file(gguf->later_parts[i], hash);
        }
        ((or_gguf_t *)(uintptr_t)gguf)->fingerprint =
            hash != 0 ? hash : 1; // the value does not change
    }
    return gguf->fingerprint;
}

uint64_t or_gguf_identity(const or_gguf_t *gguf)
{
    uint64_t identity = gguf->identity;
    for (uint32_t i = 0; i < gguf->later_count; i++) {
        identity = XXH64(&gguf->later_parts[i]->identity, sizeof identity, identity);
    }
    return identity;
}

uint32_t or_gguf_version(const or_gguf_t *gguf)
{
    return gguf->version;
}

// -- metadata by key
// --------------------------------------------------------------------------------------------------

// Find an entry. If it is absent, record the failure and return NULL.
static const entry_t *find(const or_gguf_t *gguf, const char *key)
{
    const or_gguf_string_t *found = or_gguf_index_find(&gguf->entry_index, key);
    if (found == NULL) {
        or_fail(OR_ERR_NOT_FOUND, "%s: has no metadata key %s", gguf->path, key);
    }
    return (const entry_t *)found;
}

static or_status_t wrong_type(const or_gguf_t *gguf, const entry_t *entry, const char *wanted)
{
    return or_fail(OR_ERR_FORMAT, "%s: metadata key %.*s is of type %s, not %s", gguf->path,
                   (int)entry->key.length, entry->key.bytes, types[entry->type].name, wanted);
}

// Read any integer as a signed 64-bit number. A larger one becomes INT64_MAX, which is out of
// range for every caller. False for other types.
static bool read_integer(const entry_t *entry, int64_t *value)
{
    uint64_t bits = 0;
    memcpy(&bits, entry->value, or_gguf_type_bytes(entry->type));
    switch (entry->type) {
    case OR_GGUF_I8:
        *value = (int8_t)bits;
        return true;
    case OR_GGUF_I16:
        *value = (int16_t)bits;
        return true;
    case OR_GGUF_I32:
        *value = (int32_t)bits;
        return true;
    case OR_GGUF_I64:
        *value = (int64_t)bits;
        return true;
    case OR_GGUF_U8:
    case OR_GGUF_U16:
    case OR_GGUF_U32:
    case OR_GGUF_U64:
        *value = bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
        return true;
    default:
        return false;
    }
}

static bool read_float(const entry_t *entry, double *value)
{
    float narrow;
    if (entry->type == OR_GGUF_F32) {
        memcpy(&narrow, entry->value, sizeof narrow);
        *value = narrow;
        return true;
    }
    if (entry->type == OR_GGUF_F64) {
        memcpy(value, entry->value, sizeof *value);
        return true;
    }
    return false;
}

or_status_t or_gguf_get_u32(const or_gguf_t *gguf, const char *key, uint32_t *value)
{
    const entry_t *entry = find(gguf, key);
    int64_t wide;
    if (entry == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    if (!read_integer(entry, &wide)) {
        return wrong_type(gguf, entry, "an integer");
    }
    if (wide < 0 || wide > UINT32_MAX) {
        return or_fail(OR_ERR_FORMAT, "%s: metadata key %s is out of range (0 to %u)", gguf->path,
                       key, UINT32_MAX);
    }
    *value = (uint32_t)wide;
    return OR_OK;
}

or_status_t or_gguf_get_f32(const or_gguf_t *gguf, const char *key, float *value)
{
    const entry_t *entry = find(gguf, key);
    double wide;
    if (entry == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    if (!read_float(entry, &wide)) {
        return wrong_type(gguf, entry, "a floating-point number");
    }
    *value = (float)wide;
    return OR_OK;
}

or_status_t or_gguf_get_bool(const or_gguf_t *gguf, const char *key, bool *value)
{
    const entry_t *entry = find(gguf, key);
    if (entry == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    if (entry->type != OR_GGUF_BOOL) {
        return wrong_type(gguf, entry, "bool");
    }
    *value = *entry->value != 0;
    return OR_OK;
}

or_status_t or_gguf_get_string(const or_gguf_t *gguf, const char *key, or_gguf_string_t *value)
{
    const entry_t *entry = find(gguf, key);
    if (entry == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    if (entry->type != OR_GGUF_STRING) {
        return wrong_type(gguf, entry, "string");
    }
    *value = or_gguf_string_at(entry->value);
    return OR_OK;
}

or_status_t or_gguf_get_array(const or_gguf_t *gguf, const char *key, or_gguf_type_t type,
                              or_gguf_array_t *array)
{
    const entry_t *entry = find(gguf, key);
    if (entry == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    if (entry->type != OR_GGUF_ARRAY) {
        return wrong_type(gguf, entry, "array");
    }
    if (entry->array.type != type) {
        return or_fail(OR_ERR_FORMAT, "%s: metadata key %s is an array of %s, not of %s",
                       gguf->path, key, types[entry->array.type].name, types[type].name);
    }
    *array = entry->array;
    return OR_OK;
}

bool or_gguf_has(const or_gguf_t *gguf, const char *key)
{
    return or_gguf_index_find(&gguf->entry_index, key) != NULL;
}

or_gguf_string_t or_gguf_array_string(const or_gguf_array_t *array, uint64_t i)
{
    assert(array->type == OR_GGUF_STRING && i < array->count);
    const unsigned char *const *strings = array->data;
    return or_gguf_string_at(strings[i]);
}

float or_gguf_array_f32(const or_gguf_array_t *array, uint64_t i)
{
    assert(array->type == OR_GGUF_F32 && i < array->count);
    float value;
    memcpy(&value, (const unsigned char *)array->data + i * sizeof value, sizeof value);
    return value;
}

int32_t or_gguf_array_i32(const or_gguf_array_t *array, uint64_t i)
{
    assert(array->type == OR_GGUF_I32 && i < array->count);
    int32_t value;
    memcpy(&value, (const unsigned char *)array->data + i * sizeof value, sizeof value);
    return value;
}

// -- all metadata, for people
// -----------------------------------------------------------------------------------------

// Write the string cut to whole UTF-8 characters, with control characters as spaces, so that the
// file cannot control the terminal.
static void describe_string(or_gguf_string_t string, char *text, size_t capacity)
{
    size_t length = string.length;
    if (length >= capacity) {
        length = capacity - 1;
        while (length > 0 && ((unsigned char)string.bytes[length] & 0xC0) == 0x80) {
            length--;
        }
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)string.bytes[i];
        text[i] = byte < ' ' || byte == 0x7F ? ' ' : (char)byte;
    }
    text[length] = '\0';
}

uint64_t or_gguf_key_count(const or_gguf_t *gguf)
{
    return gguf->entry_count;
}

void or_gguf_describe(const or_gguf_t *gguf, uint64_t i, or_gguf_string_t *key, char *text,
                      size_t capacity)
{
    assert(i < gguf->entry_count && capacity > 0);
    const entry_t *entry = &gguf->entries[i];
    int64_t integer;
    double number;
    uint64_t wide;
    *key = entry->key;
    if (entry->type == OR_GGUF_STRING) {
        describe_string(or_gguf_string_at(entry->value), text, capacity);
    } else if (entry->type == OR_GGUF_ARRAY) {
        snprintf(text, capacity, "[%s x %" PRIu64 "]", types[entry->array.type].name,
                 entry->array.count);
    } else if (entry->type == OR_GGUF_BOOL) {
        snprintf(text, capacity, "%s", *entry->value != 0 ? "true" : "false");
    } else if (entry->type == OR_GGUF_U64) { // the one type whose values may not fit int64_t
        memcpy(&wide, entry->value, sizeof wide);
        snprintf(text, capacity, "%" PRIu64, wide);
    } else if (read_integer(entry, &integer)) {
        snprintf(text, capacity, "%" PRId64, integer);
    } else if (read_float(entry, &number)) {
        snprintf(text, capacity, "%g", number);
    }
}

// -- tensors
// ----------------------------------------------------------------------------------------------------------

uint64_t or_gguf_tensor_count(const or_gguf_t *gguf)
{
    return gguf->tensor_count;
}

const or_gguf_tensor_t *or_gguf_tensor(const or_gguf_t *gguf, uint64_t i)
{
    assert(i < gguf->tensor_count);
    return &gguf->tensors[i];
}

const or_gguf_tensor_t *or_gguf_find_tensor(const or_gguf_t *gguf, const char *name)
{
    return (const or_gguf_tensor_t *)or_gguf_index_find(&gguf->tensor_index, name);
}

const char *or_gguf_tensor_type_name(uint32_t type)
{
    static _Thread_local char unknown[24];
    if (type < sizeof tensor_types / sizeof *tensor_types && tensor_types[type] != NULL) {
        return tensor_types[type];
    }
    snprintf(unknown, sizeof unknown, "type %" PRIu32, type);
    return unknown;
}

or_tensor_block_t or_gguf_tensor_block(uint32_t type)
{
    switch (type) {
    case OR_TENSOR_F32:
        return (or_tensor_block_t){1, 4};
    case OR_TENSOR_F16:
    case OR_TENSOR_BF16:
        return (or_tensor_block_t){1, 2};
    case OR_TENSOR_Q4_0:
    case OR_TENSOR_IQ4_NL:
        return (or_tensor_block_t){32, 2 + 16};
    case OR_TENSOR_Q4_1:
        return (or_tensor_block_t){32, 2 + 2 + 16};
    case OR_TENSOR_Q5_0:
        return (or_tensor_block_t){32, 2 + 4 + 16};
    case OR_TENSOR_Q5_1:
        return (or_tensor_block_t){32, 2 + 2 + 4 + 16};
    case OR_TENSOR_Q8_0:
        return (or_tensor_block_t){32, 2 + 32};
    case OR_TENSOR_Q2_K:
        return (or_tensor_block_t){256, 2 + 2 + 16 + 64};
    case OR_TENSOR_Q3_K:
        return (or_tensor_block_t){256, 2 + 12 + 64 + 32};
    case OR_TENSOR_Q4_K:
        return (or_tensor_block_t){256, 2 + 2 + 12 + 128};
    case OR_TENSOR_Q5_K:
        return (or_tensor_block_t){256, 2 + 2 + 12 + 128 + 32};
    case OR_TENSOR_Q6_K:
        return (or_tensor_block_t){256, 2 + 16 + 128 + 64};
    case OR_TENSOR_IQ4_XS:
        return (or_tensor_block_t){256, 2 + 2 + 4 + 128};
    case OR_TENSOR_MXFP4:
        return (or_tensor_block_t){32, 1 + 16};
    case OR_TENSOR_IQ3_S:
        return (or_tensor_block_t){256, 2 + 64 + 8 + 32 + 4};
    case OR_TENSOR_IQ3_XXS:
        return (or_tensor_block_t){256, 2 + 64 + 32};
    case OR_TENSOR_IQ2_S:
        return (or_tensor_block_t){256, 2 + 32 + 32 + 8 + 8};
    case OR_TENSOR_IQ2_XS:
        return (or_tensor_block_t){256, 2 + 64 + 8};
    case OR_TENSOR_IQ2_XXS:
        return (or_tensor_block_t){256, 2 + 64};
    default:
        return (or_tensor_block_t){1, 0};
    }
}

// ---- extraction ----

#define VERSION 3u // the newest; entries are written the same in version 2

typedef struct {
    char magic[4];
    uint32_t version;
    uint64_t tensor_count, entry_count;
} header_t;
_Static_assert(sizeof(header_t) == 24, "a file begins with these, without gaps");

static bool begins_with(or_gguf_string_t key, const char *prefix)
{
    size_t length = strlen(prefix);
    return key.length >= length && memcmp(key.bytes, prefix, length) == 0;
}

// An entry begins with the length of its key.
static const unsigned char *start_of(const entry_t *entry)
{
    return (const unsigned char *)entry->key.bytes - sizeof(uint64_t);
}

or_status_t or_gguf_extract(const or_gguf_t *gguf, const char *prefix, uint8_t **image_p,
                            size_t *image_bytes)
{
    header_t header = {"GGUF", VERSION, 0, 0};
    size_t bytes = sizeof header;
    for (uint64_t i = 0; i < gguf->entry_count; i++) {
        const entry_t *entry = &gguf->entries[i];
        if (begins_with(entry->key, prefix)) {
            header.entry_count++;
            bytes += (size_t)(entry->end - start_of(entry));
        }
    }
    uint8_t *image = malloc(bytes);
    if (image == NULL) {
        return or_gguf_no_memory(gguf->path);
    }
    memcpy(image, &header, sizeof header);
    size_t used = sizeof header;
    for (uint64_t i = 0; i < gguf->entry_count; i++) {
        const entry_t *entry = &gguf->entries[i];
        if (begins_with(entry->key, prefix)) {
            size_t length = (size_t)(entry->end - start_of(entry));
            memcpy(image + used, start_of(entry), length);
            used += length;
        }
    }
    *image_p = image;
    *image_bytes = bytes;
    return OR_OK;
}
