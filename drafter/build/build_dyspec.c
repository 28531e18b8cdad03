// dyspec and dyspec-t - dynamic trees, drawn without replacement (DySpec, Xiong et al. 2024).
//
// Both decide by a key: the probability that the target reaches a guess and then takes none of the
// children drawn so far. As published (section 4.2) the drafter's own probabilities are taken for the
// target's. With c_1 .. c_k drawn:
//
//     key of the next child      reach x (1 - p(c_1) - ... - p(c_k))
//     reach of the child y       reach x p(y)
//
// Calibrated (docs/algorithms.md section 2), f(rank, bin of p) and a(rank) are measured acceptances:
//
//     key of the next child      reach x (1 - f(c_1)) ... (1 - f(c_k)) x a(k + 1)
//     reach of the child y       reach x (1 - f(c_1)) ... (1 - f(c_k)) x f(y)
//
// A key depends on tokens that were drawn before, never on the token that it decides about. The
// paper's pseudo-code adds a token before it draws it. Here a key decides that there is to be a child,
// and only then the child is drawn.
#include "drafter/build/builder_internal.h"

// The expectations of one guess.
typedef struct {
    double reach; // the probability that the target reaches the guess
    double left;  // the probability that it reaches the guess and takes none of the drawn children
    double mass;  // the part of the distribution that the drawn children leave
    double key;   // of the next child; 0: there is none
} prospect_t;

// ---- prospects ----

// Return the key of the child of this rank, whichever token it will be.
static double key_of_next(const or_builder_t *builder, const prospect_t *prospect, uint32_t rank)
{
    const or_build_job_t *job = builder->job;
    return job->calibrated ? prospect->left * or_calibration_rank(job->calibration, rank)
                           : prospect->left;
}

static void prospect_open(const or_builder_t *builder, prospect_t *prospects, uint32_t guess,
                          double reach)
{
    prospect_t *prospect = &prospects[guess];
    *prospect = (prospect_t){.reach = reach, .left = reach, .mass = 1};
    if (builder->guesses[guess].depth < builder->depth_limit) {
        prospect->key = key_of_next(builder, prospect, 0);
    }
}

// Account for `child`, the newest child of `parent`.
static void prospect_grow(const or_builder_t *builder, prospect_t *prospects, uint32_t parent,
                          uint32_t child)
{
    const or_build_job_t *job = builder->job;
    prospect_t *prospect = &prospects[parent];
    uint32_t rank = builder->guesses[parent].children - 1;
    double taken = or_build_share(builder, child, &prospect->mass);
    if (job->calibrated) {
        taken = or_calibration_guess(job->calibration, rank, taken);
    }
    prospect_open(builder, prospects, child, prospect->left * taken);
    prospect->left *= 1 - taken;
    prospect->key =
        or_build_has_next(builder, parent) ? key_of_next(builder, prospect, rank + 1) : 0;
}

// Return the guess of first .. end - 1 with the largest key, the earliest of equals; `end` if no key is
// above 0.
static uint32_t prospect_best(const prospect_t *prospects, uint32_t first, uint32_t end)
{
    uint32_t best = end;
    for (uint32_t guess = first; guess < end; guess++) {
        if (prospects[guess].key > (best < end ? prospects[best].key : 0)) {
            best = guess;
        }
    }
    return best;
}

// ---- dyspec: algorithm 1 ----
//
// Add the child with the largest key, again and again, to a node budget. A guess whose turn comes must be
// expanded first. All guesses whose turn is near are expanded in one pass. That draws nothing, so the tree
// is the same.

// Guesses whose keys exceed this part of the largest key are expanded with it.
#define NEARLY 0.37

