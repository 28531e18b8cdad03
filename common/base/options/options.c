#include "common/base/options/options.h"

#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/options/options_internal.h"
#include "common/base/version.h"

#define NAME_MAX_BYTES OR_OPTIONS_NAME_BYTES

const or_option_t or_common_options[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Everywhere"},
    {"config", NULL, OR_OPTION_STRING, offsetof(or_common_options_t, config), "FILE",
     "read options from a JSON object; the environment and the command line win over it"},
    {"help", "h", OR_OPTION_FLAG, offsetof(or_common_options_t, help), NULL, "print this text"},
    {"help-json", NULL, OR_OPTION_FLAG, offsetof(or_common_options_t, help_json), NULL,
     "print it as JSON, from which the manual pages and the shells' completions are made"},
    {"version", NULL, OR_OPTION_FLAG, offsetof(or_common_options_t, version), NULL,
     "print the version"},
    {0}};

// The source of a value, the weakest first.
typedef enum {
    SOURCE_DEFAULT,
    SOURCE_FILE,
    SOURCE_ENVIRONMENT,
    SOURCE_COMMAND_LINE,
} source_t;

typedef struct {
    const or_option_program_t *program; // its table has no parts
    void *config;
    or_common_options_t common;
    source_t *sources; // per row of the program's table
} parser_t;

// One step through argv: an option with its value, or (option NULL) a word that is none.
typedef struct {
    const or_option_t *option;
    const char *text;
} item_t;

typedef struct {
    char **argv;
    int argc, index;
    bool words_only; // behind `--`
} cursor_t;

static size_t table_rows(const or_option_t *table)
{
    size_t rows = 0;
    while (!or_options_is_end(&table[rows])) {
        rows++;
    }
    return rows;
}

// Store a value and remember who gave it; a list starts anew when a stronger source speaks.
static or_status_t set_option(parser_t *parser, const or_option_t *option, source_t source,
                              const char *origin, const char *text)
{
    source_t *known = &parser->sources[option - parser->program->table];
    if (option->type == OR_OPTION_LIST && *known != source) {
        or_options_clear_list((or_option_list_t *)((char *)parser->config + option->offset));
    }
    *known = source;
    return or_options_store(option, origin, text, parser->config);
}

// ---- names ----

static const or_option_t *find_in(const or_option_t *table, const char *name, size_t length,
                                  bool short_name)
{
    for (; !or_options_is_end(table); table++) {
        const char *candidate = short_name ? table->short_name : table->name;
        if (candidate != NULL && strlen(candidate) == length &&
            memcmp(candidate, name, length) == 0) {
            return table;
        }
    }
    return NULL;
}

static const or_option_t *find(const or_option_program_t *program, const char *name, size_t length,
                               bool short_name)
{
    const or_option_t *option = find_in(program->table, name, length, short_name);
    return option != NULL ? option : find_in(or_common_options, name, length, short_name);
}

// The option that other programs call `word`, which has its dashes.
static const or_option_t *find_other(const or_option_program_t *program, const char *word,
                                     size_t length)
{
    const or_option_t *option = NULL;
    const char *names = or_options_other_names(word, length);
    while (option == NULL && names != NULL && *names != '\0') {
        size_t name = strcspn(names, " ");
        option = find(program, names, name, false);
        names += name + (names[name] == ' ');
    }
    return option;
}

static bool is_common(const or_option_t *option)
{
    return option >= or_common_options &&
           option < or_common_options + table_rows(or_common_options);
}

typedef struct {
    const or_option_t *option;
    bool short_name;
    size_t distance;
} nearest_t;

static void look_nearby(const or_option_t *table, const char *name, nearest_t *best)
{
    for (; !or_options_is_end(table); table++) {
        for (int is_short = 0; is_short < 2; is_short++) {
            const char *candidate = is_short ? table->short_name : table->name;
            size_t distance =
                candidate != NULL ? or_options_distance(name, candidate) : best->distance;
            // Every short name is near a short word: only one that differs in its dashes is meant.
            if (distance < best->distance && (!is_short || distance == 0)) {
                *best = (nearest_t){table, is_short, distance};
            }
        }
    }
}

