// gguf_index - names in sorted order, to find one quickly and to refuse duplicates. Private to
// gguf.
#pragma once

#include "common/gguf/gguf.h"

// Each name points to the first member of a record (an entry or a tensor), borrowed.
typedef struct {
    const or_gguf_string_t **names; // owned
    uint64_t count;
} name_index_t;

// Index `count` records of `stride` bytes, each beginning with its name. *duplicate is a name that
// occurs twice, or NULL. O(n log n) whatever the names. OR_ERR_NO_MEMORY.
or_status_t or_gguf_index_build(name_index_t *index, const void *first, size_t stride,
                                uint64_t count, const or_gguf_string_t **duplicate);

// The record's name, or NULL if absent.
const or_gguf_string_t *or_gguf_index_find(const name_index_t *index, const char *name);

void or_gguf_index_fini(name_index_t *index);
