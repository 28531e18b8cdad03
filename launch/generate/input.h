// input - what a user hands in: whole files, lists of token ids, and lists of words as they stand on a command line.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// All bytes of `path` ("-": standard input). *bytes_p is malloc'd with a zero behind it; the caller
// frees it. OR_ERR_IO; OR_ERR_INVALID over 1 GiB.
or_status_t or_input_read(const char *path, char **bytes_p, size_t *length_p);

// Whole numbers of at least `min`, separated by one comma or white space, as "1, 2 3". `what` names
// them in the sentence of OR_ERR_INVALID. *numbers_p is malloc'd; the caller frees it.
or_status_t or_input_numbers(const char *what, const char *text, int32_t min, int32_t **numbers_p,
                             size_t *count_p);

#define OR_INPUT_WORD_BYTES 64u

// The next word of *list_p ("a, b,c"), without the white space around it. *list_p is moved behind its comma.
// OR_ERR_NOT_FOUND (not recorded) at the end; OR_ERR_INVALID for an empty or an overlong word, naming `option`.
or_status_t or_input_word(const char *option, const char **list_p, char word[OR_INPUT_WORD_BYTES]);
// Is `word` one of the list's?
bool or_input_has_word(const char *list, const char *word);
