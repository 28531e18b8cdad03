// gguf_reader - bounded reading, front to back. Private to gguf.
//
// Each take_ function returns what lies at `at` and moves behind it, or says what was wanted
// (`what`) and where the file ends.
#pragma once

#include "common/gguf/gguf.h"

// Where we are in the file. Every read is checked against `size - at`, which cannot wrap.
typedef struct {
    const unsigned char *base;
    uint64_t size;
    uint64_t at;
    const char *path;
} reader_t;

or_status_t or_gguf_take(reader_t *reader, uint64_t bytes, const char *what,
                         const unsigned char **where);
or_status_t or_gguf_take_u32(reader_t *reader, const char *what, uint32_t *value);
or_status_t or_gguf_take_u64(reader_t *reader, const char *what, uint64_t *value);
or_status_t or_gguf_take_string(reader_t *reader, const char *what, or_gguf_string_t *string);

// A string that may be looked up as a C string and shown to users: not empty, printable ASCII, not
// endless.
or_status_t or_gguf_take_name(reader_t *reader, const char *what, or_gguf_string_t *name);

// OR_ERR_FORMAT unless the rest of the file has room for `count` things of at least `min_bytes`
// each: asked before memory is taken for them.
or_status_t or_gguf_check_count(const reader_t *reader, const char *what, uint64_t count,
                                uint64_t min_bytes);

// Bytes of a name to show in an error text.
int or_gguf_shown(or_gguf_string_t name);

or_status_t or_gguf_no_memory(const char *path);
