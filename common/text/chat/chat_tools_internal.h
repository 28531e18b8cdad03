// chat_tools_internal - a format of tools, as its row has it.
//
// Patterns hold markup with signs for what stands in it. The next format is one row of chat_tool_forms.c.
#pragma once

#include "common/text/chat/chat_internal.h"
#include "common/text/chat/chat_json.h"
#include "common/text/chat/chat_tools.h"

// Signs of patterns. Octal 011, 012 and 015 are white space.
#define OR_TOOLS_ALL "\003"  // the array of all tools
#define OR_TOOLS_TOOL "\004" // a tool
#define OR_TOOLS_MEMBERS                                                                           \
    "\005" // the members of a tool's function, strings as they are and without "return"
#define OR_TOOLS_NAME "\006"      // the name of a call
#define OR_TOOLS_ARGUMENTS "\007" // its arguments
#define OR_TOOLS_ID "\016"        // its id, in calls and results
#define OR_TOOLS_NUMBER "\017"    // its number among calls, from 0
#define OR_TOOLS_CONTENT "\020"   // a result
#define OR_TOOLS_QUOTED "\021"    // a result as a JSON string
#define OR_TOOLS_ANSWERED                                                                          \
    "\022" // the call that a result answers, in the order of both: "name:number"

typedef enum {
    OR_TOOLS_IN_SYSTEM, // behind the words of the first system message, which is there in any case
    OR_TOOLS_IN_QUESTION, // before the words of the first message behind it, a user's
    OR_TOOLS_BEFORE_LAST, // before the last user turn, and any with the same words
    OR_TOOLS_FIRST,       // before all turns
} or_tools_place_t;

typedef enum {
    OR_CALLS_OBJECT, // an object, with name and arguments
    OR_CALLS_ARRAY,  // an array of such
    OR_CALLS_NAMED,  // a name, a mark, and an object of arguments
} or_calls_kind_t;

#define OR_CALLS_INNER_MAX 4

struct or_chat_tools {
    const char *name;
    const char *family;                   // that has it
    const char *marks[OR_CHAT_SIGNS_MAX]; // a template of this format has all of these
    // The list of tools: patterns before the first, for each, between two and behind the last.
    or_tools_place_t place;
    const char *before, *each, *between, *after;
    unsigned indent;
    const char *joint;  // between a system message and the list; NULL: nothing
    bool joins_always;  // ... also where there is no message
    const char *nobody; // a system message where there is none; NULL: nothing
    const char *head;   // before the words of the first system message instead; NULL: as usual
    // An assistant's calls, behind its words.
    struct {
        const char *joint; // behind words, where there are any
        bool joins_turn;   // ... or where there were any before thoughts were left out
        bool alone;        // words are left out
        const char *before, *each, *between, *after;
        size_t most;   // 0: any number
        bool count_on; // their numbers go on from turn to turn
    } calls;
    // Results: what stands before the first, for each, and behind the last of several.
    struct {
        const char *before, *each, *after;
    } results;
    size_t id_bytes; // of ids; 0: any
    // A thought that an assistant had behind the last question: what stands around it before the words, which begin without
    // empty lines then. Each NULL: it goes as all others.
    struct {
        const char *before, *after;
    } thought;
    // Calls in an answer. Each mark is a token where the vocabulary has it.
    struct {
        or_calls_kind_t kind;
        const char *begin, *end; // end NULL: the text's
        bool bare;               // an answer that begins with '{' is one without its mark
        const char *inner[OR_CALLS_INNER_MAX]; // marks inside
        const char *call, *id, *arguments,
            *over;       // named: before a name, an id, arguments, and behind them
        const char *key; // of arguments in an object
    } reads;
};

extern const or_chat_tools_t or_chat_tool_forms[];
extern const size_t or_chat_tool_form_count;

// The writing of a conversation with tools.
typedef struct {
    const or_chat_toolbox_t *toolbox; // NULL: there are none
    const or_chat_turn_t *turns;
    size_t count;
    const or_chat_turn_t *last_question; // the last of the user's; NULL: there is none
    const or_chat_turn_t *last_asked;    // the same, but for those that are written as results are
    size_t calls, results;               // written so far
    struct {
        size_t turn, call;
    } answered; // behind the last call with a result
} or_chat_talk_t;

// OR_ERR_INVALID for what the format has no words for.
or_status_t or_chat_tools_check(const or_chat_talk_t *talk);
// Are tools listed at this place?
bool or_chat_tools_are_listed(const or_chat_talk_t *talk, or_tools_place_t place);
// Are they listed before this turn?
bool or_chat_tools_precede(const or_chat_talk_t *talk, const or_chat_turn_t *turn);
or_status_t or_chat_tools_write_list(or_chat_writer_t *writer, const or_chat_talk_t *talk);
// Write the calls of an assistant's turn; `has_words`: words stand before them.
or_status_t or_chat_tools_write_calls(or_chat_writer_t *writer, or_chat_talk_t *talk,
                                      const or_chat_turn_t *turn, bool has_words);
// Write a tool's turn.
or_status_t or_chat_tools_write_result(or_chat_writer_t *writer, or_chat_talk_t *talk,
                                       const or_chat_turn_t *turn);
