// sentencepiece - a tokenizer.model: SentencePiece's pieces and how it takes a text (sentencepiece_model.proto, a protocol buffer).
//
// Only what changes ids is read; fields that are not known here are passed over, as the format wants it.
#pragma once

#include "common/gguf/gguf.h"

typedef enum {
    OR_SENTENCEPIECE_UNIGRAM = 1,
    OR_SENTENCEPIECE_BPE,
    OR_SENTENCEPIECE_WORD,
    OR_SENTENCEPIECE_CHAR
} or_sentencepiece_type_t;

typedef struct {
    or_gguf_string_t *pieces; // owned; their bytes lie in `text` and end with a zero
    float *scores;            // [count]
    int32_t *kinds; // [count] 1 to 6, in the numbers of or_hf_kind_t, which are SentencePiece's
    uint32_t count;
    char *text;
    uint32_t type;                        // or_sentencepiece_type_t
    int32_t unknown, begin, end, padding; // ids; -1: none
    bool has_bytes;                       // what has no piece falls back to bytes
    bool puts_space_behind;               // the space of a word is its last character
    bool adds_space;                      // before a text
    bool removes_spaces;                  // at a text's ends, and all but one elsewhere
    bool escapes_spaces;                  // as U+2581
    or_gguf_string_t normalizer;          // its name, within `bytes` of the read
    bool normalises;                      // it has rules for characters
} or_sentencepiece_t;

// Read a model from its bytes, which it borrows for the normalizer's name. OR_ERR_FORMAT if they are no such model;
// OR_ERR_NO_MEMORY. or_sentencepiece_fini follows in any case.
or_status_t or_sentencepiece_read(const void *bytes, size_t size, or_sentencepiece_t *model);
void or_sentencepiece_fini(or_sentencepiece_t *model);
