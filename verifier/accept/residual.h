// residual - what is left of the target's distribution when guesses were rejected (docs/algorithms.md section 1).
//
//     M = q,    then for each guess x that was drawn from S and rejected:    M = N[[M - S]+]
//
// Nothing is ever divided. M is kept as weights m of total |m|, S as integers s of total |s|:
//
//     accept x with probability   M(x) / S(x)  =  m(x) |s|  /  (|m| s(x))
//     after a rejection           m'(y) = [m(y) |s| - s(y) |m|]+
//
// A reduced distribution has few tokens and the vocabulary has many. The tokens that no distribution had yet
// ("untouched") have all been multiplied alike, so they share one factor and have one sum a block of 256. A rejection
// costs as much as its distribution has tokens, whatever the vocabulary; the first one with a distribution costs as
// much as their blocks. Scaling is by powers of two, so small numbers stay exact: on the small rationals of
// tests/exactness nothing here rounds at all.
//
// A distribution may have tokens that the target does not have, with ids beyond its vocabulary. M is 0 there.
//
// It is scratch of one verifier; one thread.
#pragma once

#include "common/decode/chooser.h"
#include "common/decode/sampling/distribution.h"

typedef struct or_residual or_residual_t;

// Create the scratch. OR_ERR_NO_MEMORY.
or_status_t or_residual_create(uint32_t vocab_size, or_residual_t **residual_p);
void or_residual_destroy(or_residual_t **residual_p);

// Set M = q, which has weights; copies it.
void or_residual_open(or_residual_t *residual, const or_distribution_t *q);

// Return M(x) / S(x) as a fraction. x is the token at `index` of what is left of its distribution.
void or_residual_ratio(or_residual_t *residual, const or_distribution_left_t *s, uint32_t index,
                       double *numerator, double *denominator);
// Set M = N[[M - S]+]; if nothing is left (M and S were the same), M = q again.
void or_residual_subtract(or_residual_t *residual, const or_distribution_left_t *s);

// For rules that keep their own account of M: set weights[i] to m of the distribution's token i, and return the sum
// of m over all other tokens.
double or_residual_split(or_residual_t *residual, const or_reduced_distribution_t *dist,
                         double *weights);
// Set M from that account: `weights` for the distribution's tokens, and m times `factor` for all others. If nothing
// is left, M = q.
void or_residual_join(or_residual_t *residual, const or_reduced_distribution_t *dist,
                      const double *weights, double factor);

// Return M(x) as a fraction; 0 for tokens that q does not have. Only before any distribution had a part in M.
void or_residual_share(const or_residual_t *residual, uint32_t token, double *numerator,
                       double *denominator);
// Set M = N[[q - psi]+], psi[i] belonging to q's token i (they sum to at most 1); if nothing is left, M = q.
void or_residual_open_beyond(or_residual_t *residual, const or_distribution_t *q,
                             const double *psi);

// Draw a token from M: one that some distribution had, or a block of the others and then one of the block. Uses the
// choices at.draw and at.draw + 1.
int32_t or_residual_draw(or_residual_t *residual, or_chooser_t *chooser, or_choice_t at);
