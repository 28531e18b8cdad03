// logprobs - the target's log-probability of each token of a verdict, and those of the best tokens there.
//
// They come from the raw logits, before bias, penalties, temperature and filters, as OpenAI's API has it. There is
// one entry for each committed token of a round. They are kept with the verdict, which may be asked for again. One
// thread.
#pragma once

#include "proto/wire/message.h"

typedef struct or_logprobs or_logprobs_t;

// Create room for verdicts of up to `tokens_max` tokens with `best` best tokens each. OR_ERR_NO_MEMORY.
or_status_t or_logprobs_create(uint32_t tokens_max, uint32_t best, uint32_t vocab_size,
                               or_logprobs_t **logprobs_p);
void or_logprobs_destroy(or_logprobs_t **logprobs_p);

// Set entry `index` to `token`, which followed a row with these logits [vocab_size]. Logits that are not finite count
// as impossible. Of equal ones the lower id is the better.
void or_logprobs_set(or_logprobs_t *logprobs, uint32_t index, uint32_t token, const float *logits);
// Return the entries so far, borrowed until they are set again.
const or_token_logprob_t *or_logprobs_entries(const or_logprobs_t *logprobs);
