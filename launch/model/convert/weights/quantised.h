// quantised - weights that a checkpoint has in fewer bits: which kinds are read, and what number each weight is.
//
//     MXFP4   gpt-oss's experts: blocks and scales, which keep their bits (convert_stacks.c)
//     FP8     DeepSeek V3, Qwen 3: float8_e4m3fn, times the scale of its block or of its tensor
//
//     model.layers.0.mlp.up_proj.weight            F8_E4M3 [18432, 7168]
//     model.layers.0.mlp.up_proj.weight_scale_inv  F32     [144, 56]       of blocks of 128 x 128; a last one may be cut off
//
// Weights in FP8 are decoded in F32, as transformers and DeepSeek's own script do it: the product of both. Other kinds are
// refused by name.
#pragma once

#include "launch/model/convert/families/families.h"
#include "launch/model/convert/json_fields.h"
#include "launch/model/convert/safetensors.h"

typedef enum { OR_HF_WHOLE, OR_HF_MXFP4, OR_HF_FP8 } or_hf_weights_t;

typedef struct {
    or_hf_weights_t kind;
    uint32_t block_rows, block_columns; // of a scale of FP8; 0: a tensor has one
} or_hf_quantised_t;

// Read "quantization_config" of a config.json, if it has one. OR_ERR_UNSUPPORTED names the kind; OR_ERR_FORMAT.
or_status_t or_hf_quantised_read(or_json_t json, const or_hf_family_t *family,
                                 or_hf_quantised_t *quantised);

// A tensor of a checkpoint whose elements are read as floats.
typedef struct {
    const or_safetensor_t *tensor;
    const or_safetensor_t *scales; // of FP8; NULL: the tensor is `readable`
    or_hf_quantised_t how;         // likewise
} or_hf_source_t;

// Is it a tensor of FP8, which has scales?
bool or_hf_is_fp8(const or_safetensor_t *tensor);
// Check that a tensor is a matrix and its scales are those of its blocks, in floats. OR_ERR_FORMAT; OR_ERR_UNSUPPORTED.
or_status_t or_hf_check_scales(const or_hf_source_t *source);
// Read elements first to first + count - 1 in the tensor's own order, all of one row of a matrix.
void or_hf_read_elements(const or_hf_source_t *source, uint64_t first, uint32_t count,
                         float *values);
// Does the tensor of this name hold scales of what weights of FP8 are multiplied with? They are not read.
bool or_hf_is_of_activations(const char *name);
