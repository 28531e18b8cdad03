// logprobs - what the target thought of each token of a verdict: its log-probability, and those of the best tokens.
//
// By the logits as they are, before bias, penalties, temperature and filters, as OpenAI's API has it. Written by
// entries, one for each committed token of a round; kept with the verdict, which may be asked for again. One thread.
#pragma once

#include "proto/wire/message.h"

typedef struct or_logprobs or_logprobs_t;

// For verdicts of up to `tokens_max` tokens, `best` best ones each, of a vocabulary. OR_ERR_NO_MEMORY.
or_status_t or_logprobs_create(uint32_t tokens_max, uint32_t best, uint32_t vocab_size,
                               or_logprobs_t **logprobs_p);
void or_logprobs_destroy(or_logprobs_t **logprobs_p);

// Entry `index` is `token`, after a row with these logits [vocab_size]; those that are not finite count as
// impossible. Of equal ones the lower id is the better.
void or_logprobs_set(or_logprobs_t *logprobs, uint32_t index, uint32_t token, const float *logits);
// The entries so far, borrowed until they are set again.
const or_token_logprob_t *or_logprobs_entries(const or_logprobs_t *logprobs);
