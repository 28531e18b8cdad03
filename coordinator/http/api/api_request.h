// api_request - what a client of /v1/completions or /v1/chat/completions asks for, from its JSON.
//
//     {"model": "tales-6m", "prompt": "Once upon", "n": 2, "temperature": 0.7, "draft": {"nodes": 32}}
//          └▶ prompts [1]   texts of each: 2   generate: {temperature 0.7, draft_nodes 32, ...}
//
// OpenAI's fields and defaults, those of vLLM and llama.cpp where OpenAI has none (top_k, min_p, repetition_penalty). The
// field "draft" is false for plain decoding, or an object with the names of the command's options. What is not supported is
// refused by name. Pure: parsed without a coordinator, and a body of any bytes gives a request or a problem.
#pragma once

#include "common/text/chat/chat_tools.h"
#include "common/text/vocab/vocab.h"
#include "coordinator/http/api/api_fields.h"
#include "proto/wire/message.h"

#define OR_API_TEXTS_MAX 128u   // prompts x n of one request
#define OR_API_ALIAS "outrider" // a name for whatever target there is

// The things that reading depends on; all borrowed.
typedef struct {
    const char *model; // the target's file; its name without .gguf will do
    const or_vocab_t *vocab;
    const char *chat_trouble;     // NULL: conversations are understood; else why not
    const or_chat_t *chat;        // of conversations; NULL: none
    const or_chat_tools_t *tools; // the format of tools in them; NULL: none
} or_api_terms_t;

typedef struct {
    const uint8_t *text; // if there are no tokens
    uint32_t bytes;
    const uint32_t *tokens;
    uint32_t count;
} or_api_prompt_t;

typedef struct {
    bool chat;
    or_api_prompt_t *prompts; // of a chat: one that is empty
    uint32_t prompt_count;
    uint32_t n; // texts of each prompt
    // The request for every text. Its prompt, choice, owner and label are set for each, and its seed if none was given.
    or_generate_request_t generate;
    bool stream, include_usage, echo;
    bool logprobs; // wanted, of so many other tokens
    uint32_t top_logprobs;
    bool details;                 // the "outrider" extension
    const or_chat_tools_t *tools; // the answer may call some; NULL: it may not
    bool one_call;                // ... at most one: others are left out
    struct or_api_block *owned;   // all that is pointed to
    size_t owned_bytes;
} or_api_request_t;

// Read a body. False with the problem; nothing is owned then.
bool or_api_request_parse(bool chat, const uint8_t *body, size_t bytes, const or_api_terms_t *terms,
                          or_api_request_t *request, or_api_problem_t *problem);
void or_api_request_fini(or_api_request_t *request);
// Forget what only the coordinator had to know: prompts, messages, stop strings, biases and the draft's shape.
void or_api_request_forget(or_api_request_t *request);

// All parameters that a request may have, with what they may be: {"parameters": [{"name": "draft.nodes", ...}]}.
json_t *or_api_parameters_json(void);

// Does the model answer to this name?
bool or_api_is_model(const char *model, const json_t *name);
// Is this JSON, which stands at `param`, a name of the model's? False with the problem.
bool or_api_model_read(const char *model, const char *param, const json_t *value,
                       or_api_problem_t *problem);
// Read token ids from a JSON array, each below `vocab_size`. *tokens_p is malloc'd.
bool or_api_tokens_read(const json_t *array, const char *param, uint32_t vocab_size,
                        uint32_t **tokens_p, uint32_t *count, or_api_problem_t *problem);
