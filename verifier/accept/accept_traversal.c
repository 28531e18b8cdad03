// Traversal verification (Weng et al. 2025, arXiv 2505.12398): leaves before their parents, so that a
// path may be accepted as a whole where one of its tokens alone would not be.
//
//     serve(c, a):                                            a = 1 at the root
//       M = q(c), S = p(c)
//       for x in the children of c, as they were drawn:
//         if serve(x, min(1, a M(x) / S(x))): done
//         R = [a M - S]+    a = |R| / (|R| + 1 - a)    M = N[R]    S(x) = 0, S = N[S]
//       if c is the root or u < a: accept the path to c, then y ~ M: done
//
// Nothing is divided. a and M are kept together, as weights w over a bound B:
//
//     a M(y) = w(y) / B          a = |w| / B
//     a of a child x             w(x) |s| / (B s(x))
//     after x has failed         w'(y) = [w(y) |s| - B s(y)]+      B' = |w'| + (B - |w|) |s|
//
// Of the distribution's tokens each w is kept, of all others only what they have been multiplied by, so a
// level of the path takes as much room as a distribution. At the node where y is drawn the target's distribution is
// asked for once more. A leaf's distribution is asked for only if it is accepted.
//
// A node with a stop id is served as a leaf, whatever hangs below it: that nothing follows it is
// known from its token, and a node may exist or not depending on other nodes' tokens
// (docs/algorithms.md section 2).
#include <math.h>
#include <stdlib.h>

#include "verifier/accept/accept_internal.h"

// One node of the path that is being served.
typedef struct {
    uint32_t node;
    uint32_t child; // x, to be served next; 0: none is left
    bool is_split;  // weights, others and s are in use: some child was served
    or_distribution_left_t s;
    double weights[OR_DISTRIBUTION_ENTRIES_MAX]; // w of the distribution's tokens
    double others;                               // sum of all other tokens' weights in q
    double factor;                               // and what they have been multiplied by
    double total;                                // |w|
    double bound;                                // B
} level_t;

struct or_traversal {
    uint32_t depth_max;
    level_t *levels; // [depth_max + 1]
};

or_status_t or_traversal_create(uint32_t depth_max, or_traversal_t **traversal_p)
{
    or_traversal_t *traversal = calloc(1, sizeof *traversal);
    if (traversal != NULL) {
        traversal->depth_max = depth_max;
        traversal->levels = calloc((size_t)depth_max + 1, sizeof *traversal->levels);
    }
    if (traversal == NULL || traversal->levels == NULL) {
        or_traversal_destroy(&traversal);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for traversing trees of %u levels", depth_max);
    }
    *traversal_p = traversal;
    return OR_OK;
}

void or_traversal_destroy(or_traversal_t **traversal_p)
{
    if (*traversal_p != NULL) {
        free((*traversal_p)->levels);
        free(*traversal_p);
        *traversal_p = NULL;
    }
}

// Return |w|, the sum of its parts.
static double sum_weights(const level_t *level)
{
    double sum = level->others * level->factor;
    for (uint32_t i = 0; i < level->s.dist.count; i++) {
        sum += level->weights[i];
    }
    return sum;
}

// Scale everything by a power of two, so that B lies in [1/2, 1).
static void scale(level_t *level)
{
    int exponent;
    level->bound = frexp(level->bound, &exponent);
    double factor = ldexp(1, -exponent);
    level->total *= factor;
    level->factor *= factor;
    for (uint32_t i = 0; i < level->s.dist.count; i++) {
        level->weights[i] *= factor;
    }
}

// Set M = q(c), S = p(c), and w = a q over B, where a is total / bound.
static or_status_t split(const or_accept_job_t *job, level_t *level)
{
    or_distribution_t q;
    or_status_t status = or_accept_distribution_at(job, level->node, &q);
    if (status != OR_OK) {
        return status;
    }
    or_distribution_left_init(&level->s,
                              &job->draws->dists[job->draws->dist_index[level->child - 1]]);
    or_residual_open(job->residual, &q);
    level->others = or_residual_split(job->residual, &level->s.dist, level->weights);
    level->factor = 1;
    double q_total = sum_weights(level);
    for (uint32_t i = 0; i < level->s.dist.count; i++) {
        level->weights[i] *= level->total;
    }
    level->factor = level->total;
    level->total *= q_total;
    level->bound *= q_total;
    level->is_split = true;
    scale(level);
    return OR_OK;
}

