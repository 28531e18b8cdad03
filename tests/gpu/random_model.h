// random_model - a Llama of any shape with random weights and nameless tokens, for measuring what its passes cost.
//
// All its tensors lie over the same bytes of the file, which is as large as the largest of them, so that it is made
// in memory in seconds. Once it is loaded each tensor has memory of its own. Its logits are as small as its weights:
// divided by RANDOM_MODEL_TEMPERATURE they make distributions as peaked as a trained model's.
#pragma once

#include "common/gguf/gguf_test_file.h"
#include "common/model/model.h"

#define RANDOM_MODEL_TEMPERATURE 1e-3F

// Open a model of random weights: matrices of `type`, which is BF16 or has fewer bits, norms of BF16. The shape's
// architecture, head_dim (width / heads) and parameters are ignored. A tied model has no head but its embedding. The
// caller closes *gguf_p, then ends the file. Ends the program without memory.
void random_model_open(const or_model_shape_t *shape, or_tensor_type_t type, bool tied,
                       test_gguf_t *file, or_gguf_t **gguf_p);
