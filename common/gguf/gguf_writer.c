#include "common/gguf/gguf_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_writer_internal.h"

#define ALIGNMENT 32u // GGUF's default, where a file names no other
#define PRIVATE_MODE 0600
#define VERSION 3u
#define HEADER_BYTES 24u

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
        asprintf(&writer->part_path, "%s.%jd" OR_GGUF_PART_ENDING, path, (intmax_t)getpid()) < 0) {
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
    tensor_t *tensors = or_gguf_writer_room(writer->tensors, writer->tensor_count,
                                            &writer->tensor_capacity, sizeof *writer->tensors);
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
    at = or_gguf_writer_append(at, &name_bytes, sizeof name_bytes);
    at = or_gguf_writer_append(at, tensor->name, tensor->name_bytes);
    at = or_gguf_writer_append(at, &tensor->dim_count, sizeof tensor->dim_count);
    at = or_gguf_writer_append(at, tensor->dims, tensor->dim_count * sizeof *tensor->dims);
    at = or_gguf_writer_append(at, &type, sizeof type);
    return or_gguf_writer_append(at, &tensor->offset, sizeof tensor->offset);
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
    uint8_t *at = or_gguf_writer_append(front, "GGUF", 4);
    at = or_gguf_writer_append(at, &version, sizeof version);
    at = or_gguf_writer_append(at, counts, sizeof counts);
    for (size_t i = 0; i < writer->field_count; i++) {
        at = or_gguf_writer_append(at, writer->fields[i].image, writer->fields[i].bytes);
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
