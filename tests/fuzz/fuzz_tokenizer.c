// Goal: any bytes become tokens of the vocabulary, and the tokens become the same bytes.
// Method: the first byte chooses flags, the second one of the vocabularies of vocabularies.h, the
// rest is the text. Tokens must be in range and print the text, at once and streamed; streamed for
// JSON they must print UTF-8. Where the caller asked for special tokens, which print nothing, only
// the range and the UTF-8 are left to check.
#include "common/text/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/vocabularies.h"

static void assert_prints(const or_vocab_t *vocab, const int32_t *ids, size_t count,
                          const char *text, size_t length)
{
    char *back = NULL;
    size_t back_length;
    or_status_t status = or_detokenize(vocab, ids, count, &back, &back_length);
    assert(status == OR_OK);
    assert(back_length == length && memcmp(back, text, length) == 0);
    free(back);
}

// Return all that a stream of these tokens prints; the caller frees it.
static char *stream(const or_vocab_t *vocab, const int32_t *ids, size_t count, bool exact,
                    size_t *length)
{
    size_t room = OR_DETOK_ROOM(0);
    for (size_t i = 0; i < count; i++) {
        room += OR_DETOK_ROOM(or_vocab_widths(vocab)[ids[i]]);
    }
    char *text = malloc(room);
    assert(text != NULL);
    or_detok_t detok;
    or_detok_init(&detok, vocab, true, exact);
    *length = 0;
    for (size_t i = 0; i < count; i++) {
        size_t wrote = or_detok_push(&detok, ids[i], text + *length);
        assert(wrote <= OR_DETOK_ROOM(or_vocab_widths(vocab)[ids[i]]));
        *length += wrote;
    }
    *length += or_detok_flush(&detok, text + *length);
    return text;
}

static void assert_is_utf8(const char *text, size_t length)
{
    for (size_t at = 0, used = 0; at < length; at += used) {
        assert(or_utf8_next(text + at, length - at, &used) == OR_UTF8_CHARACTER);
    }
}

static void assert_streams(const or_vocab_t *vocab, const int32_t *ids, size_t count)
{
    char *whole = NULL;
    size_t length, whole_length;
    or_status_t status = or_detokenize(vocab, ids, count, &whole, &whole_length);
    assert(status == OR_OK);
    char *text = stream(vocab, ids, count, true, &length);
    assert(length == whole_length && memcmp(text, whole, length) == 0);
    free(text);
    free(whole);
    text = stream(vocab, ids, count, false, &length);
    assert_is_utf8(text, length);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input_t input = {data, size};
    unsigned flags = fuzz_byte(&input) & (OR_TOKENIZE_BOS | OR_TOKENIZE_SPECIAL);
    const or_vocab_t *vocab = fuzz_vocabulary(fuzz_byte(&input));
    const char *text = (const char *)input.at;
    int32_t *ids = NULL;
    size_t count;
    or_status_t status = or_tokenize(vocab, text, input.left, flags, &ids, &count);
    assert(status == OR_OK && ids != NULL);
    for (size_t i = 0; i < count; i++) {
        assert(ids[i] >= 0 && (uint32_t)ids[i] < or_vocab_size(vocab));
    }
    if ((flags & OR_TOKENIZE_BOS) != 0 && or_vocab_bos(vocab) != OR_TOKEN_NONE) {
        assert(count > 0 && ids[0] == or_vocab_bos(vocab));
    }
    if ((flags & OR_TOKENIZE_SPECIAL) == 0) {
        assert_prints(vocab, ids, count, text, input.left);
    }
    assert_streams(vocab, ids, count);
    free(ids);
    return 0;
}
