// Tools in a prompt: the list of them, calls, and results.
#include "common/text/chat/chat_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat_json.h"
#include "common/text/chat/chat_tools_internal.h"

// ---- formats ----

static bool has_marks(const or_chat_tools_t *format, const or_gguf_string_t *template)
{
    bool has = true;
    for (size_t i = 0; i < OR_CHAT_SIGNS_MAX && format->marks[i] != NULL; i++) {
        has = has && memmem(template->bytes, template->length, format->marks[i],
                            strlen(format->marks[i])) != NULL;
    }
    return has;
}

const or_chat_tools_t *or_chat_tools_of_model(const or_gguf_t *gguf, const or_chat_t *chat)
{
    or_gguf_string_t template;
    if (or_gguf_get_string(gguf, "tokenizer.chat_template", &template) != OR_OK) {
        return NULL;
    }
    for (size_t i = 0; i < or_chat_tool_form_count; i++) {
        const or_chat_tools_t *format = &or_chat_tool_forms[i];
        if (strcmp(format->family, chat->name) == 0 && has_marks(format, &template)) {
            return format;
        }
    }
    return NULL;
}

const or_chat_tools_t *or_chat_tools_by_name(const char *name)
{
    for (size_t i = 0; i < or_chat_tool_form_count; i++) {
        if (strcmp(or_chat_tool_forms[i].name, name) == 0) {
            return &or_chat_tool_forms[i];
        }
    }
    return NULL;
}

const char *or_chat_tools_name(const or_chat_tools_t *format)
{
    return format->name;
}

static bool is_spelled(const char *mark, const char *text, size_t length)
{
    return mark != NULL && strlen(mark) == length && memcmp(mark, text, length) == 0;
}

bool or_chat_tools_is_mark(const or_chat_tools_t *format, const char *text, size_t length)
{
    bool is_mark = is_spelled(format->reads.begin, text, length) ||
                   is_spelled(format->reads.end, text, length);
    for (size_t i = 0; i < OR_CALLS_INNER_MAX; i++) {
        is_mark = is_mark || is_spelled(format->reads.inner[i], text, length);
    }
    return is_mark;
}

size_t or_chat_tools_calls_max(const or_chat_tools_t *format)
{
    return format->calls.most;
}

bool or_chat_is_call_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.') {
            return false;
        }
    }
    return length > 0 && length <= OR_CHAT_CALL_NAME_BYTES;
}

// ---- patterns ----

// What signs stand for, where they can stand.
typedef struct {
    or_chat_json_t tool, tools; // also a tool's function, for its members
    unsigned indent;
    const or_chat_call_t *call;
    const char *id;
    size_t number;
    const or_chat_turn_t *result;
} fields_t;

// Write the members of a function as Mistral Nemo's template does: strings are not escaped.
static void put_members(const or_chat_json_t *tool, or_chat_buffer_t *buffer)
{
    static const char function_key[] = "\"function\"", skipped[] = "\"return\"";
    or_chat_json_t key, value, function = {"{}", 2};
    size_t at = 0, count = 0;
    while (or_chat_json_next(tool, &at, &key, &value)) {
        if (key.length == sizeof function_key - 1 &&
            memcmp(key.text, function_key, key.length) == 0) {
            function = value;
        }
    }
    at = 0;
    while (function.text[0] == '{' && or_chat_json_next(&function, &at, &key, &value)) {
        if (key.length == sizeof skipped - 1 && memcmp(key.text, skipped, key.length) == 0) {
            continue;
        }
        or_chat_buffer_add(buffer, ", ", count++ > 0 ? 2 : 0);
        or_chat_buffer_add(buffer, "\"", 1);
        or_chat_json_write_text(&key, buffer);
        or_chat_buffer_add(buffer, "\": ", 3);
        if (value.text[0] == '"') {
            or_chat_buffer_add(buffer, "\"", 1);
            or_chat_json_write_text(&value, buffer);
            or_chat_buffer_add(buffer, "\"", 1);
        } else {
            or_chat_json_write(&value, 0, buffer);
        }
    }
}

static void put_words(const char *words, or_chat_buffer_t *buffer)
{
    or_chat_buffer_add(buffer, words, strlen(words));
}

static void put_number(size_t number, or_chat_buffer_t *buffer)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", number);
    put_words(text, buffer);
}

