// model_types - a demonstration model in every type of weights.
#pragma once

#include "common/gguf/gguf.h"

// All but F16, which the demonstration models are.
extern const or_tensor_type_t model_types[];
extern const uint32_t model_types_count;

// The smaller demonstration model converted to this type, or the larger one where only its rows are whole
// blocks. The path is the caller's to free (test_requantize).
char *model_of_type(or_tensor_type_t type);
