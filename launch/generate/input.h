// input - what a user hands in: whole files and lists of token ids.
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
