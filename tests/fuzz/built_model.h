// built_model - a fuzzer's attempt to load a file's model and to run it.
#pragma once

#include <stddef.h>

#include "common/gguf/gguf.h"

// Load the model if it has at most `parameters_max` parameters, and run a few tokens. What is refused must be refused in a
// sentence. The best kernels, in one pass, must give the bits of the reference, row by row.
void built_model_try(const or_gguf_t *gguf, uint64_t parameters_max);

// Read every byte, so that a sanitizer sees each.
void built_model_read(const void *bytes, size_t count);

void built_model_assert_sentence(or_status_t status);
