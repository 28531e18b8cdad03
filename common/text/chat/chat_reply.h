// chat_reply - an answer as a chat model writes it, taken apart: what it thought, and what it answers.
//
//     <think>\nThe user greets me.\n</think>\n\nHello!
//     └ mark ┘ └── reasoning ────┘ └ mark ┘   └answer┘
//
// A mark is a token where the vocabulary has one of that spelling, and else text. Marks belong to no part, nor does the white
// space between a mark and a part's first word. Everything else stays as it was written, byte for byte.
//
// Where tools may be called, the text of calls is a part as well. It has its marks, spelled out, and whether it is a call is for
// or_chat_calls_read to say. One thread.
#pragma once

#include "common/text/chat/chat_tools.h"

typedef enum {
    OR_CHAT_ANSWER,
    OR_CHAT_REASONING,
    OR_CHAT_CALL,   // calls of tools, in the answer
    OR_CHAT_HEADER, // belongs to no part: its text says of which kind the next one is
} or_chat_part_t;

typedef enum {
    OR_CHAT_MARK_ANSWER,    // an answer follows
    OR_CHAT_MARK_REASONING, // a thought follows
    OR_CHAT_MARK_LINE,      // the rest of the line is a header, behind which a thought follows
    OR_CHAT_MARK_HEADER,    // a header follows
    OR_CHAT_MARK_CALL,      // a call follows, of which this is the beginning
    OR_CHAT_MARK_INNER,     // it belongs to a call
    OR_CHAT_MARK_CALL_END,  // it ends a call, and the answer goes on
    OR_CHAT_MARK_BODY, // the header ends: a thought follows if it began with one of `thoughts`, else an answer
} or_chat_mark_t;

#define OR_CHAT_MARKS_MAX 4
#define OR_CHAT_CALL_MARKS_MAX 6
#define OR_CHAT_HEADER_BYTES 64

// The marks of a family's answers.
typedef struct {
    struct {
        const char *text;
        or_chat_mark_t kind;
    } marks[OR_CHAT_MARKS_MAX];
    const char *thoughts[2]; // headers of thoughts
    bool in_header;          // the answer begins inside a header
    bool drops_first_spaces; // white space before its first word belongs to no part
} or_chat_reply_t;

typedef struct {
    const or_chat_reply_t *reply; // NULL: it has no thoughts
    struct {
        const char *text;
        or_chat_mark_t kind;
        int32_t id; // OR_TOKEN_NONE: it is text
    } marks[OR_CHAT_MARKS_MAX + OR_CHAT_CALL_MARKS_MAX];
    size_t mark_count;
    or_chat_part_t part;
    bool bare;           // no word was written, and a first '{' would begin a call
    bool ends_with_line; // the header does, and a thought follows
    bool marked;         // the model has written a mark
    bool fresh;          // no word of the part was written
    char header[OR_CHAT_HEADER_BYTES];
    size_t header_bytes;
    char held[32]; // text that may become a mark
    size_t held_bytes;
} or_chat_reader_t;

// The bytes of a part, in the order of the text; `part` is never OR_CHAT_HEADER. Borrowed for the call.
typedef or_status_t (*or_chat_take_t)(void *context, or_chat_part_t part, const char *bytes,
                                      size_t count);

// Begin an answer behind a family's prompt for this or_thinking_t. `chat` NULL: a text that is no conversation. `tools` NULL:
// calls are text like any other. Borrows both.
void or_chat_reader_init(or_chat_reader_t *reader, const or_chat_t *chat,
                         const or_chat_tools_t *tools, uint32_t thinking, const or_vocab_t *vocab);
// Is this token a mark? Then text that is not taken yet belongs before it.
bool or_chat_reader_is_mark(const or_chat_reader_t *reader, int32_t id);
// Take a token before its text. *is_mark: it has no text, and the next part begins. Fails as `take` does.
or_status_t or_chat_reader_token(or_chat_reader_t *reader, int32_t id, or_chat_take_t take,
                                 void *context, bool *is_mark);
// Take the text of the tokens that are no marks. Fails as `take` does.
or_status_t or_chat_reader_text(or_chat_reader_t *reader, const char *bytes, size_t count,
                                or_chat_take_t take, void *context);
// End the answer: what was held back is no mark. A header that began the text and never ended is an answer.
or_status_t or_chat_reader_finish(or_chat_reader_t *reader, or_chat_take_t take, void *context);
