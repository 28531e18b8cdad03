#include "tests/model/model_types.h"

#include "tests/support/requantize.h"
#include "tests/support/test_support.h"

#define SMALL_COLUMNS 128u // of the smaller model's shortest rows

const or_tensor_type_t model_types[] = {
    OR_TENSOR_F32,   OR_TENSOR_Q8_0,
#ifndef __SANITIZE_THREAD__ // ten times slower, and the threads do the same for every type
    OR_TENSOR_BF16,  OR_TENSOR_Q4_0,    OR_TENSOR_Q4_1,   OR_TENSOR_Q5_0,
    OR_TENSOR_Q5_1,  OR_TENSOR_Q2_K,    OR_TENSOR_Q3_K,   OR_TENSOR_Q4_K,
    OR_TENSOR_Q5_K,  OR_TENSOR_Q6_K,    OR_TENSOR_IQ4_NL, OR_TENSOR_IQ4_XS,
    OR_TENSOR_MXFP4, OR_TENSOR_IQ3_XXS, OR_TENSOR_IQ2_XS, // those left out have panels like these
#endif
};
const uint32_t model_types_count = sizeof model_types / sizeof model_types[0];

char *model_of_type(or_tensor_type_t type)
{
    bool small = or_gguf_tensor_block(type).elements <= SMALL_COLUMNS;
    return test_requantize(test_model(small ? "tales-1m-f16.gguf" : "tales-6m-f16.gguf"), type);
}
