#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"
#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"

void or_detok_init(or_detok_t *detok, const or_vocab_t *vocab, bool at_text_start, bool exact)
{
    *detok = (or_detok_t){
        .vocab = vocab, .strip_space = at_text_start && vocab->adds_space, .exact = exact};
}

// Copies an ill-formed sequence as the mode wants it; returns the bytes written.
static size_t put_ill_formed(const or_detok_t *detok, const char *bytes, size_t length, char *out)
{
    if (detok->exact) {
        memcpy(out, bytes, length);
        return length;
    }
    memcpy(out, OR_UTF8_REPLACEMENT, OR_UTF8_REPLACEMENT_BYTES);
    return OR_UTF8_REPLACEMENT_BYTES;
}

// Takes one byte. What is held is always the beginning of a character, so a byte either completes
// it, continues it, or ends it as ill-formed and begins anew.
static size_t push_byte(or_detok_t *detok, unsigned char byte, char *out)
{
    size_t written = 0;
    detok->held[detok->held_count++] = byte;
    while (detok->held_count > 0) {
        const char *held = (const char *)detok->held;
        size_t used;
        or_utf8_t found = or_utf8_next(held, detok->held_count, &used);
        if (found == OR_UTF8_INCOMPLETE) {
            break;
        }
        if (found == OR_UTF8_CHARACTER) {
            memcpy(out + written, held, used);
            written += used;
        } else {
            written += put_ill_formed(detok, held, used, out + written);
        }
        detok->held_count -= (uint32_t)used;
        memmove(detok->held, detok->held + used, detok->held_count);
    }
    return written;
}

const char *or_detok_bytes(or_detok_t *detok, int32_t id, uint32_t *length)
{
    assert(id >= 0 && (uint32_t)id < detok->vocab->size);
    const token_t *token = &detok->vocab->tokens[id];
    const char *bytes = token->bytes;
    *length = detok->vocab->widths[id];
    if (detok->strip_space && *length > 0) {
        detok->strip_space = false;
        // A byte token too: in a vocabulary without a token for the space it is one.
        if ((token->kind == OR_TOKEN_TEXT || token->kind == OR_TOKEN_BYTE) && bytes[0] == ' ') {
            bytes++;
            (*length)--;
        }
    }
    return bytes;
}

size_t or_detok_push(or_detok_t *detok, int32_t id, char *out)
{
    uint32_t width;
    const char *bytes = or_detok_bytes(detok, id, &width);
    size_t written = 0;
    for (uint32_t i = 0; i < width; i++) {
        written += push_byte(detok, (unsigned char)bytes[i], out + written);
    }
    return written;
}

size_t or_detok_flush(or_detok_t *detok, char *out)
{
    if (detok->held_count == 0) {
        return 0;
    }
    size_t written = put_ill_formed(detok, (const char *)detok->held, detok->held_count, out);
    detok->held_count = 0;
    return written;
}

or_status_t or_detokenize(const or_vocab_t *vocab, const int32_t *ids, size_t count, char **text_p,
                          size_t *length_p)
{
    size_t room = 1;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab->size) {
            return or_fail(OR_ERR_INVALID, "%d is not a token: the vocabulary has ids 0 to %u",
                           (int)ids[i], (unsigned)vocab->size - 1);
        }
        room += vocab->widths[ids[i]];
    }
    char *text = malloc(room);
    if (text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a text of %zu bytes", room);
    }
    or_detok_t detok;
    size_t length = 0;
    or_detok_init(&detok, vocab, true, true);
    for (size_t i = 0; i < count; i++) {
        length += or_detok_push(&detok, ids[i], text + length);
    }
    length += or_detok_flush(&detok, text + length);
    text[length] = '\0';
    *text_p = text;
    *length_p = length;
    return OR_OK;
}
