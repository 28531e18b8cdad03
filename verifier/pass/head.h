// head - the target's logits of one pass, computed where a judgement asks for them.
//
// Nodes lie depth first, so the likely path is a run of neighbours, and behind a small tree lies the next
// session's: a few rows from the one asked for are computed at once and kept.
//
// Only what sampling needs of a row is asked of the model (or_model_logits_top): from other ranks only
// that travels. Where the model finds contenders (model_draws.h) and those of a row are enough, no logits
// come at all. One thread.
#pragma once

#include "common/base/clock.h"
#include "common/decode/sampling/sampler.h"
#include "common/model/model_draws.h"

typedef struct or_head or_head_t;

// Borrows model and clock. OR_ERR_NO_MEMORY.
or_status_t or_head_create(or_model_t *model, const or_clock_t *clock, or_head_t **head_p);
void or_head_destroy(or_head_t **head_p);

// How many of the greatest logits decide or_sampler_distribution, whatever the history, bit by bit; vocab_size: all.
uint32_t or_head_top(const or_sampling_t *sampling, uint32_t vocab_size);

// The model has run another pass, of `rows` rows. Their contests are forgotten.
void or_head_renew(or_head_t *head, uint32_t rows);

// Of this row its contenders are enough. Copied, but for the sampling, which stays until the next pass. Only if
// or_model_has_contenders.
void or_head_set_contest(or_head_t *head, uint32_t row, const or_contest_t *contest);
// The row's contenders, found with those of the rows behind it that have a contest too. dist->count 0: it has
// none, or its logits have to be looked at. Valid until the next call. Errors are or_model_contenders'.
or_status_t or_head_contenders(or_head_t *head, uint32_t row, or_distribution_t *dist);
// The logits of a row [vocab_size], of which the `top` greatest matter. Valid until the next call. Errors
// are or_model_logits'.
or_status_t or_head_row(or_head_t *head, uint32_t row, uint32_t top, const float **logits);
// Time spent in the model so far, and for these rows of the last pass: contenders of several are found at once, and
// the time is all of theirs.
int64_t or_head_spent_ns(const or_head_t *head);
int64_t or_head_rows_ns(const or_head_t *head, uint32_t first, uint32_t count);
