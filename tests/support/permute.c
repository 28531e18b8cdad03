#include "tests/support/permute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/gguf/gguf.h"
#include "tests/support/test_support.h"

#define HEADER_BYTES 24u // magic, version, number of tensors and of metadata entries
#define PAD_TYPE 5       // GGUF's token type for unused ones

typedef struct {
    const or_gguf_t *gguf;
    FILE *out;
    uint32_t count;         // tokens of the original
    uint32_t padding;       // and behind them
    const uint32_t *moved;  // [count] by old id
    const uint32_t *origin; // [count] the old id of each new one
    uint64_t random;        // for the rows of the padding
} job_t;

static void put(const job_t *job, const void *bytes, size_t count)
{
    assert_int_equal(fwrite(bytes, 1, count, job->out), count);
}

static void put_u32(const job_t *job, uint32_t number)
{
    put(job, &number, sizeof number);
}

static void put_u64(const job_t *job, uint64_t number)
{
    put(job, &number, sizeof number);
}

static void put_string(const job_t *job, or_gguf_string_t text)
{
    put_u64(job, text.length);
    put(job, text.bytes, text.length);
}

// -- metadata --

static bool is_called(or_gguf_string_t name, const char *text)
{
    return name.length == strlen(text) && memcmp(name.bytes, text, name.length) == 0;
}

static bool ends_with(or_gguf_string_t name, const char *end)
{
    size_t length = strlen(end);
    return name.length >= length && memcmp(name.bytes + name.length - length, end, length) == 0;
}

static or_gguf_array_t get_array(const job_t *job, const char *key, or_gguf_type_t type)
{
    or_gguf_array_t array;
    assert_int_equal(or_gguf_get_array(job->gguf, key, type, &array), OR_OK);
    assert_int_equal(array.count, job->count);
    return array;
}

static void put_array_head(const job_t *job, or_gguf_string_t key, or_gguf_type_t type)
{
    put_string(job, key);
    put_u32(job, OR_GGUF_ARRAY);
    put_u32(job, type);
    put_u64(job, (uint64_t)job->count + job->padding);
}

static void put_pieces(const job_t *job, or_gguf_string_t key)
{
    or_gguf_array_t pieces = get_array(job, "tokenizer.ggml.tokens", OR_GGUF_STRING);
    put_array_head(job, key, OR_GGUF_STRING);
    for (uint32_t id = 0; id < job->count; id++) {
        put_string(job, or_gguf_array_string(&pieces, job->origin[id]));
    }
    for (uint32_t i = 0; i < job->padding; i++) {
        char piece[32];
        int length = snprintf(piece, sizeof piece, "<|pad %u|>", i);
        put_string(job, (or_gguf_string_t){piece, (size_t)length});
    }
}

// Put scores or kinds: numbers of four bytes, one a token.
static void put_numbers(const job_t *job, or_gguf_string_t key, const char *name,
                        or_gguf_type_t type, uint32_t padded)
{
    or_gguf_array_t numbers = get_array(job, name, type);
    put_array_head(job, key, type);
    for (uint32_t id = 0; id < job->count; id++) {
        put(job, (const char *)numbers.data + sizeof padded * job->origin[id], sizeof padded);
    }
    for (uint32_t i = 0; i < job->padding; i++) {
        put_u32(job, padded);
    }
}

static void put_id(const job_t *job, or_gguf_string_t key)
{
    char name[64];
    uint32_t id;
    snprintf(name, sizeof name, "%.*s", (int)key.length, key.bytes);
    assert_int_equal(or_gguf_get_u32(job->gguf, name, &id), OR_OK);
    assert_true(id < job->count);
    put_string(job, key);
    put_u32(job, OR_GGUF_U32);
    put_u32(job, job->moved[id]);
}

static or_gguf_string_t key_of(const or_gguf_t *gguf, uint64_t i)
{
    or_gguf_string_t key;
    char ignored[8];
    or_gguf_describe(gguf, i, &key, ignored, sizeof ignored);
    return key;
}

// Every key and every tensor's description begins with the length of its name.
static const char *begin_of(or_gguf_string_t name)
{
    return name.bytes - sizeof(uint64_t);
}

static void put_entry(const job_t *job, uint64_t i)
{
    or_gguf_string_t key = key_of(job->gguf, i);
    if (is_called(key, "tokenizer.ggml.tokens")) {
        put_pieces(job, key);
    } else if (is_called(key, "tokenizer.ggml.scores")) {
        put_numbers(job, key, "tokenizer.ggml.scores", OR_GGUF_F32, 0);
    } else if (is_called(key, "tokenizer.ggml.token_type")) {
        put_numbers(job, key, "tokenizer.ggml.token_type", OR_GGUF_I32, PAD_TYPE);
    } else if (ends_with(key, "_token_id")) {
        put_id(job, key);
    } else if (ends_with(key, ".vocab_size")) {
        put_string(job, key);
        put_u32(job, OR_GGUF_U32);
        put_u32(job, job->count + job->padding);
    } else {
        bool last = i + 1 == or_gguf_key_count(job->gguf);
        const char *end =
            begin_of(last ? or_gguf_tensor(job->gguf, 0)->name : key_of(job->gguf, i + 1));
        put(job, begin_of(key), (size_t)(end - begin_of(key)));
    }
}

static void put_metadata(const job_t *job)
{
    put(job, begin_of(key_of(job->gguf, 0)) - HEADER_BYTES, HEADER_BYTES);
    for (uint64_t i = 0; i < or_gguf_key_count(job->gguf); i++) {
        put_entry(job, i);
    }
}

