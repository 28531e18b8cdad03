// layer_inputs - what each layer gets of a token besides the residual stream (Gemma 4's smaller models).
//
//     input [layers][size] of a row = (norm of (its embedding times projection / sqrt(width))
//                                      + sqrt(size) * the token's row of a second embedding) / sqrt(2)
//     a layer adds to x: the norm of (gelu(x times input_gate) * input) times input_up
//
// The norm before the first sum is of each layer's part alone. All ranks compute all of it alike, a stage that of its layers.
// Private to common/model.
#pragma once

#include "common/model/arch/arch.h"
#include "common/model/cpu/weights.h"

typedef struct {
    const or_gguf_tensor_t
        *embedding; // [layers * size, vocab_size], read in place; NULL: there is no such input
    or_matrix_t projection; // width -> layers here * size
    float *norm;            // [size]
    size_t stride;          // of `values`, from the projection's first panel on
    float *values;          // [rows_max][stride], the inputs of a pass
    float *tokens;          // [rows_max][layers * size], rows of the second embedding
    or_activations_t gate;  // [rows_max][size] of the layer that is computed
} or_layer_inputs_t;

// Take the memory of a pass; false if there is none. or_layer_inputs_free cleans up in any case.
bool or_layer_inputs_create(or_model_t *model);
void or_layer_inputs_free(or_model_t *model);

// Before the first layer, where h is the rows' embeddings: the products, and then what each row lacks.
void or_layer_inputs_project(or_model_t *model, uint32_t rows);
void or_layer_inputs_join(const or_model_t *model, uint32_t row);
// A layer's part, where h is x: the gate, its product with the layer's input, and sums of that.
void or_layer_inputs_gate(or_model_t *model, const or_layer_t *layer, uint32_t rows);
void or_layer_inputs_gelu(const or_model_t *model, uint32_t layer, uint32_t row);
void or_layer_inputs_raise(or_model_t *model, const or_layer_t *layer, uint32_t rows);
