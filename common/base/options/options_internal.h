// options_internal - what the parser and the help text of options share.
#pragma once

#include "common/base/options/options.h"

typedef struct {
    bool help, help_json, version;
    char *config;
} or_common_options_t;

// The options of every program, filling an or_common_options_t.
extern const or_option_t or_common_options[];

// Print --help on standard output; the values in `config` are the defaults.
void or_options_print_help(const or_option_program_t *program, const void *config);

// The same as --help-json prints it. OR_ERR_NO_MEMORY.
or_status_t or_options_print_json(const or_option_program_t *program, const void *config);

#define OR_OPTIONS_DEFAULT_BYTES 256
// What the help text says of an option's default behind its sentence, " (default: 8)"; "" for none worth a word.
void or_options_describe_default(const or_option_t *option, const void *config, char *text,
                                 size_t capacity);

// Put what `text` means for `option` into its place in `config`; lists grow by it. OR_ERR_INVALID:
// a sentence that begins with `origin` and says what is allowed. OR_ERR_NO_MEMORY.
or_status_t or_options_store(const or_option_t *option, const char *origin, const char *text,
                             void *config);
// Replace a heap string by a copy of `text`.
or_status_t or_options_set_string(char **place, const char *text);
// Add `item` (not copied) to a list.
or_status_t or_options_append(or_option_list_t *list, char *item);
// Free a list's items and its array.
void or_options_clear_list(or_option_list_t *list);
