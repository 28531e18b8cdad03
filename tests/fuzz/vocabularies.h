// vocabularies - small ones of both kinds for the tokenizers' fuzzer, with what makes texts
// awkward: user-defined tokens that begin with spaces or inside others, merges that compete, a
// token that is never met, control tokens that look like text.
#pragma once

#include "common/text/vocab/vocab.h"

// One of them, whatever `choice` is: 0 and 1 are SentencePiece's, with a space put in front and
// without; from 2 on byte-level ones, one for each pre-tokenizer. Made at the first call, kept
// until the end.
const or_vocab_t *fuzz_vocabulary(unsigned choice);
