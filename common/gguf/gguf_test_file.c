#include "common/gguf/gguf_test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test_support.h"

void test_gguf_init(test_gguf_t *file, uint32_t version, uint64_t tensors, uint64_t entries)
{
    *file = (test_gguf_t){.fd = -1};
    test_gguf_put(file, "GGUF", 4);
    test_gguf_put_u32(file, version);
    test_gguf_put_u64(file, tensors);
    test_gguf_put_u64(file, entries);
}

void test_gguf_fini(test_gguf_t *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->bytes);
    *file = (test_gguf_t){.fd = -1};
}

void test_gguf_put(test_gguf_t *file, const void *bytes, size_t count)
{
    if (file->count + count > file->capacity) {
        file->capacity = 2 * (file->count + count);
        file->bytes = realloc(file->bytes, file->capacity);
        assert_non_null(file->bytes);
    }
    memcpy(file->bytes + file->count, bytes, count);
    file->count += count;
}

void test_gguf_put_u32(test_gguf_t *file, uint32_t value)
{
    test_gguf_put(file, &value, sizeof value);
}

void test_gguf_put_u64(test_gguf_t *file, uint64_t value)
{
    test_gguf_put(file, &value, sizeof value);
}

void test_gguf_put_string(test_gguf_t *file, const char *string)
{
    test_gguf_put_u64(file, strlen(string));
    test_gguf_put(file, string, strlen(string));
}

void test_gguf_put_key(test_gguf_t *file, const char *key, or_gguf_type_t type)
{
    test_gguf_put_string(file, key);
    test_gguf_put_u32(file, type);
}

void test_gguf_put_u32_entry(test_gguf_t *file, const char *key, uint32_t value)
{
    test_gguf_put_key(file, key, OR_GGUF_U32);
    test_gguf_put_u32(file, value);
}

void test_gguf_put_bool_entry(test_gguf_t *file, const char *key, bool value)
{
    unsigned char byte = value;
    test_gguf_put_key(file, key, OR_GGUF_BOOL);
    test_gguf_put(file, &byte, 1);
}

void test_gguf_put_string_entry(test_gguf_t *file, const char *key, const char *value)
{
    test_gguf_put_key(file, key, OR_GGUF_STRING);
    test_gguf_put_string(file, value);
}

void test_gguf_put_array_key(test_gguf_t *file, const char *key, or_gguf_type_t type,
                             uint64_t count)
{
    test_gguf_put_key(file, key, OR_GGUF_ARRAY);
    test_gguf_put_u32(file, type);
    test_gguf_put_u64(file, count);
}

void test_gguf_put_tensor(test_gguf_t *file, const char *name, uint64_t columns, uint64_t rows,
                          uint32_t type, uint64_t offset)
{
    test_gguf_put_string(file, name);
    test_gguf_put_u32(file, 2);
    test_gguf_put_u64(file, columns);
    test_gguf_put_u64(file, rows);
    test_gguf_put_u32(file, type);
    test_gguf_put_u64(file, offset);
}

void test_gguf_pad(test_gguf_t *file, size_t alignment)
{
    while (file->count % alignment != 0) {
        test_gguf_put(file, "", 1);
    }
}

or_status_t test_gguf_open(test_gguf_t *file, or_gguf_t **gguf_p)
{
    char path[64];
    if (file->fd >= 0) {
        close(file->fd);
    }
    file->fd = memfd_create("gguf", MFD_CLOEXEC);
    assert_true(file->fd >= 0);
    assert_int_equal(write(file->fd, file->bytes, file->count), file->count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    return or_gguf_open(path, gguf_p);
}

void test_gguf_save(const test_gguf_t *file, const char *path)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(file->bytes, 1, file->count, stream), file->count);
    assert_int_equal(fclose(stream), 0);
}

void test_gguf_load(test_gguf_t *file, const char *path)
{
    unsigned char block[65536];
    size_t got;
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    *file = (test_gguf_t){.fd = -1};
    while ((got = fread(block, 1, sizeof block, stream)) > 0) {
        test_gguf_put(file, block, got);
    }
    fclose(stream);
}

void test_gguf_copy(const char *from, const char *to)
{
    test_gguf_t file;
    test_gguf_load(&file, from);
    unlink(to);
    test_gguf_save(&file, to);
    test_gguf_fini(&file);
}
