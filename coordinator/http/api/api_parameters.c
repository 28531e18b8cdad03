// Parameters of sampling and drafting in a request's JSON, by the rows of proto/wire/parameters.h; and what those rows
// are, for the playground.
#include <stdio.h>
#include <string.h>

#include "coordinator/http/api/api_request_internal.h"
#include "proto/wire/parameters.h"

or_parameters_t or_api_parameters_usual(void)
{
    or_parameters_t usual = or_parameters_default();
    usual.request.sampling.temperature = 1; // OpenAI's
    usual.request.sampling.repeat_last_n = -1;
    return usual;
}

static or_bounds_t bounds_of(const or_option_t *row)
{
    const or_bounds_t *own = &row->field_bounds;
    return own->least != 0 || own->most != 0 ? *own : row->bounds;
}

// ---- reading ----

// The name is known by those who know the names, who are asked when all is there.
static bool read_name(char **name, const char *param, const json_t *value,
                      or_api_problem_t *problem)
{
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be a name.", param);
    }
    *name = (char *)text; // of the body, which is there until all is settled
    return true;
}

static bool read_number(const or_option_t *row, void *place, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    or_bounds_t bounds = bounds_of(row);
    const or_api_field_t field = {.kind = row->type == OR_OPTION_FLAG     ? OR_API_FLAG
                                          : row->type == OR_OPTION_FLOAT  ? OR_API_REAL
                                          : row->type == OR_OPTION_UINT32 ? OR_API_COUNT
                                                                          : OR_API_WHOLE,
                                  .least = bounds.least,
                                  .most = bounds.most};
    if (bounds.above && !(json_number_value(value) > bounds.least)) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be a number above %.10g, up to %.10g.", param, bounds.least,
                             bounds.most);
    }
    return or_api_field_read(&field, place, param, value, problem);
}

bool or_api_read_parameter(void *into, const char *param, const json_t *value,
                           or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    const or_option_t *row = or_parameter_of_field(param);
    if (row == NULL) {
        return or_api_refuse_unknown(param, problem);
    }
    if (json_is_null(value)) {
        return true;
    }
    // A field of the request is read into the request, where its other fields are.
    bool own = row->offset < sizeof reading->made.generate;
    void *base = own ? (void *)&reading->made.generate : (void *)&reading->parameters;
    void *place = (char *)base + row->offset;
    return row->type == OR_OPTION_STRING ? read_name(place, param, value, problem)
                                         : read_number(row, place, param, value, problem);
}

static const or_api_field_t draft_fields[] = {
    {"details", OR_API_FLAG, .offset = offsetof(or_api_reading_t, made.details)},
    {.read = or_api_read_parameter}};

bool or_api_read_draft(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    if (json_is_boolean(value) || or_api_is_word(value, "off")) {
        reading->made.generate.plain = !json_is_true(value);
        return true;
    }
    if (!json_is_object(value)) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be an object of settings, or false for none.", param);
    }
    return or_api_object_read(value, param, draft_fields, into, problem);
}

// ---- all together ----

// Refuse with the last error. `option` is at fault; NULL: several settings do not go together.
static bool refuse_with_error(const char *option, or_api_problem_t *problem)
{
    const char *param = option != NULL ? or_name_field(option) : "draft";
    const char *message = or_error_text();
    size_t length = strlen(param);
    bool named = strncmp(message, param, length) == 0 && message[length] == ':';
    return named ? or_api_refuse(problem, 400, NULL, param, "%s", message)
                 : or_api_refuse(problem, 400, NULL, param, "'%s': %s", param, message);
}

bool or_api_settle_draft(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_generate_request_t *generate = &reading->made.generate;
    const char *option;
    or_shape_t shape;
    reading->parameters.request = *generate;
    if (or_parameters_settle(&reading->parameters, or_name_field, generate, &shape, &option) !=
        OR_OK) {
        return refuse_with_error(option, problem);
    }
    generate->details = reading->made.details;
    generate->draft_shape = NULL;
    if (shape.count > 0) {
        uint32_t *widths = or_api_keep(&reading->made, shape.count, sizeof *widths, problem);
        if (widths == NULL) {
            return false;
        }
        memcpy(widths, shape.widths, shape.count * sizeof *widths);
        generate->draft_shape = widths;
    }
    return true;
}

// ---- telling ----

static const char *type_name(or_option_type_t type)
{
    return type == OR_OPTION_FLAG     ? "boolean"
           : type == OR_OPTION_STRING ? "string"
           : type == OR_OPTION_FLOAT  ? "number"
                                      : "integer";
}

// Lossy rules are not offered over HTTP, where every text is a sample of the target.
static bool is_refused(const or_option_t *row, const char *name)
{
    or_accept_rule_t rule;
    return row->choices == or_accept_rule_list && or_accept_rule_parse(name, &rule) == OR_OK &&
           or_accept_rule_is_lossy(rule);
}

// The names that a parameter may be, from "coupled, chain"; null where it may be anything.
static json_t *json_of_choices(const or_option_t *row)
{
    if (row->choices == NULL) {
        return json_null();
    }
    json_t *list = json_array();
    for (const char *at = row->choices(); *at != '\0'; at += strspn(at, ", ")) {
        char name[OR_API_PARAM_BYTES];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (!is_refused(row, name)) {
            json_array_append_new(list, json_string(name));
        }
        at += length;
    }
    return list;
}

// The value that is used where none is given; null: that depends on others.
static json_t *json_of_default(const or_option_t *row, const or_parameters_t *usual)
{
    const void *place = (const char *)usual + row->offset;
    const char *text = row->type == OR_OPTION_STRING ? *(char *const *)place : NULL;
    or_bounds_t bounds = bounds_of(row);
    double number;
    if (row->type == OR_OPTION_FLAG) {
        return json_boolean(*(const bool *)place);
    }
    if (!or_option_number(row, usual, &number) ||
        or_bounds_check(&bounds, row->name, number) != OR_OK) {
        return text != NULL ? json_string(text) : json_null();
    }
    return row->type == OR_OPTION_FLOAT ? json_real(number) : json_integer((json_int_t)number);
}

// An end of a parameter's numbers; null: there is none.
static json_t *json_of_end(const or_option_t *row, bool bounded, double value)
{
    if (!bounded || isinf(value)) {
        return json_null();
    }
    return row->type == OR_OPTION_FLOAT ? json_real(value) : json_integer((json_int_t)value);
}

static void append_rows(json_t *list, const or_option_t *rows, const or_parameters_t *usual)
{
    char sentence[OR_OPTION_SENTENCE_BYTES];
    for (const or_option_t *row = rows; row->name != NULL; row++) {
        or_bounds_t bounds = bounds_of(row);
        bool bounded = bounds.least != 0 || bounds.most != 0;
        if (row->field != NULL) {
            or_option_describe(row, sentence);
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:o}",
                                                  "name", row->field, "option", row->name, "type",
                                                  type_name(row->type), "help", sentence, "default",
                                                  json_of_default(row, usual), "least",
                                                  json_of_end(row, bounded, bounds.least), "most",
                                                  json_of_end(row, bounded, bounds.most), "above",
                                                  bounds.above, "choices", json_of_choices(row)));
        }
    }
}

json_t *or_api_parameters_json(void)
{
    const or_parameters_t usual = or_api_parameters_usual();
    json_t *list = json_array();
    append_rows(list, or_sampling_parameters, &usual);
    append_rows(list, or_drafting_parameters, &usual);
    return json_pack("{s:o}", "parameters", list);
}
