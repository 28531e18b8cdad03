// tiny_vocab - a vocabulary of a few tokens, two pairs of which print the same bytes, as a GGUF
// file in memory's place.
#pragma once

#include "common/text/vocab/vocab.h"

#define TINY_VOCAB_SIZE 10u

// Write the vocabulary to a temporary file, open and load it; the file's name is already gone.
// Fails the test on any error.
void tiny_vocab_open(or_gguf_t **gguf_p, or_vocab_t **vocab_p);
// Open the same vocabulary with made-up tokens after it, `count` in all.
void tiny_vocab_open_sized(uint32_t count, or_gguf_t **gguf_p, or_vocab_t **vocab_p);
