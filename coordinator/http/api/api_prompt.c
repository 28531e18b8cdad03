// The beginning of a text: strings, token ids, or a conversation.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat.h"
#include "coordinator/http/api/api_request_internal.h"

// ---- prompts ----

bool or_api_tokens_read(const json_t *array, const char *param, uint32_t vocab_size,
                        uint32_t **tokens_p, uint32_t *count, or_api_problem_t *problem)
{
    size_t length = json_array_size(array);
    if (length > OR_WIRE_TOKENS_MAX) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' has %zu tokens: at most %u are read.",
                             param, length, OR_WIRE_TOKENS_MAX);
    }
    uint32_t *tokens = malloc((length + 1) * sizeof *tokens);
    if (tokens == NULL) {
        return or_api_refuse(problem, 500, NULL, NULL, "There is no memory for the tokens.");
    }
    for (size_t i = 0; i < length; i++) {
        const json_t *item = json_array_get(array, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= vocab_size) {
            free(tokens);
            return or_api_refuse(problem, 400, NULL, param,
                                 "'%s': entry %zu is not a token id, a whole number below %u.",
                                 param, i, vocab_size);
        }
        tokens[i] = (uint32_t)id;
    }
    *tokens_p = tokens;
    *count = (uint32_t)length;
    return true;
}

static bool take_text(or_api_reading_t *reading, const json_t *value, or_api_prompt_t *prompt,
                      or_api_problem_t *problem)
{
    prompt->text = or_api_keep_text(&reading->made, value, problem);
    prompt->bytes = (uint32_t)json_string_length(value);
    return prompt->text != NULL;
}

static bool take_tokens(or_api_reading_t *reading, const char *param, const json_t *value,
                        or_api_prompt_t *prompt, or_api_problem_t *problem)
{
    uint32_t *tokens;
    if (json_array_size(value) == 0) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' has no tokens.", param);
    }
    if (!or_api_tokens_read(value, param, or_vocab_size(reading->terms->vocab), &tokens,
                            &prompt->count, problem)) {
        return false;
    }
    uint32_t *kept = or_api_keep(&reading->made, prompt->count, sizeof *kept, problem);
    if (kept != NULL) {
        memcpy(kept, tokens, prompt->count * sizeof *kept);
        prompt->tokens = kept;
    }
    free(tokens);
    return kept != NULL;
}

static bool take_one(or_api_reading_t *reading, const char *param, const json_t *value,
                     or_api_prompt_t *prompt, or_api_problem_t *problem)
{
    if (json_is_string(value)) {
        return take_text(reading, value, prompt, problem);
    }
    if (json_is_array(value)) {
        return take_tokens(reading, param, value, prompt, problem);
    }
    return or_api_refuse(problem, 400, NULL, param,
                         "'%s' must be a string or an array of token ids.", param);
}

bool or_api_read_prompt(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    or_api_request_t *request = &reading->made;
    // An array of numbers is one prompt; an array of anything else holds a prompt in each place.
    bool several = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    size_t count = several ? json_array_size(value) : 1;
    if (count == 0 || count > OR_API_TEXTS_MAX) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' has %zu prompts: from 1 to %u can be asked for at a time.",
                             param, count, OR_API_TEXTS_MAX);
    }
    request->prompts = or_api_keep(request, count, sizeof *request->prompts, problem);
    if (request->prompts == NULL) {
        return false;
    }
    request->prompt_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        char place[OR_API_PARAM_BYTES];
        or_api_path(place, param, i, "");
        if (!take_one(reading, several ? place : param, several ? json_array_get(value, i) : value,
                      &request->prompts[i], problem)) {
            return false;
        }
    }
    return true;
}

// ---- conversations ----

typedef struct {
    or_api_reading_t *reading;
    or_api_request_t *request;
    or_chat_message_t *message;
    or_chat_turn_t *turn; // what it says of tools
    bool named;
} turn_t;

static bool read_role(void *into, const char *param, const json_t *value, or_api_problem_t *problem)
{
    static const struct {
        const char *name, *role;
    } roles[] = {{"system", "system"},
                 {"developer", "system"},
                 {"user", "user"},
                 {"assistant", "assistant"},
                 {"tool", "tool"}};
    turn_t *turn = into;
    if (or_api_is_word(value, "tool") && !or_api_take_result(turn->reading, param, problem)) {
        return false;
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (or_api_is_word(value, roles[i].name)) {
            turn->message->role = roles[i].role;
            return true;
        }
    }
    return or_api_refuse(problem, 400, NULL, param,
                         "'%s' must be system, developer, user, assistant or tool.", param);
}

