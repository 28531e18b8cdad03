// gguf_internal - the parts of an open file that the sources of gguf share.
//
//     gguf.c          open, map, close; the metadata entries
//     gguf_tensors.c  the table of tensors
//     gguf_split.c    the further parts of a split model
//     gguf_values.c   access to values, metadata as text, extraction
//     gguf_reader.c   bounded reading, and the index of names
//     gguf_guard.c    what is said when a mapped file vanishes
//     packed*.c       packed files, which are such files too (packed.h)
#pragma once

#include "common/gguf/gguf.h"

// ---- bounded reading, front to back ----

// A position in the file. Every read is checked against `size - at`, which cannot wrap.
typedef struct {
    const unsigned char *base;
    uint64_t size;
    uint64_t at;
    const char *path;
} reader_t;

// Each take function returns what lies at `at` and moves behind it. OR_ERR_FORMAT names what was
// wanted (`what`) and where the file ends.
or_status_t or_gguf_take(reader_t *reader, uint64_t bytes, const char *what,
                         const unsigned char **where);
or_status_t or_gguf_take_u32(reader_t *reader, const char *what, uint32_t *value);
or_status_t or_gguf_take_u64(reader_t *reader, const char *what, uint64_t *value);
or_status_t or_gguf_take_string(reader_t *reader, const char *what, or_gguf_string_t *string);

// Take a string that may be looked up as a C string and shown to users: not empty, printable ASCII,
// at most 65,535 bytes.
or_status_t or_gguf_take_name(reader_t *reader, const char *what, or_gguf_string_t *name);

// OR_ERR_FORMAT unless the rest of the file has room for `count` things of at least `min_bytes`
// each. This is asked before memory is taken for them.
or_status_t or_gguf_check_count(const reader_t *reader, const char *what, uint64_t count,
                                uint64_t min_bytes);

// The number of bytes of a name to show in an error text.
int or_gguf_shown(or_gguf_string_t name);

or_status_t or_gguf_no_memory(const char *path);

// ---- the index of names ----

// Names in sorted order, to find one quickly and to refuse duplicates. Each name points to the
// first member of a record (an entry or a tensor), borrowed.
typedef struct {
    const or_gguf_string_t **names; // owned
    uint64_t count;
} name_index_t;

// Index `count` records of `stride` bytes, each beginning with its name. *duplicate is a name that
// occurs twice, or NULL. Takes O(n log n) whatever the names are. OR_ERR_NO_MEMORY.
or_status_t or_gguf_index_build(name_index_t *index, const void *first, size_t stride,
                                uint64_t count, const or_gguf_string_t **duplicate);

// The record's name, or NULL if it is absent.
const or_gguf_string_t *or_gguf_index_find(const name_index_t *index, const char *name);

void or_gguf_index_fini(name_index_t *index);

// ---- an open file ----

typedef struct {
    or_gguf_string_t key; // first: the index points here
    or_gguf_type_t type;
    const unsigned char *value; // numbers and strings: where they lie in the file
    const unsigned char *end;   // of the entry in the file; it begins 8 bytes before its key
    or_gguf_array_t array;      // arrays; a string array's data is owned (see or_gguf_array_string)
} entry_t;

struct or_gguf {
    char *path;
    const unsigned char *map;
    bool borrowed; // `map` is the caller's
    int fd;        // of the file; -1 where it is borrowed
    uint64_t bytes;
    uint32_t version;
    entry_t *entries;
    uint64_t entry_count;
    or_gguf_tensor_t *tensors;
    uint64_t tensor_count; // of a split model's first part: all parts' tensors
    name_index_t entry_index;
    name_index_t tensor_index;
    or_gguf_t **later_parts; // of a split model's first part; they own their mappings
    uint32_t later_count;
    uint64_t identity;    // of this part
    uint64_t fingerprint; // of all parts; 0: not computed yet
};

// Return the identity of a file by what the system says of it (or_gguf_identity).
struct stat;
uint64_t or_gguf_identity_of(const struct stat *info);

// Have the process say that this mapped file was cut short, or cannot be read, if it ends for that reason (SIGBUS).
void or_gguf_guard(const or_gguf_t *gguf);
void or_gguf_unguard(const or_gguf_t *gguf);

// Map and check one file, whether or not it is a part of a split model.
or_status_t or_gguf_open_file(const char *path, or_gguf_t **gguf_p);

// If the file is the first part of a split model, open the others and list their tensors too. On
// failure or_gguf_close frees what was opened.
or_status_t or_gguf_open_later_parts(or_gguf_t *gguf);

// Bytes of one number of this type; 0 for strings, arrays and unknown types.
uint32_t or_gguf_type_bytes(uint32_t type);

// The string stored at `value`: a 64-bit length, then the bytes.
or_gguf_string_t or_gguf_string_at(const unsigned char *value);

// Release any part of a mapping, like or_gguf_release.
void or_gguf_release_bytes(const or_gguf_t *gguf, const void *data, uint64_t bytes);

// Read the table of `count` tensors, whose metadata have been read, and find their data. The memory
// allocated belongs to `gguf` even on failure.
or_status_t or_gguf_read_tensors(reader_t *reader, or_gguf_t *gguf, uint64_t count);
