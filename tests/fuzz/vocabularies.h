// vocabularies - small vocabularies of both kinds for the tokenizers' fuzzer. They make
// texts awkward: user-defined tokens that begin with spaces or inside others, merges that compete, a
// token that is never met, and control tokens that look like text.
#pragma once

#include "common/text/vocab/vocab.h"

// The vocabulary for any `choice`. 0 and 1 are SentencePiece's, with a space put in front and
// without. From 2 on they are byte-level, one for each pre-tokenizer. They are made at the first
// call and kept until the end.
const or_vocab_t *fuzz_vocabulary(unsigned choice);
