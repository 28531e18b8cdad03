// line_merges - the merges of a tokenizer over characters as GGUF's kind "gemma4" has them: as they are, where "llama" has scores.
//
// Readers of that kind merge ends of lines with nothing else, and take a row of them that is a token as that token. So no merge
// may join an end of a line and another character, and the merges must make each such row of single ones.
#pragma once

#include "launch/model/convert/vocabulary.h"

// Write the merges, but those that never happen: their tokens are cut out of a text before. OR_ERR_UNSUPPORTED if GGUF's kind would
// give other tokens; OR_ERR_FORMAT for what is no merge of tokens; OR_ERR_NO_MEMORY.
or_status_t or_hf_write_line_merges(or_json_t model, const or_hf_tokens_t *tokens,
                                    or_gguf_writer_t *writer);
