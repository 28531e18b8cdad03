// api_request_internal - what the files that read a request share.
#pragma once

#include "coordinator/http/api/api_request.h"
#include "proto/wire/parameters.h"

// A request while it is read. Fields that depend on others are settled when all are there.
typedef struct {
    or_api_request_t made;
    const or_api_terms_t *terms;
    size_t body_bytes;
    or_parameters_t parameters;    // those that a request has not as they are; names are the body's
    int64_t max_tokens;            // 0: not given, -1: until the end
    int64_t max_completion_tokens; // the same
    bool no_tokens;                // max_tokens is 0
    uint32_t best_of;              // 0: not given
    bool stream_options_given;
    or_chat_turn_t *turns; // of the messages: their calls, and what they answer
    bool speaks_of_tools;  // some message does
    const json_t *tools;   // that may be called, of the body; NULL: none
    bool calls_nothing;    // "tool_choice": "none"
} or_api_reading_t;

// Allocate memory that lasts as long as the request, zeroed. NULL with the problem.
void *or_api_keep(or_api_request_t *request, size_t count, size_t size, or_api_problem_t *problem);

// Copy a JSON string, which may hold NUL: the body is gone when the request is read.
const uint8_t *or_api_keep_text(or_api_request_t *request, const json_t *text,
                                or_api_problem_t *problem);

// Readers of fields of a table (api_fields.h); `into` is an or_api_reading_t. The first, for the end of a table, reads
// any parameter of proto/wire/parameters.h, and refuses what is none.
bool or_api_read_parameter(void *into, const char *param, const json_t *value,
                           or_api_problem_t *problem);
bool or_api_read_draft(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem);
bool or_api_read_effort(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem);
bool or_api_read_template_settings(void *into, const char *param, const json_t *value,
                                   or_api_problem_t *problem);
bool or_api_read_messages(void *into, const char *param, const json_t *value,
                          or_api_problem_t *problem);
bool or_api_read_prompt(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem);
bool or_api_read_tools(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem);
bool or_api_read_tool_choice(void *into, const char *param, const json_t *value,
                             or_api_problem_t *problem);
bool or_api_read_parallel_calls(void *into, const char *param, const json_t *value,
                                or_api_problem_t *problem);

// Read a message's calls, and the id of the call that it answers. A message may have the role of a tool, if the model
// knows of tools.
bool or_api_take_calls(or_api_reading_t *reading, const char *param, const json_t *value,
                       or_chat_turn_t *turn, or_api_problem_t *problem);
bool or_api_take_call_id(or_api_reading_t *reading, const char *param, const json_t *value,
                         or_chat_turn_t *turn, or_api_problem_t *problem);
bool or_api_take_result(or_api_reading_t *reading, const char *param, or_api_problem_t *problem);

// A conversation that speaks of tools becomes a prompt in tokens.
bool or_api_settle_tools(or_api_reading_t *reading, or_api_problem_t *problem);

// The parameters of a request that says nothing about them.
or_parameters_t or_api_parameters_usual(void);
// Settle the parameters as a whole, and check that they go together.
bool or_api_settle_draft(or_api_reading_t *reading, or_api_problem_t *problem);
