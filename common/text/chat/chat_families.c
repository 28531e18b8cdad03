// The families as their models' published templates have them. A template is recognised by text that only its family
// writes.
#include <stdio.h>
#include <string.h>

#include "common/text/chat/chat_internal.h"

#define BOS OR_CHAT_BOS
#define EOS OR_CHAT_EOS

static const or_chat_t families[] = {
    {.name = "chatml",
     .marks = {"<|im_start|>", "<|im_end|>"},
     .never = {"<|im_sep|>"}, // phi-4
     .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .user = {"<|im_start|>user\n", "<|im_end|>\n"},
     .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
     .opening = "<|im_start|>assistant\n"},
    {.name = "llama3",
     .marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     .opening = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .begins = true,
     .trims = true},
    {.name = "llama2",
     .marks = {"[INST]", "<<SYS>>"},
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {"[INST] ", " [/INST]"},
     .assistant = {" ", " " EOS BOS}, // a begin token before each [INST]
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_FIRST,
     .begins = true,
     .alternates = true,
     .trims = true},
    // Mistral's four versions differ in spaces and in the place of the system's words.
    {.name = "mistral-v7",
     .marks = {"[INST]", "[SYSTEM_PROMPT]"},
     .never = {"[SYSTEM_PROMPT] ", "[INST] "}, // of a SentencePiece vocabulary, with spaces
     .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", EOS},
     .opening = "",
     .begins = true},
    {.name = "mistral-v1", // in files with and without a space before [INST]; trained with one
     .marks = {"[INST]", " [/INST]"},
     .never = {"[SYSTEM_PROMPT]"},
     .system = {"", "\n\n"},
     .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", EOS},
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_FIRST,
     .begins = true,
     .alternates = true},
    {.name = "mistral", // v3
     .marks = {"[INST] ", "[/INST]"},
     .never = {"[SYSTEM_PROMPT]"},
     .system = {"", "\n\n"},
     .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", EOS},
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_LAST,
     .begins = true,
     .alternates = true},
    {.name = "mistral-tekken",
     .marks = {"[INST]", "[/INST]"},
     .never = {"[SYSTEM_PROMPT]"},
     .system = {"", "\n\n"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", EOS},
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_LAST,
     .begins = true,
     .alternates = true},
    {.name = "gemma",
     .marks = {"<start_of_turn>", "<end_of_turn>"},
     .system = {"", "\n\n"},
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
     .opening = "<start_of_turn>model\n",
     .system_place = OR_CHAT_SYSTEM_IN_FIRST,
     .begins = true,
     .alternates = true,
     .trims = true},
    {.name =
         "phi", // its templates write newlines behind these tokens, and its tokenizer drops them there
     .marks = {"<|user|>", "<|assistant|>", "<|end|>"},
     .system = {"<|system|>", "<|end|>"},
     .user = {"<|user|>", "<|end|>"},
     .assistant = {"<|assistant|>", "<|end|>"},
     .opening = "<|assistant|>",
     .trims = true},
    {.name = "zephyr",
     .marks = {"<|user|>", "<|assistant|>", "['content'] + eos_token"},
     .never = {"['content'] + '", "[gMASK]"}, // falcon3, glm4
     .system = {"<|system|>\n", EOS "\n"},
     .user = {"<|user|>\n", EOS "\n"},
     .assistant = {"<|assistant|>\n", EOS "\n"},
     .opening = "<|assistant|>\n"},
    {.name = "vicuna",
     .marks = {"USER: ", "ASSISTANT:"},
     .never = {"SYSTEM: "}, // orca
     .system = {"", "\n\n"},
     .user = {"USER: ", "\n"},
     .assistant = {"ASSISTANT: ", EOS "\n"},
     .opening = "ASSISTANT:",
     .trims = true},
};
#define FAMILY_COUNT (sizeof families / sizeof *families)

static bool holds(const char *text, size_t length, const char *mark)
{
    return memmem(text, length, mark, strlen(mark)) != NULL;
}

static bool is_of(const or_chat_t *family, const char *text, size_t length)
{
    for (size_t i = 0; i < OR_CHAT_MARKS_MAX; i++) {
        if ((family->marks[i] != NULL && !holds(text, length, family->marks[i])) ||
            (family->never[i] != NULL && holds(text, length, family->never[i]))) {
            return false;
        }
    }
    return true;
}

// Write "chatml, llama3, ... or vicuna".
static void list_names(char *text, size_t capacity)
{
    size_t length = 0;
    for (size_t i = 0; i < FAMILY_COUNT && length < capacity; i++) {
        const char *link = i == 0 ? "" : i + 1 < FAMILY_COUNT ? ", " : " or ";
        length +=
            (size_t)snprintf(text + length, capacity - length, "%s%s", link, families[i].name);
    }
}

or_status_t or_chat_of_model(const or_gguf_t *gguf, const or_chat_t **chat_p)
{
    char names[256];
    or_gguf_string_t text;
    list_names(names, sizeof names);
    if (or_gguf_get_string(gguf, "tokenizer.chat_template", &text) != OR_OK) {
        return or_fail(
            OR_ERR_NOT_FOUND,
            "%s has no chat template; for a chat model choose one with --chat-template: %s",
            basename(or_gguf_path(gguf)), names);
    }
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        if (is_of(&families[i], text.bytes, text.length)) {
            *chat_p = &families[i];
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
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(families[i].name, name) == 0) {
            *chat_p = &families[i];
            return OR_OK;
        }
    }
    char names[256];
    list_names(names, sizeof names);
    return or_fail(OR_ERR_INVALID, "--chat-template: there is no '%s'; write %s", name, names);
}

const char *or_chat_name(const or_chat_t *chat)
{
    return chat->name;
}

bool or_chat_is_markup(const char *piece, size_t length)
{
    static const char *const pieces[] = {"<|im_start|>",
                                         "<|im_end|>",
                                         "<|start_header_id|>",
                                         "<|end_header_id|>",
                                         "<|eot_id|>",
                                         "<|eom_id|>",
                                         "<|begin_of_text|>",
                                         "<|end_of_text|>",
                                         "<start_of_turn>",
                                         "<end_of_turn>",
                                         "<|system|>",
                                         "<|user|>",
                                         "<|assistant|>",
                                         "<|end|>",
                                         "<|endoftext|>",
                                         "[INST]",
                                         "[/INST]",
                                         "[SYSTEM_PROMPT]",
                                         "[/SYSTEM_PROMPT]",
                                         "<<SYS>>",
                                         "<</SYS>>",
                                         "<s>",
                                         "</s>",
                                         "<bos>",
                                         "<eos>"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (strlen(pieces[i]) == length && memcmp(pieces[i], piece, length) == 0) {
            return true;
        }
    }
    return false;
}