// -- tensors --

static bool has_row_per_token(const or_gguf_tensor_t *tensor)
{
    return is_called(tensor->name, "token_embd.weight") || is_called(tensor->name, "output.weight");
}

static uint64_t bytes_of(const job_t *job, const or_gguf_tensor_t *tensor)
{
    return has_row_per_token(tensor)
               ? tensor->bytes / job->count * ((uint64_t)job->count + job->padding)
               : tensor->bytes;
}

static void put_description(const job_t *job, const or_gguf_tensor_t *tensor, uint64_t offset)
{
    uint64_t dims[4];
    memcpy(dims, tensor->dims, sizeof dims);
    if (has_row_per_token(tensor)) {
        assert_int_equal(dims[1], job->count);
        dims[1] += job->padding;
    }
    put_string(job, tensor->name);
    put_u32(job, tensor->dim_count);
    put(job, dims, tensor->dim_count * sizeof *dims);
    put_u32(job, tensor->type);
    put_u64(job, offset);
}

// Put a row for an unused token: each of its blocks is a block of some other row.
static void put_mixed_row(job_t *job, const or_gguf_tensor_t *tensor, uint64_t row_bytes)
{
    uint32_t step = or_gguf_tensor_block(tensor->type).bytes;
    for (uint64_t at = 0; at < row_bytes; at += step) {
        uint64_t row = test_below(&job->random, job->count);
        put(job, (const char *)tensor->data + row * row_bytes + at, step);
    }
}

static void put_data(job_t *job, const or_gguf_tensor_t *tensor)
{
    if (!has_row_per_token(tensor)) {
        put(job, tensor->data, tensor->bytes);
        return;
    }
    uint64_t row_bytes = tensor->bytes / job->count;
    for (uint32_t id = 0; id < job->count; id++) {
        put(job, (const char *)tensor->data + job->origin[id] * row_bytes, row_bytes);
    }
    for (uint32_t i = 0; i < job->padding; i++) {
        put_mixed_row(job, tensor, row_bytes);
    }
}

static void pad(const job_t *job, uint32_t alignment)
{
    while (ftell(job->out) % alignment != 0) {
        put(job, "", 1);
    }
}

static void put_file(job_t *job)
{
    uint32_t alignment = 32;
    uint64_t offset = 0;
    if (or_gguf_has(job->gguf, "general.alignment")) {
        assert_int_equal(or_gguf_get_u32(job->gguf, "general.alignment", &alignment), OR_OK);
    }
    put_metadata(job);
    for (uint64_t i = 0; i < or_gguf_tensor_count(job->gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(job->gguf, i);
        put_description(job, tensor, offset);
        offset = (offset + bytes_of(job, tensor) + alignment - 1) / alignment * alignment;
    }
    for (uint64_t i = 0; i < or_gguf_tensor_count(job->gguf); i++) {
        pad(job, alignment);
        put_data(job, or_gguf_tensor(job->gguf, i));
    }
    pad(job, alignment);
}

// -- files --

static or_gguf_t *open_original(const char *path, uint32_t *count)
{
    or_gguf_t *gguf = NULL;
    or_gguf_array_t pieces;
    if (or_gguf_open(path, &gguf) != OR_OK ||
        or_gguf_get_array(gguf, "tokenizer.ggml.tokens", OR_GGUF_STRING, &pieces) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    *count = (uint32_t)pieces.count;
    return gguf;
}

static uint32_t *numbers(uint32_t count)
{
    uint32_t *array = calloc(count, sizeof *array);
    assert_non_null(array);
    return array;
}

// Make a file in memory, which is open until the process ends.
static char *make(const or_gguf_t *gguf, uint32_t count, const uint32_t *moved, uint32_t padding)
{
    int fd = memfd_create("permuted.gguf", MFD_CLOEXEC);
    assert_true(fd >= 0);
    uint32_t *origin = numbers(count);
    for (uint32_t id = 0; id < count; id++) {
        origin[moved[id]] = id;
    }
    job_t job = {.gguf = gguf,
                 .out = fdopen(dup(fd), "wb"),
                 .count = count,
                 .padding = padding,
                 .moved = moved,
                 .origin = origin,
                 .random = padding};
    assert_non_null(job.out);
    put_file(&job);
    assert_int_equal(fclose(job.out), 0);
    free(origin);
    char *made = NULL;
    assert_true(asprintf(&made, "/proc/%d/fd/%d", (int)getpid(), fd) > 0);
    return made;
}

void test_permutation(uint64_t seed, uint32_t count, uint32_t *moved)
{
    for (uint32_t i = 0; i < count; i++) { // Fisher and Yates, inside out
        uint32_t j = (uint32_t)test_below(&seed, i + 1);
        moved[i] = moved[j];
        moved[j] = i;
    }
}

char *test_permute(const char *gguf_path, uint64_t seed, uint32_t padding)
{
    uint32_t count;
    or_gguf_t *gguf = open_original(gguf_path, &count);
    uint32_t *moved = numbers(count);
    test_permutation(seed, count, moved);
    char *made = make(gguf, count, moved, padding);
    free(moved);
    or_gguf_close(&gguf);
    return made;
}

char *test_pad(const char *gguf_path, uint32_t padding)
{
    uint32_t count;
    or_gguf_t *gguf = open_original(gguf_path, &count);
    uint32_t *moved = numbers(count);
    for (uint32_t id = 0; id < count; id++) {
        moved[id] = id;
    }
    char *made = make(gguf, count, moved, padding);
    free(moved);
    or_gguf_close(&gguf);
    return made;
}
