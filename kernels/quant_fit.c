#include "kernels/quant_fit.h"

#include <math.h>
#include <stddef.h>

#define TINY 0x1p-26f           // no half but 0 brings smaller weights nearer
#define NEAREST_EVEN 0x1.8p+23f // added and taken off it leaves an integer
#define REACHES 3               // tried to either side of the grid's end
#define REACH_STEP 0.5f         // of an integer
#define POLISHINGS 2
#define NOT_ROUNDED_UP 0.999f // a mean above all that it is of would leave none

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

// The same of three.
static float sum_of_weighted(const float *restrict w, const float *restrict a,
                             const float *restrict b, uint32_t n)
{
    float lanes[LANES] = {0};
    for (uint32_t i = 0; i < n; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            lanes[lane] += w[i + lane] * a[i + lane] * b[i + lane];
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

float or_fit_error(const float *x, const float *w, uint32_t n, const float *integers, float scale,
                   float minimum)
{
    float lanes[LANES] = {0};
    for (uint32_t i = 0; i < n; i += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            float error = x[i + lane] - (scale * integers[i + lane] - minimum);
            lanes[lane] += w[i + lane] * (error * error);
        }
    }
    return sum_of_lanes(lanes);
}

// ---- a scale alone ----

typedef struct {
    const or_fit_grid_t *grid;
    const float *x, *w;
    uint32_t n;
    bool only_down;
    float scale, minimum; // the best so far
    float gain;           // how much of the sum of w * square the best scale takes off
    float error;          // or what is left of it, where there is a minimum
} search_t;

// Round to the integers of this scale. The best scale for those, xq / qq, leaves xx - xq^2 / qq, all sums weighted; keep
// it if that is less than before.
static void try_scale(search_t *search, float scale)
{
    float integers[OR_FIT_MAX];
    or_fit_round(search->grid, search->x, search->n, scale, 0, integers);
    float xq = sum_of_weighted(search->w, search->x, integers, search->n);
    float qq = sum_of_weighted(search->w, integers, integers, search->n);
    float best = qq > 0 ? xq / qq : 0;
    if (best * xq > search->gain) {
        search->gain = best * xq;
        search->scale = best;
    }
}

// Return the weight that is furthest from 0; with `w` the one that is where distances are multiplied by it.
static float extreme_of(const float *x, const float *w, uint32_t n)
{
    float extreme = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        float distance = fabsf(x[i]) * (w != NULL ? w[i] : 1);
        extreme = distance > most ? x[i] : extreme;
        most = distance > most ? distance : most;
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

static void try_ends(search_t *search, float extreme)
{
    try_reaches(search, extreme, search->grid->lowest);
    if (search->grid->highest != -search->grid->lowest) {
        try_reaches(search, extreme, search->grid->highest);
    }
}

// Where the weight that counts most is another than the largest, the best scale may cut the largest.
float or_fit_scale(const or_fit_grid_t *grid, const float *x, const float *w, uint32_t n)
{
    float extreme = extreme_of(x, NULL, n);
    float weighted_extreme = extreme_of(x, w, n);
    if (fabsf(extreme) < TINY) {
        return 0;
    }
    search_t search = {.grid = grid, .x = x, .w = w, .n = n};
    try_ends(&search, extreme);
    if (weighted_extreme != extreme && fabsf(weighted_extreme) >= TINY) {
        try_ends(&search, weighted_extreme);
    }
    for (uint32_t i = 0; i < POLISHINGS; i++) {
        try_scale(&search, search.scale);
    }
    return search.scale;
}

// ---- a scale and a minimum ----

// The weighted regression of x on the integers; false if it has no answer.
static bool regress(const search_t *search, const float *integers, float *scale, float *minimum)
{
    const float *w = search->w;
    double n = sum_of_numbers(w, search->n);
    double q = sum_of_products(w, integers, search->n);
    double qq = sum_of_weighted(w, integers, integers, search->n);
    double x = sum_of_products(w, search->x, search->n);
    double xq = sum_of_weighted(w, search->x, integers, search->n);
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
    float error = or_fit_error(search->x, search->w, search->n, integers, scale, minimum);
    if (error < search->error) {
        search->error = error;
        search->scale = scale;
        search->minimum = minimum;
    }
}

// From the least to the greatest weight of those whose importance is at least `importance`; there is one.
typedef struct {
    float low, high;
} range_t;

static range_t range_of(const search_t *search, float importance)
{
    range_t range = {INFINITY, -INFINITY};
    for (uint32_t i = 0; i < search->n; i++) {
        bool counts = search->w[i] >= importance;
        range.low = counts && search->x[i] < range.low ? search->x[i] : range.low;
        range.high = counts && search->x[i] > range.high ? search->x[i] : range.high;
    }
    range.low = search->only_down && range.low > 0 ? 0 : range.low;
    return range;
}

static void try_range(search_t *search, range_t range)
{
    float highest = search->grid->highest, width = range.high - range.low;
    for (int i = -REACHES; i <= REACHES && width >= TINY; i++) {
        float reach = highest + (float)i * REACH_STEP;
        float clipped = i > 0 ? 0.5f * width * (1 - highest / reach) : 0;
        if (reach >= 1) {
            try_both(search, width / reach, -range.low - clipped);
        }
    }
}

// Where the weights that count more than others lie closer together, the best scale may cut the others.
void or_fit_both(const or_fit_grid_t *grid, const float *x, const float *w, uint32_t n,
                 bool only_down, float *scale, float *minimum)
{
    search_t search = {
        .grid = grid, .x = x, .w = w, .n = n, .only_down = only_down, .error = INFINITY};
    range_t all = range_of(&search, 0);
    range_t counting = range_of(&search, sum_of_numbers(w, n) / (float)n * NOT_ROUNDED_UP);
    search.minimum = -all.low; // all that is left where the weights do not differ
    try_range(&search, all);
    if (counting.low != all.low || counting.high != all.high) {
        try_range(&search, counting);
    }
    for (uint32_t i = 0; i < POLISHINGS && search.scale > 0; i++) {
        try_both(&search, search.scale, search.minimum);
    }
    *scale = search.scale;
    *minimum = search.minimum;
}
