// gguf_internal - what opening (gguf.c, gguf_tensors.c, gguf_split.c), access to values
// (gguf_values.c) and extraction (gguf_extract.c) share.
#pragma once

#include "common/gguf/gguf_index.h"
#include "common/gguf/gguf_reader.h"

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
    uint64_t fingerprint; // of all parts; 0: nobody has asked yet
};

// Map and check one file, whatever it is a part of.
or_status_t or_gguf_open_file(const char *path, or_gguf_t **gguf_p);

// If the file is the first part of a split model, open the others and list their tensors too. On
// failure or_gguf_close frees what was opened.
or_status_t or_gguf_open_later_parts(or_gguf_t *gguf);

// Bytes of one number of this type; 0 for strings, arrays and unknown types.
uint32_t or_gguf_type_bytes(uint32_t type);

// The string stored at `value`: a 64-bit length, then the bytes.
or_gguf_string_t or_gguf_string_at(const unsigned char *value);

// or_gguf_release of any part of a mapping.
void or_gguf_release_bytes(const or_gguf_t *gguf, const void *data, uint64_t bytes);

// Read the table of `count` tensors, whose metadata have been read, and find their data. What is
// allocated belongs to `gguf` even on failure.
or_status_t or_gguf_read_tensors(reader_t *reader, or_gguf_t *gguf, uint64_t count);
