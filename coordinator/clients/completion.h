// completion - the text of one answer as its tokens are committed: whole characters, cut before the
// first stop string.
//
//     "... the end.\n\nQ"      stop strings {"\n\nQ:"}
//                  ^^^ held back: it may become a stop string
//
// In a conversation the marks around a model's thoughts are no text: changes[] has the places where they stood
// (common/text/chat/chat_reply.h). Stop strings are found in thoughts too, and not in calls of tools, whose places
// are call_changes[].
//
// Tokens are pushed one by one, so where it stops does not depend on how they were grouped into
// rounds. One thread.
#pragma once

#include "common/text/chat/chat_reply.h"
#include "common/text/tokenizer.h"
#include "proto/wire/message.h"

typedef struct {
    or_detok_t detok;
    char *bytes;     // owned
    size_t length;   // all bytes so far
    size_t released; // of these, safe to show
    size_t capacity;
    or_wire_bytes_t *stops; // owned, with one allocation
    uint32_t stop_count;
    size_t stop_longest;
    or_chat_reader_t reader;
    // Where the text changes from answer to thought and back, ascending: it begins as an answer. After so many changes
    // it stays one.
    uint64_t changes[OR_PART_CHANGES_MAX];
    uint32_t change_count;
    // The same of calls, within the answer. The last change has no end: all that follows may call, and whoever reads
    // calls tells them from words.
    uint64_t call_changes[OR_PART_CHANGES_MAX];
    uint32_t call_change_count;
    size_t
        unsearched; // the bytes up to the end of the last call, in which no stop string is looked for
} or_completion_t;

// Copies the stop strings (empty ones are ignored). `at_text_start`: no text token stands before
// the completion. `chat` is the family whose prompt for this
// or_thinking_t stands before it, borrowed; NULL: it is no conversation's. `tools` is the format in which it may call
// some, or NULL.
or_status_t or_completion_init(or_completion_t *completion, const or_vocab_t *vocab,
                               const or_chat_t *chat, const or_chat_tools_t *tools,
                               uint32_t thinking, bool at_text_start, const or_wire_bytes_t *stops,
                               uint32_t stop_count);
void or_completion_fini(or_completion_t *completion);

// The bytes of memory that the stop strings take.
size_t or_completion_stop_bytes(const or_completion_t *completion);

// Append a token. *stopped: a stop string was completed and the text now ends before it.
// OR_ERR_NO_MEMORY.
or_status_t or_completion_push(or_completion_t *completion, int32_t id, bool *stopped);
// End of the answer: release what was held back. *stopped: what waited for its end had a stop string, before which the text
// ends. OR_ERR_NO_MEMORY.
or_status_t or_completion_finish(or_completion_t *completion, bool *stopped);
