// bench_list - lists as they stand on a command line: "a, b,c".
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_BENCH_WORD_BYTES 64u

// The next word of *list_p, without the white space around it, and *list_p moved behind its comma.
// OR_ERR_NOT_FOUND (not recorded) at the end; OR_ERR_INVALID for an empty or an overlong word,
// naming `option`.
or_status_t or_bench_list_next(const char *option, const char **list_p,
                               char word[OR_BENCH_WORD_BYTES]);
// Is `word` one of the list's?
bool or_bench_list_has(const char *list, const char *word);