static void put_field(char sign, const fields_t *fields, or_chat_buffer_t *buffer)
{
    const or_chat_call_t *call = fields->call;
    if (sign == OR_TOOLS_ALL[0]) {
        or_chat_json_write(&fields->tools, 0, buffer);
    } else if (sign == OR_TOOLS_TOOL[0]) {
        or_chat_json_write(&fields->tool, fields->indent, buffer);
    } else if (sign == OR_TOOLS_MEMBERS[0]) {
        put_members(&fields->tool, buffer);
    } else if (sign == OR_TOOLS_NAME[0]) {
        put_words(call->name, buffer);
    } else if (sign == OR_TOOLS_ARGUMENTS[0]) {
        or_chat_json_write(&(or_chat_json_t){call->arguments, call->arguments_bytes}, 0, buffer);
    } else if (sign == OR_TOOLS_ID[0]) {
        put_words(fields->id != NULL ? fields->id : "", buffer);
    } else if (sign == OR_TOOLS_NUMBER[0]) {
        put_number(fields->number, buffer);
    } else if (sign == OR_TOOLS_CONTENT[0]) {
        or_chat_buffer_add(buffer, fields->result->content, fields->result->length);
    } else if (sign == OR_TOOLS_QUOTED[0]) {
        or_chat_json_write_string(fields->result->content, fields->result->length, buffer);
    } else { // OR_TOOLS_ANSWERED
        put_words(call->name, buffer);
        put_words(":", buffer);
        put_number(fields->number, buffer);
    }
}

static bool is_sign(char c)
{
    return (c >= OR_TOOLS_ALL[0] && c <= OR_TOOLS_ARGUMENTS[0]) ||
           (c >= OR_TOOLS_ID[0] && c <= OR_TOOLS_ANSWERED[0]);
}

// Indents make much of little: all that is written of tools has a bound.
static or_status_t write_field(or_chat_writer_t *writer, char sign, const fields_t *fields)
{
    or_chat_buffer_t field = {.most = writer->tool_bytes_max};
    put_field(sign, fields, &field);
    writer->tool_bytes += field.length;
    const bool is_large = field.failed || writer->tool_bytes > writer->tool_bytes_max;
    or_status_t status =
        is_large
            ? or_fail(OR_ERR_INVALID, "tools, calls and results take over %zu bytes of the prompt",
                      writer->tool_bytes_max)
            : or_chat_write_content(writer, field.bytes, field.length);
    free(field.bytes);
    return status;
}

// Write a pattern: its markup, and for each sign content.
static or_status_t write_pattern(or_chat_writer_t *writer, const char *pattern,
                                 const fields_t *fields)
{
    or_status_t status = OR_OK;
    for (const char *at = pattern; status == OR_OK && at != NULL && *at != '\0';) {
        const char *end = at;
        while (*end != '\0' && !is_sign(*end)) {
            end++;
        }
        writer->tool_bytes += (size_t)(end - at);
        status = or_chat_write_markup_of(writer, at, (size_t)(end - at));
        if (status == OR_OK && *end != '\0') {
            status = write_field(writer, *end++, fields);
        }
        at = end;
    }
    return status;
}

// ---- the list ----

bool or_chat_tools_are_listed(const or_chat_talk_t *talk, or_tools_place_t place)
{
    return talk->toolbox != NULL && talk->toolbox->tools != NULL &&
           talk->toolbox->format->place == place;
}

bool or_chat_tools_precede(const or_chat_talk_t *talk, const or_chat_turn_t *turn)
{
    if (!or_chat_tools_are_listed(talk, OR_TOOLS_BEFORE_LAST) || !or_chat_is_role(turn, "user")) {
        return false;
    }
    const or_chat_turn_t *last = talk->last_question;
    return turn->length == last->length &&
           (turn->length == 0 || memcmp(turn->content, last->content, turn->length) == 0);
}

or_status_t or_chat_tools_write_list(or_chat_writer_t *writer, const or_chat_talk_t *talk)
{
    const or_chat_tools_t *format = talk->toolbox->format;
    fields_t fields = {.tools = {talk->toolbox->tools, talk->toolbox->tools_bytes},
                       .indent = format->indent};
    or_chat_json_t key;
    size_t at = 0, count = 0;
    or_status_t status = write_pattern(writer, format->before, &fields);
    while (status == OR_OK && format->each != NULL &&
           or_chat_json_next(&fields.tools, &at, &key, &fields.tool)) {
        status = count++ > 0 ? write_pattern(writer, format->between, &fields) : OR_OK;
        status = status == OR_OK ? write_pattern(writer, format->each, &fields) : status;
    }
    return status == OR_OK ? write_pattern(writer, format->after, &fields) : status;
}

