// chat_talk - a conversation that goes on: questions in, answers streamed to standard output, everything else said on standard
// error.
//
// The coordinator renders the turns with the model's own template. Where the model has none that is known, which its first answer
// says, the conversation goes on as a plain play (chat_history.h). What no longer fits the context is forgotten, oldest first.
// Main thread.
#pragma once

#include "launch/chat/chat_history.h"
#include "launch/chat/chat_options.h"
#include "launch/chat/chat_painter.h"
#include "launch/generate/writer.h"

typedef struct {
    const or_chat_config_t *config;
    const or_generate_request_t *request; // what does not change from answer to answer
    or_writer_t *writer;
    or_chat_history_t history;
    or_chat_painter_t painter;
    bool draws_seeds;       // a new one for each answer
    uint64_t seed;          // else
    bool plain;             // without a template
    uint32_t context;       // tokens that fit; 0: not met yet
    double tokens_per_byte; // of the last prompt
    uint32_t error_code; // or_wire_error_t of the last failure; 0: it was none of the coordinator's
    // So far.
    uint32_t answers;
    uint64_t tokens, target_calls, drafted, accepted;
} or_chat_talk_t;

// Start the cluster, or find the coordinator. Borrows config and request until fini. `terminal`: somebody sees the answers.
or_status_t or_chat_talk_init(or_chat_talk_t *talk, const or_chat_config_t *config,
                              const or_generate_request_t *request, bool terminal);
// Of a zeroed one, too.
void or_chat_talk_fini(or_chat_talk_t *talk);

// Ask, and print the answer with a line of figures. An interrupt ends the answer, of which the conversation keeps what came. On
// failure (as or_writer_write) it is as if nothing had been asked.
or_status_t or_chat_talk_ask(or_chat_talk_t *talk, const char *text);
