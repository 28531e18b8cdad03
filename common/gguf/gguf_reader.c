#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF numbers are read in place");

#define MAX_NAME_BYTES 65535 // the format's own limit for keys
#define SHOWN_BYTES 64

or_status_t or_gguf_take(reader_t *reader, uint64_t bytes, const char *what,
                         const unsigned char **where)
{
    if (bytes > reader->size - reader->at) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: damaged or cut short: %s at byte %" PRIu64 " needs %" PRIu64
                       " bytes, but only %" PRIu64 " are left; fetch the file again",
                       reader->path, what, reader->at, bytes, reader->size - reader->at);
    }
    *where = reader->base + reader->at;
    reader->at += bytes;
    return OR_OK;
}

static or_status_t take_number(reader_t *reader, const char *what, void *value, size_t bytes)
{
    const unsigned char *where = NULL;
    or_status_t status = or_gguf_take(reader, bytes, what, &where);
    if (status == OR_OK) {
        memcpy(value, where, bytes);
    }
    return status;
}

or_status_t or_gguf_take_u32(reader_t *reader, const char *what, uint32_t *value)
{
    return take_number(reader, what, value, sizeof *value);
}

or_status_t or_gguf_take_u64(reader_t *reader, const char *what, uint64_t *value)
{
    return take_number(reader, what, value, sizeof *value);
}

or_status_t or_gguf_take_string(reader_t *reader, const char *what, or_gguf_string_t *string)
{
    uint64_t length = 0;
    const unsigned char *where = NULL;
    or_status_t status = or_gguf_take_u64(reader, what, &length);
    if (status == OR_OK) {
        status = or_gguf_take(reader, length, what, &where);
    }
    if (status == OR_OK) {
        *string = (or_gguf_string_t){(const char *)where, length};
    }
    return status;
}

or_status_t or_gguf_take_name(reader_t *reader, const char *what, or_gguf_string_t *name)
{
    uint64_t start = reader->at;
    or_status_t status = or_gguf_take_string(reader, what, name);
    if (status != OR_OK) {
        return status;
    }
    bool plain = name->length > 0 && name->length <= MAX_NAME_BYTES;
    for (size_t i = 0; plain && i < name->length; i++) {
        plain = name->bytes[i] >= ' ' && name->bytes[i] <= '~';
    }
    return plain ? OR_OK
                 : or_fail(OR_ERR_FORMAT,
                           "%s: damaged: %s at byte %" PRIu64 " is empty, too long or not ASCII",
                           reader->path, what, start);
}

int or_gguf_shown(or_gguf_string_t name)
{
    return name.length < SHOWN_BYTES ? (int)name.length : SHOWN_BYTES;
}

or_status_t or_gguf_check_count(const reader_t *reader, const char *what, uint64_t count,
                                uint64_t min_bytes)
{
    if (count > (reader->size - reader->at) / min_bytes) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: damaged or cut short: it promises %" PRIu64 " %s at byte %" PRIu64
                       ", more than the rest of the file can hold",
                       reader->path, count, what, reader->at);
    }
    return OR_OK;
}

or_status_t or_gguf_no_memory(const char *path)
{
    return or_fail(OR_ERR_NO_MEMORY, "%s: no memory for its table of contents", path);
}

// ---- the index of names ----

static int compare(const or_gguf_string_t *a, const or_gguf_string_t *b)
{
    size_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->bytes, b->bytes, common);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_entries(const void *a, const void *b)
{
    return compare(*(const or_gguf_string_t *const *)a, *(const or_gguf_string_t *const *)b);
}

or_status_t or_gguf_index_build(name_index_t *index, const void *first, size_t stride,
                                uint64_t count, const or_gguf_string_t **duplicate)
{
    *duplicate = NULL;
    const or_gguf_string_t **names = malloc((count + 1) * sizeof *names);
    if (names == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for an index of %llu names",
                       (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        names[i] = (const or_gguf_string_t *)((const char *)first + i * stride);
    }
    qsort(names, count, sizeof *names, compare_entries);
    for (uint64_t i = 1; i < count && *duplicate == NULL; i++) {
        if (compare(names[i - 1], names[i]) == 0) {
            *duplicate = names[i];
        }
    }
    index->names = names;
    index->count = count;
    return OR_OK;
}

const or_gguf_string_t *or_gguf_index_find(const name_index_t *index, const char *name)
{
    or_gguf_string_t wanted = {name, strlen(name)};
    const or_gguf_string_t *key = &wanted;
    const or_gguf_string_t **found =
        bsearch(&key, index->names, index->count, sizeof *index->names, compare_entries);
    return found != NULL ? *found : NULL;
}

void or_gguf_index_fini(name_index_t *index)
{
    free(index->names);
    *index = (name_index_t){0};
}
