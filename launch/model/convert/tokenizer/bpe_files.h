// bpe_files - vocab.json and merges.txt, as older checkpoints have them instead of a tokenizer.json (OPT's, GPT-2's).
//
//     vocab.json   {"</s>": 2, "\u0120t": 326, ...}
//     merges.txt   #version: 0.2
//                  \u0120 t                   two pieces a line, the first line first
//
// How texts are cut is in Python code, which is not executed: tokenizer_config.json names its class, of which GPT-2's is known.
#pragma once

#include "launch/model/convert/json_fields.h"

typedef struct {
    json_t *vocab;      // of vocab.json
    const char *merges; // of merges.txt
    or_json_t added;    // added_tokens.json; object NULL: there is none
    json_t
        *settings; // of tokenizer_config.json, which gets the roles it has not; NULL: there is none
    json_t *roles; // of special_tokens_map.json; NULL: there is none
} or_bpe_files_t;

// Make the tokenizer.json that says the same; it borrows nothing. The caller decrefs *tokenizer_p in any case.
// OR_ERR_UNSUPPORTED: of another class; OR_ERR_FORMAT; OR_ERR_NO_MEMORY.
or_status_t or_hf_read_bpe_files(const or_bpe_files_t *files, json_t **tokenizer_p);
