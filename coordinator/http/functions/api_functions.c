// Tools in a request: functions that may be called, calls that were made, and their results. Such a conversation is written out
// here, and the coordinator is sent its tokens.
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat_json.h"
#include "coordinator/http/api/api_request_internal.h"

// Of a prompt, tools may take so many bytes for each of the body's, and some more: a small body is handled on the thread that
// writes everybody's streams, and indents or many questions of the same words would make megabytes of it.
#define GROWTH_MAX 8u
#define SMALL_BYTES ((size_t)64 << 10)

// Does the model have a format of tools?
static bool has_format(const or_api_terms_t *terms, const char *param, or_api_problem_t *problem)
{
    if (terms->tools != NULL) {
        return true;
    }
    return or_api_refuse(problem, 400, "unsupported_parameter", param,
                         "'%s' is not supported with this model: Outrider knows no format of tools "
                         "for its chat template%s%s.",
                         param, terms->chat != NULL ? ", " : "",
                         terms->chat != NULL ? or_chat_name(terms->chat) : "");
}

// ---- fields that several objects have ----

static bool read_function_type(void *into, const char *param, const json_t *value,
                               or_api_problem_t *problem)
{
    (void)into;
    return or_api_is_word(value, "function") ||
           or_api_refuse(problem, 400, "unsupported_parameter", param,
                         "'%s': Outrider knows tools of type function only.", param);
}

static bool read_function_name(void *into, const char *param, const json_t *value,
                               or_api_problem_t *problem)
{
    *(const json_t **)into = value;
    return (json_is_string(value) &&
            or_chat_is_call_name(json_string_value(value), json_string_length(value))) ||
           or_api_refuse(problem, 400, NULL, param,
                         "'%s' must be the name of a function: at most %u letters, digits and "
                         "characters of '_-.'.",
                         param, OR_CHAT_CALL_NAME_BYTES);
}

