// head - the target's logits of one pass, computed when a judgement asks for them.
//
// Nodes lie depth first, so the likely path is a run of neighbours, and behind a small tree lies the next session's.
// So a few rows from the requested one on are computed at once and kept.
//
// The model is asked only for the part of a row that sampling needs (or_model_logits_top), and only that travels from
// other ranks. If the model finds contenders (model_draws.h) and a row's are enough, no logits are computed for it.
// One thread.
#pragma once

#include "common/base/clock.h"
#include "common/decode/sampling/sampler.h"
#include "common/model/model_draws.h"

typedef struct or_head or_head_t;

// Borrows model and clock. OR_ERR_NO_MEMORY.
or_status_t or_head_create(or_model_t *model, const or_clock_t *clock, or_head_t **head_p);
void or_head_destroy(or_head_t **head_p);

// Return how many of the greatest logits decide or_sampler_distribution, whatever the history, bit by bit;
// vocab_size: all.
uint32_t or_head_top(const or_sampling_t *sampling, uint32_t vocab_size);

// Note that the model has run another pass, of `rows` rows. The contests of the last pass are forgotten.
void or_head_renew(or_head_t *head, uint32_t rows);

// Say that contenders are enough for this row. The contest is copied, but for its sampling, which must stay until the
// next pass. Only if or_model_has_contenders.
void or_head_set_contest(or_head_t *head, uint32_t row, const or_contest_t *contest);
// Return the row's contenders, found together with those of later rows that have a contest too. dist->count 0: it has
// no contest, or its logits must be looked at. Valid until the next call. Errors are or_model_contenders'.
or_status_t or_head_contenders(or_head_t *head, uint32_t row, or_distribution_t *dist);
// Return the logits of a row [vocab_size], of which the `top` greatest matter. Valid until the next call. Errors are
// or_model_logits', and OR_ERR_INVALID if no logit is finite: any text would come of such a row.
or_status_t or_head_row(or_head_t *head, uint32_t row, uint32_t top, const float **logits);
// Return the time spent in the model so far, and the time spent for these rows of the last pass. Contenders of
// several rows are found at once, and their time counts for each of them.
int64_t or_head_spent_ns(const or_head_t *head);
int64_t or_head_rows_ns(const or_head_t *head, uint32_t first, uint32_t count);
