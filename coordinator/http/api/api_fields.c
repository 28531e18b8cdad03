#include "coordinator/http/api/api_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/text/utf8.h"
#include "coordinator/http/api/api_json.h"

// Cut a client's text behind a whole character.
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

// The bytes that libjansson takes for each kind of value. They include malloc's own, and the copies while a list or a
// table grows.
#define VALUE_BYTES 56u // a number, and its place in a list
#define LIST_BYTES 144u
#define OBJECT_BYTES 240u
#define MEMBER_BYTES 112u
#define STRING_BYTES 64u // and its length

typedef struct {
    size_t depth, depth_max;
    size_t lists, objects, members, commas;
    size_t strings, string_bytes, longest;
} weight_t;

// Return where this byte is next, from `begin`; `bytes` if it is nowhere.
static size_t find(const uint8_t *body, size_t bytes, size_t begin, uint8_t byte)
{
    const uint8_t *found = begin < bytes ? memchr(body + begin, byte, bytes - begin) : NULL;
    return found != NULL ? (size_t)(found - body) : bytes;
}

// Return where the string that begins at `begin` ends, behind its quote.
static size_t weigh_string(const uint8_t *body, size_t bytes, size_t begin, weight_t *weight)
{
    size_t end = find(body, bytes, begin + 1, '"');
    size_t escape = find(body, end, begin + 1, '\\');
    while (escape < end) { // what it escapes ends nothing
        end = escape + 1 < end ? end : find(body, bytes, escape + 2, '"');
        escape = find(body, end, escape + 2, '\\');
    }
    size_t length = end - begin;
    weight->strings++;
    weight->string_bytes += length;
    weight->longest = length > weight->longest ? length : weight->longest;
    return end + 1;
}

static void weigh_byte(uint8_t byte, weight_t *weight)
{
    switch (byte) {
    case '[':
    case '{':
        weight->lists += byte == '[';
        weight->objects += byte == '{';
        weight->depth++;
        weight->depth_max = weight->depth > weight->depth_max ? weight->depth : weight->depth_max;
        break;
    case ']':
    case '}':
        weight->depth -= weight->depth > 0;
        break;
    case ':':
        weight->members++;
        break;
    default:
        weight->commas += byte == ',';
    }
}

// The memory for all values. A string is there three times while it is read.
static size_t form_of(const weight_t *weight)
{
    size_t values = 1 + weight->commas + weight->lists + weight->objects;
    return values * VALUE_BYTES + weight->lists * LIST_BYTES + weight->objects * OBJECT_BYTES +
           weight->members * MEMBER_BYTES + weight->strings * STRING_BYTES + weight->string_bytes +
           3 * weight->longest;
}

bool or_api_body_weigh(const uint8_t *body, size_t bytes, size_t *form_bytes,
                       or_api_problem_t *problem)
{
    weight_t weight = {0};
    for (size_t i = 0; i < bytes;) {
        if (body[i] == '"') {
            i = weigh_string(body, bytes, i, &weight);
        } else {
            weigh_byte(body[i++], &weight);
        }
    }
    *form_bytes = form_of(&weight);
    bool deep = weight.depth_max > OR_API_DEPTH_MAX;
    if (deep || *form_bytes > OR_API_FORM_BYTES_MAX) {
        return or_api_refuse(problem, 400, NULL, NULL,
                             "The body is too %s: at most %u levels and %zu MiB of values are read "
                             "(a number takes %u bytes, an object %u).",
                             deep ? "deep" : "large", OR_API_DEPTH_MAX, OR_API_FORM_BYTES_MAX >> 20,
                             VALUE_BYTES, OBJECT_BYTES + VALUE_BYTES);
    }
    return true;
}

json_t *or_api_body_parse(const uint8_t *body, size_t bytes, or_api_problem_t *problem)
{
    size_t form_bytes;
    json_error_t error;
    if (!or_api_body_weigh(body, bytes, &form_bytes, problem)) {
        return NULL;
    }
    (void)or_api_json_has_failed(); // what was before
    json_t *root =
        json_loadb((const char *)body, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL && or_api_json_has_failed()) {
        or_api_refuse(problem, 500, NULL, NULL, "There is no memory for the request.");
    } else if (root == NULL) {
        or_utf8_mend(error.text); // which quotes the body, and may end inside a character
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
    bool whole = field->kind != OR_API_REAL;
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
    if (field->kind == OR_API_COUNT) {
        *(uint32_t *)(void *)place = (uint32_t)number;
    } else if (whole) {
        *(int32_t *)(void *)place = (int32_t)number;
    } else {
        *(float *)(void *)place = (float)number;
    }
    return true;
}

// Is this a value that asks for what happens anyway? It is accepted in a field that is not supported.
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

bool or_api_field_read(const or_api_field_t *field, void *into, const char *param,
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
    case OR_API_WHOLE:
    case OR_API_REAL:
        return read_number(field, into, param, value, problem);
    case OR_API_OWN:
        return field->read(into, param, value, problem);
    default:
        return read_only(field, param, value, problem);
    }
}

bool or_api_refuse_unknown(const char *param, or_api_problem_t *problem)
{
    return or_api_refuse(problem, 400, "unknown_parameter", param,
                         "Unrecognized request argument supplied: %s", param);
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
        if (field->name == NULL && (field->read == NULL || strchr(name, '.') != NULL)) {
            return or_api_refuse_unknown(param, problem);
        }
        if (field->name == NULL) {
            if (!field->read(into, param, value, problem)) {
                return false;
            }
            continue;
        }
        if (!json_is_null(value) && !or_api_field_read(field, into, param, value, problem)) {
            return false;
        }
    }
    return true;
}
