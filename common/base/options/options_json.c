#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/options/options_internal.h"
#include "common/base/version.h"

static json_t *json_of_option(const or_option_t *option, const void *config)
{
    char value[OR_OPTIONS_DEFAULT_BYTES];
    if (option->type == OR_OPTION_HEADING) {
        return json_pack("{s:s}", "heading", option->help);
    }
    or_options_describe_default(option, config, value, sizeof value);
    return json_pack("{s:s, s:s?, s:s?, s:s, s:s, s:b}", "name", option->name, "short",
                     option->short_name, "arg", option->arg, "help", option->help, "note", value,
                     "flag", option->type == OR_OPTION_FLAG);
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
    for (; table->name != NULL || table->type == OR_OPTION_HEADING; table++) {
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
