// vocab_internal - a vocabulary from the inside, for the tokenizer.
#pragma once

#include "common/text/bpe.h"
#include "common/text/pretokenize.h"
#include "common/text/vocab/vocab.h"

typedef struct {
    const char *piece;
    const char *bytes; // what it prints; its length is widths[id]
    uint32_t piece_length;
    float score;
    uint8_t kind; // or_token_kind_t
    bool ends;    // end of generation
    bool suppressed;
} token_t;

struct or_vocab {
    const char *model; // static
    bool byte_level;   // else SentencePiece-style
    bool
        by_lines; // of that style, with merges from the file: none joins ends of lines with anything else
    uint32_t size;
    token_t *tokens;
    char *text; // the pieces and bytes that tokens point to
    uint32_t *widths;
    uint64_t *noise_keys;
    uint64_t hash;

    int32_t bos;
    int32_t eos;
    int32_t unknown;
    bool adds_bos;
    uint32_t suppressed_count;
    bool adds_space;          // the text begins with a space of the tokenizer's own
    int32_t byte_tokens[256]; // of kind byte; OR_TOKEN_NONE where there is none
    uint32_t widest_text;     // bytes of the longest text token

    // Open addressing over the bytes of text tokens: id + 1, 0 where empty. A peer may have chosen the tokens, so the
    // places of each vocabulary hang on a seed of its own, and nothing else does.
    uint32_t *table;
    uint32_t table_mask;
    uint64_t table_seed;

    or_bpe_t *bpe;
    or_pretokenizer_t *pretokenizer; // NULL: not byte-level
    bool ignores_merges;             // a piece that is a token is that token

    uint32_t widest_user; // bytes of the longest user-defined token's piece; 0: there is none
    // Special and user-defined tokens by first byte of the piece, then longest first.
    int32_t *marked;
    uint32_t marked_first
        [257]; // those beginning with byte b: marked_first[b] to marked_first[b + 1] - 1
};

// Undo SentencePiece's way to write a space as U+2581. Returns the length of the text, at most the piece's.
size_t or_vocab_unescape_spaces(const char *piece, size_t length, char *bytes);

// Read all tokens of the file, whose tokenizer is known, into tokens, widths, text and byte_tokens;
// noise_keys get their room. OR_ERR_FORMAT, OR_ERR_NOT_FOUND, OR_ERR_NO_MEMORY.
or_status_t or_vocab_read_tokens(const or_gguf_t *gguf, or_vocab_t *vocab);

// The text token that prints exactly these bytes, or OR_TOKEN_NONE. Special, byte and user-defined
// tokens are never found.
int32_t or_vocab_find_text(const or_vocab_t *vocab, const char *bytes, size_t length);

// The longest user-defined token written at the start of a text of at least one byte, or OR_TOKEN_NONE. With
// `special`, special tokens are considered too.
int32_t or_vocab_marked_at(const or_vocab_t *vocab, const char *text, size_t length, bool special);

// Fill noise_keys from the tokens. OR_ERR_FORMAT if two keys collide; OR_ERR_NO_MEMORY.
or_status_t or_vocab_fill_keys(or_vocab_t *vocab);

typedef struct {
    uint64_t key;
    uint32_t id;
} keyed_t;
// All tokens with their noise keys, keys ascending. [size]
void or_vocab_sort_keys(const or_vocab_t *vocab, keyed_t *sorted);

// Fill hash, once all else is filled in. `rule` is NULL for SentencePiece. OR_ERR_NO_MEMORY.
or_status_t or_vocab_fill_hash(or_vocab_t *vocab, const or_pre_rule_t *rule);

// Fill table, widest_text, widest_user, marked and marked_first from the tokens. OR_ERR_NO_MEMORY.
or_status_t or_vocab_fill_index(or_vocab_t *vocab);
