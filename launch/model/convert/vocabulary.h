// vocabulary - a checkpoint's tokenizer, as GGUF's metadata "tokenizer.*".
//
//     tokenizer.json                   tokenizer.ggml.model
//     BPE over bytes (ByteLevel)       "gpt2": tokens, merges, and in .pre the name of the rule that cuts text
//     BPE over characters with bytes   "llama": tokens, and scores in the order of the merges
//     to fall back to                  or "gemma4": tokens and merges (tokenizer/line_merges.h)
//     tokenizer.model of that kind     "llama": tokens and scores as they are
//     tiktoken.model                   as the tokenizer.json that says the same (tokenizer/tiktoken.h)
//     vocab.json and merges.txt        likewise (tokenizer/bpe_files.h)
//
// Metadata are llama.cpp's, and so are kinds of tokens. What a tokenizer does besides and GGUF cannot say is refused by
// name, or where it changes few texts (normal forms, spaces beside special tokens) told in the log.
#pragma once

#include "common/gguf/gguf_writer.h"
#include "launch/model/convert/json_fields.h"
#include "launch/model/convert/sentencepiece.h"

typedef struct {
    or_json_t tokenizer; // tokenizer.json; object NULL: `sentencepiece` stands for it
    const or_sentencepiece_t *sentencepiece; // tokenizer.model; NULL: it is not needed
    or_json_t added;           // added_tokens.json beside that; object NULL: there is none
    or_json_t settings;        // tokenizer_config.json; object NULL: there is none
    or_json_t config;          // config.json
    or_json_t text;            // its part about the model of text, or all of it
    or_json_t generation;      // generation_config.json; object NULL: there is none
    const char *chat_template; // chat_template.jinja; NULL: as `settings` have it
    uint32_t size;     // tokens that the model has; those that the tokenizer lacks are padding
    bool keeps_merges; // a tokenizer.json over characters becomes "gemma4", and not "llama"
} or_hf_tokenizer_t;

// Write the metadata. OR_ERR_FORMAT, OR_ERR_UNSUPPORTED with file and fault; OR_ERR_NO_MEMORY.
or_status_t or_hf_vocabulary_write(const or_hf_tokenizer_t *from, or_gguf_writer_t *writer);

// ---- parts of it ----

typedef enum {
    OR_HF_NORMAL = 1,
    OR_HF_UNKNOWN,
    OR_HF_CONTROL,
    OR_HF_USER,
    OR_HF_UNUSED,
    OR_HF_BYTE
} or_hf_kind_t;

typedef struct {
    uint32_t size;
    or_gguf_string_t *pieces; // borrowed from the JSON, or from `text`
    int32_t *kinds;           // or_hf_kind_t
    float *scores;            // of a "llama" vocabulary
    char *text;               // owned: pieces that are not as in the JSON
} or_hf_tokens_t;

// List the tokens that added_tokens.json and "added_tokens_decoder" of tokenizer_config.json have, by ids, as "added_tokens" of a
// tokenizer.json does. Either's object may be NULL. The caller decrefs the list; NULL: no memory.
json_t *or_hf_list_added(or_json_t added, or_json_t settings);
// Put the tokens of "added_tokens" at their ids. OR_ERR_FORMAT; OR_ERR_UNSUPPORTED for what GGUF cannot say.
or_status_t or_hf_put_added(or_json_t tokenizer, or_hf_tokens_t *tokens);
// Fill pieces, kinds and scores of a tokenizer.model. Added pieces are borrowed from *added_p, which the caller decrefs in any
// case. OR_ERR_UNSUPPORTED names what is not converted; OR_ERR_FORMAT; OR_ERR_NO_MEMORY.
or_status_t or_hf_fill_sentencepiece(const or_hf_tokenizer_t *from, or_hf_tokens_t *tokens,
                                     json_t **added_p);

// What merges may do with bytes that print as numbers (0 to 9, and those of superscripts and fractions in Latin-1).
typedef enum {
    OR_HF_NUMBERS_ANY,
    OR_HF_NUMBERS_APART, // none joins such a byte and another
    OR_HF_NUMBERS_ALONE  // none joins such a byte and any
} or_hf_numbers_t;

// The rule that cuts text, and what it asks of the merges to cut as the tokenizer does.
typedef struct {
    const char
        *name; // a value of tokenizer.ggml.pre (static); NULL: the tokenizer is not over bytes
    or_hf_numbers_t numbers;
    bool
        needs_whole; // every token is what merges make of it, so that "ignore_merges" changes nothing
} or_hf_pre_t;

// Find it; `tokenizer` is the root of tokenizer.json. OR_ERR_UNSUPPORTED if GGUF has no name for it.
or_status_t or_hf_find_rule(or_json_t tokenizer, or_hf_pre_t *rule);
// Check what the rule asks; `tokens` are filled. OR_ERR_UNSUPPORTED names the first merge or token that is not so.
or_status_t or_hf_check_merges(or_json_t model, const or_hf_tokens_t *tokens, or_hf_pre_t pre);

// A merge is "left right", or in newer files ["left", "right"]; false if it is neither.
typedef struct {
    or_gguf_string_t left, right;
} or_hf_merge_t;
bool or_hf_read_merge(const json_t *json, or_hf_merge_t *merge);
// Return the bytes of the longest token: a merge that makes more makes no token.
size_t or_hf_longest_piece(const or_hf_tokens_t *tokens);

// Check a tokenizer over characters, and whether it puts a space before a text. OR_ERR_UNSUPPORTED.
or_status_t or_hf_check_characters(or_json_t tokenizer, bool *adds_space);

// Write the merges of a tokenizer over bytes. OR_ERR_FORMAT if one is not two pieces.
or_status_t or_hf_write_merges(or_json_t model, or_gguf_writer_t *writer);
// Fill the scores, so that merging by them gives what the merges give. OR_ERR_UNSUPPORTED if none can.
or_status_t or_hf_fill_scores(or_json_t model, or_hf_tokens_t *tokens);

// Write the tokens that begin and end a text, the settings about them, and the chat template.
or_status_t or_hf_write_roles(const or_hf_tokenizer_t *from, const or_hf_tokens_t *tokens,
                              or_gguf_writer_t *writer);
