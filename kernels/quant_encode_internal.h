// quant_encode_internal - what the encoders of blocks and of super-blocks share.
#pragma once

#include "kernels/quant_fit.h"
#include "kernels/quants.h"

#define OR_SUPER_WEIGHTS (OR_SUPER_BLOCK * OR_QUANT_BLOCK)

// The half nearest to a value; the largest there is for what is larger.
uint16_t or_encode_half(float value);
// Write it, low byte first; returns what follows.
uint8_t *or_encode_put(uint8_t *at, uint16_t half);

// A super-block of 256 weights, in the bytes of its file.
void or_encode_q4_k(const float *x, uint8_t *at);
void or_encode_q5_k(const float *x, uint8_t *at);
void or_encode_q2_k(const float *x, uint8_t *at);
void or_encode_q3_k(const float *x, uint8_t *at);
void or_encode_q6_k(const float *x, uint8_t *at);