// `word` as the user wrote it, `name` without its dashes.
static or_status_t fail_unknown(const or_option_program_t *program, const char *word,
                                const char *name)
{
    nearest_t best = {NULL, false, SIZE_MAX};
    int length = (int)strcspn(word, "=");
    const char *advice = or_options_advice(word, (size_t)length);
    if (advice != NULL) {
        return or_fail(OR_ERR_INVALID, "there is no %.*s here: %s", length, word, advice);
    }
    look_nearby(program->table, name, &best);
    look_nearby(or_common_options, name, &best);
    if (!or_options_is_near(name, best.distance)) {
        return or_fail(OR_ERR_INVALID, "unknown option '%s' (--help lists all)", word);
    }
    return or_fail(OR_ERR_INVALID, "unknown option '%s'; the nearest is %s%s (--help lists all)",
                   word, best.short_name ? "-" : "--",
                   best.short_name ? best.option->short_name : best.option->name);
}

// A config file has long names only, and neither --help nor --config.
static or_status_t fail_unknown_key(const or_option_program_t *program, const char *file,
                                    const char *key)
{
    nearest_t best = {NULL, false, SIZE_MAX};
    look_nearby(program->table, key, &best);
    if (!or_options_is_near(key, best.distance)) {
        return or_fail(OR_ERR_INVALID, "%s: unknown key '%s' (--help lists all)", file, key);
    }
    return or_fail(OR_ERR_INVALID, "%s: unknown key '%s'; the nearest is '%s' (--help lists all)",
                   file, key, best.option->name);
}

// ---- the three sources ----

// The option that a word with dashes names. `*negated` for --no-NAME, `*value` behind an equals
// sign, else NULL.
static or_status_t match_option(const or_option_program_t *program, const char *word,
                                const or_option_t **option, bool *negated, const char **value)
{
    bool short_name = word[1] != '-';
    const char *name = word + (short_name ? 1 : 2);
    const char *equals = short_name ? NULL : strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    *value = equals != NULL ? equals + 1 : NULL;
    *negated = false;
    *option = find(program, name, length, short_name);
    if (*option == NULL && !short_name && equals == NULL && strncmp(name, "no-", 3) == 0) {
        *option = find(program, name + 3, length - 3, false);
        *negated = *option != NULL && (*option)->type == OR_OPTION_FLAG;
        if (!*negated) {
            *option = NULL;
        }
    }
    if (*option == NULL) {
        *option = find_other(program, word, (size_t)(name - word) + length);
    }
    if (*option == NULL) {
        char cut[NAME_MAX_BYTES];
        snprintf(cut, sizeof cut, "%.*s", (int)(length < INT_MAX ? length : INT_MAX), name);
        return fail_unknown(program, word, cut);
    }
    return OR_OK;
}

// The next item of the command line; *more is false at its end.
static or_status_t next_item(const or_option_program_t *program, cursor_t *at, item_t *item,
                             bool *more)
{
    if (at->index < at->argc && !at->words_only && strcmp(at->argv[at->index], "--") == 0) {
        at->words_only = true;
        at->index++;
    }
    *more = at->index < at->argc;
    if (!*more) {
        return OR_OK;
    }
    const char *word = at->argv[at->index++];
    if (at->words_only || word[0] != '-' || word[1] == '\0') {
        *item = (item_t){NULL, word};
        return OR_OK;
    }
    bool negated;
    or_status_t status = match_option(program, word, &item->option, &negated, &item->text);
    if (status != OR_OK) {
        return status;
    }
    if (item->text == NULL && item->option->type == OR_OPTION_FLAG) {
        item->text = negated ? "false" : "true";
    } else if (item->text == NULL) {
        // Whatever comes next is the value, so that -1 can be one.
        if (at->index == at->argc) {
            return or_fail(OR_ERR_INVALID, "%s needs a value: %s", word, item->option->arg);
        }
        item->text = at->argv[at->index++];
    }
    return OR_OK;
}

