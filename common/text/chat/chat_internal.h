// chat_internal - a family of chat models: what it puts around each role's words, and how its answers are read.
//
// Strings hold markup as it is written in a template, with two signs of our own for the vocabulary's begin and end tokens,
// which have another name in each. The next family is one row of chat_families.c.
#pragma once

#include "common/text/chat/chat.h"
#include "common/text/chat/chat_reply.h"

#define OR_CHAT_BOS "\001"
#define OR_CHAT_EOS "\002"
#define OR_CHAT_SIGNS_MAX 4

typedef struct {
    const char *before, *after;
    const char *lead;  // before the words, where there are any; NULL: nothing
    bool leads_turn;   // ... and where there were any before thoughts were left out
    bool always;       // a system message that is not there is written as one without words
    bool skips_empty;  // a turn without words is left out
    bool drops_spaces; // white space around the words is dropped
    bool drops_lines;  // empty lines before the words are dropped
    bool drops_spaces_behind;
} or_chat_markup_t;

typedef enum {
    OR_CHAT_SYSTEM_TURN,     // system messages are turns of their own
    OR_CHAT_SYSTEM_FIRST,    // there is one, which is a turn of its own before all others
    OR_CHAT_SYSTEM_IN_FIRST, // there is one, put before the words of the first user turn
    OR_CHAT_SYSTEM_IN_LAST,  // ... of the last user turn
} or_chat_system_t;

// The orders of turns that a family has words for. Bits.
enum {
    OR_CHAT_USER_LAST = 1,       // the last turn is the user's
    OR_CHAT_ANSWERS_SINGLE = 2,  // an assistant's turn follows a user's
    OR_CHAT_QUESTIONS_SINGLE = 4 // a user's turn begins, or follows an assistant's
};
#define OR_CHAT_ANSWERS (OR_CHAT_USER_LAST | OR_CHAT_ANSWERS_SINGLE)
#define OR_CHAT_ALTERNATES (OR_CHAT_ANSWERS | OR_CHAT_QUESTIONS_SINGLE)

// What is left of an assistant's words in the next prompt, where its thoughts stand in them.
typedef enum {
    OR_CHAT_THOUGHTS_STAY,
    OR_CHAT_THOUGHTS_GO,        // the words begin behind the last end of a thought
    OR_CHAT_THOUGHTS_GO_LINES,  // ... and behind the empty lines that follow it
    OR_CHAT_THOUGHTS_GO_SPACES, // ... and have no white space around them
    OR_CHAT_THOUGHTS_CUT,       // what stands from the reply's first mark to its second is cut out
} or_chat_thoughts_t;

// Replacements for a model that is told to think where usually it does not, or not to where it does.
typedef struct {
    const char *opening;              // NULL: it cannot be told
    or_chat_markup_t head, assistant; // .before NULL: as usual
    const char *suffix;               // behind a user's words that do not end with it; NULL: none
} or_chat_otherwise_t;

struct or_chat {
    const char *name;
    // A template is this family's if it has all of `marks` and none of `never`, and no earlier family claims it.
    const char *marks[OR_CHAT_SIGNS_MAX], *never[OR_CHAT_SIGNS_MAX];
    const char *preface; // before all turns; NULL: nothing
    // What stands around a system message that comes first, if that differs; .before NULL: as around any other.
    or_chat_markup_t head;
    or_chat_markup_t system, user, assistant;
    const char *opening; // where the assistant begins to write
    bool thinks;         // and whether it thinks first, if nobody says so or otherwise
    or_chat_otherwise_t otherwise;
    // Words that the template takes out of a system message, and does otherwise for. Such a message is refused.
    const char *switches[2];
    const char *preface_low, *preface_high; // instead of the preface; NULL: there are no efforts
    or_chat_system_t system_place;
    bool begins;    // a begin token comes first even where the file does not ask for one
    unsigned order; // OR_CHAT_USER_LAST ...; 0: any
    or_chat_thoughts_t thoughts;
    const or_chat_reply_t *reply; // how its answers are written; NULL: as text
};

extern const or_chat_t or_chat_families[];
extern const size_t or_chat_family_count;

// ---- writing (chat_writer.c) ----

typedef struct {
    const or_vocab_t *vocab;
    uint32_t thinking; // or_thinking_t
    char *text;        // since the last token of the markup: not tokenised yet
    size_t length;
    size_t capacity;
    bool continues; // the text follows other text, or a token that takes no space after it
    int32_t *ids;   // the result
    size_t count;
    size_t ids_capacity;
    size_t tool_bytes, tool_bytes_max; // of tools, calls and results: written, and at most
} or_chat_writer_t;

// All fail with OR_ERR_NO_MEMORY.
// Write a token. OR_TOKEN_NONE is one that the vocabulary lacks, and is left out.
or_status_t or_chat_write_token(or_chat_writer_t *writer, int32_t id);
// Write markup: special tokens are cut out, and the text between them is tokenised together with the content beside it.
or_status_t or_chat_write_markup(or_chat_writer_t *writer, const char *markup);
or_status_t or_chat_write_markup_of(or_chat_writer_t *writer, const char *markup, size_t length);
// Write content, all of which is text.
or_status_t or_chat_write_content(or_chat_writer_t *writer, const char *text, size_t length);
// Tokenise the text so far; the text that follows is tokenised by itself.
or_status_t or_chat_settle(or_chat_writer_t *writer);

// ---- words (chat_words.c) ----

// The words of a turn, borrowed from it or `owned`, which the caller frees.
typedef struct {
    const char *text;
    size_t length;
    char *owned; // NULL: nothing
} or_chat_words_t;

// The words of a turn as the family's template keeps them within this markup. `whole`: no thoughts stand in them.
// OR_ERR_NO_MEMORY.
or_status_t or_chat_words(const or_chat_t *chat, const or_chat_turn_t *turn,
                          const or_chat_markup_t *markup, bool whole, or_chat_words_t *words);
// The thought of an assistant's turn, which stands apart or before the words; borrowed from the turn. False: it has none.
bool or_chat_thought(const or_chat_turn_t *turn, or_chat_words_t *thought);
// Drop empty lines before words.
void or_chat_drop_lines(or_chat_words_t *words);

bool or_chat_is_role(const or_chat_turn_t *turn, const char *role);

// The opening for an or_thinking_t; NULL: the family has none.
const char *or_chat_opening(const or_chat_t *chat, uint32_t thinking);

// Would this token be markup if a user wrote it? Some of the tokens that a file calls user-defined, which are found
// in any text, are markup.
bool or_chat_is_markup(const char *piece, size_t length);
