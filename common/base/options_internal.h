// options_internal - what the parser and the help text of options share.
#pragma once

#include "common/base/options.h"

typedef struct {
    bool help, version;
    char *config;
} or_common_options_t;

// The options of every program, filling an or_common_options_t.
extern const or_option_t or_common_options[];

// Print --help on standard output; the values in `config` are the defaults.
void or_options_print_help(const or_option_program_t *program, const void *config);
