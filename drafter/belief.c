#include "drafter/belief.h"

#include "common/base/math/math.h"

#define TAU_MIN 0.1
#define TAU_MAX 2.0
#define DISCOUNT 0.98 // an observation counts half after 34 more
#define PRIOR_TAU 0.6
#define PRIOR_STRENGTH 2.0 // a few observations' worth
#define FLOOR_MASS 0.001   // belief in everything that the scores do not explain

// Return the grid's i-th tau. The grid is geometric, from TAU_MIN to TAU_MAX.
static double grid_tau(uint32_t i)
{
    return TAU_MIN * or_pow(TAU_MAX / TAU_MIN, (double)i / (OR_BELIEF_GRID - 1));
}

void or_belief_init(or_belief_t *belief)
{
    for (uint32_t i = 0; i < OR_BELIEF_GRID; i++) {
        double distance = or_ln(grid_tau(i) / PRIOR_TAU);
        belief->log_likelihood[i] = -PRIOR_STRENGTH * distance * distance;
    }
}

double or_belief_tau(const or_belief_t *belief)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < OR_BELIEF_GRID; i++) {
        if (belief->log_likelihood[i] > belief->log_likelihood[best]) {
            best = i;
        }
    }
    return grid_tau(best);
}

// Return the believed probability of the token at `rank`, under softmax(scores / tau) and the floor.
static double probability(const double *scores, uint32_t count, uint32_t rank, double tau)
{
    if (rank >= count) {
        return FLOOR_MASS;
    }
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += or_exp((scores[i] - scores[0]) / tau);
    }
    return FLOOR_MASS + (1 - FLOOR_MASS) * or_exp((scores[rank] - scores[0]) / tau) / total;
}

void or_belief_learn(or_belief_t *belief, const double *scores, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < OR_BELIEF_GRID; i++) {
        belief->log_likelihood[i] = DISCOUNT * belief->log_likelihood[i] +
                                    or_ln(probability(scores, count, rank, grid_tau(i)));
    }
}
