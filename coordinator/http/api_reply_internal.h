// api_reply_internal - the parts of an answer's objects.
#pragma once

#include "coordinator/http/api_reply.h"

// What was said of a delta's tokens, in the shape of the request's kind; null where nothing was. NULL: no memory.
json_t *or_api_logprobs(const or_api_head_t *head, or_api_choice_t *choice,
                        const or_generate_delta_t *delta);
// Append a later delta's to it. False: no memory.
bool or_api_logprobs_join(json_t *whole, json_t *more);
// The "outrider" extension: tokens, and the tree they came from. NULL: no memory.
json_t *or_api_details(const or_api_head_t *head, or_api_choice_t *choice,
                       const or_generate_delta_t *delta);
// Figures as OpenAI and llama.cpp name them. NULL: no memory.
json_t *or_api_usage(const or_api_head_t *head, const or_api_choice_t *choices, uint32_t count);
json_t *or_api_timings(const or_generate_stats_t *stats);
