#include "common/model/cpu/elementwise.h"

#include <math.h>
#include <stddef.h>

#include "common/base/math/elementwise_inline.h"

void or_scale(float *x, uint32_t n, float factor)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= factor;
    }
}

void or_softcap(float *x, uint32_t n, float cap)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = inline_softcap(x[i], cap);
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

void or_clamped_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = inline_clamped_gate(gate[i]);
        up[i] = inline_clamped_up(up[i]);
    }
    kernels->swiglu(gate, up, n);
}

// The formula is x * sigmoid(z), so the kernel of z * sigmoid(z) * up does with up * x / z.
void or_gelu_gated(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float steepness = inline_gelu_steepness(gate[i]);
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
        gate[i] = inline_gelu_exact(gate[i]);
    }
}

void or_relu(const or_kernels_t *kernels, float *gate, float *up, uint32_t n)
{
    (void)kernels, (void)up;
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = inline_relu(gate[i]);
    }
}
