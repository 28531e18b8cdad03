// api_reply_internal - the parts of an answer's objects.
#pragma once

#include "coordinator/http/api/api_reply.h"

// The logprobs of a delta's tokens, in the shape of the request's kind; null where it has none. NULL: no memory.
json_t *or_api_logprobs(const or_api_head_t *head, or_api_choice_t *choice,
                        const or_generate_delta_t *delta);
// Keep them with those of earlier deltas; takes `more`. False: no memory.
bool or_api_logprobs_keep(const or_api_head_t *head, or_api_choice_t *choice, json_t *more);
// All that were kept, as one object; null where there are none.
void or_api_logprobs_say(const or_api_head_t *head, const or_api_choice_t *choice,
                         or_api_text_t *text);
// The "outrider" extension: tokens, and the tree they came from. NULL: no memory.
json_t *or_api_details(const or_api_head_t *head, or_api_choice_t *choice,
                       const or_generate_delta_t *delta);
// Figures as OpenAI and llama.cpp name them. NULL: no memory.
json_t *or_api_usage(const or_api_head_t *head, const or_api_choice_t *choices, uint32_t count);
json_t *or_api_timings(const or_generate_stats_t *stats);
