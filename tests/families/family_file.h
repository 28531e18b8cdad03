// family_file - a small random model of a transformer family, made from its stored recipe.
//
// A recipe (tests/families/data/FAMILY/SEED.gguf-head) is a GGUF file up to its tensors' data, which are drawn by an integer
// generator; tests/families/oracle/recipe.py says how. All tensors are F32.
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"

// Make the model "FAMILY/SEED" in memory. Return a path that any process may open while this one lives; the caller frees it.
// Fails the test if the recipe cannot be read or a tensor has no rule.
char *family_file_make(const char *name);
// The same with another number for the metadata key that ends with `key`, which the recipe must have.
char *family_file_make_with(const char *name, const char *key, uint32_t value);

// Read transformers' `count` logits of the model, those of the first position first.
void family_file_logits(const char *name, float *logits, size_t count);

// Read the text whose logits are stored: at most `max` tokens of an open model. Return their number.
uint32_t family_file_tokens(const or_gguf_t *gguf, int32_t *tokens, uint32_t max);
