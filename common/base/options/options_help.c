// The description of a program's options: --help, and the same as JSON.
#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/options/options_internal.h"
#include "common/base/version.h"

#define HELP_COLUMN 32 // where the sentences start
#define HELP_WIDTH 100
#define DEFAULT_BYTES 256

// Describe a size in the largest unit that leaves a whole number. 0 mostly means "not given".
static void describe_size(uint64_t bytes, char *text, size_t capacity)
{
    static const char units[] = "\0KMGT";
    size_t unit = 0;
    while (bytes > 0 && bytes % 1024 == 0 && unit + 2 < sizeof units) {
        bytes /= 1024;
        unit++;
    }
    if (bytes > 0) {
        snprintf(text, capacity, " (default: %" PRIu64 "%.1s)", bytes, units + unit);
    }
}

// Describe an option's default, as " (default: 8)"; "" where there is none worth a word.
static void describe_default(const or_option_t *option, const void *config, char *text,
                             size_t capacity)
{
    const void *place = (const char *)config + option->offset;
    text[0] = '\0';
    switch (option->type) {
    case OR_OPTION_FLAG:
        snprintf(text, capacity, "%s", *(const bool *)place ? " (default: on)" : "");
        break;
    case OR_OPTION_INT32:
        snprintf(text, capacity, " (default: %" PRId32 ")", *(const int32_t *)place);
        break;
    case OR_OPTION_UINT32:
        snprintf(text, capacity, " (default: %" PRIu32 ")", *(const uint32_t *)place);
        break;
    case OR_OPTION_UINT64:
        snprintf(text, capacity, " (default: %" PRIu64 ")", *(const uint64_t *)place);
        break;
    case OR_OPTION_SIZE:
        describe_size(*(const uint64_t *)place, text, capacity);
        break;
    case OR_OPTION_FLOAT:
        snprintf(text, capacity, " (default: %g)", (double)*(const float *)place);
        break;
    case OR_OPTION_STRING:
        if (*(char *const *)place != NULL && **(char *const *)place != '\0') {
            snprintf(text, capacity, " (default: %s)", *(char *const *)place);
        }
        break;
    case OR_OPTION_LIST:
        snprintf(text, capacity, " (may be repeated)");
        break;
    case OR_OPTION_HEADING:
    case OR_OPTION_PART:
        break;
    }
}

void or_option_describe(const or_option_t *option, char sentence[OR_OPTION_SENTENCE_BYTES])
{
    const char *place = option->choices != NULL ? strstr(option->help, "{}") : NULL;
    if (place == NULL) {
        snprintf(sentence, OR_OPTION_SENTENCE_BYTES, "%s", option->help);
    } else {
        snprintf(sentence, OR_OPTION_SENTENCE_BYTES, "%.*s%s%s", (int)(place - option->help),
                 option->help, option->choices(), place + 2);
    }
}

// The words of a sentence from HELP_COLUMN on, broken before HELP_WIDTH.
static void print_wrapped(const char *text)
{
    size_t column = HELP_COLUMN;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column + 1 + word > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const or_option_t *option, const void *config)
{
    char spelled[128], value[DEFAULT_BYTES], sentence[OR_OPTION_SENTENCE_BYTES];
    snprintf(spelled, sizeof spelled, "  %s%s%s--%s%s%s", option->short_name != NULL ? "-" : "    ",
             option->short_name != NULL ? option->short_name : "",
             option->short_name != NULL ? ", " : "", option->name, option->arg != NULL ? " " : "",
             option->arg != NULL ? option->arg : "");
    or_option_describe(option, sentence);
    describe_default(option, config, value, sizeof value);
    snprintf(sentence + strlen(sentence), sizeof sentence - strlen(sentence), "%s", value);
    printf("%-*s", HELP_COLUMN, spelled);
    if (strlen(spelled) >= HELP_COLUMN) {
        printf("\n%*s", HELP_COLUMN, "");
    }
    print_wrapped(sentence);
}

static void print_table(const or_option_t *table, const void *config)
{
    for (; !or_options_is_end(table); table++) {
        if (table->type == OR_OPTION_HEADING) {
            printf("\n%s\n", table->help);
        } else {
            print_option(table, config);
        }
    }
}

void or_options_print_help(const or_option_program_t *program, const void *config)
{
    static const or_common_options_t none;
    printf("%s - %s\n\nusage: %s %s\n", program->program, program->summary, program->program,
           program->usage != NULL ? program->usage : "[options]");
    print_table(program->table, config);
    print_table(or_common_options, &none);
    printf("\nEvery option is also a variable (OUTRIDER_TEMP for --temp) and a key of the --config "
           "file.\nFlags can be turned off with --no-NAME.\n");
    if (program->examples != NULL) {
        printf("\n%s\n", program->examples);
    }
}

// ---- JSON ----

static json_t *json_of_option(const or_option_t *option, const void *config)
{
    char value[DEFAULT_BYTES], sentence[OR_OPTION_SENTENCE_BYTES];
    if (option->type == OR_OPTION_HEADING) {
        return json_pack("{s:s}", "heading", option->help);
    }
    or_option_describe(option, sentence);
    describe_default(option, config, value, sizeof value);
    return json_pack("{s:s, s:s?, s:s?, s:s, s:s, s:b, s:s?}", "name", option->name, "short",
                     option->short_name, "arg", option->arg, "help", sentence, "note", value,
                     "flag", option->type == OR_OPTION_FLAG, "choices",
                     option->choices != NULL ? option->choices() : NULL);
}

static json_t *json_of_names(const char *const *names)
{
    json_t *array = json_array();
    for (; names != NULL && *names != NULL; names++) {
        json_array_append_new(array, json_string(*names));
    }
    return array;
}

static void append_table(json_t *array, const or_option_t *table, const void *config)
{
    for (; !or_options_is_end(table); table++) {
        json_array_append_new(array, json_of_option(table, config));
    }
}

static or_status_t print_line(json_t *line)
{
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the options");
    }
    puts(text);
    free(text);
    return OR_OK;
}

// `options` is taken.
static or_status_t print_program(const or_option_program_t *program, json_t *options)
{
    return print_line(json_pack(
        "{s:s, s:s, s:s, s:s?, s:s?, s:o, s:o}", "program", program->program, "version", OR_VERSION,
        "summary", program->summary, "usage", program->usage, "examples", program->examples,
        "commands", json_of_names(program->commands), "options", options));
}

or_status_t or_options_print_json(const or_option_program_t *program, const void *config)
{
    static const or_common_options_t none;
    json_t *options = json_array();
    append_table(options, program->table, config);
    append_table(options, or_common_options, &none);
    return print_program(program, options);
}

or_status_t or_options_print_commands(const or_option_program_t *program)
{
    return print_program(program, json_array());
}
