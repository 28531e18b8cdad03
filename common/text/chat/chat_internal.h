// chat_internal - a family of chat models: what it puts around each role's words.
//
// Strings hold markup as it is written in a template, with two signs of our own for the vocabulary's begin and end tokens,
// which have another name in each.
#pragma once

#include "common/text/chat/chat.h"

#define OR_CHAT_BOS "\001"
#define OR_CHAT_EOS "\002"
#define OR_CHAT_MARKS_MAX 4

typedef struct {
    const char *before, *after;
} or_chat_markup_t;

typedef enum {
    OR_CHAT_SYSTEM_TURN,     // system messages are turns of their own
    OR_CHAT_SYSTEM_IN_FIRST, // there is one, put before the words of the first user turn
    OR_CHAT_SYSTEM_IN_LAST,  // ... of the last user turn
} or_chat_system_t;

struct or_chat {
    const char *name;
    // A template is this family's if it has all of `marks` and none of `never`, and no earlier family claims it.
    const char *marks[OR_CHAT_MARKS_MAX], *never[OR_CHAT_MARKS_MAX];
    or_chat_markup_t system, user, assistant;
    const char *opening; // where the assistant begins to write
    or_chat_system_t system_place;
    bool begins;     // a begin token comes first even where the file does not ask for one
    bool alternates; // user and assistant take turns, the user first and last
    bool trims;      // white space around a turn's words is dropped
};

// Would this token be markup if a user wrote it? Some of the tokens that a file calls user-defined, which are found
// in any text, are markup.
bool or_chat_is_markup(const char *piece, size_t length);
