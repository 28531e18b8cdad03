// conversation - questions in, answers streamed to standard output, everything else said on standard error.
//
// The coordinator renders the turns with the model's own template. Where the model has none that is known, which its first
// answer says, the conversation goes on as a play of User and Assistant. What no longer fits the context is forgotten, oldest
// first. Main thread.
#pragma once

#include <stdio.h>

#include "launch/chat/chat_options.h"
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

// An answer as it streams: the drafter's guesses in one colour, what the target wrote itself in another.
//
//     tokens      |Once| upon| a| time|       ends: where the text ends after each
//     drafted        0     1    1    0
//     text         Once upon a time           comes when it is settled, later than its tokens perhaps
//
// White space before the first word is not printed. On a terminal control characters are shown as "?": a model's text moves no
// cursor.
typedef struct {
    bool colour;   // else plain text
    bool terminal; // somebody sees the answers
    bool begun;    // something but white space was printed
    bool written;  // in the drafted colour, or in the target's own, as is `drafted`
    bool drafted;
    uint64_t *ends;   // malloc'd, of the tokens that are not printed yet ...
    uint8_t *origins; // ... and whether they were guesses
    size_t first, count, capacity;
    FILE *out; // where a delta is painted before it is written
} or_chat_painter_t;

#define OR_CHAT_DRAFTED "\033[32m"   // green
#define OR_CHAT_CORRECTED "\033[33m" // yellow
#define OR_CHAT_NO_COLOUR "\033[0m"

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