static bool read_part_type(void *into, const char *param, const json_t *value,
                           or_api_problem_t *problem)
{
    (void)into;
    return or_api_is_word(value, "text") ||
           or_api_refuse(problem, 400, "unsupported_parameter", param,
                         "'%s': Outrider reads parts of type text only.", param);
}

static bool read_part_text(void *into, const char *param, const json_t *value,
                           or_api_problem_t *problem)
{
    *(const json_t **)into = value;
    return json_is_string(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be a string.", param);
}

static const or_api_field_t part_fields[] = {{"type", OR_API_OWN, .read = read_part_type},
                                             {"text", OR_API_OWN, .read = read_part_text},
                                             {0}};

// The text of a part, which is looked at twice: for its length, then for its bytes.
static const json_t *part_text(const json_t *part, const char *param, or_api_problem_t *problem)
{
    const json_t *text = NULL;
    if (!json_is_object(part)) {
        or_api_refuse(problem, 400, NULL, param, "'%s' must be an object.", param);
        return NULL;
    }
    // The type first: a picture is refused as a picture, not for the fields it has.
    const json_t *type = json_object_get(part, "type");
    char place[OR_API_PARAM_BYTES + 8];
    snprintf(place, sizeof place, "%s.type", param);
    if (!read_part_type(NULL, place, type, problem) ||
        !or_api_object_read(part, param, part_fields, &text, problem)) {
        return NULL;
    }
    if (text == NULL) {
        or_api_refuse(problem, 400, NULL, param, "'%s' has no text.", param);
    }
    return text;
}

static bool join_parts(turn_t *turn, const char *param, const json_t *parts,
                       or_api_problem_t *problem)
{
    size_t length = 0, put = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        char place[OR_API_PARAM_BYTES];
        or_api_path(place, param, i, "");
        const json_t *text = part_text(json_array_get(parts, i), place, problem);
        if (text == NULL) {
            return false;
        }
        length += json_string_length(text);
    }
    uint8_t *joined = or_api_keep(turn->request, length + 1, 1, problem);
    if (joined == NULL) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        memcpy(joined + put, json_string_value(text), json_string_length(text));
        put += json_string_length(text);
    }
    turn->message->content = joined;
    turn->message->content_bytes = (uint32_t)length;
    return true;
}

static bool read_content(void *into, const char *param, const json_t *value,
                         or_api_problem_t *problem)
{
    turn_t *turn = into;
    if (json_is_array(value) && json_array_size(value) > 0) {
        return join_parts(turn, param, value, problem);
    }
    if (!json_is_string(value)) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be a string or an array of text parts.", param);
    }
    turn->message->content = or_api_keep_text(turn->request, value, problem);
    turn->message->content_bytes = (uint32_t)json_string_length(value);
    return turn->message->content != NULL;
}

