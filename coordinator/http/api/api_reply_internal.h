// api_reply_internal - the parts of an answer's objects.
#pragma once

#include "coordinator/http/api/api_reply.h"

// Everything that a delta completes: an answer, what was thought, and calls of tools.
typedef struct {
    char *room; // malloc'd: both parts
    char *parts[2];
    size_t lengths[2]; // of the answer, of the thought
    json_t *calls;     // entries of "tool_calls"; NULL: none
} or_api_taken_t;
enum { OR_API_ANSWER, OR_API_THOUGHT };

// Add text to the answer, which has room. White space behind a call is left out.
void or_api_answer_add(or_api_choice_t *choice, or_api_taken_t *taken, const char *bytes,
                       size_t count);
// Hold text that may be calls. False: no memory.
bool or_api_calls_hold(const or_api_head_t *head, or_api_choice_t *choice, or_api_taken_t *taken,
                       const char *bytes, size_t count);
// It has ended: make calls or text of what was held. False: no memory.
bool or_api_calls_release(const or_api_head_t *head, or_api_choice_t *choice,
                          or_api_taken_t *taken);
// The calls of a whole answer, without the places that they have in streams. NULL: no memory.
json_t *or_api_calls_whole(const or_api_choice_t *choice);

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
