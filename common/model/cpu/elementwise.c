#include "common/model/cpu/elementwise.h"

#include <math.h>
#include <stddef.h>

#include "common/base/math/math.h"

#define GELU_CUBE 0.044715f
#define CLAMP 7.0f
#define CLAMPED_STEEPNESS 1.702f
#define ROOT_OF_HALF 0.70710678118654752
#define GELU_SCALE 0.7978845608f // sqrt(2 / pi)

void or_scale(float *x, uint32_t n, float factor)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= factor;
    }
}

void or_softcap(float *x, uint32_t n, float cap)
{
    for (uint32_t i = 0; i < n; i++) {
        double grown = or_exp(-2 * fabs((double)x[i] / (double)cap));
        double capped = (double)cap * ((1 - grown) / (1 + grown));
        x[i] = (float)(x[i] < 0 ? -capped : capped);
    }
}

void or_layer_norm(const float *x, const float *weight, const float *bias, uint32_t n,
                   float epsilon, float *y)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)x[i];
    }
    double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) {
        double distance = (double)x[i] - mean;
        squares += distance * distance;
    }
    double factor = 1 / sqrt(squares / n + (double)epsilon);
    for (uint32_t i = 0; i < n; i++) {
        float normalised = (float)(((double)x[i] - mean) * factor) * weight[i];
        y[i] = bias != NULL ? normalised + bias[i] : normalised;
    }
}

void or_silu_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    kernels->swiglu(gate, up, n);
}

// With z = 1.702 x the formula is z * sigmoid(z) * (up + 1) / 1.702, and the kernel has the first part. NaN stays.
void or_clamped_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float x = gate[i] > CLAMP ? CLAMP : gate[i];
        float factor = up[i] > CLAMP ? CLAMP : up[i] < -CLAMP ? -CLAMP : up[i];
        gate[i] = CLAMPED_STEEPNESS * x;
        up[i] = (factor + 1) / CLAMPED_STEEPNESS;
    }
    kernels->swiglu(gate, up, n);
}

// The formula is x * sigmoid(z) with z = 2 sqrt(2 / pi) (x + 0.044715 x^3), so the kernel of z * sigmoid(z) * up does
// with up * x / z.
void or_gelu_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float steepness = 2 * GELU_SCALE * (1 + GELU_CUBE * gate[i] * gate[i]);
        gate[i] *= steepness;
        up[i] /= steepness;
    }
    kernels->swiglu(gate, up, n);
}

void or_gelu(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        up[i] = 1;
    }
    or_gelu_gated(kernels, gate, up, n);
}

void or_gelu_exact(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    (void)kernels, (void)up;
    for (uint32_t i = 0; i < n; i++) {
        double x = (double)gate[i];
        gate[i] = (float)(0.5 * x * or_erfc(-ROOT_OF_HALF * x));
    }
}

void or_relu(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    (void)kernels, (void)up;
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = gate[i] < 0 ? 0 : gate[i]; // NaN stays
    }
}
