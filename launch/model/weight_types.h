// weight_types - the types in which commands write weights, and rows of them.
#pragma once

#include "common/gguf/gguf_writer.h"

// By name, in upper or lower case. OR_ERR_INVALID lists all; `what` was asked for it.
or_status_t or_weight_type_parse(const char *what, const char *name, or_tensor_type_t *type);
// Have a file's metadata say that this type was asked for. OR_ERR_NO_MEMORY.
or_status_t or_weight_type_describe(or_tensor_type_t type, or_gguf_writer_t *writer);
// The type for rows of `width` where `wanted` was asked for: another one where they are no whole
// blocks, of about the same size (the ones that llama.cpp takes), at last F16.
or_tensor_type_t or_weight_type_for(or_tensor_type_t wanted, uint64_t width);

// Matrices have a type of their own; vectors stay as they are.
bool or_weight_is_matrix(const or_gguf_tensor_t *tensor);
// Bytes of a row; the width is whole blocks.
uint64_t or_weight_row_bytes(or_tensor_type_t type, uint64_t width);
// Write a row of finite weights; what the type cannot hold is cut to the largest it can.
void or_weight_row_write(or_tensor_type_t type, const float *weights, uint32_t width, void *row);
// The row as it will be read again.
void or_weight_row_read(or_tensor_type_t type, const void *row, uint32_t width, float *weights);
// Make the 32 weights from 32 * block on zeros, of any type; the row is no shorter.
void or_weight_row_clear(or_tensor_type_t type, void *row, uint32_t block);
