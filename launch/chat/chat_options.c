#include "launch/chat/chat_options.h"

#include <string.h>

#include "common/text/chat/chat.h"

#define PREDICT_USUAL 256

// Options of a single prompt.
static const char *const left_out[] = {"prompt",     "file", "special",        "stop",
                                       "ignore-eos", "json", "display-prompt", NULL};

static const or_option_t table[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Conversation"},
    {"system", NULL, OR_OPTION_STRING, offsetof(or_chat_config_t, system), "TEXT",
     "a message from the system before all others"},
    {"chat-template", NULL, OR_OPTION_STRING, offsetof(or_chat_config_t, chat_template), "NAME",
     "how the conversation becomes a prompt: a family of chat models, or none for a plain play of "
     "User and Assistant; not given: as the model's file says"},
    {"thinking", NULL, OR_OPTION_STRING, offsetof(or_chat_config_t, thinking), "HOW",
     "whether a model thinks before it answers, where its template can be told so: off, on, low, "
     "medium or high; not given: "
     "as the template does it"},
    {"color", NULL, OR_OPTION_FLAG, offsetof(or_chat_config_t, colour), NULL,
     "on a terminal, show drafted and corrected words in two colours (NO_COLOR turns it off too)"},
    {.type = OR_OPTION_PART,
     .offset = offsetof(or_chat_config_t, generate),
     .part = or_generate_options,
     .except = left_out},
    {0}};

const or_option_program_t or_chat_program = {
    .program = "outrider chat",
    .summary = "a conversation in the terminal; /help there lists its commands",
    .usage = "[options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider chat -m target.gguf -md draft.gguf\n"
                "  outrider chat --connect tcp://127.0.0.1:5577 --system \"Be brief.\"\n"
                "  printf 'Who are you?\\n' | outrider chat -s 7",
};

or_chat_config_t or_chat_config_default(void)
{
    or_chat_config_t config = {.generate = or_generate_config_default(), .colour = true};
    config.generate.predict = PREDICT_USUAL;
    return config;
}

bool or_chat_config_is_plain(const or_chat_config_t *config)
{
    return config->chat_template != NULL && strcmp(config->chat_template, "none") == 0;
}

or_status_t or_chat_config_check(const or_chat_config_t *config)
{
    const or_chat_t *chat;
    uint32_t thinking;
    if (config->thinking != NULL && or_thinking_by_name(config->thinking, &thinking) != OR_OK) {
        return or_fail(OR_ERR_INVALID, "--thinking: %s", or_error_text());
    }
    if (config->chat_template == NULL || or_chat_config_is_plain(config)) {
        return OR_OK;
    }
    if (config->generate.connect != NULL) {
        return or_fail(
            OR_ERR_INVALID,
            "--chat-template %s: with --connect the coordinator chooses (it has this option "
            "too); here it can only be none",
            config->chat_template);
    }
    return or_chat_by_name(config->chat_template, &chat);
}