// What an assistant thought before it answered, which clients send back. Templates want that behind the last question only, where
// tools were called.
static bool read_thought(void *into, const char *param, const json_t *value,
                         or_api_problem_t *problem)
{
    const turn_t *turn = into;
    if (!json_is_string(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be a string.", param);
    }
    turn->turn->thought = (const char *)or_api_keep_text(turn->request, value, problem);
    turn->turn->thought_length = json_string_length(value);
    return turn->turn->thought != NULL;
}

static bool read_calls(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    const turn_t *turn = into;
    return or_api_take_calls(turn->reading, param, value, turn->turn, problem);
}

static bool read_call_id(void *into, const char *param, const json_t *value,
                         or_api_problem_t *problem)
{
    const turn_t *turn = into;
    return or_api_take_call_id(turn->reading, param, value, turn->turn, problem);
}

// The name of a tool, which clients send beside its result, is that of the call, and no template wants it.
static bool read_name(void *into, const char *param, const json_t *value, or_api_problem_t *problem)
{
    ((turn_t *)into)->named = true;
    return json_is_string(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be a string.", param);
}

static const or_api_field_t message_fields[] = {
    {"role", OR_API_OWN, .read = read_role},
    {"content", OR_API_OWN, .read = read_content},
    {"name", OR_API_OWN, .read = read_name},
    {"refusal", OR_API_ONLY, .only = "[]"},
    {"audio", OR_API_ONLY, .only = "[]"},
    {"annotations", OR_API_ONLY, .only = "[[]]"},
    {"tool_calls", OR_API_OWN, .read = read_calls},
    {"tool_call_id", OR_API_OWN, .read = read_call_id},
    {"function_call", OR_API_ONLY, .only = "[]"},
    {"reasoning_content", OR_API_OWN, .read = read_thought},
    {"reasoning", OR_API_OWN, .read = read_thought},
    {0}};

static bool has_role(const or_chat_message_t *message, const char *role)
{
    return message->role != NULL && strcmp(message->role, role) == 0;
}

// Only an assistant calls, and only a tool has a name and answers a call.
static bool check_tool_fields(const turn_t *turn, const char *param, or_api_problem_t *problem)
{
    const bool is_tool = has_role(turn->message, "tool");
    const char *field = turn->turn->call_count > 0 && !has_role(turn->message, "assistant")
                            ? "tool_calls"
                        : turn->turn->call_id != NULL && !is_tool ? "tool_call_id"
                        : turn->named && !is_tool                 ? "name"
                                                                  : NULL;
    char place[OR_API_PARAM_BYTES + 16];
    if (field == NULL) {
        return true;
    }
    snprintf(place, sizeof place, "%s.%s", param, field);
    return or_api_refuse(problem, 400, "unsupported_parameter", place,
                         "'%s' is not supported by Outrider in a message of this role: leave it "
                         "out.",
                         place);
}

static bool read_message(or_api_reading_t *reading, size_t index, const char *param,
                         const json_t *value, or_api_problem_t *problem)
{
    or_api_request_t *request = &reading->made;
    turn_t turn = {.reading = reading,
                   .request = request,
                   .message = (or_chat_message_t *)&request->generate.messages[index],
                   .turn = &reading->turns[index]};
    char place[OR_API_PARAM_BYTES];
    or_api_path(place, param, index, "");
    if (!json_is_object(value)) {
        return or_api_refuse(problem, 400, NULL, place, "'%s' must be an object.", place);
    }
    if (!or_api_object_read(value, place, message_fields, &turn, problem) ||
        !check_tool_fields(&turn, place, problem)) {
        return false;
    }
    // An assistant's turn that called tools had no words, and clients say it so.
    if (json_is_null(json_object_get(value, "content")) && has_role(turn.message, "assistant")) {
        turn.message->content = (const uint8_t *)"";
    }
    if (turn.message->role == NULL || turn.message->content == NULL) {
        return or_api_refuse(problem, 400, NULL, place, "'%s' needs a role and a content.", place);
    }
    return true;
}

bool or_api_read_messages(void *into, const char *param, const json_t *value,
                          or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    or_api_request_t *request = &reading->made;
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be an array with at least one message.", param);
    }
    request->generate.messages =
        or_api_keep(request, count, sizeof *request->generate.messages, problem);
    if (request->generate.messages == NULL) {
        return false;
    }
    reading->turns = or_api_keep(request, count, sizeof *reading->turns, problem);
    if (reading->turns == NULL) {
        return false;
    }
    request->generate.message_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (!read_message(reading, i, param, json_array_get(value, i), problem)) {
            return false;
        }
    }
    return true;
}

// ---- thinking ----

// OpenAI's word for how much a model is to think, and what vLLM, SGLang and llama.cpp hand to templates.
bool or_api_read_effort(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    static const struct {
        const char *name;
        or_thinking_t thinking;
    } efforts[] = {{"none", OR_THINKING_OFF},
                   {"minimal", OR_THINKING_LOW},
                   {"low", OR_THINKING_LOW},
                   {"medium", OR_THINKING_MEDIUM},
                   {"high", OR_THINKING_HIGH}};
    or_api_request_t *request = &((or_api_reading_t *)into)->made;
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++) {
        if (or_api_is_word(value, efforts[i].name)) {
            request->generate.thinking = efforts[i].thinking;
            return true;
        }
    }
    return or_api_refuse(problem, 400, NULL, param,
                         "'%s' must be none, minimal, low, medium or high.", param);
}

static bool read_enabled(void *into, const char *param, const json_t *value,
                         or_api_problem_t *problem)
{
    or_api_request_t *request = &((or_api_reading_t *)into)->made;
    request->generate.thinking = json_is_true(value) ? OR_THINKING_ON : OR_THINKING_OFF;
    return json_is_boolean(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be true or false.", param);
}

static const or_api_field_t template_fields[] = {
    {"enable_thinking", OR_API_OWN, .read = read_enabled},
    {"thinking", OR_API_OWN, .read = read_enabled},
    {"reasoning_effort", OR_API_OWN, .read = or_api_read_effort},
    {0}};

bool or_api_read_template_settings(void *into, const char *param, const json_t *value,
                                   or_api_problem_t *problem)
{
    if (!json_is_object(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be an object.", param);
    }
    return or_api_object_read(value, param, template_fields, into, problem);
}