// Expand `best`, and with it the guesses with nearly as large a key.
static or_status_t expand_likely(or_builder_t *builder, const prospect_t *prospects, uint32_t best,
                                 uint32_t count)
{
    uint32_t found = 0;
    builder->batch[found++] = best;
    for (uint32_t guess = 1; guess <= count && found < builder->nodes_wanted - count; guess++) {
        if (guess != best && !builder->guesses[guess].expanded &&
            prospects[guess].key > NEARLY * prospects[best].key) {
            builder->batch[found++] = guess;
        }
    }
    return or_build_expand(builder, builder->batch, found);
}

or_status_t or_build_dyspec(or_builder_t *builder, uint32_t *count)
{
    prospect_t prospects[OR_TREE_NODES_MAX + 1];
    prospect_open(builder, prospects, OR_BUILD_ROOT, 1);
    for (*count = 0; *count < builder->nodes_wanted;) {
        uint32_t parent = prospect_best(prospects, OR_BUILD_ROOT, *count + 1);
        if (parent > *count) {
            break;
        }
        if (!builder->guesses[parent].expanded) {
            or_status_t status = expand_likely(builder, prospects, parent, *count);
            if (status != OR_OK) {
                return status;
            }
        }
        uint32_t guess = *count + 1;
        or_build_next(builder, guess, parent); // a key says that there is one
        prospect_grow(builder, prospects, parent, guess);
        builder->chosen[(*count)++] = guess;
    }
    return OR_OK;
}

// ---- dyspec-t: algorithm 2 ----
//
// Add level by level all children whose key is at least a threshold. (The paper's inner loop must run while
// the key is at least the threshold.) It takes one pass a level, where dyspec may need more. A node budget
// cuts the last level at its least likely children.

// The default threshold lets a tree use about its budget. On the demonstration pair these two gave the most
// tokens per target call, of a dozen thresholds at 16 and at 64 nodes.
#define USUAL 3.0             // divided by the nodes wanted
#define USUAL_CALIBRATED 0.35 // measured acceptances are smaller than the drafter's probabilities

static double threshold_of(const or_builder_t *builder)
{
    const or_build_job_t *job = builder->job;
    if (job->threshold > 0) {
        return (double)job->threshold;
    }
    return (job->calibrated ? USUAL_CALIBRATED : USUAL) / builder->nodes_wanted;
}

// Add the children of guesses first .. end - 1 whose keys reach the threshold, the likeliest first.
static void take_level(or_builder_t *builder, prospect_t *prospects, double threshold,
                       uint32_t first, uint32_t end, uint32_t *count)
{
    while (*count < builder->nodes_wanted) {
        uint32_t parent = prospect_best(prospects, first, end);
        if (parent == end || prospects[parent].key < threshold) {
            return;
        }
        uint32_t guess = *count + 1;
        or_build_next(builder, guess, parent); // a key says that there is one
        prospect_grow(builder, prospects, parent, guess);
        builder->chosen[(*count)++] = guess;
    }
}

// Put the guesses of first .. end - 1 that will have children into builder->batch; return how many.
static uint32_t choose_batch(or_builder_t *builder, prospect_t *prospects, double threshold,
                             uint32_t first, uint32_t end)
{
    uint32_t found = 0;
    for (uint32_t guess = first; guess < end; guess++) {
        if (prospects[guess].key >= threshold) {
            builder->batch[found++] = guess;
        }
    }
    return found;
}

or_status_t or_build_dyspec_t(or_builder_t *builder, uint32_t *count)
{
    prospect_t prospects[OR_TREE_NODES_MAX + 1];
    double threshold = threshold_of(builder);
    uint32_t first = OR_BUILD_ROOT;
    prospect_open(builder, prospects, OR_BUILD_ROOT, 1);
    for (*count = 0;;) {
        uint32_t end = *count + 1;
        take_level(builder, prospects, threshold, first, end, count);
        uint32_t found = choose_batch(builder, prospects, threshold, end, *count + 1);
        if (found == 0 || *count == builder->nodes_wanted) {
            return OR_OK;
        }
        or_status_t status = or_build_expand(builder, builder->batch, found);
        if (status != OR_OK) {
            return status;
        }
        first = end;
    }
}