// Begin with a node whose a is numerator / denominator. A node that cannot be accepted has no descendant that can.
static or_status_t open_level(const or_accept_job_t *job, level_t *level, uint32_t node,
                              double numerator, double denominator)
{
    bool certain = numerator > 0 && numerator >= denominator;
    level->node = node;
    level->total = certain ? 1 : numerator;
    level->bound = certain ? 1 : denominator;
    level->is_split = false;
    level->child = or_token_tree_first_child(job->tree, node);
    bool ends = node != 0 && or_accept_is_stop(job, or_token_tree_tokens(job->tree)[node]);
    if (ends || !(level->total > 0)) {
        level->child = 0;
    }
    return level->child != 0 ? split(job, level) : OR_OK;
}

static uint32_t place_of_child(const or_accept_job_t *job, const level_t *level)
{
    return or_distribution_find(&level->s.dist,
                                (uint32_t)or_token_tree_tokens(job->tree)[level->child]);
}

static or_status_t descend(const or_accept_job_t *job, const level_t *level, level_t *below)
{
    uint32_t x = place_of_child(job, level);
    return open_level(job, below, level->child, level->weights[x] * level->s.total,
                      level->bound * level->s.weights[x]);
}

// Reject the child: it and all below it have failed.
static void reject_child(const or_accept_job_t *job, level_t *level)
{
    or_distribution_left_t *s = &level->s;
    double missing = (level->bound - level->total) * s->total;
    for (uint32_t i = 0; i < s->dist.count; i++) {
        double left = level->weights[i] * s->total - level->bound * s->weights[i];
        level->weights[i] = left > 0 ? left : 0;
    }
    level->factor *= s->total;
    level->total = sum_weights(level);
    level->bound = level->total + missing;
    or_distribution_left_remove(s, place_of_child(job, level));
    level->child = or_token_tree_next_sibling(job->tree, level->child);
    scale(level);
}

static bool passes(const or_accept_job_t *job, const level_t *level)
{
    or_choice_t at = {OR_RNG_ACCEPT, level->node, 0};
    return level->node == 0 ||
           (level->total > 0 &&
            job->chooser->bernoulli(job->chooser, at, level->total, level->bound));
}

// Accept the path to this node, then draw y ~ M.
static or_status_t finish(const or_accept_job_t *job, const level_t *level,
                          or_acceptance_t *acceptance)
{
    or_distribution_t q;
    if (level->node != 0 && or_accept_is_stop(job, or_token_tree_tokens(job->tree)[level->node])) {
        or_accept_take_stop(job, level->node, acceptance);
        return OR_OK;
    }
    or_status_t status = or_accept_distribution_at(job, level->node, &q);
    if (status != OR_OK) {
        return status;
    }
    or_residual_open(job->residual, &q);
    if (level->is_split) {
        or_residual_join(job->residual, &level->s.dist, level->weights, level->factor);
    }
    or_choice_t at = {OR_RNG_RESIDUAL, level->node, 0};
    or_accept_take(job, level->node, or_residual_draw(job->residual, job->chooser, at), acceptance);
    return OR_OK;
}

static or_status_t judge(const or_accept_job_t *job, or_acceptance_t *acceptance)
{
    level_t *level = job->traversal->levels;
    or_status_t status = open_level(job, level, 0, 1, 1);
    while (status == OR_OK) {
        if (level->child != 0) {
            status = descend(job, level, level + 1);
            level++;
        } else if (passes(job, level)) {
            return finish(job, level, acceptance);
        } else {
            level--;
            reject_child(job, level);
        }
    }
    return status;
}

const or_accept_row_t or_accept_traversal = {.rule = OR_ACCEPT_TRAVERSAL, .judge = judge};

// Block verification (Sun et al. 2024, arXiv 2403.10444, algorithm 2) judges a chain as a whole, from its end to its
// beginning. It is traversal of a tree that never branches: there the chance of a node is Z / (Z + 1 - a), that of the
// last one is a, and the longest position that passes is taken.
const or_accept_row_t or_accept_block = {.rule = OR_ACCEPT_BLOCK, .judge = judge};
