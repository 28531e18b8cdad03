// gguf_test_file - GGUF files made by hand, for tests. They live in memory and vanish with their
// file descriptor.
//
//     test_gguf_t file;
//     test_gguf_init(&file, 3, 0, 1); // version, tensors, metadata entries
//     test_gguf_put_string_entry(&file, "general.name", "tiny");
//     or_status_t status = test_gguf_open(&file, &gguf);
//     test_gguf_fini(&file);
#pragma once

#include "common/gguf/gguf.h"

typedef struct {
    unsigned char *bytes; // of the file
    size_t count;
    size_t capacity;
    int fd; // of the copy last opened, or -1
} test_gguf_t;

void test_gguf_init(test_gguf_t *file, uint32_t version, uint64_t tensors, uint64_t entries);
void test_gguf_fini(test_gguf_t *file);

void test_gguf_put(test_gguf_t *file, const void *bytes, size_t count);
void test_gguf_put_u32(test_gguf_t *file, uint32_t value);
void test_gguf_put_u64(test_gguf_t *file, uint64_t value);
void test_gguf_put_string(test_gguf_t *file, const char *string);

// Put a key and its type; the value is to follow.
void test_gguf_put_key(test_gguf_t *file, const char *key, or_gguf_type_t type);
void test_gguf_put_u32_entry(test_gguf_t *file, const char *key, uint32_t value);
void test_gguf_put_bool_entry(test_gguf_t *file, const char *key, bool value);
void test_gguf_put_string_entry(test_gguf_t *file, const char *key, const char *value);
// Put a key and the head of an array; the elements are to follow.
void test_gguf_put_array_key(test_gguf_t *file, const char *key, or_gguf_type_t type,
                             uint64_t count);

// Put the name, two dimensions, type and offset of a tensor.
void test_gguf_put_tensor(test_gguf_t *file, const char *name, uint64_t columns, uint64_t rows,
                          uint32_t type, uint64_t offset);
void test_gguf_pad(test_gguf_t *file, size_t alignment);

// Call or_gguf_open on what was put so far. The file stays until fini or the next open.
or_status_t test_gguf_open(test_gguf_t *file, or_gguf_t **gguf_p);

// Save what was put so far as a file at that path.
void test_gguf_save(const test_gguf_t *file, const char *path);

// Copy a file; what was at `to` is another file, which stays for whom has opened it.
void test_gguf_copy(const char *from, const char *to);

// Load the whole of a real file, to damage it.
void test_gguf_load(test_gguf_t *file, const char *path);
