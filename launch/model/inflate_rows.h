// inflate_rows - the tensors of an inflated model, row by row (inflate_plan.h).
//
//     layer   attn_output, ffn_down      the other matrices     norms             biases
//     old     with zeros for new columns  with random new rows   as they are       as they are
//     new     zeros                       random                 random about 1    random about 0
#pragma once

#include "launch/model/inflate_plan.h"
#include "launch/model/weight_writer.h"

typedef struct or_inflate_rows or_inflate_rows_t;

// List the tensors. Borrows gguf and plan until destroy. With `type` the matrices become of that type, or of what stands in
// for it (weight_writer.h); NULL: each keeps its own. OR_ERR_FORMAT if the model lacks a tensor, or one has another shape;
// OR_ERR_UNSUPPORTED; OR_ERR_NO_MEMORY.
or_status_t or_inflate_rows_create(const or_gguf_t *gguf, const or_arch_t *arch,
                                   const or_model_shape_t *shape, const or_inflate_plan_t *plan,
                                   const or_tensor_type_t *type, uint64_t seed,
                                   or_inflate_rows_t **rows_p);
void or_inflate_rows_destroy(or_inflate_rows_t **rows_p);

// Add all tensors to a file.
or_status_t or_inflate_rows_add(const or_inflate_rows_t *rows, or_gguf_writer_t *writer);
// Write all tensors.
or_status_t or_inflate_rows_write(or_inflate_rows_t *rows, or_weight_writer_t *weights);