// First walk: --help, --help-json, --version and --config, which act before anything else.
static or_status_t read_common(parser_t *parser, int argc, char **argv)
{
    cursor_t at = {argv, argc, 1, false};
    item_t item;
    bool more;
    const char *variable = getenv("OUTRIDER_CONFIG");
    or_status_t status = OR_OK;
    if (variable != NULL && *variable != '\0') {
        status = or_options_set_string(&parser->common.config, variable);
    }
    while (status == OR_OK) {
        status = next_item(parser->program, &at, &item, &more);
        if (status != OR_OK || !more) {
            break;
        }
        if (item.option != NULL && is_common(item.option)) {
            char origin[OR_OPTION_ORIGIN_BYTES];
            or_option_origin(item.option, origin);
            status = or_options_store(item.option, origin, item.text, &parser->common);
        }
        if (parser->common.help || parser->common.help_json || parser->common.version) {
            break;
        }
    }
    return status;
}

static const char *usage_of(const or_option_program_t *program)
{
    return program->usage != NULL ? program->usage : "[options]";
}

static or_status_t read_command_line(parser_t *parser, int argc, char **argv,
                                     or_option_list_t *rest)
{
    cursor_t at = {argv, argc, 1, false};
    item_t item;
    bool more;
    or_status_t status;
    while ((status = next_item(parser->program, &at, &item, &more)) == OR_OK && more) {
        if (item.option != NULL && !is_common(item.option)) {
            char origin[OR_OPTION_ORIGIN_BYTES];
            or_option_origin(item.option, origin);
            status = set_option(parser, item.option, SOURCE_COMMAND_LINE, origin, item.text);
        } else if (item.option == NULL && rest == NULL) {
            status = or_fail(OR_ERR_INVALID,
                             "'%s' is not an option, and there are no other words: %s %s (--help)",
                             item.text, parser->program->program, usage_of(parser->program));
        } else if (item.option == NULL && *item.text == '\0') {
            status = or_fail(OR_ERR_INVALID, "an empty word makes no sense: %s %s (--help)",
                             parser->program->program, usage_of(parser->program));
        } else if (item.option == NULL) {
            status = or_options_append(rest, at.argv[at.index - 1]);
        }
        if (status != OR_OK) {
            break;
        }
    }
    return status;
}

static or_status_t read_environment(parser_t *parser)
{
    for (const or_option_t *option = parser->program->table; !or_options_is_end(option); option++) {
        const char *none = parser->program->no_variable;
        if (option->type == OR_OPTION_HEADING ||
            (none != NULL && strcmp(option->name, none) == 0)) {
            continue;
        }
        char variable[OR_OPTION_VARIABLE_BYTES];
        or_option_variable(option, variable);
        const char *text = getenv(variable);
        if (text != NULL && *text != '\0') {
            or_status_t status = set_option(parser, option, SOURCE_ENVIRONMENT, variable, text);
            if (status != OR_OK) {
                return status;
            }
        }
    }
    return OR_OK;
}

// A JSON scalar as the text one would write on the command line.
static or_status_t set_from_json(parser_t *parser, const or_option_t *option, const char *origin,
                                 const json_t *value)
{
    char number[64];
    const char *text = number;
    if (json_is_string(value)) {
        text = json_string_value(value);
    } else if (json_is_boolean(value)) {
        text = json_is_true(value) ? "true" : "false";
    } else if (json_is_integer(value)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    } else {
        return or_fail(OR_ERR_INVALID, "%s: a string, a number or true/false is needed", origin);
    }
    return set_option(parser, option, SOURCE_FILE, origin, text);
}

static or_status_t read_key(parser_t *parser, const char *key, const json_t *value)
{
    char origin[512];
    snprintf(origin, sizeof origin, "'%s' in %s", key, parser->common.config);
    const or_option_t *option = find_in(parser->program->table, key, strlen(key), false);
    if (option == NULL) {
        return fail_unknown_key(parser->program, parser->common.config, key);
    }
    if (option->type != OR_OPTION_LIST || !json_is_array(value)) {
        return set_from_json(parser, option, origin, value);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        or_status_t status = set_from_json(parser, option, origin, json_array_get(value, i));
        if (status != OR_OK) {
            return status;
        }
    }
    return OR_OK;
}

