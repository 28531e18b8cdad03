// api - the HTTP face's routes: OpenAI's, llama.cpp's tokenizer calls, and what operators look at.
//
//     POST /v1/completions /v1/chat/completions    texts, whole or as server-sent events
//     GET  /v1/models  POST /tokenize /detokenize  answered here: the vocabulary is at hand
//     GET  /parameters                             those of a request, with their bounds and defaults
//     GET  /health /status /metrics                asked of the coordinator
//     GET  / ...                                   the dashboard
//
// A call becomes prompts x n requests, each in a slot of or_requests, one after the other. The next is asked for when the one
// before has its first token, so that one call never fills the coordinator's queue. A client that hangs up leaves no work
// behind: a stream that can be resumed is let go of (or_requests_leave), anything else cancelled. One thread: the front's.
#pragma once

#include "common/base/clock.h"
#include "common/text/chat/chat_tools.h"
#include "common/text/vocab/vocab.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/http/server/server.h"
#include "proto/net/requests.h"

typedef struct or_api or_api_t;

typedef struct {
    const char *model;            // the target's file
    const or_vocab_t *vocab;      // borrowed, as all here is
    const char *chat_trouble;     // NULL: the model has conversations; else why not
    const or_chat_t *chat;        // their family ...
    const or_chat_tools_t *tools; // ... and the format of tools in them; NULL: none
    const or_clock_t *clock;
    uint32_t slots;      // of `requests`, all idle
    or_api_keys_t *keys; // read again when their file changes; NULL: nobody needs one
    or_ledger_t *ledger; // what is kept for owners; NULL: nothing is counted
} or_api_config_t;

// OR_ERR_NO_MEMORY.
or_status_t or_api_create(const or_api_config_t *config, or_requests_t *requests, or_api_t **api_p);
// Destroy it after the server, which says `over` for calls that went on.
void or_api_destroy(or_api_t **api_p);

// The server's handlers; their context is the or_api_t.
void or_api_handle(void *api, or_http_call_t *call);
void or_api_over(void *api, or_http_call_t *call, bool complete);
void or_api_answered(void *api, const char *path, unsigned status, double seconds);

// Take a message that or_requests_next gave.
void or_api_take(or_api_t *api, uint32_t slot, const or_message_t *message);
// Do what is due. Returns when to come back at the latest.
int64_t or_api_turn(or_api_t *api);
// The process is about to stop: every call that goes on is told so and ended.
void or_api_stop(or_api_t *api);
