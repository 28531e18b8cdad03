#include "kernels/quant_fit.h"

#include <math.h>
#include <stddef.h>

#define TINY 0x1p-26f           // no half but 0 brings smaller weights nearer
#define NEAREST_EVEN 0x1.8p+23f // added and taken off it leaves an integer
#define REACHES 3               // tried to either side of the grid's end
#define REACH_STEP 0.5f         // of an integer
#define POLISHINGS 2

// ---- integers for a scale ----

static void round_to_values(const int8_t *values, const float *x, uint32_t n, float inverse,
                            float *integers)
{
    for (uint32_t i = 0; i < n; i++) {
        integers[i] = values[0];
    }
    for (uint32_t v = 1; v < 16; v++) {
        float step = (float)(values[v] - values[v - 1]);
        float middle = 0.5f * (float)(values[v] + values[v - 1]);
        for (uint32_t i = 0; i < n; i++) {
            integers[i] += x[i] * inverse > middle ? step : 0;
        }
    }
}

void or_fit_round(const or_fit_grid_t *grid, const float *x, uint32_t n, float scale, float minimum,
                  float *integers)
{
    float inverse = scale != 0 ? 1 / scale : 0;
    float lowest = grid->lowest, highest = grid->highest;
    if (grid->values != NULL) {
        round_to_values(grid->values, x, n, inverse, integers);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        float place = (x[i] + minimum) * inverse;
        place = place > lowest ? place : lowest;
        place = place < highest ? place : highest;
        integers[i] = (place + NEAREST_EVEN) - NEAREST_EVEN;
    }
}

// ---- sums ----

#define LANES 8u // a sum's terms are dealt out to them in turn; groups are whole rounds

static float sum_of_lanes(const float *lanes)
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static float sum_of_products(const float *restrict a, const float *restrict b, uint32_t n)
{
    float lanes[LANES] = {0};
    for (uint32_t i = 0; i < n; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            lanes[lane] += a[i + lane] * b[i + lane];
        }
    }
    return sum_of_lanes(lanes);
}

static float sum_of_numbers(const float *a, uint32_t n)
{
    float lanes[LANES] = {0};
    for (uint32_t i = 0; i < n; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            lanes[lane] += a[i + lane];
        }
    }
    return sum_of_lanes(lanes);
}

float or_fit_error(const float *x, uint32_t n, const float *integers, float scale, float minimum)
{
    float lanes[LANES] = {0};
    for (uint32_t i = 0; i < n; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            float error = x[i + lane] - (scale * integers[i + lane] - minimum);
            lanes[lane] += error * error;
        }
    }
    return sum_of_lanes(lanes);
}

// ---- a scale alone ----

typedef struct {
    const or_fit_grid_t *grid;
    const float *x;
    uint32_t n;
    bool only_down;
    float scale, minimum; // the best so far
    float gain;           // how much of the sum of squares the best scale takes off
    float error;          // or what is left of it, where there is a minimum
} search_t;

// Round to the integers of this scale. The best scale for those, xq / qq, leaves xx - xq^2 / qq; keep
// it if that is less than before.
static void try_scale(search_t *search, float scale)
{
    float integers[OR_FIT_MAX];
    or_fit_round(search->grid, search->x, search->n, scale, 0, integers);
    float xq = sum_of_products(search->x, integers, search->n);
    float qq = sum_of_products(integers, integers, search->n);
    float best = qq > 0 ? xq / qq : 0;
    if (best * xq > search->gain) {
        search->gain = best * xq;
        search->scale = best;
    }
}

static float extreme_of(const float *x, uint32_t n)
{
    float extreme = 0;
    for (uint32_t i = 0; i < n; i++) {
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    }
    return extreme;
}

// Steps are quarters of an integer, or of the mean distance of values.
static void try_reaches(search_t *search, float extreme, float end)
{
    float step = REACH_STEP * (search->grid->values != NULL ? end / 8 : 1);
    for (int i = -REACHES; i <= REACHES; i++) {
        try_scale(search, extreme / (end + (float)i * step));
    }
}

float or_fit_scale(const or_fit_grid_t *grid, const float *x, uint32_t n)
{
    float extreme = extreme_of(x, n);
    if (fabsf(extreme) < TINY) {
        return 0;
    }
    search_t search = {.grid = grid, .x = x, .n = n};
    try_reaches(&search, extreme, grid->lowest);
    if (grid->highest != -grid->lowest) {
        try_reaches(&search, extreme, grid->highest);
    }
    for (uint32_t i = 0; i < POLISHINGS; i++) {
        try_scale(&search, search.scale);
    }
    return search.scale;
}

// ---- a scale and a minimum ----

// The regression of x on the integers; false if it has no answer.
static bool regress(const search_t *search, const float *integers, float *scale, float *minimum)
{
    double n = search->n;
    double q = sum_of_numbers(integers, search->n);
    double qq = sum_of_products(integers, integers, search->n);
    double x = sum_of_numbers(search->x, search->n);
    double xq = sum_of_products(search->x, integers, search->n);
    double spread = n * qq - q * q;
    if (qq == 0 || (spread == 0 && !search->only_down)) {
        return false;
    }
    *scale = (float)((n * xq - q * x) / spread);
    *minimum = (float)((q * xq - qq * x) / spread);
    if (search->only_down && (spread == 0 || *minimum < 0)) {
        *scale = (float)(xq / qq);
        *minimum = 0;
    }
    return *scale > 0;
}

static void try_both(search_t *search, float scale, float minimum)
{
    float integers[OR_FIT_MAX];
    or_fit_round(search->grid, search->x, search->n, scale, minimum, integers);
    if (!regress(search, integers, &scale, &minimum)) {
        return;
    }
    float error = or_fit_error(search->x, search->n, integers, scale, minimum);
    if (error < search->error) {
        search->error = error;
        search->scale = scale;
        search->minimum = minimum;
    }
}

void or_fit_both(const or_fit_grid_t *grid, const float *x, uint32_t n, bool only_down,
                 float *scale, float *minimum)
{
    float low = x[0], high = x[0];
    for (uint32_t i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    low = only_down && low > 0 ? 0 : low;
    search_t search = {.grid = grid, .x = x, .n = n, .only_down = only_down, .error = INFINITY};
    search.minimum = -low; // all that is left where the weights do not differ
    for (int i = -REACHES; i <= REACHES && high - low >= TINY; i++) {
        float reach = grid->highest + (float)i * REACH_STEP;
        float clipped = i > 0 ? 0.5f * (high - low) * (1 - grid->highest / reach) : 0;
        if (reach >= 1) {
            try_both(&search, (high - low) / reach, -low - clipped);
        }
    }
    for (uint32_t i = 0; i < POLISHINGS && search.scale > 0; i++) {
        try_both(&search, search.scale, search.minimum);
    }
    *scale = search.scale;
    *minimum = search.minimum;
}