static or_status_t read_file(parser_t *parser)
{
    struct stat found;
    if (stat(parser->common.config, &found) == 0 && S_ISDIR(found.st_mode)) {
        return or_fail(OR_ERR_INVALID, "--config %s: a folder; name a file with a JSON object",
                       parser->common.config);
    }
    json_error_t error;
    json_t *root = json_load_file(parser->common.config, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && error.line < 0) { // not read at all
        return or_fail(OR_ERR_INVALID, "--config %s: %s", parser->common.config, error.text);
    }
    if (root == NULL) {
        return or_fail(OR_ERR_INVALID, "--config %s, line %d: %s", parser->common.config,
                       error.line, error.text);
    }
    or_status_t status = OR_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(root)) {
        status = or_fail(OR_ERR_INVALID, "--config %s: not a JSON object", parser->common.config);
    }
    json_object_foreach(root, key, value)
    {
        if (status == OR_OK) {
            status = read_key(parser, key, value);
        }
    }
    json_decref(root);
    return status;
}

// ---- the whole ----

static void print_version(const or_option_program_t *program)
{
    printf("%s %s (protocol %u, arithmetic %s)\n", program->program, OR_VERSION,
           OR_PROTOCOL_VERSION, OR_ARITH_ID);
}

// Forget options that say the same as one from a stronger source.
static void silence_weaker(parser_t *parser)
{
    const or_option_t *table = parser->program->table;
    const char *const *names = parser->program->either;
    source_t strongest = SOURCE_DEFAULT;
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        const or_option_t *option = find_in(table, names[i], strlen(names[i]), false);
        source_t source = parser->sources[option - table];
        strongest = source > strongest ? source : strongest;
    }
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        const or_option_t *option = find_in(table, names[i], strlen(names[i]), false);
        char **place = (char **)((char *)parser->config + option->offset);
        if (parser->sources[option - table] < strongest) {
            free(*place);
            *place = NULL;
        }
    }
}

// Read all sources, the weakest first.
static or_status_t read_sources(parser_t *parser, int argc, char **argv, or_option_list_t *rest)
{
    or_status_t status = parser->common.config != NULL ? read_file(parser) : OR_OK;
    if (status == OR_OK) {
        status = read_environment(parser);
    }
    if (status == OR_OK) {
        status = read_command_line(parser, argc, argv, rest);
    }
    if (status == OR_OK) {
        silence_weaker(parser);
    }
    return status;
}

// Read everything, or print the text that the command line asks for. `*run`: it asks for none.
static or_status_t parse(parser_t *parser, int argc, char **argv, or_option_list_t *rest, bool *run)
{
    const or_option_program_t *program = parser->program;
    or_status_t status = read_common(parser, argc, argv);
    if (status == OR_OK && parser->common.help) {
        or_options_print_help(program, parser->config);
    } else if (status == OR_OK && parser->common.help_json) {
        status = or_options_print_json(program, parser->config);
    } else if (status == OR_OK && parser->common.version) {
        print_version(program);
    } else if (status == OR_OK) {
        status = read_sources(parser, argc, argv, rest);
        *run = status == OR_OK;
    }
    return status;
}

or_status_t or_options_parse(const or_option_program_t *program, int argc, char **argv,
                             void *config, or_option_list_t *rest, or_options_next_t *next)
{
    or_option_program_t flat = *program;
    parser_t parser = {.program = &flat, .config = config};
    or_option_list_t words = {0};
    bool run = false;
    size_t rows_max = or_options_flatten(program->table, 0, NULL) + 1;
    or_option_t *rows = calloc(rows_max, sizeof *rows);
    parser.sources = calloc(rows_max, sizeof *parser.sources);
    or_status_t status = or_options_copy_defaults(program->table, config);
    if (status == OR_OK && (rows == NULL || parser.sources == NULL)) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for the options");
    }
    if (status == OR_OK) {
        memset(&rows[or_options_flatten(program->table, 0, rows)], 0, sizeof *rows); // the end
        flat.table = rows;
        status = parse(&parser, argc, argv, rest != NULL ? &words : NULL, &run);
    }
    if (status == OR_OK) {
        *next = run ? OR_OPTIONS_RUN : OR_OPTIONS_EXIT;
    }
    if (run && rest != NULL) {
        *rest = words;
    } else {
        free(words.items); // the words themselves are argv's
    }
    if (!run) {
        or_options_free(program, config, NULL);
    }
    free(parser.common.config);
    free(parser.sources);
    free(rows);
    return status;
}
