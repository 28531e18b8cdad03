#include "launch/model/convert/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_BYTES 8u
#define HEADER_MAX (UINT64_C(100) << 20) // what the reference implementation takes
#define SHOWN 96                         // bytes of a name in a sentence

struct or_safetensors {
    char *path;
    const unsigned char *map;
    bool borrowed; // `map` is the caller's
    uint64_t bytes;
    json_t *header; // owns the names
    or_safetensor_t *tensors;
    uint64_t count;
};

static const struct {
    const char *name;
    uint32_t bytes;
    bool readable;
    or_tensor_type_t type;
} dtypes[] = {
    {"F32", 4, true, OR_TENSOR_F32},      {"F16", 2, true, OR_TENSOR_F16},
    {"BF16", 2, true, OR_TENSOR_BF16},    {"F64", 8, false, OR_TENSOR_F32},
    {"I64", 8, false, OR_TENSOR_F32},     {"I32", 4, false, OR_TENSOR_F32},
    {"I16", 2, false, OR_TENSOR_F32},     {"I8", 1, false, OR_TENSOR_F32},
    {"U64", 8, false, OR_TENSOR_F32},     {"U32", 4, false, OR_TENSOR_F32},
    {"U16", 2, false, OR_TENSOR_F32},     {"U8", 1, false, OR_TENSOR_F32},
    {"BOOL", 1, false, OR_TENSOR_F32},    {"F8_E4M3", 1, false, OR_TENSOR_F32},
    {"F8_E5M2", 1, false, OR_TENSOR_F32}, {"F8_E8M0", 1, false, OR_TENSOR_F32},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

// ---- one entry of the header ----

static or_status_t bad_tensor(const or_safetensors_t *file, const char *name, const char *why)
{
    return or_fail(OR_ERR_FORMAT, "%s: tensor %.*s %s", file->path, SHOWN, name, why);
}

static or_status_t read_dtype(const or_safetensors_t *file, const json_t *entry,
                              or_safetensor_t *tensor, uint32_t *size)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (name == NULL) {
        return bad_tensor(file, tensor->name, "has no dtype");
    }
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            tensor->dtype = dtypes[i].name;
            tensor->readable = dtypes[i].readable;
            tensor->type = dtypes[i].type;
            *size = dtypes[i].bytes;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_UNSUPPORTED, "%s: tensor %.*s is of dtype \"%.*s\", which is not known",
                   file->path, SHOWN, tensor->name, 32, name);
}

// A number of the header: an integer that is not negative.
static bool read_number(const json_t *json, uint64_t *number)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0) {
        return false;
    }
    *number = (uint64_t)json_integer_value(json);
    return true;
}

static or_status_t read_shape(const or_safetensors_t *file, const json_t *entry,
                              or_safetensor_t *tensor)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > OR_SAFETENSORS_DIMS_MAX) {
        return bad_tensor(file, tensor->name, "has no shape of at most 8 dimensions");
    }
    tensor->dim_count = (uint32_t)json_array_size(shape);
    tensor->elements = 1;
    for (uint32_t d = 0; d < OR_SAFETENSORS_DIMS_MAX; d++) {
        tensor->dims[d] = 1;
        if (d < tensor->dim_count && !read_number(json_array_get(shape, d), &tensor->dims[d])) {
            return bad_tensor(file, tensor->name, "has a dimension that is no whole number");
        }
        if (__builtin_mul_overflow(tensor->elements, tensor->dims[d], &tensor->elements)) {
            return bad_tensor(file, tensor->name, "is larger than 64 bits can say");
        }
    }
    return OR_OK;
}

static or_status_t read_place(const or_safetensors_t *file, const json_t *entry, uint32_t size,
                              uint64_t data_begin, or_safetensor_t *tensor)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin, end, bytes;
    if (json_array_size(offsets) != 2 || !read_number(json_array_get(offsets, 0), &begin) ||
        !read_number(json_array_get(offsets, 1), &end) || end < begin) {
        return bad_tensor(file, tensor->name, "has no data_offsets of a begin and an end");
    }
    if (end > file->bytes - data_begin) {
        return bad_tensor(file, tensor->name,
                          "lies beyond the end of the file: it was cut off, or is damaged");
    }
    if (__builtin_mul_overflow(tensor->elements, (uint64_t)size, &bytes) || bytes != end - begin) {
        return bad_tensor(file, tensor->name, "has data of another size than its shape");
    }
    if (begin % size != 0) {
        return bad_tensor(file, tensor->name, "is misaligned: it begins inside an element");
    }
    tensor->data = file->map + data_begin + begin;
    tensor->bytes = bytes;
    return OR_OK;
}

static or_status_t read_tensor(const or_safetensors_t *file, const json_t *entry,
                               uint64_t data_begin, or_safetensor_t *tensor)
{
    uint32_t size = 1;
    if (!json_is_object(entry)) {
        return bad_tensor(file, tensor->name, "is not described by an object");
    }
    or_status_t status = read_dtype(file, entry, tensor, &size);
    status = status != OR_OK ? status : read_shape(file, entry, tensor);
    return status != OR_OK ? status : read_place(file, entry, size, data_begin, tensor);
}

