#include "common/gguf/gguf_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_internal.h"

#define ALIGNMENT 32u // GGUF's default, where a file names no other
#define PRIVATE_MODE 0600
#define VERSION 3u
#define HEADER_BYTES 24u

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

static uint64_t aligned(const or_gguf_writer_t *writer, uint64_t bytes)
{
    const uint64_t alignment = writer->how.alignment;
    return (bytes + alignment - 1) / alignment * alignment;
}

or_status_t or_gguf_writer_create(const char *path, or_gguf_writer_t **writer_p)
{
    or_gguf_writer_t *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return or_gguf_no_memory(path);
    }
    writer->fd = -1;
    writer->mode = 0666;
    writer->how.alignment = ALIGNMENT;
    writer->path = strdup(path);
    if (writer->path == NULL ||
        asprintf(&writer->part_path, "%s.%jd.tmp", path, (intmax_t)getpid()) < 0) {
        free(writer->path);
        free(writer);
        return or_gguf_no_memory(path);
    }
    *writer_p = writer;
    return OR_OK;
}

static void remove_part(or_gguf_writer_t *writer)
{
    close(writer->fd);
    unlink(writer->part_path);
    writer->fd = -1;
}

void or_gguf_writer_destroy(or_gguf_writer_t **writer_p)
{
    or_gguf_writer_t *writer = *writer_p;
    if (writer == NULL) {
        return;
    }
    if (writer->fd >= 0) {
        remove_part(writer);
    }
    for (size_t i = 0; i < writer->field_count; i++) {
        free(writer->fields[i].owned);
    }
    for (size_t i = 0; i < writer->tensor_count; i++) {
        free(writer->tensors[i].name);
    }
    free(writer->fields);
    free(writer->tensors);
    free(writer->part_path);
    free(writer->path);
    free(writer);
    *writer_p = NULL;
}

// Make room for one more item of `size` bytes. Returns the array, perhaps moved, or NULL if
// memory runs out.
static void *make_room(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return items;
    }
    size_t larger = 2 * *capacity + 16;
    void *moved = reallocarray(items, larger, size);
    *capacity = moved != NULL ? larger : *capacity;
    return moved;
}

// ---- metadata ----

// The index of a key's field; field_count if there is none.
static size_t find(const or_gguf_writer_t *writer, const char *key, size_t key_bytes)
{
    for (size_t i = 0; i < writer->field_count; i++) {
        or_gguf_string_t name = or_gguf_string_at(writer->fields[i].image);
        if (name.length == key_bytes && memcmp(name.bytes, key, key_bytes) == 0) {
            return i;
        }
    }
    return writer->field_count;
}

// Replace the field that has the same key, or append the field. If it fails, it frees what the
// field owns.
static or_status_t put_field(or_gguf_writer_t *writer, field_t field)
{
    or_gguf_string_t key = or_gguf_string_at(field.image);
    size_t place = find(writer, key.bytes, key.length);
    if (place < writer->field_count) {
        free(writer->fields[place].owned);
        writer->fields[place] = field;
        return OR_OK;
    }
    field_t *fields = make_room(writer->fields, writer->field_count, &writer->field_capacity,
                                sizeof *writer->fields);
    if (fields == NULL) {
        free(field.owned);
        return or_gguf_no_memory(writer->path);
    }
    writer->fields = fields;
    writer->fields[writer->field_count++] = field;
    return OR_OK;
}

static bool is_of_layout(or_gguf_string_t key)
{
    static const char alignment[] = "general.alignment";
    static const char split[] = "split.";
    return (key.length == sizeof alignment - 1 && memcmp(key.bytes, alignment, key.length) == 0) ||
           (key.length >= sizeof split - 1 && memcmp(key.bytes, split, sizeof split - 1) == 0);
}

or_status_t or_gguf_writer_copy(or_gguf_writer_t *writer, const or_gguf_t *gguf)
{
    or_status_t status = OR_OK;
    for (uint64_t i = 0; status == OR_OK && i < gguf->entry_count; i++) {
        const entry_t *entry = &gguf->entries[i];
        const uint8_t *image = (const uint8_t *)entry->key.bytes - sizeof(uint64_t);
        if (!is_of_layout(entry->key)) {
            status = put_field(writer, (field_t){image, (size_t)(entry->end - image), NULL});
        }
    }
    return status;
}

