// elementwise - operations on the numbers of a row that few families have. Internal to this folder.
//
// Plain C in a fixed order, the same for every instruction set; kernels/kernels.h has the ones that all families need.
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

// x[i] *= factor
void or_scale(float *x, uint32_t n, float factor);
// x[i] = cap * tanh(x[i] / cap)
void or_softcap(float *x, uint32_t n, float cap);
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias; bias may be NULL, y may be x.
void or_layer_norm(const float *x, const float *weight, const float *bias, uint32_t n,
                   float epsilon, float *y);

// Activations of a gated FFN: gate[i] = f(gate[i]) * up[i]. Those of others do gate[i] = f(gate[i]). `up` is scratch: n
// floats that may be written over.
typedef void (*or_activation_t)(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);

// x sigmoid(x)
void or_silu_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);
// x sigmoid(1.702 x) * (up + 1), with x cut to at most 7 and `up` to -7 .. 7 (OpenAI, gpt-oss, 2025)
void or_clamped_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);
// gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) (Hendrycks and Gimpel, 2016)
void or_gelu_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);
void or_gelu(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);
// What that comes near to: x times the part of a normal distribution that lies below x.
void or_gelu_exact(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);
// The greater of x and 0.
void or_relu(const or_kernels_t *kernels, float *gate, float *up, uint32_t n);
