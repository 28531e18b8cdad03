// conversation - questions in, answers streamed to standard output, everything else said on standard error.
//
// The coordinator renders the turns with the model's own template. Where the model has none that is known, which its first
// answer says, the conversation goes on as a play of User and Assistant. What no longer fits the context is forgotten, oldest
// first. Main thread.
#pragma once

#include "launch/chat/chat_options.h"
#include "launch/chat/painter.h"
#include "launch/generate/writer.h"

// The turns as the user and the model have them:
//
//     system (at most one) | user assistant user assistant ... user
//
// The last turn is the user's while it is being answered.
typedef struct {
    char *system; // the first message's content; NULL: none
    // The messages as a request has them, the system's first where there is one. Their contents are malloc'd.
    or_chat_message_t *messages;
    uint32_t count, capacity;
} or_chat_history_t;

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
    char *answer;           // malloc'd: the last answer's text without thoughts
    size_t answer_bytes, answer_capacity;
    uint32_t error_code; // or_wire_error_t of the last failure; 0: it was none of the coordinator's
    // Sums over all answers so far:
    uint32_t answers;
    uint64_t tokens, target_calls, drafted, accepted;
} or_conversation_t;

// Start the cluster, or find the coordinator. Borrows config and request until fini. `terminal`: somebody sees the answers.
or_status_t or_conversation_init(or_conversation_t *talk, const or_chat_config_t *config,
                                 const or_generate_request_t *request, bool terminal);
// A zeroed conversation is fine, too.
void or_conversation_fini(or_conversation_t *talk);

// Ask, and print the answer with a line of figures. An interrupt ends the answer, of which the conversation keeps what came. On
// failure (as or_writer_write) it is as if nothing had been asked.
or_status_t or_conversation_ask(or_conversation_t *talk, const char *text);

// The words that come before everything; "" or NULL: none. Turns stay. OR_ERR_NO_MEMORY.
or_status_t or_chat_history_set_system(or_chat_history_t *history, const char *text);
// Forget the turns, not the system's words.
void or_chat_history_reset(or_chat_history_t *history);
// Drop the last question, and its answer if it has one. False if there is none.
bool or_chat_history_undo(or_chat_history_t *history);
// Save as JSON, [{"role": .., "content": ..}, ..], which is what the API's `messages` take. Bytes that are no UTF-8 become
// U+FFFD. OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_chat_history_save(const or_chat_history_t *history, const char *path);
