// calibration - the measured probability that the target takes a guess, by the number of siblings drawn before it and
// by the drafter's own probability. It is Sequoia's acceptance by rank (docs/algorithms.md section 2).
//
//     rank  p above 1/2   1/4    1/8   ...
//        0   210 of 260   97 of 150  ...       taken of tried: tried means that the target came to the
//        1    14 of  31   22 of  80            parent and took no sibling before this one
//
// A share of few observations leans on its rank's, and a rank's on a prior. Old observations fade.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/decode/methods.h"

#define OR_CALIBRATION_RANKS 16u // the last one stands for all beyond
#define OR_CALIBRATION_BINS 8u   // of p, halved from bin to bin; the last one stands for all below

typedef struct {
    double tried[OR_CALIBRATION_RANKS][OR_CALIBRATION_BINS];
    double taken[OR_CALIBRATION_RANKS][OR_CALIBRATION_BINS];
} or_calibration_t;

// Return the probability, in (0, 1), that the target takes a guess if it took no sibling before it. The
// argument p is the drafter's probability of the guess, given that it is none of those siblings.
double or_calibration_guess(const or_calibration_t *calibration, uint32_t rank, double p);
// Return the same for a guess that is still to be drawn.
double or_calibration_rank(const or_calibration_t *calibration, uint32_t rank);
void or_calibration_learn(or_calibration_t *calibration, uint32_t rank, double p, bool taken);

#define OR_CALIBRATION_FAMILIES 2u // of methods: sequoia; dyspec and dyspec-t
#define OR_CALIBRATION_RULES (OR_ACCEPT_LENIENT + 1u)
#define OR_CALIBRATION_HEATS 3u // temperature 0, up to OR_CALIBRATION_COOL, above
#define OR_CALIBRATION_COOL 0.6F

// The calibrations that the sessions of a drafter share, all zero at first. A rule decides how its guesses are made
// and which are taken, so no session teaches one of another rule.
typedef struct {
    or_calibration_t of[OR_CALIBRATION_FAMILIES][OR_CALIBRATION_RULES][OR_CALIBRATION_HEATS];
} or_calibrations_t;

// Return the calibration for sessions of this kind; NULL if the method uses none.
or_calibration_t *or_calibrations_find(or_calibrations_t *all, or_draft_method_t method,
                                       or_accept_rule_t rule, float temperature);

// Read a text file of all numbers that are not 0. `models` is a word or more that names the draft models and their
// vocabulary, and stands in the first line. A missing file is no error. *foreign: the file belongs to other models or
// to an older version. OR_ERR_FORMAT (line and fault), OR_ERR_IO. Nothing changes in all these cases.
or_status_t or_calibrations_load(or_calibrations_t *all, const char *models, const char *path,
                                 bool *foreign);
// Write such a file. A reader of `path` sees the old file or the new one. OR_ERR_IO.
or_status_t or_calibrations_save(const or_calibrations_t *all, const char *models,
                                 const char *path);
