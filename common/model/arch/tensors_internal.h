// tensors - where a model's file has the tensors of its family's table. Internal to the files that need them.
//
//     tensors.c loads them         tensors_check.c checks that all are there, fit the metadata, and that there is no other
//     cpu/importance.c names them  pack.c packs them into a file
#pragma once

#include "common/model/model_internal.h"

typedef struct {
    char text[64];
} or_tensor_name_t;

// "blk.<layer>.<suffix>"
or_tensor_name_t or_tensor_name(uint32_t layer, const char *suffix);

// Where, in its tensor, what a row of the table stands for begins, and how much there is in all.
typedef struct {
    uint32_t begin, length, total; // outputs of a matrix, elements of a vector
} or_tensor_part_t;

// `shape` is the layer's (or_arch_layer_shape).
or_tensor_part_t or_tensor_part(const or_model_shape_t *shape, const or_arch_tensor_t *t);

// Find the tensor of so many matrices, which must have this shape and a type that this version computes with. `outputs` 1:
// a vector of floats. OR_ERR_FORMAT and OR_ERR_UNSUPPORTED name it.
or_status_t or_tensor_find(const or_gguf_t *gguf, const char *name, uint32_t inputs,
                           uint32_t outputs, uint32_t matrices, const or_gguf_tensor_t **tensor_p);

// Check that this version computes with the tensor's type; as vectors quantised ones are not read. OR_ERR_UNSUPPORTED.
or_status_t or_tensor_check_type(const or_gguf_t *gguf, const char *name,
                                 const or_gguf_tensor_t *tensor, bool is_vector);

// Find a layer's tensor, or the part of one, as a tensor of its own; false if the file has none.
bool or_tensor_find_part(const or_model_t *model, uint32_t layer, const or_arch_tensor_t *t,
                         or_gguf_tensor_t *tensor);

// Return the tensor of the head: the embedding where the file has no other.
const or_gguf_tensor_t *or_tensor_head(const or_model_t *model);

// Write the name that such a tensor, or part of one, has in a packed file. OR_ERR_UNSUPPORTED if it is too long.
or_status_t or_tensor_packed_name(const or_model_t *model, const or_gguf_tensor_t *tensor,
                                  char name[OR_PACKED_NAME_BYTES]);