// ---- the header ----

static int compare_places(const void *a, const void *b)
{
    const or_safetensor_t *x = a;
    const or_safetensor_t *y = b;
    if (x->data != y->data) {
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); // those without data first
}

// Check that data tile the file, as the format demands: then nothing is read twice or hidden.
static or_status_t check_tiles(or_safetensors_t *file, uint64_t data_begin)
{
    const unsigned char *at = file->map + data_begin;
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    for (uint64_t i = 0; i < file->count; i++) {
        const unsigned char *begin = file->tensors[i].data;
        if (begin != at) {
            return bad_tensor(file, file->tensors[i].name,
                              begin < at ? "overlaps the one before it"
                                         : "has a gap before it that belongs to no tensor");
        }
        at += file->tensors[i].bytes;
    }
    return at == file->map + file->bytes
               ? OR_OK
               : or_fail(OR_ERR_FORMAT, "%s has %" PRIu64 " bytes at its end that no tensor has",
                         file->path, (uint64_t)(file->map + file->bytes - at));
}

static or_status_t read_tensors(or_safetensors_t *file, uint64_t data_begin)
{
    const char *name;
    json_t *entry;
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the tensors of %s", file->path);
    }
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            continue;
        }
        or_safetensor_t *tensor = &file->tensors[file->count];
        tensor->name = name;
        or_status_t status = read_tensor(file, entry, data_begin, tensor);
        if (status != OR_OK) {
            return status;
        }
        file->count++;
    }
    return check_tiles(file, data_begin);
}

static or_status_t read_header(or_safetensors_t *file)
{
    uint64_t length = 0;
    if (file->bytes >= LENGTH_BYTES) {
        memcpy(&length, file->map, LENGTH_BYTES);
    }
    if (length < 2 || length > HEADER_MAX || length > file->bytes - LENGTH_BYTES) {
        return or_fail(OR_ERR_FORMAT,
                       "%s is no safetensors file, or was cut off: its header would have %" PRIu64
                       " bytes and the file has %" PRIu64,
                       file->path, length, file->bytes);
    }
    json_error_t error;
    const char *text = (const char *)file->map + LENGTH_BYTES;
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(file->header)) {
        return or_fail(OR_ERR_FORMAT, "the header of %s is no JSON object: %s", file->path,
                       file->header == NULL ? error.text : "it is another value");
    }
    return read_tensors(file, LENGTH_BYTES + length);
}

// ---- the file ----

static or_status_t map(const char *path, or_safetensors_t *file)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        or_status_t status = or_fail(OR_ERR_IO, "cannot open %s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    void *bytes = info.st_size > 0 ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                                   : MAP_FAILED;
    int error = errno;
    close(fd);
    if (bytes == MAP_FAILED) {
        return or_fail(OR_ERR_IO, "cannot read %s: %s", path,
                       info.st_size > 0 ? strerror(error) : "it is empty");
    }
    file->map = bytes;
    file->bytes = (uint64_t)info.st_size;
    return OR_OK;
}

// Take the file's bytes from memory, or map them where there are none.
static or_status_t open_file(const char *path, const void *bytes, size_t count,
                             or_safetensors_t **file_p)
{
    or_safetensors_t *file = calloc(1, sizeof *file);
    if (file == NULL || (file->path = strdup(path)) == NULL) {
        free(file);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    }
    file->borrowed = bytes != NULL;
    file->map = bytes;
    file->bytes = count;
    or_status_t status = file->borrowed ? OR_OK : map(path, file);
    status = status != OR_OK ? status : read_header(file);
    if (status != OR_OK) {
        or_safetensors_close(&file);
        return status;
    }
    *file_p = file;
    return OR_OK;
}

or_status_t or_safetensors_open(const char *path, or_safetensors_t **file_p)
{
    return open_file(path, NULL, 0, file_p);
}

or_status_t or_safetensors_open_bytes(const char *name, const void *bytes, size_t count,
                                      or_safetensors_t **file_p)
{
    return open_file(name, bytes, count, file_p);
}

void or_safetensors_close(or_safetensors_t **file_p)
{
    or_safetensors_t *file = *file_p;
    if (file == NULL) {
        return;
    }
    if (!file->borrowed && file->map != NULL) {
        munmap((void *)file->map, file->bytes);
    }
    json_decref(file->header);
    free(file->tensors);
    free(file->path);
    free(file);
    *file_p = NULL;
}

const char *or_safetensors_path(const or_safetensors_t *file)
{
    return file->path;
}

uint64_t or_safetensors_count(const or_safetensors_t *file)
{
    return file->count;
}

const or_safetensor_t *or_safetensors_at(const or_safetensors_t *file, uint64_t i)
{
    return &file->tensors[i];
}

void or_safetensors_release(const or_safetensors_t *file, const or_safetensor_t *tensor)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)tensor->data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)tensor->data + tensor->bytes) / page * page;
    if (!file->borrowed && begin < end) {
        madvise((void *)begin, end - begin, MADV_DONTNEED); // only advice: it may be refused
    }
}
