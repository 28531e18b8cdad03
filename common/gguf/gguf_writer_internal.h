// gguf_writer_internal - a writer, for its two sources.
//
//     gguf_writer.c         the table of tensors, and the file
//     gguf_writer_fields.c  the metadata
#pragma once

#include <string.h>
#include <sys/types.h>

#include "common/gguf/gguf_internal.h"
#include "common/gguf/gguf_writer.h"

// An entry as it will stand in the file: length and bytes of the key, type, value.
typedef struct {
    const uint8_t *image;
    size_t bytes;
    uint8_t *owned; // the image, to be freed; NULL: it is borrowed
} field_t;

typedef struct {
    char *name;
    size_t name_bytes;
    uint32_t dim_count;
    uint64_t dims[4];
    or_tensor_type_t type;
    uint64_t offset; // of its data within all data
    uint64_t bytes;
} tensor_t;

struct or_gguf_writer {
    char *path;
    char *part_path; // the file until it is whole
    int fd;          // -1 before begin and after finish
    mode_t mode;     // of the file, less the user's umask
    or_gguf_writer_private_t how;
    field_t *fields;
    size_t field_count, field_capacity;
    tensor_t *tensors;
    size_t tensor_count, tensor_capacity;
    uint64_t data_bytes; // of all tensors, each padded
    size_t tensor;       // the number of the tensor that is not yet full
    uint64_t put;        // bytes of it
};

// Make room for one more item of `size` bytes. Returns the array, perhaps moved, or NULL if
// memory runs out.
void *or_gguf_writer_room(void *items, size_t count, size_t *capacity, size_t size);

// Copy bytes to `to` and return where the next ones go.
static inline uint8_t *or_gguf_writer_append(uint8_t *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}
