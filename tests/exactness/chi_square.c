#include "tests/exactness/chi_square.h"

#include <math.h>

#define EXPECTED_MIN 5.0
#define NORMAL_QUANTILE 4.753424 // of the standard normal, 1 - 1e-6

typedef struct {
    double observed, expected;
} cell_t;

static void close_cell(chi_square_t *test, cell_t cell)
{
    double difference = cell.observed - cell.expected;
    test->statistic += difference * difference / cell.expected;
    test->degrees++;
}

void chi_square_add(chi_square_t *test, const uint32_t *observed, const double *expected,
                    uint32_t count)
{
    cell_t last = {0, 0}; // held back, because the rest of the pool joins it at the end
    cell_t pool = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        cell_t cell = {observed[i], expected[i]};
        if (cell.expected < EXPECTED_MIN) {
            pool = (cell_t){pool.observed + cell.observed, pool.expected + cell.expected};
            if (pool.expected < EXPECTED_MIN) {
                continue;
            }
            cell = pool;
            pool = (cell_t){0, 0};
        }
        if (last.expected > 0) {
            close_cell(test, last);
        }
        last = cell;
    }
    last = (cell_t){last.observed + pool.observed, last.expected + pool.expected};
    if (last.expected > 0) {
        close_cell(test, last);
        test->degrees--; // the sums agree
    }
}

// The critical value by Wilson and Hilferty's cube-root approximation (1931).
bool chi_square_fits(const chi_square_t *test)
{
    if (test->degrees == 0) {
        return true;
    }
    double spread = 2.0 / (9.0 * test->degrees);
    double critical = test->degrees * pow(1 - spread + NORMAL_QUANTILE * sqrt(spread), 3);
    return test->statistic <= critical;
}
