// options_internal - what the parser and the help text of options share.
#pragma once

#include "common/base/options/options.h"

#define OR_OPTIONS_NAME_BYTES 64 // of a variable's name, or a word that may be a name

static inline bool or_options_is_end(const or_option_t *row)
{
    return row->name == NULL && row->type != OR_OPTION_HEADING && row->type != OR_OPTION_PART;
}

// Copy the rows of a table, those of its parts in their places, to `rows`. Returns how many there are. NULL:
// nothing is copied, and options that parts leave out are counted too.
size_t or_options_flatten(const or_option_t *table, size_t offset, or_option_t *rows);

// Copy the strings in `config`, which may be literals: then or_options_free can free them. Those of options
// that a part leaves out are copied too. OR_ERR_NO_MEMORY.
or_status_t or_options_copy_defaults(const or_option_t *table, char *config);

typedef struct {
    bool help, help_json, version;
    char *config;
} or_common_options_t;

// The options of every program. They fill an or_common_options_t.
extern const or_option_t or_common_options[];

// Print --help on standard output. The program's table has no parts; the values in `config` are the defaults.
void or_options_print_help(const or_option_program_t *program, const void *config);

// Print --help-json. OR_ERR_NO_MEMORY.
or_status_t or_options_print_json(const or_option_program_t *program, const void *config);

// Put what `text` means for `option` into its place in `config`; lists grow by it. OR_ERR_INVALID:
// a sentence that begins with `origin` and says what is allowed. OR_ERR_NO_MEMORY.
or_status_t or_options_store(const or_option_t *option, const char *origin, const char *text,
                             void *config);
// Names of our options that mean what `word` (with its dashes) means to other programs, with spaces between them; NULL if
// there are none. The first one that a program has is meant.
const char *or_options_other_names(const char *word, size_t length);
// A sentence about what to do instead of an option of other programs that is not here; NULL for other words.
const char *or_options_advice(const char *word, size_t length);
// Replace a heap string by a copy of `text`.
or_status_t or_options_set_string(char **place, const char *text);
// Add `item` (not copied) to a list.
or_status_t or_options_append(or_option_list_t *list, char *item);
// Free a list's items and its array.
void or_options_clear_list(or_option_list_t *list);
