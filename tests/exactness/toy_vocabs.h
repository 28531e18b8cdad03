// toy_vocabs - pairs of vocabularies of a few strings that overlap, and a byte token for every byte.
//
//     target    a  b  ab ba aba | <0x00> ...        both have a, b and ab (and the bytes);
//     drafter   a  b  aa bb ab  | <0x00> ...        "aba" is a.b.a, ab.a or aba
#pragma once

#include "common/text/vocab/vocab_pair.h"

#define TOY_STRINGS 5u
#define TOY_ROOT ((int32_t)(TOY_STRINGS + '\n')) // the byte token that stands before a text

typedef struct {
    const char *name;
    or_vocab_t *target, *draft;
    or_vocab_pair_t *pair;
    const char *const *target_strings, *const *draft_strings; // [TOY_STRINGS]
} toy_vocabs_t;

#define TOY_VOCABS 5u
// Open pair i of TOY_VOCABS. Fails the test on any error.
toy_vocabs_t toy_vocabs_open(uint32_t i);
void toy_vocabs_close(toy_vocabs_t *vocabs);
