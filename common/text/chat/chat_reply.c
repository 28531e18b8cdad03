#include "common/text/chat/chat_reply.h"

#include <string.h>

#include "common/text/chat/chat_tools_internal.h"
#include "common/text/vocab/vocab_internal.h"

// ---- marks ----

static int32_t token_of(const or_vocab_t *vocab, const char *mark)
{
    size_t length = strlen(mark);
    int32_t id = or_vocab_marked_at(vocab, mark, length, true);
    return id != OR_TOKEN_NONE && vocab->tokens[id].piece_length == length ? id : OR_TOKEN_NONE;
}

static void begin_header(or_chat_reader_t *reader, bool ends_with_line)
{
    reader->part = OR_CHAT_HEADER;
    reader->ends_with_line = ends_with_line;
    reader->header_bytes = 0;
}

static void begin_part(or_chat_reader_t *reader, or_chat_part_t part)
{
    reader->part = part;
    reader->fresh = true;
}

// Does the header begin with the name of a channel for thoughts?
static bool announces_thought(const or_chat_reader_t *reader)
{
    for (size_t i = 0; i < sizeof reader->reply->thoughts / sizeof *reader->reply->thoughts; i++) {
        const char *name = reader->reply->thoughts[i];
        size_t length = name != NULL ? strlen(name) : 0;
        if (name != NULL && reader->header_bytes >= length &&
            memcmp(reader->header, name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void take_mark(or_chat_reader_t *reader, or_chat_mark_t kind)
{
    reader->marked = true;
    switch (kind) {
    case OR_CHAT_MARK_ANSWER:
        begin_part(reader, OR_CHAT_ANSWER);
        break;
    case OR_CHAT_MARK_REASONING:
        begin_part(reader, OR_CHAT_REASONING);
        break;
    case OR_CHAT_MARK_LINE:
    case OR_CHAT_MARK_HEADER:
        begin_header(reader, kind == OR_CHAT_MARK_LINE);
        break;
    case OR_CHAT_MARK_BODY:
        begin_part(reader, announces_thought(reader) ? OR_CHAT_REASONING : OR_CHAT_ANSWER);
        break;
    case OR_CHAT_MARK_CALL:
    case OR_CHAT_MARK_INNER:
        reader->part = OR_CHAT_CALL;
        break;
    case OR_CHAT_MARK_CALL_END:
        reader->part = OR_CHAT_ANSWER;
        break;
    }
}

static bool is_of_call(or_chat_mark_t kind)
{
    return kind == OR_CHAT_MARK_CALL || kind == OR_CHAT_MARK_INNER || kind == OR_CHAT_MARK_CALL_END;
}

// Does a mark mean something where the text is? A thought calls nothing, and arguments are not thought.
static bool is_live(const or_chat_reader_t *reader, size_t mark)
{
    const or_chat_mark_t kind = reader->marks[mark].kind;
    return reader->part == OR_CHAT_CALL ? is_of_call(kind)
           : reader->part == OR_CHAT_ANSWER
               ? kind != OR_CHAT_MARK_INNER && kind != OR_CHAT_MARK_CALL_END
               : !is_of_call(kind);
}

// Take a mark. Those of calls are part of them.
static or_status_t pass_mark(or_chat_reader_t *reader, int mark, or_chat_take_t take, void *context)
{
    const char *text = reader->marks[mark].text;
    const or_chat_mark_t kind = reader->marks[mark].kind;
    take_mark(reader, kind);
    reader->bare = false;
    reader->fresh = reader->fresh && !is_of_call(kind);
    return is_of_call(kind) ? take(context, OR_CHAT_CALL, text, strlen(text)) : OR_OK;
}

// The prompt ends where the assistant begins to write, perhaps inside a thought that it has opened: the last mark there
// counts.
static void read_opening(or_chat_reader_t *reader, const char *opening)
{
    for (const char *at = opening; *at != '\0'; at++) {
        for (size_t i = 0; i < reader->mark_count; i++) {
            const char *mark = reader->marks[i].text;
            if (strncmp(at, mark, strlen(mark)) == 0) {
                take_mark(reader, reader->marks[i].kind);
            }
        }
    }
    reader->marked = false;
}

static void add_mark(or_chat_reader_t *reader, const or_vocab_t *vocab, const char *text,
                     or_chat_mark_t kind)
{
    if (text != NULL) {
        const size_t i = reader->mark_count++;
        reader->marks[i].text = text;
        reader->marks[i].kind = kind;
        reader->marks[i].id = token_of(vocab, text);
    }
}

static void add_call_marks(or_chat_reader_t *reader, const or_vocab_t *vocab,
                           const or_chat_tools_t *tools)
{
    add_mark(reader, vocab, tools->reads.begin, OR_CHAT_MARK_CALL);
    add_mark(reader, vocab, tools->reads.end, OR_CHAT_MARK_CALL_END);
    for (size_t i = 0; i < OR_CALLS_INNER_MAX; i++) {
        add_mark(reader, vocab, tools->reads.inner[i], OR_CHAT_MARK_INNER);
    }
    reader->bare = tools->reads.bare;
}

void or_chat_reader_init(or_chat_reader_t *reader, const or_chat_t *chat,
                         const or_chat_tools_t *tools, uint32_t thinking, const or_vocab_t *vocab)
{
    const or_chat_reply_t *reply = chat != NULL ? chat->reply : NULL;
    *reader = (or_chat_reader_t){.reply = reply, .part = OR_CHAT_ANSWER};
    for (size_t i = 0; reply != NULL && i < OR_CHAT_MARKS_MAX; i++) {
        add_mark(reader, vocab, reply->marks[i].text, reply->marks[i].kind);
    }
    if (reply != NULL) {
        const char *opening = or_chat_opening(chat, thinking);
        read_opening(reader, opening != NULL ? opening : chat->opening);
        reader->fresh = reader->fresh || reply->drops_first_spaces;
    }
    if (reply != NULL && reply->in_header) {
        begin_header(reader, false);
    }
    if (tools != NULL) {
        add_call_marks(reader, vocab, tools);
    }
}

// ---- text ----

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Bytes that are no header after all: so long a text, or one that ends without a mark, is an answer.
static or_status_t release_header(or_chat_reader_t *reader, or_chat_take_t take, void *context)
{
    size_t count = reader->header_bytes;
    begin_part(reader, OR_CHAT_ANSWER);
    reader->fresh = false;
    reader->header_bytes = 0;
    return count > 0 ? take(context, OR_CHAT_ANSWER, reader->header, count) : OR_OK;
}

static or_status_t take_header(or_chat_reader_t *reader, char byte, or_chat_take_t take,
                               void *context)
{
    if (reader->ends_with_line && byte == '\n') {
        begin_part(reader, OR_CHAT_REASONING);
        return OR_OK;
    }
    if (reader->header_bytes < sizeof reader->header) {
        reader->header[reader->header_bytes++] = byte;
        return OR_OK;
    }
    or_status_t status = release_header(reader, take, context);
    return status == OR_OK ? take(context, OR_CHAT_ANSWER, &byte, 1) : status;
}

// The part that a byte belongs to. White space before a call without a mark is the call's, and we do not know yet whether one
// follows.
static or_chat_part_t part_of(or_chat_reader_t *reader, char byte)
{
    if (reader->bare && is_space(byte)) {
        return OR_CHAT_CALL;
    }
    if (reader->bare && byte == '{') {
        reader->part = OR_CHAT_CALL;
    }
    reader->bare = false;
    return reader->part;
}

// A byte that is no part of a mark.
static or_status_t take_byte(or_chat_reader_t *reader, char byte, or_chat_take_t take,
                             void *context)
{
    if (reader->part == OR_CHAT_HEADER) {
        return take_header(reader, byte, take, context);
    }
    if (reader->fresh && is_space(byte)) {
        return OR_OK;
    }
    reader->fresh = false;
    return take(context, part_of(reader, byte), &byte, 1);
}

// The mark that is text and stands at the beginning of `bytes`, or -1. *may: a longer text could be one.
static int mark_at(const or_chat_reader_t *reader, const char *bytes, size_t count, bool *may)
{
    *may = false;
    for (size_t i = 0; i < reader->mark_count; i++) {
        const char *mark = reader->marks[i].text;
        if (reader->marks[i].id != OR_TOKEN_NONE || !is_live(reader, i)) {
            continue;
        }
        size_t length = strlen(mark);
        if (count >= length && memcmp(mark, bytes, length) == 0) {
            return (int)i;
        }
        *may = *may || (count < length && memcmp(mark, bytes, count) == 0);
    }
    return -1;
}

// Take what is held as far as it can be no mark, or is one.
static or_status_t take_held(or_chat_reader_t *reader, or_chat_take_t take, void *context)
{
    or_status_t status = OR_OK;
    while (status == OR_OK && reader->held_bytes > 0) {
        bool may;
        int mark = mark_at(reader, reader->held, reader->held_bytes, &may);
        if (may && mark < 0) {
            return OR_OK;
        }
        size_t used = mark >= 0 ? strlen(reader->marks[mark].text) : 1;
        status = mark >= 0 ? pass_mark(reader, mark, take, context)
                           : take_byte(reader, reader->held[0], take, context);
        reader->held_bytes -= used;
        memmove(reader->held, reader->held + used, reader->held_bytes);
    }
    return status;
}

static or_status_t release_held(or_chat_reader_t *reader, or_chat_take_t take, void *context)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < reader->held_bytes; i++) {
        status = take_byte(reader, reader->held[i], take, context);
    }
    reader->held_bytes = 0;
    return status;
}

or_status_t or_chat_reader_text(or_chat_reader_t *reader, const char *bytes, size_t count,
                                or_chat_take_t take, void *context)
{
    or_status_t status = OR_OK;
    if (reader->reply == NULL && reader->mark_count == 0) {
        return count > 0 ? take(context, OR_CHAT_ANSWER, bytes, count) : OR_OK;
    }
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        reader->held[reader->held_bytes++] = bytes[i];
        status = take_held(reader, take, context);
    }
    return status;
}

// The mark that is this token, or -1.
static int mark_of(const or_chat_reader_t *reader, int32_t id)
{
    for (size_t i = 0; i < reader->mark_count; i++) {
        if (reader->marks[i].id == id && id != OR_TOKEN_NONE && is_live(reader, i)) {
            return (int)i;
        }
    }
    return -1;
}

bool or_chat_reader_is_mark(const or_chat_reader_t *reader, int32_t id)
{
    return mark_of(reader, id) >= 0;
}

or_status_t or_chat_reader_token(or_chat_reader_t *reader, int32_t id, or_chat_take_t take,
                                 void *context, bool *is_mark)
{
    int mark = mark_of(reader, id);
    *is_mark = mark >= 0;
    if (mark < 0) {
        return OR_OK;
    }
    or_status_t status = release_held(reader, take, context);
    return status == OR_OK ? pass_mark(reader, mark, take, context) : status;
}

or_status_t or_chat_reader_finish(or_chat_reader_t *reader, or_chat_take_t take, void *context)
{
    or_status_t status = release_held(reader, take, context);
    bool is_answer = reader->part == OR_CHAT_HEADER && !reader->marked;
    return status == OR_OK && is_answer ? release_header(reader, take, context) : status;
}
