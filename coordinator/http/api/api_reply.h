// api_reply - a text that comes in deltas, as OpenAI's objects.
//
//     delta " of the", delta " sea" stop      stream: {role} {" of the"} {" sea"} {finish "stop", timings} [{usage}]
//                                             whole:  {" of the sea", finish "stop", usage, timings}
//
// What a chat model thinks before its answer goes into "reasoning_content", beside "content", and the tools that it calls into
// "tool_calls".
//
// Text is always UTF-8: a character that is split over deltas waits for its rest, and what is none becomes U+FFFD. One thread;
// no coordinator and no socket is needed.
#pragma once

#include "common/text/tokenizer.h"
#include "common/text/utf8.h"
#include "coordinator/http/api/api_json.h"
#include "coordinator/http/api/api_request.h"

// The things that all objects of one answer have in common; all borrowed.
typedef struct {
    const or_api_request_t *request;
    const or_vocab_t *vocab;
    const char *model;
    uint64_t number; // of the answer: "chatcmpl-1f3a..."
    int64_t created; // seconds since 1970
} or_api_head_t;

#define OR_API_COLUMNS_MAX 4u // lists that logprobs are kept in

// One text of the answer.
typedef struct {
    uint32_t index;
    bool begun;                            // its role or its echo was sent
    bool end_told;                         // and its last chunk
    unsigned char held[OR_UTF8_MAX_BYTES]; // the beginning of a character
    uint32_t held_bytes;
    // The origins of tokens, for the "outrider" extension. Tokens that the text has not reached wait: it may end before
    // them.
    or_detok_t detok;
    struct or_api_origin *origins;
    size_t origin_count, origin_capacity;
    uint64_t told_bytes; // of the text, with those that were told
    uint64_t characters; // before the next token: text_offset of logprobs
    // The parts of an answer that is sent whole, as they are gathered.
    or_api_text_t text, thought; // not JSON yet
    or_api_text_t calls;         // entries of a list
    or_api_text_t logprobs[OR_API_COLUMNS_MAX], details;
    bool has_logprobs, has_details;
    // Text that may be calls of tools, and what they were.
    or_api_text_t call_text;
    bool call_is_long; // too long to be one: what follows is text
    bool drops_spaces; // a call stands before
    uint32_t call_count;
    // The last delta says these.
    uint32_t finish;
    uint64_t seed;
    or_generate_stats_t stats;
    char arith_id[64];
} or_api_choice_t;

void or_api_choice_init(or_api_choice_t *choice, const or_api_head_t *head, uint32_t index);
void or_api_choice_fini(or_api_choice_t *choice);

// Make the objects that a delta becomes in a stream, oldest first: none, or up to OR_API_CHUNKS_MAX. or_api_dump tells
// whether there was memory for all of them. An end with an error is not its business. OR_ERR_NO_MEMORY.
or_status_t or_api_chunks(const or_api_head_t *head, or_api_choice_t *choice,
                          const or_generate_delta_t *delta, json_t **chunks, uint32_t *count);
#define OR_API_CHUNKS_MAX 3u

// Keep it for or_api_whole, and before the first the prompt that is to be echoed. OR_ERR_NO_MEMORY.
or_status_t or_api_gather(const or_api_head_t *head, or_api_choice_t *choice,
                          const or_generate_delta_t *delta);
// The memory that gathering has taken.
size_t or_api_gathered_bytes(const or_api_choice_t *choice);
// The most bytes that the answer made of it can have.
size_t or_api_whole_bytes(const or_api_choice_t *choices, uint32_t count);
// Make one JSON object of all texts, which have ended and were gathered; malloc'd, of `*bytes`. NULL: no memory.
char *or_api_whole(const or_api_head_t *head, const or_api_choice_t *choices, uint32_t count,
                   size_t *bytes);
// The chunk that a stream with include_usage ends with. NULL: no memory.
json_t *or_api_usage_chunk(const or_api_head_t *head, const or_api_choice_t *choices,
                           uint32_t count);

// {"error": {...}}, as or_http_reply_error says it, for streams that have begun. NULL: no memory.
json_t *or_api_error(unsigned status, const char *code, const char *message);
// Bytes as a JSON string, each ill-formed sequence as U+FFFD. NULL: no memory.
json_t *or_api_string(const char *bytes, size_t count);
