// chat-tokens - converts conversations to token ids, for the tests of templates here.
//
// chat-tokens VOCABULARY FAMILY: a line of JSON in, a line of ids out. [{"role": .., "content": ..}, ..] is a conversation;
// a string is text with special tokens written in it. chat-tokens VOCABULARY FAMILY THINKING: --thinking of the programs. The family "-" is that of the file's own template.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat.h"
#include "common/text/tokenizer.h"

static uint32_t thinking = OR_THINKING_USUAL;

static or_status_t tokenize_turns(const or_chat_t *chat, const or_vocab_t *vocab,
                                  const json_t *list, int32_t **ids, size_t *count)
{
    or_chat_turn_t turns[64];
    size_t turn_count = json_array_size(list);
    if (turn_count > sizeof turns / sizeof *turns) {
        return or_fail(OR_ERR_INVALID, "%zu turns are too many", turn_count);
    }
    for (size_t i = 0; i < turn_count; i++) {
        const json_t *turn = json_array_get(list, i);
        const json_t *content = json_object_get(turn, "content");
        turns[i] = (or_chat_turn_t){json_string_value(json_object_get(turn, "role")),
                                    json_string_value(content), json_string_length(content)};
    }
    return or_chat_tokenize(chat, vocab, thinking, turns, turn_count, ids, count);
}

static or_status_t answer(const or_chat_t *chat, const or_vocab_t *vocab, const char *line)
{
    int32_t *ids = NULL;
    size_t count;
    json_t *json = json_loads(line, JSON_DECODE_ANY, NULL);
    or_status_t status = json_is_array(json)
                             ? tokenize_turns(chat, vocab, json, &ids, &count)
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
