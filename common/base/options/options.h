// options - one typed table per program feeds command line, environment, config file and --help
// alike.
//
//     static const or_option_t options[] = {
//         {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE", "target model (GGUF)"},
//         {"temp", NULL, OR_OPTION_FLOAT, offsetof(config_t, temp), "T", "temperature; 0 is greedy"},
//         {0}};
//
// Precedence: command line, then environment (OUTRIDER_<NAME>, dashes as underscores), then
// --config FILE (a JSON object), then what the struct held before, which --help shows as the
// default. An empty variable counts as absent. A list from a higher place replaces the lower one's;
// a variable gives it one item. `--name value`, `--name=value`, `-n value`; short names may have
// several letters, as llama.cpp's -md, and other names of llama.cpp's for an option are taken too.
// An unknown option names the nearest known one if that is near. Of one that other programs have it
// says what to do instead (options_foreign.c). --help, --help-json and --version are everywhere.
// Not thread safe: main thread, at start-up.
//
// A table may have parts, which are tables of structs inside the program's. So options that several programs
// share stand in one table, beside the struct that they fill.
#pragma once

#include <math.h>

#include "common/base/status.h"

// A row says what it has; all else is zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef enum {
    OR_OPTION_FLAG,    // bool *; also --no-NAME
    OR_OPTION_INT32,   // int32_t *
    OR_OPTION_UINT32,  // uint32_t *
    OR_OPTION_UINT64,  // uint64_t *
    OR_OPTION_SIZE,    // uint64_t *, bytes: 4096, 512M, 2G
    OR_OPTION_FLOAT,   // float *
    OR_OPTION_STRING,  // char **, copied; freed by or_options_free
    OR_OPTION_LIST,    // or_option_list_t *, may be repeated
    OR_OPTION_HEADING, // no value: `help` is a heading in the help text
    OR_OPTION_PART,    // no value: the rows of another table stand here
} or_option_type_t;

// The numbers that an option takes, from `least` to `most`. All zero: whatever its type holds.
typedef struct {
    double least, most; // INFINITY: no upper end
    bool above;         // `least` itself is not allowed
    bool has_other;     // `other` is allowed too, and has a meaning of its own
    double other;
} or_bounds_t;

typedef struct {
    char **items; // owned
    size_t count;
} or_option_list_t;

typedef struct or_option {
    const char *name;       // long name without dashes
    const char *short_name; // without the dash; NULL if none
    or_option_type_t type;
    size_t offset;    // of the value in the program's config struct
    const char *arg;  // its word in the help text; NULL for flags
    const char *help; // one sentence; `choices` take the place of "{}" in it
    or_bounds_t bounds;
    const char *(*choices)(void); // the names that a string may be, as "coupled, chain"; NULL: any
    // Parts: the table, whose offsets count from `offset`, and the names of its options that are left out, up
    // to a NULL. `except` may be NULL.
    const struct or_option *part;
    const char *const *except;
    // A request's parameter: its name in JSON, and the numbers it takes there if they are not `bounds`.
    const char *field;
    or_bounds_t field_bounds;
} or_option_t;

typedef struct {
    const char *program; // "outrider generate"
    const char *summary; // one sentence
    const char *usage;   // what follows the program's name, e.g. "[options] [FILE]"; may be NULL
    const or_option_t *table; // ends with a zeroed row
    const char *examples;     // printed at the end of --help; may be NULL
    // Words that may come first and mean a program of their own (`outrider bench load`), up to a NULL. May be NULL.
    const char *const *commands;
    // Names of string options that say the same thing, up to a NULL: one from a higher place
    // silences those from lower ones. Two from the same place are left to the program. May be NULL.
    const char *const *either;
    // The name of an option without a variable, because that variable means something else. May be NULL.
    const char *no_variable;
} or_option_program_t;

typedef enum { OR_OPTIONS_RUN, OR_OPTIONS_EXIT } or_options_next_t;

// Fill `config` from argv[1..]; words that are no options go to `rest` (borrowed from argv; may be
// NULL if none are allowed). *next is OR_OPTIONS_EXIT after --help, --help-json or --version, whose
// text has been printed on standard output: exit 0 then. OR_ERR_INVALID with a sentence naming the option,
// where its value came from, and what is allowed. After OR_OPTIONS_RUN all strings in `config` are
// copies, for or_options_free; after anything else nothing is owned and they are NULL.
or_status_t or_options_parse(const or_option_program_t *program, int argc, char **argv,
                             void *config, or_option_list_t *rest, or_options_next_t *next);

// Print what --help-json prints of a program that has commands and no options. OR_ERR_NO_MEMORY.
or_status_t or_options_print_commands(const or_option_program_t *program);

// Check a number that is called `name`. OR_ERR_INVALID: "NAME: 0 is not between 1 and 1024".
or_status_t or_bounds_check(const or_bounds_t *bounds, const char *name, double value);

// Return whether the flag `name` is set. False, too, if neither the table nor a part of it has such a flag.
bool or_options_flag(const or_option_t *table, const void *config, const char *name);

// The number at an option's place in `config`; false if it has none.
bool or_option_number(const or_option_t *option, const void *config, double *number);

// Is the value at an option's place the same in two structs? Strings are compared by what they say. Not for lists.
bool or_option_is_same(const or_option_t *option, const void *a, const void *b);

// An option as sentences name it: "-c/--ctx-size", "--temp".
#define OR_OPTION_ORIGIN_BYTES 64
void or_option_origin(const or_option_t *option, char origin[OR_OPTION_ORIGIN_BYTES]);

// The environment's variable of an option: OUTRIDER_CTX_SIZE.
#define OR_OPTION_VARIABLE_BYTES 64
void or_option_variable(const or_option_t *option, char variable[OR_OPTION_VARIABLE_BYTES]);

// The sentence of an option, with its choices.
#define OR_OPTION_SENTENCE_BYTES 1024
void or_option_describe(const or_option_t *option, char sentence[OR_OPTION_SENTENCE_BYTES]);

// The bounds of --ctx-size wherever it stands; 0: what the model was made for.
#define OR_CONTEXT_BOUNDS                                                                          \
    {                                                                                              \
        2, INFINITY, .has_other = true, .other = 0                                                 \
    }

// Free what parsing put into `config` (strings and lists), and `rest`'s array.
void or_options_free(const or_option_program_t *program, void *config, or_option_list_t *rest);

// The number of single letters that must be inserted, removed or changed to make one word the other.
size_t or_options_distance(const char *a, const char *b);
// Is the distance small enough to ask "did you mean": at most a third of the word's letters?
bool or_options_is_near(const char *word, size_t distance);
