// A prompt while it is written: tokens of markup, and the text between them, which is tokenised when the next one comes.
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/text/chat/chat_internal.h"
#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_internal.h"

static or_status_t make_room(void *array_p, size_t *capacity, size_t count, size_t more,
                             size_t entry_bytes)
{
    return or_array_reserve(array_p, capacity, count, more, entry_bytes)
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY, "no memory for a conversation of %zu entries",
                         2 * (count + more));
}

static or_status_t write_ids(or_chat_writer_t *writer, const int32_t *ids, size_t count)
{
    or_status_t status =
        make_room(&writer->ids, &writer->ids_capacity, writer->count, count, sizeof *ids);
    if (status == OR_OK && count > 0) {
        memcpy(writer->ids + writer->count, ids, count * sizeof *ids);
        writer->count += count;
    }
    return status;
}

or_status_t or_chat_settle(or_chat_writer_t *writer)
{
    int32_t *ids = NULL;
    size_t count;
    if (writer->length == 0) {
        return OR_OK;
    }
    unsigned flags = OR_TOKENIZE_WHOLE | (writer->continues ? OR_TOKENIZE_CONTINUES : 0U);
    or_status_t status =
        or_tokenize(writer->vocab, writer->text, writer->length, flags, &ids, &count);
    if (status == OR_OK) {
        status = write_ids(writer, ids, count);
    }
    free(ids);
    writer->length = 0;
    writer->continues = true;
    return status;
}

static or_status_t write_text(or_chat_writer_t *writer, const char *text, size_t length)
{
    or_status_t status = make_room(&writer->text, &writer->capacity, writer->length, length, 1);
    if (status == OR_OK && length > 0) {
        memcpy(writer->text + writer->length, text, length);
        writer->length += length;
    }
    return status;
}

or_status_t or_chat_write_token(or_chat_writer_t *writer, int32_t id)
{
    or_status_t status = or_chat_settle(writer);
    if (status == OR_OK && id != OR_TOKEN_NONE) {
        writer->continues = writer->vocab->tokens[id].kind != OR_TOKEN_SPECIAL;
        status = write_ids(writer, &id, 1);
    }
    return status;
}

or_status_t or_chat_write_markup_of(or_chat_writer_t *writer, const char *markup, size_t length)
{
    const or_vocab_t *vocab = writer->vocab;
    or_status_t status = OR_OK;
    for (size_t at = 0; status == OR_OK && at < length;) {
        int32_t id = or_vocab_marked_at(vocab, markup + at, length - at, true);
        size_t used = 1;
        if (id != OR_TOKEN_NONE) {
            status = or_chat_write_token(writer, id);
            used = vocab->tokens[id].piece_length;
        } else if (markup[at] == OR_CHAT_BOS[0] || markup[at] == OR_CHAT_EOS[0]) {
            status =
                or_chat_write_token(writer, markup[at] == OR_CHAT_BOS[0] ? vocab->bos : vocab->eos);
        } else {
            status = write_text(writer, markup + at, 1);
        }
        at += used;
    }
    return status;
}

or_status_t or_chat_write_markup(or_chat_writer_t *writer, const char *markup)
{
    return or_chat_write_markup_of(writer, markup, strlen(markup));
}

// User-defined tokens are found in any text, and some files call their markup user-defined: such a token is cut in two.
or_status_t or_chat_write_content(or_chat_writer_t *writer, const char *text, size_t length)
{
    const or_vocab_t *vocab = writer->vocab;
    or_status_t status = OR_OK;
    size_t from = 0; // what is not written yet
    for (size_t at = 0; status == OR_OK && vocab->widest_user > 0 && at < length; at++) {
        int32_t id = or_vocab_marked_at(vocab, text + at, length - at, false);
        if (id != OR_TOKEN_NONE && or_chat_is_markup(text + at, vocab->tokens[id].piece_length)) {
            status = write_text(writer, text + from, at + 1 - from);
            from = at + 1;
            status = status == OR_OK ? or_chat_settle(writer) : status;
        }
    }
    return status == OR_OK ? write_text(writer, text + from, length - from) : status;
}
