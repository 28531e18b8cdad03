// chat-tokens - converts conversations to token ids, for the tests of templates here.
//
// chat-tokens VOCABULARY FAMILY: a line of JSON in, a line of ids out. [{"role": .., "content": ..}, ..] is a conversation,
// {"tools": [..] or null, "messages": [..]} one with tools, as OpenAI's API has it; a string is text with special tokens written
// in it. chat-tokens VOCABULARY FAMILY THINKING: --thinking of the programs. The family "-" is that of the file's own template.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat_json.h"
#include "common/text/chat/chat_tools.h"
#include "common/text/tokenizer.h"

static uint32_t thinking = OR_THINKING_USUAL;

static or_chat_toolbox_t toolbox; // its format is that of the file; NULL: there is none

#define TURNS_MAX 64
#define CALLS_MAX 4

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static size_t read_calls(const json_t *list, or_chat_call_t calls[CALLS_MAX])
{
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < CALLS_MAX; i++) {
        const json_t *call = json_array_get(list, i), *function = json_object_get(call, "function");
        calls[i] = (or_chat_call_t){.name = text_of(function, "name"),
                                    .arguments = text_of(function, "arguments"),
                                    .arguments_bytes =
                                        json_string_length(json_object_get(function, "arguments")),
                                    .id = text_of(call, "id")};
    }
    return count < CALLS_MAX ? count : CALLS_MAX;
}

static or_status_t tokenize_turns(const or_chat_t *chat, const or_vocab_t *vocab,
                                  const json_t *list, bool with_tools, int32_t **ids, size_t *count)
{
    static or_chat_call_t calls[TURNS_MAX][CALLS_MAX];
    or_chat_turn_t turns[TURNS_MAX];
    size_t turn_count = json_array_size(list);
    if (turn_count > TURNS_MAX) {
        return or_fail(OR_ERR_INVALID, "%zu turns are too many", turn_count);
    }
    for (size_t i = 0; i < turn_count; i++) {
        const json_t *turn = json_array_get(list, i);
        turns[i] = (or_chat_turn_t){
            .role = text_of(turn, "role"),
            .content = text_of(turn, "content"),
            .length = json_string_length(json_object_get(turn, "content")),
            .thought = text_of(turn, "reasoning_content"),
            .thought_length = json_string_length(json_object_get(turn, "reasoning_content")),
            .calls = calls[i],
            .call_count = read_calls(json_object_get(turn, "tool_calls"), calls[i]),
            .call_id = text_of(turn, "tool_call_id")};
    }
    return or_chat_tokenize_tools(chat, with_tools ? &toolbox : NULL, vocab, thinking, turns,
                                  turn_count, ids, count);
}

static or_status_t tokenize_talk(const or_chat_t *chat, const or_vocab_t *vocab, const json_t *talk,
                                 int32_t **ids, size_t *count)
{
    const json_t *tools = json_object_get(talk, "tools");
    if (toolbox.format == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "the template has no format of tools that is known");
    }
    char *list = json_is_array(tools) ? json_dumps(tools, JSON_COMPACT) : NULL;
    toolbox.tools = list;
    toolbox.tools_bytes = list != NULL ? or_chat_json_length(list, strlen(list)) : 0;
    or_status_t status =
        tokenize_turns(chat, vocab, json_object_get(talk, "messages"), true, ids, count);
    free(list);
    return status;
}

static or_status_t answer(const or_chat_t *chat, const or_vocab_t *vocab, const char *line)
{
    int32_t *ids = NULL;
    size_t count;
    json_t *json = json_loads(line, JSON_DECODE_ANY, NULL);
    or_status_t status = json_is_array(json)
                             ? tokenize_turns(chat, vocab, json, false, &ids, &count)
                         : json_is_object(json)
                             ? tokenize_talk(chat, vocab, json, &ids, &count)
                             : or_tokenize(vocab, json_string_value(json), json_string_length(json),
                                           OR_TOKENIZE_SPECIAL, &ids, &count);
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        printf("%s%" PRId32, i > 0 ? " " : "", ids[i]);
    }
    printf("%s\n", status == OR_OK ? "" : or_error_text());
    free(ids);
    json_decref(json);
    return OR_OK;
}

int main(int argc, char **argv)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    const or_chat_t *chat = NULL;
    char *line = NULL;
    size_t room = 0;
    or_status_t status = argc == 3 || argc == 4
                             ? or_gguf_open(argv[1], &gguf)
                             : or_fail(OR_ERR_INVALID, "chat-tokens VOCABULARY FAMILY");
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &vocab);
    }
    if (status == OR_OK) {
        status = strcmp(argv[2], "-") == 0 ? or_chat_of_model(gguf, &chat)
                                           : or_chat_by_name(argv[2], &chat);
    }
    if (status == OR_OK && argc == 4) {
        status = or_thinking_by_name(argv[3], &thinking);
    }
    toolbox.format = status == OR_OK ? or_chat_tools_of_model(gguf, chat) : NULL;
    while (status == OR_OK && getline(&line, &room, stdin) > 0) {
        status = answer(chat, vocab, line);
    }
    if (status != OR_OK) {
        fprintf(stderr, "chat-tokens: %s\n", or_error_text());
    }
    free(line);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status == OR_OK ? 0 : 1;
}
