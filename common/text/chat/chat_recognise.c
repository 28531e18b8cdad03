// Which family a template is of, by what it writes.
#include <stdio.h>
#include <string.h>

#include "common/text/chat/chat_internal.h"

#define NAMES_BYTES 1024

static bool holds(const char *text, size_t length, const char *mark, size_t mark_length)
{
    return memmem(text, length, mark, mark_length) != NULL;
}

static bool is_of(const or_chat_t *family, const char *text, size_t length)
{
    for (size_t i = 0; i < OR_CHAT_SIGNS_MAX; i++) {
        if ((family->marks[i] != NULL &&
             !holds(text, length, family->marks[i], strlen(family->marks[i]))) ||
            (family->never[i] != NULL &&
             holds(text, length, family->never[i], strlen(family->never[i])))) {
            return false;
        }
    }
    return true;
}

// Write "chatml, llama3, ... or vicuna".
static void list_names(char *text, size_t capacity)
{
    size_t length = 0;
    for (size_t i = 0; i < or_chat_family_count && length < capacity; i++) {
        const char *link = i == 0 ? "" : i + 1 < or_chat_family_count ? ", " : " or ";
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", link,
                                   or_chat_families[i].name);
    }
}

or_status_t or_chat_of_model(const or_gguf_t *gguf, const or_chat_t **chat_p)
{
    char names[NAMES_BYTES];
    or_gguf_string_t text;
    list_names(names, sizeof names);
    if (or_gguf_get_string(gguf, "tokenizer.chat_template", &text) != OR_OK) {
        return or_fail(
            OR_ERR_NOT_FOUND,
            "%s has no chat template; for a chat model choose one with --chat-template: %s",
            basename(or_gguf_path(gguf)), names);
    }
    for (size_t i = 0; i < or_chat_family_count; i++) {
        if (is_of(&or_chat_families[i], text.bytes, text.length)) {
            *chat_p = &or_chat_families[i];
            return OR_OK;
        }
    }
    return or_fail(
        OR_ERR_UNSUPPORTED,
        "the chat template of %s is of no family that is known; if it is near to one, choose "
        "that with --chat-template: %s",
        basename(or_gguf_path(gguf)), names);
}

or_status_t or_chat_by_name(const char *name, const or_chat_t **chat_p)
{
    for (size_t i = 0; i < or_chat_family_count; i++) {
        if (strcmp(or_chat_families[i].name, name) == 0) {
            *chat_p = &or_chat_families[i];
            return OR_OK;
        }
    }
    char names[NAMES_BYTES];
    list_names(names, sizeof names);
    return or_fail(OR_ERR_INVALID, "--chat-template: there is no '%s'; write %s", name, names);
}

const char *or_chat_name(const or_chat_t *chat)
{
    return chat->name;
}

static bool holds_piece(const char *text, const char *piece, size_t length)
{
    return text != NULL && holds(text, strlen(text), piece, length);
}

// Does a family write this?
static bool is_written(const or_chat_t *family, const char *piece, size_t length)
{
    const or_chat_otherwise_t *otherwise = &family->otherwise;
    const or_chat_markup_t *const turns[] = {&family->head,    &family->system,
                                             &family->user,    &family->assistant,
                                             &otherwise->head, &otherwise->assistant};
    const char *const texts[] = {family->preface, family->opening, otherwise->opening};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        if (holds_piece(turns[i]->before, piece, length) ||
            holds_piece(turns[i]->lead, piece, length) ||
            holds_piece(turns[i]->after, piece, length)) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (holds_piece(texts[i], piece, length)) {
            return true;
        }
    }
    for (size_t i = 0; family->reply != NULL && i < OR_CHAT_MARKS_MAX; i++) {
        const char *mark = family->reply->marks[i].text;
        if (mark != NULL && strlen(mark) == length && memcmp(mark, piece, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool begins_with(const char *piece, size_t length, const char *begin)
{
    size_t count = strlen(begin);
    return length >= count && memcmp(piece, begin, count) == 0;
}

static bool ends_with(const char *piece, size_t length, const char *end)
{
    size_t count = strlen(end);
    return length >= count && memcmp(piece + length - count, end, count) == 0;
}

// <|im_end|>, Gemma 4's <|tool_call> and <tool_call|>, DeepSeek's <｜User｜>, EXAONE's [|user|]: nothing but markup looks like this.
static bool has_bars(const char *piece, size_t length)
{
    bool angles = length > 3 && piece[0] == '<' && piece[length - 1] == '>';
    return (angles && (begins_with(piece, length, "<|") || ends_with(piece, length, "|>") ||
                       begins_with(piece, length, "<｜") || ends_with(piece, length, "｜>"))) ||
           (length > 4 && begins_with(piece, length, "[|") && ends_with(piece, length, "|]"));
}

bool or_chat_is_markup(const char *piece, size_t length)
{
    // Tokens that end or begin a text, and what only templates with tools write.
    static const char *const others[] = {"<s>",
                                         "</s>",
                                         "<bos>",
                                         "<eos>",
                                         "<tool_call>",
                                         "</tool_call>",
                                         "<tool_response>",
                                         "</tool_response>",
                                         "<arg_key>",
                                         "</arg_key>",
                                         "<arg_value>",
                                         "</arg_value>",
                                         "[AVAILABLE_TOOLS]",
                                         "[/AVAILABLE_TOOLS]",
                                         "[TOOL_CALLS]",
                                         "[TOOL_RESULTS]",
                                         "[/TOOL_RESULTS]",
                                         "[TOOL_CONTENT]",
                                         "[CALL_ID]",
                                         "[ARGS]"};
    if (has_bars(piece, length)) {
        return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strlen(others[i]) == length && memcmp(others[i], piece, length) == 0) {
            return true;
        }
    }
    // A part of a mark is none, as the letters of "user".
    char last = length > 2 ? piece[length - 1] : '\0';
    bool opens = (piece[0] == '<' && last == '>') || (piece[0] == '[' && last == ']');
    for (size_t i = 0; opens && i < or_chat_family_count; i++) {
        if (is_written(&or_chat_families[i], piece, length)) {
            return true;
        }
    }
    return false;
}
