// chat_history - a conversation as the user and the model have it, and the prompts that it makes.
//
//     system (at most one) | user assistant user assistant ... user
//
// The last turn is the user's while it is being answered. One thread.
#pragma once

#include "proto/wire/message.h"

typedef struct {
    char *system; // malloc'd; NULL: none
    // As a request has them, the system's first where there is one; contents are malloc'd.
    or_chat_message_t *messages;
    uint32_t count, capacity;
} or_chat_history_t;

void or_chat_history_fini(or_chat_history_t *history);

// The words that come before everything; "" or NULL: none. Turns stay. OR_ERR_NO_MEMORY.
or_status_t or_chat_history_set_system(or_chat_history_t *history, const char *text);
// Forget the turns, not the system's words.
void or_chat_history_reset(or_chat_history_t *history);
// A turn more: role "user" or "assistant". Copies. OR_ERR_NO_MEMORY.
or_status_t or_chat_history_add(or_chat_history_t *history, const char *role, const char *text,
                                size_t length);
// Drop the last question, and its answer if it has one. False if there is none.
bool or_chat_history_undo(or_chat_history_t *history);
// Drop the oldest question and its answer. False if only one question is left.
bool or_chat_history_drop(or_chat_history_t *history);
uint32_t or_chat_history_turns(const or_chat_history_t *history);
size_t or_chat_history_bytes(const or_chat_history_t *history); // of all words

// For a model that was never taught a format: a play, which it goes on with after "Assistant:". A line of it that begins
// with OR_CHAT_PLAIN_STOP would be the user's. *text_p is malloc'd. OR_ERR_NO_MEMORY.
or_status_t or_chat_history_plain(const or_chat_history_t *history, char **text_p,
                                  size_t *length_p);
#define OR_CHAT_PLAIN_STOP "\nUser:"

// As JSON, [{"role": .., "content": ..}, ..], which is what the API's `messages` take. Bytes that are no UTF-8 become U+FFFD. OR_ERR_IO,
// OR_ERR_NO_MEMORY.
or_status_t or_chat_history_save(const or_chat_history_t *history, const char *path);
