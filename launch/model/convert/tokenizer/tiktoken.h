// tiktoken - a tiktoken.model, as Kimi's checkpoints have it instead of a tokenizer.json: a line for each token, of its bytes in
// base64 and its rank.
//
//     SGVsbG8= 9707
//
// Any two neighbours whose union is a token are merged, the lowest rank first; a piece that is a token is that token. The
// pattern that cuts texts is in Python code beside it, which is not executed: the class named in tokenizer_config.json tells it.
#pragma once

#include "launch/model/convert/json_fields.h"

// Make the tokenizer.json that says the same, of the file's bytes and of tokenizer_config.json (object NULL: there is none).
// The caller decrefs *tokenizer_p in any case. OR_ERR_UNSUPPORTED: of another class; OR_ERR_FORMAT; OR_ERR_NO_MEMORY.
or_status_t or_hf_read_tiktoken(const char *bytes, size_t size, or_json_t settings,
                                json_t **tokenizer_p);
