#include "coordinator/http/api_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Cut what a client wrote behind a whole character.
static void cut_character(char *text, size_t capacity)
{
    size_t length = strlen(text);
    if (length + 1 < capacity) {
        return;
    }
    while (length > 0 && ((unsigned char)text[length - 1] & 0xC0) == 0x80) {
        length--;
    }
    if (length > 0 && (unsigned char)text[length - 1] >= 0xC0) {
        length--;
    }
    text[length] = '\0';
}

bool or_api_refuse(or_api_problem_t *problem, unsigned status, const char *code, const char *param,
                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    problem->status = status;
    problem->code = code;
    snprintf(problem->param, sizeof problem->param, "%s", param != NULL ? param : "");
    cut_character(problem->param, sizeof problem->param);
    vsnprintf(problem->message, sizeof problem->message, format, arguments);
    cut_character(problem->message, sizeof problem->message);
    va_end(arguments);
    return false;
}

// ---- the body ----

// How deep and how much: looked at before memory is spent on it, of which a value takes many times its bytes.
static void weigh(const uint8_t *body, size_t bytes, size_t *depth_max, size_t *values)
{
    size_t depth = 0;
    bool inside = false; // a string
    *depth_max = 0;
    *values = 1;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = body[i];
        if (inside) {
            i += byte == '\\'; // what it escapes ends nothing
            inside = byte != '"';
        } else if (byte == '"') {
            inside = true;
        } else if (byte == '[' || byte == '{') {
            depth++;
            *depth_max = depth > *depth_max ? depth : *depth_max;
            (*values)++;
        } else if ((byte == ']' || byte == '}') && depth > 0) {
            depth--;
        }
        *values += !inside && byte == ',';
    }
}

json_t *or_api_body_parse(const uint8_t *body, size_t bytes, or_api_problem_t *problem)
{
    size_t depth, values;
    json_error_t error;
    weigh(body, bytes, &depth, &values);
    if (depth > OR_API_DEPTH_MAX || values > OR_API_VALUES_MAX) {
        or_api_refuse(problem, 400, NULL, NULL,
                      "The body is too %s: at most %u levels and %u values are read.",
                      depth > OR_API_DEPTH_MAX ? "deep" : "large", OR_API_DEPTH_MAX,
                      OR_API_VALUES_MAX);
        return NULL;
    }
    json_t *root =
        json_loadb((const char *)body, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        or_api_refuse(problem, 400, NULL, NULL,
                      "The body is not valid JSON in UTF-8: line %d, column %d: %s", error.line,
                      error.column, error.text);
    } else if (!json_is_object(root)) {
        or_api_refuse(problem, 400, NULL, NULL, "The body must be a JSON object.");
        json_decref(root);
        root = NULL;
    }
    return root;
}

// ---- fields ----

bool or_api_is_word(const json_t *value, const char *word)
{
    return json_is_string(value) && json_string_length(value) == strlen(word) &&
           memcmp(json_string_value(value), word, strlen(word)) == 0;
}

void or_api_path(char path[OR_API_PARAM_BYTES], const char *array, size_t index, const char *member)
{
    snprintf(path, OR_API_PARAM_BYTES, "%s[%zu]%s%s", array, index, member[0] != '\0' ? "." : "",
             member);
}

static bool read_number(const or_api_field_t *field, void *into, const char *param,
                        const json_t *value, or_api_problem_t *problem)
{
    bool whole = field->kind == OR_API_COUNT;
    if (whole ? !json_is_integer(value) : !json_is_number(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be %s number.", param,
                             whole ? "a whole" : "a");
    }
    double number = json_number_value(value);
    if (!(number >= field->least && number <= field->most)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be between %.10g and %.10g.",
                             param, field->least, field->most);
    }
    char *place = (char *)into + field->offset;
    if (whole) {
        *(uint32_t *)(void *)place = (uint32_t)number;
    } else {
        *(float *)(void *)place = (float)number;
    }
    return true;
}

// What is not supported may still be given as what happens anyway.
static bool is_usual(const json_t *value, const char *only)
{
    bool usual = false;
    json_t *known = json_loads(only, JSON_DECODE_ANY, NULL);
    for (size_t i = 0; i < json_array_size(known); i++) {
        usual = usual || json_equal(json_array_get(known, i), value);
    }
    json_decref(known);
    return usual;
}

static bool read_only(const or_api_field_t *field, const char *param, const json_t *value,
                      or_api_problem_t *problem)
{
    if (is_usual(value, field->only)) {
        return true;
    }
    bool none = strcmp(field->only, "[]") == 0;
    return or_api_refuse(problem, 400, "unsupported_parameter", param,
                         none ? "'%s' is not supported by Outrider: leave it out.%s"
                              : "'%s' is not supported by Outrider other than as one of %s.",
                         param, none ? "" : field->only);
}

static bool read_field(const or_api_field_t *field, void *into, const char *param,
                       const json_t *value, or_api_problem_t *problem)
{
    switch (field->kind) {
    case OR_API_FLAG:
        if (!json_is_boolean(value)) {
            return or_api_refuse(problem, 400, NULL, param, "'%s' must be true or false.", param);
        }
        *(bool *)((char *)into + field->offset) = json_is_true(value);
        return true;
    case OR_API_COUNT:
    case OR_API_REAL:
        return read_number(field, into, param, value, problem);
    case OR_API_OWN:
        return field->read(into, param, value, problem);
    default:
        return read_only(field, param, value, problem);
    }
}

bool or_api_object_read(const json_t *object, const char *path, const or_api_field_t *fields,
                        void *into, or_api_problem_t *problem)
{
    const char *name;
    json_t *value;
    // NOLINTNEXTLINE(bugprone-casting-through-void): jansson's iterators want an object that may change
    json_object_foreach((json_t *)(void *)(uintptr_t)object, name, value)
    {
        char param[OR_API_PARAM_BYTES];
        snprintf(param, sizeof param, "%s%s%s", path, path[0] != '\0' ? "." : "", name);
        cut_character(param, sizeof param);
        const or_api_field_t *field = fields;
        while (field->name != NULL && strcmp(field->name, name) != 0) {
            field++;
        }
        if (field->name == NULL) {
            return or_api_refuse(problem, 400, "unknown_parameter", param,
                                 "Unrecognized request argument supplied: %s", param);
        }
        if (!json_is_null(value) && !read_field(field, into, param, value, problem)) {
            return false;
        }
    }
    return true;
}
