// A tensor core's product of bytes (or_multiply_bytes), from what the lanes of a warp show each other.
#include "tests/emulator/emulated.hpp"

typedef struct {
    uint32_t a[4];
    uint32_t b[2];
} factors_t;

// The 32 neighbours in K of an output (or of a row) lie with four lanes, as a[half] and a[half + 2] (b[0] and b[1]).
static int32_t dot_32(const or_emulated_lane_t *output, uint32_t half,
                      const or_emulated_lane_t *row)
{
    uint8_t weights[32];
    int8_t values[32];
    for (uint32_t t = 0; t < 4; t++) {
        const factors_t *of_output = (const factors_t *)output[t].bytes;
        const factors_t *of_row = (const factors_t *)row[t].bytes;
        memcpy(weights + 4 * t, &of_output->a[half], 4);
        memcpy(weights + 4 * t + 16, &of_output->a[half + 2], 4);
        memcpy(values + 4 * t, &of_row->b[0], 4);
        memcpy(values + 4 * t + 16, &of_row->b[1], 4);
    }
    int32_t sum = 0;
    for (uint32_t k = 0; k < 32; k++) {
        sum += weights[k] * values[k];
    }
    return sum;
}

void or_multiply_bytes(int32_t sums[4], const uint32_t a[4], const uint32_t b[2])
{
    factors_t factors = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const or_emulated_lane_t *lanes =
        or_emulated_exchange(OR_EMULATED_MULTIPLY_BYTES, &factors, sizeof factors);
    uint32_t g = or_emulated_lane() / 4;
    uint32_t t = or_emulated_lane() % 4;
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t row = 2 * t + s % 2;
        int32_t product = dot_32(lanes + 4 * g, s / 2, lanes + 4 * row);
        sums[s] = (int32_t)((uint32_t)sums[s] + (uint32_t)product); // it wraps, as on a GPU
    }
}
