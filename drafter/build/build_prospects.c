// What dyspec and dyspec-t expect of a guess's next child (DySpec, Xiong et al. 2024, section 4.2).
//
// As published the drafter's own probabilities are taken for the target's. With c_1 .. c_k drawn:
//
//     key of the next child      reach x (1 - p(c_1) - ... - p(c_k))
//     reach of the child y       reach x p(y)
//
// Calibrated (docs/algorithms.md section 2), with f(rank, bin of p) and a(rank) as measured:
//
//     key of the next child      reach x (1 - f(c_1)) ... (1 - f(c_k)) x a(k + 1)
//     reach of the child y       reach x (1 - f(c_1)) ... (1 - f(c_k)) x f(y)
//
// Keys are of tokens that were drawn before, never of the one they decide about.
#include "drafter/build/builder_internal.h"

// What the next child, whatever it will be, adds to the key.
static double key_of_next(const or_builder_t *builder, const or_build_prospect_t *prospect,
                          uint32_t rank)
{
    const or_build_job_t *job = builder->job;
    return job->calibrated ? prospect->left * or_calibration_rank(job->calibration, rank)
                           : prospect->left;
}

void or_build_prospect_open(const or_builder_t *builder, or_build_prospect_t *prospects,
                            uint32_t guess, double reach)
{
    or_build_prospect_t *prospect = &prospects[guess];
    *prospect = (or_build_prospect_t){.reach = reach, .left = reach, .mass = 1};
    if (builder->guesses[guess].depth < builder->depth_limit) {
        prospect->key = key_of_next(builder, prospect, 0);
    }
}

void or_build_prospect_grow(const or_builder_t *builder, or_build_prospect_t *prospects,
                            uint32_t parent, uint32_t child)
{
    const or_build_job_t *job = builder->job;
    or_build_prospect_t *prospect = &prospects[parent];
    uint32_t rank = builder->guesses[parent].children - 1;
    double taken = or_build_share(builder, child, &prospect->mass);
    if (job->calibrated) {
        taken = or_calibration_guess(job->calibration, rank, taken);
    }
    or_build_prospect_open(builder, prospects, child, prospect->left * taken);
    prospect->left *= 1 - taken;
    prospect->key =
        or_build_has_next(builder, parent) ? key_of_next(builder, prospect, rank + 1) : 0;
}

uint32_t or_build_prospect_best(const or_build_prospect_t *prospects, uint32_t first, uint32_t end)
{
    uint32_t best = end;
    for (uint32_t guess = first; guess < end; guess++) {
        if (prospects[guess].key > (best < end ? prospects[best].key : 0)) {
            best = guess;
        }
    }
    return best;
}
