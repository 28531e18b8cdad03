// convert_plan_internal - the plan of a conversion, for the files that add tensors to it. What fails, fails as or_convert_plan does.
#pragma once

#include "launch/model/convert/convert.h"

typedef struct {
    or_convert_plan_t *plan;
    const char *outer; // the prefix that this checkpoint has
} or_plan_names_t;

// Does the row's tensor belong to this module, as "attn_q"?
bool or_plan_is_suffix(const or_arch_tensor_t *row, const char *module);

// Find the name that the checkpoint has of those that the family has for a tensor; the preferred one if it has none.
or_status_t or_plan_find_name(const or_plan_names_t *names, const or_hf_tensor_t *tensor,
                              char *name, size_t capacity, bool *has);
// Find a tensor of the checkpoint, which is used then.
or_status_t or_plan_find_tensor(or_convert_plan_t *plan, const char *theirs, uint64_t *source);
// Find the scales of a tensor that was found, if it is of FP8.
or_status_t or_plan_find_scales(or_convert_plan_t *plan, const char *theirs, uint64_t source);
// Can a tensor that was found be read as floats?
bool or_plan_is_readable(const or_convert_plan_t *plan, uint64_t source);
// Add the tensor whose source is known. `item` says the rest.
or_status_t or_plan_add_found(or_convert_plan_t *plan, or_convert_item_t *item);

// Add what a tensor of all experts has of a row of the table: all of it, as GGUF has it or transposed, or every other output. Biases are a matrix with a
// row for each expert.
or_status_t or_plan_add_stacked(const or_plan_names_t *names, const or_hf_tensor_t *tensor,
                                const or_arch_tensor_t *row, or_convert_item_t *item);
// Add what the matrix that makes K and V of all heads has of a row of the table: a matrix for each head.
or_status_t or_plan_add_heads(const or_plan_names_t *names, const or_hf_tensor_t *tensor,
                              const or_arch_tensor_t *row, or_convert_item_t *item);
