#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_internal.h"

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