static bool check_text(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    (void)into;
    return json_is_string(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be a string.", param);
}

static bool check_object(const json_t *value, const char *param, or_api_problem_t *problem)
{
    return json_is_object(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be an object.", param);
}

// ---- tools ----

static bool check_parameters(void *into, const char *param, const json_t *value,
                             or_api_problem_t *problem)
{
    (void)into;
    return check_object(value, param, problem);
}

static const or_api_field_t function_fields[] = {
    {"name", OR_API_OWN, .read = read_function_name},
    {"description", OR_API_OWN, .read = check_text},
    {"parameters", OR_API_OWN, .read = check_parameters},
    {"strict", OR_API_ONLY, .only = "[false]"},
    {0}};

static bool read_tool_function(void *into, const char *param, const json_t *value,
                               or_api_problem_t *problem)
{
    const json_t *name = NULL;
    *(bool *)into = true;
    return check_object(value, param, problem) &&
           or_api_object_read(value, param, function_fields, (void *)&name, problem) &&
           (name != NULL || or_api_refuse(problem, 400, NULL, param, "'%s' needs a name.", param));
}

static const or_api_field_t tool_fields[] = {{"type", OR_API_OWN, .read = read_function_type},
                                             {"function", OR_API_OWN, .read = read_tool_function},
                                             {0}};

bool or_api_read_tools(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    if (!json_is_array(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be an array of tools.", param);
    }
    if (!has_format(reading->terms, param, problem)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        char place[OR_API_PARAM_BYTES];
        bool has_function = false;
        or_api_path(place, param, i, "");
        if (!check_object(tool, place, problem) ||
            !or_api_object_read(tool, place, tool_fields, &has_function, problem)) {
            return false;
        }
        if (!has_function) {
            return or_api_refuse(problem, 400, NULL, place, "'%s' needs a function.", place);
        }
    }
    reading->tools = json_array_size(value) > 0 ? value : NULL;
    return true;
}

bool or_api_read_tool_choice(void *into, const char *param, const json_t *value,
                             or_api_problem_t *problem)
{
    ((or_api_reading_t *)into)->calls_nothing = or_api_is_word(value, "none");
    return or_api_is_word(value, "none") || or_api_is_word(value, "auto") ||
           or_api_refuse(problem, 400, "unsupported_parameter", param,
                         "'%s' is auto or none: Outrider forces no model to call a tool.", param);
}

bool or_api_read_parallel_calls(void *into, const char *param, const json_t *value,
                                or_api_problem_t *problem)
{
    ((or_api_reading_t *)into)->made.one_call = json_is_false(value);
    return json_is_boolean(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be true or false.", param);
}

// ---- calls that were made ----

typedef struct {
    or_api_request_t *request;
    or_chat_call_t *call;
} call_t;

// A text of ours without a NUL in it.
static const char *keep_word(or_api_request_t *request, const char *param, const json_t *value,
                             or_api_problem_t *problem)
{
    const char *word = json_string_value(value);
    if (word == NULL || strlen(word) != json_string_length(value)) {
        or_api_refuse(problem, 400, NULL, param, "'%s' must be a string without NUL.", param);
        return NULL;
    }
    return (const char *)or_api_keep_text(request, value, problem);
}

static bool read_call_id(void *into, const char *param, const json_t *value,
                         or_api_problem_t *problem)
{
    const call_t *made = into;
    made->call->id = keep_word(made->request, param, value, problem);
    return made->call->id != NULL;
}

static bool read_call_name(void *into, const char *param, const json_t *value,
                           or_api_problem_t *problem)
{
    const call_t *made = into;
    const json_t *name = NULL;
    if (!read_function_name((void *)&name, param, value, problem)) {
        return false;
    }
    made->call->name = keep_word(made->request, param, value, problem);
    return made->call->name != NULL;
}

// Arguments are an object as JSON text. Nothing stands for none.
static bool read_call_arguments(void *into, const char *param, const json_t *value,
                                or_api_problem_t *problem)
{
    static const char spaces[] = " \t\r\n";
    const call_t *made = into;
    const char *text = keep_word(made->request, param, value, problem);
    if (text == NULL) {
        return false;
    }
    text += strspn(text, spaces);
    text = *text != '\0' ? text : "{}";
    const size_t left = strlen(text), length = or_chat_json_length(text, left);
    made->call->arguments = text;
    made->call->arguments_bytes = length;
    return (*text == '{' && length > 0 && length + strspn(text + length, spaces) == left) ||
           or_api_refuse(problem, 400, NULL, param,
                         "'%s' must be a JSON object as text, at most %u levels deep.", param,
                         OR_CHAT_JSON_DEPTH_MAX);
}

static const or_api_field_t call_function_fields[] = {
    {"name", OR_API_OWN, .read = read_call_name},
    {"arguments", OR_API_OWN, .read = read_call_arguments},
    {0}};

static bool read_call_function(void *into, const char *param, const json_t *value,
                               or_api_problem_t *problem)
{
    return check_object(value, param, problem) &&
           or_api_object_read(value, param, call_function_fields, into, problem);
}

static const or_api_field_t call_fields[] = {{"id", OR_API_OWN, .read = read_call_id},
                                             {"type", OR_API_OWN, .read = read_function_type},
                                             {"function", OR_API_OWN, .read = read_call_function},
                                             {0}};

bool or_api_take_calls(or_api_reading_t *reading, const char *param, const json_t *value,
                       or_chat_turn_t *turn, or_api_problem_t *problem)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be an array of calls.", param);
    }
    if (!has_format(reading->terms, param, problem)) {
        return false;
    }
    or_chat_call_t *calls = or_api_keep(&reading->made, count, sizeof *calls, problem);
    for (size_t i = 0; calls != NULL && i < count; i++) {
        char place[OR_API_PARAM_BYTES];
        call_t made = {&reading->made, &calls[i]};
        or_api_path(place, param, i, "");
        calls[i] = (or_chat_call_t){.arguments = "{}", .arguments_bytes = 2, .id = ""};
        const json_t *call = json_array_get(value, i);
        if (!check_object(call, place, problem) ||
            !or_api_object_read(call, place, call_fields, &made, problem)) {
            return false;
        }
        if (calls[i].name == NULL) {
            return or_api_refuse(problem, 400, NULL, place, "'%s' needs a function with a name.",
                                 place);
        }
    }
    turn->calls = calls;
    turn->call_count = count;
    reading->speaks_of_tools = reading->speaks_of_tools || count > 0;
    return calls != NULL;
}

bool or_api_take_call_id(or_api_reading_t *reading, const char *param, const json_t *value,
                         or_chat_turn_t *turn, or_api_problem_t *problem)
{
    turn->call_id = keep_word(&reading->made, param, value, problem);
    return turn->call_id != NULL;
}

bool or_api_take_result(or_api_reading_t *reading, const char *param, or_api_problem_t *problem)
{
    reading->speaks_of_tools = true;
    return has_format(reading->terms, param, problem);
}

// ---- the prompt ----

static bool keep_tokens(or_api_request_t *request, const int32_t *ids, size_t count,
                        or_api_problem_t *problem)
{
    if (count > OR_WIRE_TOKENS_MAX) {
        return or_api_refuse(problem, 400, "context_length_exceeded", "messages",
                             "The conversation has %zu tokens: at most %u are read.", count,
                             OR_WIRE_TOKENS_MAX);
    }
    uint32_t *tokens = or_api_keep(request, count, sizeof *tokens, problem);
    if (tokens == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        tokens[i] = (uint32_t)ids[i];
    }
    request->prompts[0].tokens = tokens;
    request->prompts[0].count = (uint32_t)count;
    return true;
}

static bool write_out(or_api_reading_t *reading, const or_chat_toolbox_t *toolbox,
                      or_api_problem_t *problem)
{
    or_generate_request_t *generate = &reading->made.generate;
    const or_api_terms_t *terms = reading->terms;
    int32_t *ids = NULL;
    size_t count = 0;
    for (uint32_t i = 0; i < generate->message_count; i++) {
        const or_chat_message_t *message = &generate->messages[i];
        reading->turns[i].role = message->role;
        reading->turns[i].content = (const char *)message->content;
        reading->turns[i].length = message->content_bytes;
    }
    or_status_t status =
        or_chat_tokenize_tools(terms->chat, toolbox, terms->vocab, generate->thinking,
                               reading->turns, generate->message_count, &ids, &count);
    if (status != OR_OK) {
        return or_api_refuse(problem, status == OR_ERR_NO_MEMORY ? 500 : 400, NULL, "messages",
                             "%s", or_error_text());
    }
    const bool kept = keep_tokens(&reading->made, ids, count, problem);
    free(ids);
    generate->messages = NULL;
    generate->message_count = 0;
    generate->reader = or_chat_name(terms->chat);
    return kept;
}

bool or_api_settle_tools(or_api_reading_t *reading, or_api_problem_t *problem)
{
    const size_t grown = GROWTH_MAX * reading->body_bytes + SMALL_BYTES;
    or_chat_toolbox_t toolbox = {
        .format = reading->terms->tools,
        .bytes_max = grown < OR_CHAT_JSON_BYTES_MAX ? grown : OR_CHAT_JSON_BYTES_MAX};
    const bool listed = reading->tools != NULL && !reading->calls_nothing;
    if (!listed && !reading->speaks_of_tools) {
        return true;
    }
    char *list = listed ? json_dumps(reading->tools, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (listed && list == NULL) {
        return or_api_refuse(problem, 500, NULL, NULL, "There is no memory for the request.");
    }
    if (listed) {
        toolbox.tools = list;
        toolbox.tools_bytes = or_chat_json_length(list, strlen(list));
        // An answer has no more calls than can be sent back.
        reading->made.one_call =
            reading->made.one_call || or_chat_tools_calls_max(toolbox.format) == 1;
        reading->made.tools = toolbox.format;
        reading->made.generate.calls = or_chat_tools_name(toolbox.format);
    }
    const bool written =
        listed && toolbox.tools_bytes == 0
            ? or_api_refuse(problem, 400, NULL, "tools", "'tools' are more than %u levels deep.",
                            OR_CHAT_JSON_DEPTH_MAX)
            : write_out(reading, &toolbox, problem);
    free(list);
    return written;
}
