// gguf - a GGUF v2/v3 model, mapped read-only: metadata and tensors, checked before use.
//
//     header | metadata: key, type, value ... | tensor table: name, shape, type, offset ... | padding | tensor data
//
// A split model is several such files, NAME-00001-of-0000N.gguf and so on: the first has the
// metadata, each has some of the tensors. Opening the first opens all, and reads as one file.
//
// Invariant after open: every string, array and tensor lies inside its file, and sizes do not
// overflow. Alignments are powers of two and tensor data are aligned to them. Rows are whole blocks
// of their type, and names are unique over all parts. So readers of an open file check meaning, never bounds.
//
// Shapes are GGUF's: dims[0] varies fastest (a weight matrix [K inputs, N outputs] has dims
// {K, N}). Immutable after open: any thread. Pointers returned are into the mappings, valid until
// close.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

typedef struct or_gguf or_gguf_t;

typedef enum {
    OR_GGUF_U8 = 0,
    OR_GGUF_I8,
    OR_GGUF_U16,
    OR_GGUF_I16,
    OR_GGUF_U32,
    OR_GGUF_I32,
    OR_GGUF_F32,
    OR_GGUF_BOOL,
    OR_GGUF_STRING,
    OR_GGUF_ARRAY,
    OR_GGUF_U64,
    OR_GGUF_I64,
    OR_GGUF_F64,
} or_gguf_type_t;

// Tensor element types, numbered as in GGUF. Only those this version computes with are named.
typedef enum {
    OR_TENSOR_F32 = 0,
    OR_TENSOR_F16 = 1,
    OR_TENSOR_Q4_0 = 2, // quantised types: kernels/quants.h says what they mean
    OR_TENSOR_Q4_1 = 3,
    OR_TENSOR_Q5_0 = 6,
    OR_TENSOR_Q5_1 = 7,
    OR_TENSOR_Q8_0 = 8,
    OR_TENSOR_Q2_K = 10,
    OR_TENSOR_Q3_K = 11,
    OR_TENSOR_Q4_K = 12,
    OR_TENSOR_Q5_K = 13,
    OR_TENSOR_Q6_K = 14,
    OR_TENSOR_IQ2_XXS = 16,
    OR_TENSOR_IQ2_XS = 17,
    OR_TENSOR_IQ3_XXS = 18,
    OR_TENSOR_IQ4_NL = 20,
    OR_TENSOR_IQ3_S = 21,
    OR_TENSOR_IQ2_S = 22,
    OR_TENSOR_IQ4_XS = 23,
    OR_TENSOR_BF16 = 30,
    OR_TENSOR_MXFP4 = 39,
} or_tensor_type_t;

// The elements that a type stores together: {32, 34} for Q8_0, {1, 4} for F32.
typedef struct {
    uint32_t elements;
    uint32_t bytes;
} or_tensor_block_t;

typedef struct {
    const char *bytes; // not zero-terminated
    size_t length;
} or_gguf_string_t;

typedef struct {
    or_gguf_type_t type; // of the elements; never OR_GGUF_ARRAY
    uint64_t count;
    // Numbers: little-endian elements, unaligned; strings: opaque, read with or_gguf_array_string.
    const void *data;
} or_gguf_array_t;

typedef struct {
    or_gguf_string_t name;
    // An or_tensor_type_t, or another of GGUF's numbers: then data is NULL and bytes 0.
    uint32_t type;
    uint32_t dim_count;
    uint64_t dims[4]; // unused ones are 1; dims[0] is a multiple of the type's block
    uint64_t elements;
    const void *data;
    uint64_t bytes;
    // Bytes from matrix to matrix; 0, as in every file: dims[2] of them lie without gaps.
    uint64_t matrix_stride;
} or_gguf_tensor_t;

// Map and check `path`. A tensor of a type this version cannot compute with is not an error
// here. OR_ERR_IO: no such file, or not readable. OR_ERR_FORMAT names the fault and its place:
// not GGUF, truncated, hostile, or a part that is missing or belongs to another model.
// OR_ERR_UNSUPPORTED: the version, or big-endian. OR_ERR_INVALID: a later part of a split model;
// the sentence says which one to open.
or_status_t or_gguf_open(const char *path, or_gguf_t **gguf_p);

// The same from memory, for metadata that came over the network: borrows `bytes` until close.
// `name` takes the path's place in sentences. OR_ERR_FORMAT also if there are tensors.
or_status_t or_gguf_open_bytes(const char *name, const void *bytes, size_t count,
                               or_gguf_t **gguf_p);

void or_gguf_close(or_gguf_t **gguf_p);

