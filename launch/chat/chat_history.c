#include "launch/chat/chat_history.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/generate/report.h"

// Turns begin behind the system's words.
static uint32_t first_turn(const or_chat_history_t *history)
{
    return history->system != NULL ? 1 : 0;
}

static void remove_at(or_chat_history_t *history, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++) {
        free((void *)history->messages[i].content);
    }
    history->count -= count;
    memmove(&history->messages[at], &history->messages[at + count],
            (history->count - at) * sizeof *history->messages);
}

void or_chat_history_fini(or_chat_history_t *history)
{
    if (history->count > 0) {
        remove_at(history, 0, history->count);
    }
    free(history->messages);
    *history = (or_chat_history_t){0};
}

static or_status_t insert(or_chat_history_t *history, uint32_t at, const char *role,
                          const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    or_chat_message_t *messages = history->messages;
    if (history->count == history->capacity) {
        uint32_t larger = 2 * (history->count + 8);
        messages = realloc(messages, larger * sizeof *messages);
        if (messages != NULL) {
            history->messages = messages;
            history->capacity = larger;
        }
    }
    if (copy == NULL || messages == NULL) {
        free(copy);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the conversation");
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    memmove(&messages[at + 1], &messages[at], (history->count - at) * sizeof *messages);
    messages[at] = (or_chat_message_t){role, (const uint8_t *)copy, (uint32_t)length};
    history->count++;
    return OR_OK;
}

or_status_t or_chat_history_set_system(or_chat_history_t *history, const char *text)
{
    if (history->system != NULL) {
        remove_at(history, 0, 1);
        history->system = NULL;
    }
    if (text == NULL || text[0] == '\0') {
        return OR_OK;
    }
    or_status_t status = insert(history, 0, "system", text, strlen(text));
    if (status == OR_OK) {
        history->system = (char *)history->messages[0].content;
    }
    return status;
}

void or_chat_history_reset(or_chat_history_t *history)
{
    uint32_t first = first_turn(history);
    if (history->count > first) {
        remove_at(history, first, history->count - first);
    }
}

or_status_t or_chat_history_add(or_chat_history_t *history, const char *role, const char *text,
                                size_t length)
{
    return insert(history, history->count, role, text, length);
}

static bool is_question(const or_chat_message_t *message)
{
    return strcmp(message->role, "user") == 0;
}

bool or_chat_history_undo(or_chat_history_t *history)
{
    for (uint32_t at = history->count; at > first_turn(history); at--) {
        if (is_question(&history->messages[at - 1])) {
            remove_at(history, at - 1, history->count - (at - 1));
            return true;
        }
    }
    return false;
}

bool or_chat_history_drop(or_chat_history_t *history)
{
    uint32_t first = first_turn(history);
    for (uint32_t at = first + 1; at < history->count; at++) {
        if (is_question(&history->messages[at])) {
            remove_at(history, first, at - first);
            return true;
        }
    }
    return false;
}

uint32_t or_chat_history_turns(const or_chat_history_t *history)
{
    return history->count - first_turn(history);
}

size_t or_chat_history_bytes(const or_chat_history_t *history)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < history->count; i++) {
        bytes += history->messages[i].content_bytes;
    }
    return bytes;
}

or_status_t or_chat_history_plain(const or_chat_history_t *history, char **text_p, size_t *length_p)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the conversation");
    }
    for (uint32_t i = 0; i < history->count; i++) {
        const or_chat_message_t *message = &history->messages[i];
        const char *words = (const char *)message->content;
        if (i < first_turn(history)) {
            fprintf(out, "%s\n\n", words);
        } else {
            fprintf(out, "%s: %s\n", is_question(message) ? "User" : "Assistant", words);
        }
    }
    fputs("Assistant:", out);
    if (fclose(out) != 0) {
        free(text);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the conversation");
    }
    *text_p = text;
    *length_p = length;
    return OR_OK;
}

static json_t *conversation(const or_chat_history_t *history)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < history->count; i++) {
        const or_chat_message_t *message = &history->messages[i];
        json_t *content =
            or_report_json_text((const char *)message->content, message->content_bytes);
        json_array_append_new(list,
                              json_pack("{s:s, s:o}", "role", message->role, "content", content));
    }
    return list;
}

or_status_t or_chat_history_save(const or_chat_history_t *history, const char *path)
{
    json_t *list = conversation(history);
    char *dump = json_dumps(list, JSON_INDENT(2));
    json_decref(list);
    if (dump == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to save the conversation");
    }
    FILE *out = fopen(path, "w");
    bool written = out != NULL && fprintf(out, "%s\n", dump) >= 0;
    written = out != NULL && fclose(out) == 0 && written;
    free(dump);
    return written ? OR_OK : or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}
