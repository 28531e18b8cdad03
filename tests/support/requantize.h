// requantize - the same model with other weights, for tests: a GGUF file in memory whose matrices
// are of another type.
//
//     char *path = test_requantize(test_model("tales-1m-f16.gguf"), OR_TENSOR_Q8_0);
//     or_status_t status = or_gguf_open(path, &gguf);
//     free(path);
#pragma once

#include "common/gguf/gguf.h"

// Copy the file with all matrices (two dimensions) converted to `type`, as ggml does it in F16,
// Q8_0 and Q4_0. Matrices whose rows are no whole blocks stay as they are, as do vectors and
// metadata. To F32 any type is exact. The caller frees the returned path. Any process may open it
// while this one lives. Fails the test if the file cannot be read.
char *test_requantize(const char *path, or_tensor_type_t type);
