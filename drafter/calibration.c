#include "drafter/calibration.h"

#include "common/base/math/math.h"

// Measured on the demonstration pair: 0.62, 0.45, 0.32 for best guesses, 0.56, 0.14, 0.09 for draws at
// temperature 1, 0.22, 0.20, 0.18 for draws at temperature 0. A prior of 0.35 from rank to rank gave
// draws at temperature 1 0.06 tokens a call more, and at temperature 0 0.1 to 0.2 less.
#define PRIOR_FIRST 0.6 // of rank 0
#define PRIOR_DECAY 0.6 // from rank to rank
#define PRIOR_TRIED 8.0 // observations that a rank's prior is worth
#define RANK_TRIED 4.0  // and that its rank is worth to a bin
#define TRIED_MAX 2000.0

static uint32_t rank_of(uint32_t rank)
{
    return rank < OR_CALIBRATION_RANKS ? rank : OR_CALIBRATION_RANKS - 1;
}

static uint32_t bin_of(double p)
{
    uint32_t bin = 0;
    for (double bound = 0.5; p < bound && bin + 1 < OR_CALIBRATION_BINS; bound /= 2) {
        bin++;
    }
    return bin;
}

double or_calibration_rank(const or_calibration_t *calibration, uint32_t rank)
{
    uint32_t row = rank_of(rank);
    double tried = PRIOR_TRIED;
    double taken = PRIOR_TRIED * PRIOR_FIRST * or_pow(PRIOR_DECAY, row);
    for (uint32_t bin = 0; bin < OR_CALIBRATION_BINS; bin++) {
        tried += calibration->tried[row][bin];
        taken += calibration->taken[row][bin];
    }
    return taken / tried;
}

double or_calibration_guess(const or_calibration_t *calibration, uint32_t rank, double p)
{
    uint32_t row = rank_of(rank);
    uint32_t bin = bin_of(p);
    double taken =
        calibration->taken[row][bin] + RANK_TRIED * or_calibration_rank(calibration, row);
    return taken / (calibration->tried[row][bin] + RANK_TRIED);
}

void or_calibration_learn(or_calibration_t *calibration, uint32_t rank, double p, bool taken)
{
    double *tries = &calibration->tried[rank_of(rank)][bin_of(p)];
    double *takes = &calibration->taken[rank_of(rank)][bin_of(p)];
    *tries += 1;
    *takes += taken;
    if (*tries >= TRIED_MAX) { // what was measured long ago counts half
        *tries /= 2;
        *takes /= 2;
    }
}

or_calibration_t *or_calibrations_find(or_calibrations_t *all, or_draft_method_t method,
                                       or_accept_rule_t rule, float temperature)
{
    bool dynamic = or_draft_method_has(method, OR_DRAFT_CALIBRATES);
    if ((!dynamic && method != OR_DRAFT_SEQUOIA) || (uint32_t)rule >= OR_CALIBRATION_RULES) {
        return NULL;
    }
    uint32_t family = dynamic ? 1 : 0; // as the names in calibration_file.c
    uint32_t heat = temperature > OR_CALIBRATION_COOL ? 2 : temperature > 0 ? 1 : 0;
    return &all->of[family][rule][heat];
}
