#include "common/gguf/gguf_index.h"

#include <stdlib.h>
#include <string.h>

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
