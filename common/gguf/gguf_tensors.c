#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/gguf/gguf_internal.h"

#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT (1u << 20)
#define MIN_TENSOR_BYTES (8 + 4 + 4 + 8) // the shortest description

static or_status_t read_shape(reader_t *reader, or_gguf_tensor_t *tensor)
{
    or_status_t status = or_gguf_take_u32(reader, "a tensor's dimension count", &tensor->dim_count);
    if (status != OR_OK) {
        return status;
    }
    if (tensor->dim_count > 4) {
        return or_fail(
            OR_ERR_FORMAT, "%s: tensor %.*s has %" PRIu32 " dimensions, at most 4 are possible",
            reader->path, or_gguf_shown(tensor->name), tensor->name.bytes, tensor->dim_count);
    }
    tensor->elements = 1;
    for (uint32_t i = 0; i < 4; i++) {
        tensor->dims[i] = 1;
        if (i < tensor->dim_count) {
            status = or_gguf_take_u64(reader, "a tensor's shape", &tensor->dims[i]);
        }
        if (status != OR_OK) {
            return status;
        }
        if (tensor->dims[i] == 0 ||
            __builtin_mul_overflow(tensor->elements, tensor->dims[i], &tensor->elements)) {
            return or_fail(OR_ERR_FORMAT, "%s: tensor %.*s has an impossible shape", reader->path,
                           or_gguf_shown(tensor->name), tensor->name.bytes);
        }
    }
    return OR_OK;
}

// `offset` counts from the start of the data section; place_tensor turns it into a pointer.
static or_status_t read_tensor(reader_t *reader, or_gguf_tensor_t *tensor, uint64_t *offset)
{
    or_status_t status = or_gguf_take_name(reader, "a tensor's name", &tensor->name);
    if (status == OR_OK) {
        status = read_shape(reader, tensor);
    }
    if (status == OR_OK) {
        status = or_gguf_take_u32(reader, "a tensor's type", &tensor->type);
    }
    if (status == OR_OK) {
        status = or_gguf_take_u64(reader, "a tensor's offset", offset);
    }
    return status;
}

static or_status_t place_tensor(const reader_t *data, or_gguf_tensor_t *tensor, uint64_t offset,
                                uint32_t alignment)
{
    or_tensor_block_t block = or_gguf_tensor_block(tensor->type);
    uint64_t bytes = 0;
    if (tensor->dims[0] % block.elements != 0) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: tensor %.*s of type %s has rows of %" PRIu64
                       " elements, which are no whole blocks of %" PRIu32,
                       data->path, or_gguf_shown(tensor->name), tensor->name.bytes,
                       or_gguf_tensor_type_name(tensor->type), tensor->dims[0], block.elements);
    }
    if (offset % alignment != 0) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: damaged: the data of tensor %.*s are not aligned to %" PRIu32 " bytes",
                       data->path, or_gguf_shown(tensor->name), tensor->name.bytes, alignment);
    }
    if (offset > data->size - data->at ||
        __builtin_mul_overflow(tensor->elements / block.elements, block.bytes, &bytes) ||
        bytes > data->size - data->at - offset) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: damaged or cut short: the data of tensor %.*s go past the end of the "
                       "file; fetch the file again",
                       data->path, or_gguf_shown(tensor->name), tensor->name.bytes);
    }
    tensor->bytes = bytes;
    tensor->data = block.bytes > 0 ? data->base + data->at + offset : NULL;
    return OR_OK;
}

static or_status_t read_alignment(const or_gguf_t *gguf, uint32_t *alignment)
{
    *alignment = DEFAULT_ALIGNMENT;
    if (!or_gguf_has(gguf, "general.alignment")) {
        return OR_OK;
    }
    or_status_t status = or_gguf_get_u32(gguf, "general.alignment", alignment);
    if (status != OR_OK) {
        return status;
    }
    bool power_of_two = (*alignment & (*alignment - 1)) == 0;
    if (*alignment < 8 || *alignment > MAX_ALIGNMENT || !power_of_two) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: general.alignment is %" PRIu32 ", not a power of two from 8 to %u",
                       gguf->path, *alignment, MAX_ALIGNMENT);
    }
    return OR_OK;
}

// The data section begins at the next multiple of the alignment after the tensor table.
static or_status_t place_tensors(reader_t *reader, or_gguf_t *gguf, const uint64_t *offsets)
{
    uint32_t alignment;
    or_status_t status = read_alignment(gguf, &alignment);
    if (status != OR_OK || gguf->tensor_count == 0) {
        return status;
    }
    const unsigned char *padding;
    uint64_t padding_bytes = (alignment - reader->at % alignment) % alignment;
    status = or_gguf_take(reader, padding_bytes, "the padding before the tensors", &padding);
    for (uint64_t i = 0; status == OR_OK && i < gguf->tensor_count; i++) {
        status = place_tensor(reader, &gguf->tensors[i], offsets[i], alignment);
    }
    return status;
}

or_status_t or_gguf_read_tensors(reader_t *reader, or_gguf_t *gguf, uint64_t count)
{
    or_status_t status = or_gguf_check_count(reader, "tensors", count, MIN_TENSOR_BYTES);
    if (status != OR_OK) {
        return status;
    }
    uint64_t *offsets = malloc((count + 1) * sizeof *offsets);
    gguf->tensors = calloc(count + 1, sizeof *gguf->tensors);
    if (offsets == NULL || gguf->tensors == NULL) {
        status = or_gguf_no_memory(reader->path);
        goto done;
    }
    gguf->tensor_count = count;
    for (uint64_t i = 0; status == OR_OK && i < count; i++) {
        status = read_tensor(reader, &gguf->tensors[i], &offsets[i]);
    }
    const or_gguf_string_t *twice = NULL;
    if (status == OR_OK) {
        status = or_gguf_index_build(&gguf->tensor_index, gguf->tensors, sizeof *gguf->tensors,
                                     count, &twice);
    }
    if (status == OR_OK && twice != NULL) {
        status = or_fail(OR_ERR_FORMAT, "%s: damaged: tensor %.*s is listed twice", reader->path,
                         or_gguf_shown(*twice), twice->bytes);
    }
    if (status == OR_OK) {
        status = place_tensors(reader, gguf, offsets);
    }
done:
    free(offsets);
    return status;
}

void or_gguf_expect(const or_gguf_t *gguf, const or_gguf_tensor_t *tensor)
{
    if (!gguf->borrowed && tensor->data != NULL) {
        uintptr_t before = (uintptr_t)tensor->data % (uintptr_t)sysconf(_SC_PAGESIZE);
        madvise((char *)(uintptr_t)tensor->data - before, tensor->bytes + before, MADV_WILLNEED);
    }
}

void or_gguf_release_bytes(const or_gguf_t *gguf, const void *data, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (!gguf->borrowed && data != NULL && begin < end) {
        madvise((char *)(uintptr_t)data + (begin - (uintptr_t)data), end - begin, MADV_DONTNEED);
    }
}

void or_gguf_release(const or_gguf_t *gguf, const or_gguf_tensor_t *tensor)
{
    const uint64_t matrices = tensor->dims[2], stride = tensor->matrix_stride;
    or_gguf_release_bytes(gguf, tensor->data,
                          stride > 0 ? (matrices - 1) * stride + tensor->bytes / matrices
                                     : tensor->bytes);
}