// Copy the metadata whose keys begin with `prefix` into a file image for or_gguf_open_bytes. The
// same entries give the same bytes. *image_p is malloc'd, the caller frees it. OR_ERR_NO_MEMORY.
or_status_t or_gguf_extract(const or_gguf_t *gguf, const char *prefix, uint8_t **image_p,
                            size_t *image_bytes);

const char *or_gguf_path(const or_gguf_t *gguf);
// Is the file that is at `path` now this file, or one of its parts? It may be there under
// another name.
bool or_gguf_is_at(const or_gguf_t *gguf, const char *path);
// Is it the name of one of several parts? A whole model cannot be opened under such a name.
bool or_gguf_is_part_name(const char *path);
uint64_t or_gguf_file_bytes(const or_gguf_t *gguf); // of all parts
// A fingerprint that tells whether two models are the same to the last byte: XXH3 of the whole file,
// or of all parts one after the other. Never 0. The first call reads the whole file, keeps none of its
// pages, and belongs to one thread; later calls remember the result.
uint64_t or_gguf_fingerprint(const or_gguf_t *gguf);
// An identity that tells whether it is the same file on this machine. It is a hash of device, inode,
// size and change time of all its parts; 0 for bytes that were never a file.
uint64_t or_gguf_identity(const or_gguf_t *gguf);
// Do the open files, all parts, still have that identity? Where somebody writes to one of them while it is open, they do
// not. A file that was removed, or that another took the place of, is as it was. True for bytes that were never a file.
bool or_gguf_is_unchanged(const or_gguf_t *gguf);
uint32_t or_gguf_version(const or_gguf_t *gguf);

// Metadata by key. OR_ERR_NOT_FOUND if absent; OR_ERR_FORMAT if it has another type. Integers of
// any width and sign are accepted where the value fits. Both sentences name the key and the file.
or_status_t or_gguf_get_u32(const or_gguf_t *gguf, const char *key, uint32_t *value);
or_status_t or_gguf_get_f32(const or_gguf_t *gguf, const char *key, float *value);
or_status_t or_gguf_get_bool(const or_gguf_t *gguf, const char *key, bool *value);
or_status_t or_gguf_get_string(const or_gguf_t *gguf, const char *key, or_gguf_string_t *value);
or_status_t or_gguf_get_array(const or_gguf_t *gguf, const char *key, or_gguf_type_t type,
                              or_gguf_array_t *array);
bool or_gguf_has(const or_gguf_t *gguf, const char *key);
// A key that a file may lack: where it does, the value that a function above was given is as it was, and
// that is no error. `got` is that function's answer.
static inline or_status_t or_gguf_optional(or_status_t got)
{
    return got == OR_ERR_NOT_FOUND ? OR_OK : got;
}

// Element i of a string array (i < count). Constant time.
or_gguf_string_t or_gguf_array_string(const or_gguf_array_t *array, uint64_t i);
// Element i of a number array as the type asked for; the array's type must be that type.
float or_gguf_array_f32(const or_gguf_array_t *array, uint64_t i);
int32_t or_gguf_array_i32(const or_gguf_array_t *array, uint64_t i);

// Describe the metadata in file order, for `model inspect`: the value as text, an array as
// "[type x count]". It is written to `text`, cut to `capacity` with the zero. i <
// or_gguf_key_count.
uint64_t or_gguf_key_count(const or_gguf_t *gguf);
void or_gguf_describe(const or_gguf_t *gguf, uint64_t i, or_gguf_string_t *key, char *text,
                      size_t capacity);

uint64_t or_gguf_tensor_count(const or_gguf_t *gguf);
const or_gguf_tensor_t *or_gguf_tensor(const or_gguf_t *gguf, uint64_t i);
// NULL if the tensor is absent.
const or_gguf_tensor_t *or_gguf_find_tensor(const or_gguf_t *gguf, const char *name);
// Announce that a tensor will be read soon, so that the system may begin to fetch it. No-op on a
// file that is not mapped.
void or_gguf_expect(const or_gguf_t *gguf, const or_gguf_tensor_t *tensor);
// Give the memory of a tensor that was read back to the system, as far as whole pages are its
// own. It may be read again: the pages then come from the file. No-op on a file that is not
// mapped.
void or_gguf_release(const or_gguf_t *gguf, const or_gguf_tensor_t *tensor);
// The name, such as "F16" or "Q8_0", for any of GGUF's numbers; "type 99" for unknown ones
// (static storage per thread).
const char *or_gguf_tensor_type_name(uint32_t type);
// The block of a type; {1, 0} for types this version cannot compute with.
or_tensor_block_t or_gguf_tensor_block(uint32_t type);
