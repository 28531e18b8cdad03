// tokenizer - text to tokens and back.
//
// User-defined tokens are cut out of the text first. Special tokens written in it are text, unless
// the caller passes OR_TOKENIZE_SPECIAL; then they are cut out too. Of the tokens to cut out the
// leftmost is taken, of those that begin at one place the longest. What is left becomes tokens by
// byte-pair encoding (bpe.h), as the vocabulary's kind wants it:
//
//     SentencePiece   a space is put before the text, and before what follows a special token, where
//                     the file asks for it; characters merge, best score first; what has no token
//                     falls back to byte tokens. Spaces are written as U+2581 in the file; a U+2581
//                     in the text itself stays what it is (byte tokens)
//     byte-level      the text is cut into pieces (pretokenize.h); within each its bytes merge, in
//                     the order of the file's merges; in some vocabularies a piece that is a token
//                     is taken as it is
//
// So any text comes back from its tokens byte for byte, with one exception. A byte for which a
// byte-level vocabulary has no token at all is left out, as in llama.cpp, or is an error
// (OR_TOKENIZE_WHOLE). StarCoder's vocabulary lacks 0xC0, 0xC1, 0xF1 and 0xF5 to 0xFF, of which only
// 0xF1 is ever part of UTF-8. Falcon's lacks control characters.
#pragma once

#include "common/text/vocab/vocab.h"

enum {
    OR_TOKENIZE_BOS = 1,     // put the begin token first (if the vocabulary has one)
    OR_TOKENIZE_SPECIAL = 2, // recognise special tokens written in the text
    // The text continues another, so no space is put before it.
    OR_TOKENIZE_CONTINUES = 4,
    // Refuse a text with a byte that has no token: OR_ERR_INVALID names it. For what a user wrote.
    OR_TOKENIZE_WHOLE = 8,
};

// Tokenise any bytes. *ids_p is allocated with malloc (never NULL, even for no tokens); the
// caller frees it. Time O(n log n), memory O(n). OR_ERR_NO_MEMORY; OR_ERR_INVALID if the text is
// over 1 GiB, or has a byte that OR_TOKENIZE_WHOLE refuses.
or_status_t or_tokenize(const or_vocab_t *vocab, const char *text, size_t length, unsigned flags,
                        int32_t **ids_p, size_t *count_p);

// The settled part of a text that may go on. Its bytes and the tokens they became stay as they
// are, whatever follows. The rest is tokenised as if it stood alone, with OR_TOKENIZE_CONTINUES.
//
//     "Once upon a won"    settled: "Once upon a", 3 tokens; the rest may become " wonderful"
//
// The rest is usually the last word. A run without an end, such as one of spaces, is never
// settled.
typedef struct {
    size_t bytes;
    size_t tokens;
} or_settled_t;

// Tokenise like or_tokenize, without OR_TOKENIZE_SPECIAL, and return the settled part too.
or_status_t or_tokenize_growing(const or_vocab_t *vocab, const char *text, size_t length,
                                unsigned flags, int32_t **ids_p, size_t *count_p,
                                or_settled_t *settled);
// The number of settled bytes alone. Time O(length). OR_ERR_NO_MEMORY.
or_status_t or_tokenize_settled(const or_vocab_t *vocab, const char *text, size_t length,
                                size_t *settled);

// A stream from tokens to bytes: or_detok_push returns only whole UTF-8 characters and keeps the
// rest for the next call.
//
// In `exact` mode bytes come out as they are, and only an incomplete character at the end is
// held back. Otherwise every ill-formed sequence becomes U+FFFD, so that the output is always
// UTF-8 (JSON needs it).
typedef struct {
    const or_vocab_t *vocab; // borrowed
    // The first text token loses its leading space (start of a text, not of a continuation).
    bool strip_space;
    bool exact;
    unsigned char held[4];
    uint32_t held_count;
} or_detok_t;

void or_detok_init(or_detok_t *detok, const or_vocab_t *vocab, bool at_text_start, bool exact);

// The bytes that `id` adds to the text, whether or not characters are complete. Do not mix this
// with the functions below. Borrowed from the vocabulary. id in range.
const char *or_detok_bytes(or_detok_t *detok, int32_t id, uint32_t *length);

// Append what `id` completes to `out` and return the byte count. It is at most OR_DETOK_ROOM:
// the token's width + 4 bytes, times 3 if not exact. id in range.
size_t or_detok_push(or_detok_t *detok, int32_t id, char *out);
// End the text: write what is still held (as is, or as U+FFFD). At most 12 bytes.
size_t or_detok_flush(or_detok_t *detok, char *out);
#define OR_DETOK_ROOM(width) (3 * ((size_t)(width) + 4))

// Convert a whole sequence at once, from the text's start, with bytes as they are; special
// tokens print nothing. *text_p is malloc'd and zero-terminated as well. OR_ERR_INVALID if an id
// is not in the vocabulary; OR_ERR_NO_MEMORY.
or_status_t or_detokenize(const or_vocab_t *vocab, const int32_t *ids, size_t count, char **text_p,
                          size_t *length_p);