// ---- calls and results ----

or_status_t or_chat_tools_write_calls(or_chat_writer_t *writer, or_chat_talk_t *talk,
                                      const or_chat_turn_t *turn, bool has_words)
{
    const or_chat_tools_t *format = talk->toolbox->format;
    fields_t fields = {0};
    or_status_t status = has_words ? write_pattern(writer, format->calls.joint, &fields) : OR_OK;
    status = status == OR_OK ? write_pattern(writer, format->calls.before, &fields) : status;
    for (size_t i = 0; status == OR_OK && i < turn->call_count; i++) {
        fields.call = &turn->calls[i];
        fields.id = fields.call->id;
        fields.number = format->calls.count_on ? talk->calls : i;
        talk->calls++;
        status = i > 0 ? write_pattern(writer, format->calls.between, &fields) : OR_OK;
        status = status == OR_OK ? write_pattern(writer, format->calls.each, &fields) : status;
    }
    return status == OR_OK ? write_pattern(writer, format->calls.after, &fields) : status;
}

// The next call that no result has answered. There is one: or_chat_tools_check has counted.
static const or_chat_call_t *answered_next(or_chat_talk_t *talk)
{
    while (talk->answered.call == talk->turns[talk->answered.turn].call_count) {
        talk->answered.turn++;
        talk->answered.call = 0;
    }
    return &talk->turns[talk->answered.turn].calls[talk->answered.call++];
}

or_status_t or_chat_tools_write_result(or_chat_writer_t *writer, or_chat_talk_t *talk,
                                       const or_chat_turn_t *turn)
{
    const or_chat_tools_t *format = talk->toolbox->format;
    const bool first = turn == talk->turns || !or_chat_is_role(turn - 1, "tool");
    const bool last = turn + 1 == talk->turns + talk->count || !or_chat_is_role(turn + 1, "tool");
    const fields_t fields = {
        .id = turn->call_id, .result = turn, .number = talk->results, .call = answered_next(talk)};
    talk->results++;
    or_status_t status = first ? write_pattern(writer, format->results.before, &fields) : OR_OK;
    status = status == OR_OK ? write_pattern(writer, format->results.each, &fields) : status;
    return status == OR_OK && last ? write_pattern(writer, format->results.after, &fields) : status;
}

// ---- what a format has no words for ----

static or_status_t check_id(const or_chat_tools_t *format, const char *id, size_t message)
{
    const size_t bytes = id != NULL ? strlen(id) : 0;
    if (format->id_bytes == 0 || bytes == format->id_bytes) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID,
                   "message %zu: in the tool format %s the ids of calls have %zu characters",
                   message, format->name, format->id_bytes);
}

static or_status_t check_calls(const or_chat_tools_t *format, const or_chat_turn_t *turn,
                               size_t message)
{
    or_status_t status = OR_OK;
    if (format->calls.most > 0 && turn->call_count > format->calls.most) {
        return or_fail(OR_ERR_INVALID, "message %zu: in the tool format %s a message has %zu call",
                       message, format->name, format->calls.most);
    }
    for (size_t i = 0; status == OR_OK && i < turn->call_count; i++) {
        status = check_id(format, turn->calls[i].id, message);
    }
    return status;
}

or_status_t or_chat_tools_check(const or_chat_talk_t *talk)
{
    const or_chat_tools_t *format = talk->toolbox->format;
    size_t calls = 0, results = 0, first = or_chat_is_role(&talk->turns[0], "system") ? 1 : 0;
    if (or_chat_tools_are_listed(talk, OR_TOOLS_IN_QUESTION) &&
        (first == talk->count || !or_chat_is_role(&talk->turns[first], "user"))) {
        return or_fail(OR_ERR_INVALID,
                       "message %zu: with tools in the format %s the first must be the user's",
                       first + 1, format->name);
    }
    for (size_t i = 0; i < talk->count; i++) {
        const or_chat_turn_t *turn = &talk->turns[i];
        const bool is_result = or_chat_is_role(turn, "tool");
        or_status_t status =
            is_result ? check_id(format, turn->call_id, i + 1) : check_calls(format, turn, i + 1);
        if (status != OR_OK) {
            return status;
        }
        calls += turn->call_count;
        results += is_result;
        if (results > calls) {
            return or_fail(OR_ERR_INVALID, "message %zu: a tool's message answers a call before it",
                           i + 1);
        }
    }
    return OR_OK;
}
