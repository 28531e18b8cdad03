#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/options/options_internal.h"

#define HELP_COLUMN 32 // where the sentences start
#define HELP_WIDTH 100

// In the largest unit that leaves a whole number; 0 mostly means "not said".
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

void or_options_describe_default(const or_option_t *option, const void *config, char *text,
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
        if (*(char *const *)place != NULL) {
            snprintf(text, capacity, " (default: %s)", *(char *const *)place);
        }
        break;
    case OR_OPTION_LIST:
        snprintf(text, capacity, " (may be repeated)");
        break;
    case OR_OPTION_HEADING:
        break;
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
    char spelled[128], value[OR_OPTIONS_DEFAULT_BYTES], sentence[1024];
    snprintf(spelled, sizeof spelled, "  %s%s%s--%s%s%s", option->short_name != NULL ? "-" : "    ",
             option->short_name != NULL ? option->short_name : "",
             option->short_name != NULL ? ", " : "", option->name, option->arg != NULL ? " " : "",
             option->arg != NULL ? option->arg : "");
    or_options_describe_default(option, config, value, sizeof value);
    snprintf(sentence, sizeof sentence, "%s%s", option->help, value);
    printf("%-*s", HELP_COLUMN, spelled);
    if (strlen(spelled) >= HELP_COLUMN) {
        printf("\n%*s", HELP_COLUMN, "");
    }
    print_wrapped(sentence);
}

static void print_table(const or_option_t *table, const void *config)
{
    for (; table->name != NULL || table->type == OR_OPTION_HEADING; table++) {
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
