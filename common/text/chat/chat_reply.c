#include "common/text/chat/chat_reply.h"

#include <string.h>

#include "common/text/chat/chat_internal.h"
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
    }
}

// The prompt ends where the assistant begins to write, perhaps inside a thought that it has opened: the last mark there
// counts.
static void read_opening(or_chat_reader_t *reader, const char *opening)
{
    for (const char *at = opening; *at != '\0'; at++) {
        for (size_t i = 0; i < OR_CHAT_MARKS_MAX; i++) {
            const char *mark = reader->reply->marks[i].text;
            if (mark != NULL && strncmp(at, mark, strlen(mark)) == 0) {
                take_mark(reader, reader->reply->marks[i].kind);
            }
        }
    }
    reader->marked = false;
}

void or_chat_reader_init(or_chat_reader_t *reader, const or_chat_t *chat, uint32_t thinking,
                         const or_vocab_t *vocab)
{
    *reader =
        (or_chat_reader_t){.reply = chat != NULL ? chat->reply : NULL, .part = OR_CHAT_ANSWER};
    if (reader->reply == NULL) {
        return;
    }
    for (size_t i = 0; i < OR_CHAT_MARKS_MAX; i++) {
        const char *mark = reader->reply->marks[i].text;
        reader->ids[i] = mark != NULL ? token_of(vocab, mark) : OR_TOKEN_NONE;
    }
    const char *opening = or_chat_opening(chat, thinking);
    read_opening(reader, opening != NULL ? opening : chat->opening);
    reader->fresh = reader->fresh || reader->reply->drops_first_spaces;
    if (reader->reply->in_header) {
        begin_header(reader, false);
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

// Text that is no part of a mark.
static or_status_t take_text(or_chat_reader_t *reader, const char *bytes, size_t count,
                             or_chat_take_t take, void *context)
{
    or_status_t status = OR_OK;
    size_t at = 0;
    while (status == OR_OK && at < count && reader->part == OR_CHAT_HEADER) {
        status = take_header(reader, bytes[at++], take, context);
    }
    while (reader->fresh && at < count && is_space(bytes[at])) {
        at++;
    }
    if (status != OR_OK || at == count) {
        return status;
    }
    reader->fresh = false;
    return take(context, reader->part, bytes + at, count - at);
}

// The mark that is text and stands at the beginning of `bytes`, or -1. *may: a longer text could be one.
static int mark_at(const or_chat_reader_t *reader, const char *bytes, size_t count, bool *may)
{
    *may = false;
    for (int i = 0; i < OR_CHAT_MARKS_MAX; i++) {
        const char *mark = reader->reply->marks[i].text;
        if (mark == NULL || reader->ids[i] != OR_TOKEN_NONE) {
            continue;
        }
        size_t length = strlen(mark);
        if (count >= length && memcmp(mark, bytes, length) == 0) {
            return i;
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
        size_t used = mark >= 0 ? strlen(reader->reply->marks[mark].text) : 1;
        if (mark >= 0) {
            take_mark(reader, reader->reply->marks[mark].kind);
        } else {
            status = take_text(reader, reader->held, 1, take, context);
        }
        reader->held_bytes -= used;
        memmove(reader->held, reader->held + used, reader->held_bytes);
    }
    return status;
}

static or_status_t release_held(or_chat_reader_t *reader, or_chat_take_t take, void *context)
{
    size_t count = reader->held_bytes;
    reader->held_bytes = 0;
    return count > 0 ? take_text(reader, reader->held, count, take, context) : OR_OK;
}

or_status_t or_chat_reader_text(or_chat_reader_t *reader, const char *bytes, size_t count,
                                or_chat_take_t take, void *context)
{
    or_status_t status = OR_OK;
    if (reader->reply == NULL) {
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
    for (int i = 0; reader->reply != NULL && i < OR_CHAT_MARKS_MAX; i++) {
        if (reader->ids[i] == id && id != OR_TOKEN_NONE) {
            return i;
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
    take_mark(reader, reader->reply->marks[mark].kind);
    return status;
}

or_status_t or_chat_reader_finish(or_chat_reader_t *reader, or_chat_take_t take, void *context)
{
    or_status_t status = release_held(reader, take, context);
    bool is_answer = reader->part == OR_CHAT_HEADER && !reader->marked;
    return status == OR_OK && is_answer ? release_header(reader, take, context) : status;
}