void or_gguf_writer_drop(or_gguf_writer_t *writer, const char *key)
{
    size_t place = find(writer, key, strlen(key));
    if (place == writer->field_count) {
        return;
    }
    free(writer->fields[place].owned);
    writer->field_count--;
    memmove(&writer->fields[place], &writer->fields[place + 1],
            (writer->field_count - place) * sizeof *writer->fields);
}

static uint8_t *append(uint8_t *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

// Make a field's image with room for `value_bytes` after its key and type. *value is where they begin.
static uint8_t *new_image(const char *key, or_gguf_type_t type, size_t value_bytes, field_t *field,
                          uint8_t **value)
{
    const uint64_t key_bytes = strlen(key);
    const uint32_t number = type;
    field->bytes = sizeof key_bytes + key_bytes + sizeof number + value_bytes;
    field->image = field->owned = malloc(field->bytes);
    if (field->owned != NULL) {
        uint8_t *at = append(field->owned, &key_bytes, sizeof key_bytes);
        at = append(at, key, key_bytes);
        *value = append(at, &number, sizeof number);
    }
    return field->owned;
}

static or_status_t set(or_gguf_writer_t *writer, const char *key, or_gguf_type_t type,
                       const void *value, size_t bytes)
{
    field_t field;
    uint8_t *at;
    if (new_image(key, type, bytes, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    append(at, value, bytes);
    return put_field(writer, field);
}

or_status_t or_gguf_writer_set_u32(or_gguf_writer_t *writer, const char *key, uint32_t value)
{
    return set(writer, key, OR_GGUF_U32, &value, sizeof value);
}

or_status_t or_gguf_writer_set_u64(or_gguf_writer_t *writer, const char *key, uint64_t value)
{
    return set(writer, key, OR_GGUF_U64, &value, sizeof value);
}

or_status_t or_gguf_writer_set_f32(or_gguf_writer_t *writer, const char *key, float value)
{
    return set(writer, key, OR_GGUF_F32, &value, sizeof value);
}

or_status_t or_gguf_writer_set_bool(or_gguf_writer_t *writer, const char *key, bool value)
{
    const uint8_t byte = value;
    return set(writer, key, OR_GGUF_BOOL, &byte, sizeof byte);
}

static uint8_t *append_string(uint8_t *at, or_gguf_string_t string)
{
    const uint64_t bytes = string.length;
    return append(append(at, &bytes, sizeof bytes), string.bytes, string.length);
}

or_status_t or_gguf_writer_set_string(or_gguf_writer_t *writer, const char *key, const char *value)
{
    const or_gguf_string_t string = {value, strlen(value)};
    field_t field;
    uint8_t *at;
    if (new_image(key, OR_GGUF_STRING, sizeof(uint64_t) + string.length, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    append_string(at, string);
    return put_field(writer, field);
}

// Make an array's field with room for `bytes` of elements. *at is where they begin.
static uint8_t *new_array(const char *key, or_gguf_type_t type, uint64_t count, size_t bytes,
                          field_t *field, uint8_t **at)
{
    const uint32_t number = type;
    uint8_t *value;
    uint8_t *image =
        new_image(key, OR_GGUF_ARRAY, sizeof number + sizeof count + bytes, field, &value);
    if (image != NULL) {
        *at = append(append(value, &number, sizeof number), &count, sizeof count);
    }
    return image;
}

or_status_t or_gguf_writer_set_array(or_gguf_writer_t *writer, const char *key, or_gguf_type_t type,
                                     const void *values, uint64_t count)
{
    size_t bytes = count * or_gguf_type_bytes(type);
    field_t field;
    uint8_t *at;
    assert(or_gguf_type_bytes(type) > 0);
    if (new_array(key, type, count, bytes, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    append(at, values, bytes);
    return put_field(writer, field);
}

or_status_t or_gguf_writer_set_strings(or_gguf_writer_t *writer, const char *key,
                                       const or_gguf_string_t *values, uint64_t count)
{
    size_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        bytes += sizeof(uint64_t) + values[i].length;
    }
    field_t field;
    uint8_t *at;
    if (new_array(key, OR_GGUF_STRING, count, bytes, &field, &at) == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    for (uint64_t i = 0; i < count; i++) {
        at = append_string(at, values[i]);
    }
    return put_field(writer, field);
}

or_status_t or_gguf_writer_set_private(or_gguf_writer_t *writer,
                                       const or_gguf_writer_private_t *how)
{
    assert(writer->tensor_count == 0);
    writer->mode = PRIVATE_MODE;
    writer->how = *how;
    return or_gguf_writer_set_u32(writer, "general.alignment", how->alignment);
}

// ---- the tensor table ----

// Compute the tensor's bytes. OR_ERR_INVALID if 64 bits cannot hold them.
static or_status_t measure(const or_gguf_writer_t *writer, tensor_t *tensor)
{
    or_tensor_block_t block = or_gguf_tensor_block(tensor->type);
    uint64_t bytes = block.bytes;
    uint64_t end;
    bool over = __builtin_mul_overflow(bytes, tensor->dims[0] / block.elements, &bytes);
    assert(tensor->dims[0] % block.elements == 0);
    for (uint32_t i = 1; i < tensor->dim_count; i++) {
        over = over || __builtin_mul_overflow(bytes, tensor->dims[i], &bytes);
    }
    if (over || __builtin_add_overflow(writer->data_bytes, bytes, &end) || end > INT64_MAX / 2) {
        return or_fail(OR_ERR_INVALID, "%s: tensor %s makes it too large for any disk",
                       writer->path, tensor->name);
    }
    tensor->offset = writer->data_bytes;
    tensor->bytes = bytes;
    return OR_OK;
}

or_status_t or_gguf_writer_add_tensor(or_gguf_writer_t *writer, or_gguf_string_t name,
                                      uint32_t dim_count, const uint64_t *dims,
                                      or_tensor_type_t type)
{
    assert(dim_count >= 1 && dim_count <= 4 && writer->fd < 0);
    tensor_t *tensors = make_room(writer->tensors, writer->tensor_count, &writer->tensor_capacity,
                                  sizeof *writer->tensors);
    if (tensors == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    writer->tensors = tensors;
    tensor_t tensor = {.name_bytes = name.length, .dim_count = dim_count, .type = type};
    memcpy(tensor.dims, dims, dim_count * sizeof *dims);
    tensor.name = strndup(name.bytes, name.length);
    if (tensor.name == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    or_status_t status = measure(writer, &tensor);
    if (status != OR_OK) {
        free(tensor.name);
        return status;
    }
    writer->tensors[writer->tensor_count++] = tensor;
    writer->data_bytes += aligned(writer, tensor.bytes);
    return OR_OK;
}

// The bytes of everything before the data.
static uint64_t front_bytes(const or_gguf_writer_t *writer)
{
    uint64_t bytes = HEADER_BYTES;
    for (size_t i = 0; i < writer->field_count; i++) {
        bytes += writer->fields[i].bytes;
    }
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const tensor_t *tensor = &writer->tensors[i];
        bytes += sizeof(uint64_t) + tensor->name_bytes + sizeof(uint32_t) +
                 tensor->dim_count * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint64_t);
    }
    return aligned(writer, bytes);
}

uint64_t or_gguf_writer_file_bytes(const or_gguf_writer_t *writer)
{
    return front_bytes(writer) + writer->data_bytes;
}

// ---- the file ----

static or_status_t cannot_write(const or_gguf_writer_t *writer, int error)
{
    const char *advice = error == ENOSPC || error == EDQUOT
                             ? "; make room there or choose a place with more"
                         : error == EFBIG ? "; raise the limit on files (ulimit -f), or choose a "
                                            "place that takes larger ones"
                                          : "";
    return or_fail(OR_ERR_IO, "cannot write %s, a file of %" PRIu64 " MiB: %s%s", writer->path,
                   (or_gguf_writer_file_bytes(writer) >> 20) + 1, strerror(error), advice);
}

static or_status_t write_all(const or_gguf_writer_t *writer, const void *data, uint64_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        ssize_t written = write(writer->fd, from, bytes);
        if (written < 0 && errno != EINTR) {
            return cannot_write(writer, errno);
        }
        if (written > 0 && writer->how.see != NULL) {
            writer->how.see(writer->how.context, from, (uint64_t)written);
        }
        from += written > 0 ? written : 0;
        bytes -= written > 0 ? (uint64_t)written : 0;
    }
    return OR_OK;
}

static uint8_t *append_tensor(uint8_t *at, const tensor_t *tensor)
{
    const uint64_t name_bytes = tensor->name_bytes;
    const uint32_t type = tensor->type;
    at = append(at, &name_bytes, sizeof name_bytes);
    at = append(at, tensor->name, tensor->name_bytes);
    at = append(at, &tensor->dim_count, sizeof tensor->dim_count);
    at = append(at, tensor->dims, tensor->dim_count * sizeof *tensor->dims);
    at = append(at, &type, sizeof type);
    return append(at, &tensor->offset, sizeof tensor->offset);
}

static or_status_t write_front(const or_gguf_writer_t *writer)
{
    const uint32_t version = VERSION;
    const uint64_t counts[] = {writer->tensor_count, writer->field_count};
    uint64_t bytes = front_bytes(writer);
    uint8_t *front = calloc(1, bytes);
    if (front == NULL) {
        return or_gguf_no_memory(writer->path);
    }
    uint8_t *at = append(front, "GGUF", 4);
    at = append(at, &version, sizeof version);
    at = append(at, counts, sizeof counts);
    for (size_t i = 0; i < writer->field_count; i++) {
        at = append(at, writer->fields[i].image, writer->fields[i].bytes);
    }
    for (size_t i = 0; i < writer->tensor_count; i++) {
        at = append_tensor(at, &writer->tensors[i]);
    }
    or_status_t status = write_all(writer, front, bytes);
    free(front);
    return status;
}

static or_status_t make_part(or_gguf_writer_t *writer)
{
    assert(writer->fd < 0);
    writer->fd = open(writer->part_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, writer->mode);
    return writer->fd >= 0
               ? OR_OK
               : or_fail(OR_ERR_IO,
                         "cannot write %s: %s; name a place in a folder that is there and may be "
                         "written to",
                         writer->path, strerror(errno));
}

or_status_t or_gguf_writer_try(or_gguf_writer_t *writer)
{
    or_status_t status = make_part(writer);
    if (status == OR_OK) {
        remove_part(writer);
    }
    return status;
}

or_status_t or_gguf_writer_begin(or_gguf_writer_t *writer)
{
    or_status_t status = make_part(writer);
    if (status != OR_OK) {
        return status;
    }
    // Not every file system can reserve room; on such a one a full disk is found when
    // writing fails.
    off_t bytes = (off_t)or_gguf_writer_file_bytes(writer);
    if (fallocate(writer->fd, 0, 0, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EINTR) {
        return cannot_write(writer, errno);
    }
    return write_front(writer);
}

static or_status_t write_zeros(const or_gguf_writer_t *writer, uint64_t bytes)
{
    static const uint8_t zeros[ALIGNMENT] = {0};
    or_status_t status = OR_OK;
    while (status == OR_OK && bytes > 0) {
        uint64_t some = bytes < sizeof zeros ? bytes : sizeof zeros;
        status = write_all(writer, zeros, some);
        bytes -= some;
    }
    return status;
}

or_status_t or_gguf_writer_put(or_gguf_writer_t *writer, const void *data, uint64_t bytes)
{
    assert(writer->fd >= 0 && writer->tensor < writer->tensor_count);
    const tensor_t *tensor = &writer->tensors[writer->tensor];
    assert(bytes <= tensor->bytes - writer->put);
    or_status_t status = write_all(writer, data, bytes);
    writer->put += bytes;
    if (status == OR_OK && writer->put == tensor->bytes) {
        status = write_zeros(writer, aligned(writer, tensor->bytes) - tensor->bytes);
        writer->tensor++;
        writer->put = 0;
    }
    return status;
}

or_status_t or_gguf_writer_finish(or_gguf_writer_t *writer)
{
    assert(writer->fd >= 0 && writer->tensor == writer->tensor_count);
    // The data must be on the disk before the file has its name, so that a crash leaves the
    // old file or the new one.
    bool named = fsync(writer->fd) == 0 && rename(writer->part_path, writer->path) == 0;
    int error = errno;
    close(writer->fd);
    writer->fd = -1;
    if (!named) {
        unlink(writer->part_path);
        return cannot_write(writer, error);
    }
    return OR_OK;
}
