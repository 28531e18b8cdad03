// safetensors - a file of tensors as Hugging Face publishes them, mapped read-only and checked before use.
//
//     8 bytes: length of the header | header: JSON, {"name": {"dtype", "shape", "data_offsets"}, ...} | data
//
// Invariant after open: names are unique, and data tile the rest of the file without gap or overlap. Each tensor's bytes
// are its shape times its type's size, and it begins at a multiple of that size. Shapes are numpy's: dims[0] varies
// slowest. Nothing in the file is executed. The format: https://github.com/huggingface/safetensors, "Format".
// Immutable after open: any thread.
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"

#define OR_SAFETENSORS_DIMS_MAX 8u

typedef struct {
    const char *name;  // borrowed from the file
    const char *dtype; // static: "F32", "BF16", "I64" ...
    bool readable;     // as floats: `type` then says how
    or_tensor_type_t type;
    uint32_t dim_count;
    uint64_t dims[OR_SAFETENSORS_DIMS_MAX]; // unused ones are 1
    uint64_t elements;
    const void *data;
    uint64_t bytes;
} or_safetensor_t;

typedef struct or_safetensors or_safetensors_t;

// Map and check `path`. OR_ERR_IO; OR_ERR_FORMAT names the file, the tensor and the fault; OR_ERR_UNSUPPORTED: an
// unknown dtype; OR_ERR_NO_MEMORY.
or_status_t or_safetensors_open(const char *path, or_safetensors_t **file_p);
// The same from memory, which is borrowed until close. `name` takes the path's place in sentences.
or_status_t or_safetensors_open_bytes(const char *name, const void *bytes, size_t count,
                                      or_safetensors_t **file_p);
void or_safetensors_close(or_safetensors_t **file_p);

const char *or_safetensors_path(const or_safetensors_t *file);
uint64_t or_safetensors_count(const or_safetensors_t *file);
// Tensor i in the order of the data; i < or_safetensors_count.
const or_safetensor_t *or_safetensors_at(const or_safetensors_t *file, uint64_t i);
// Give the memory of a tensor that was read back to the system; the pages come again from the file.
void or_safetensors_release(const or_safetensors_t *file, const or_safetensor_t *tensor);
