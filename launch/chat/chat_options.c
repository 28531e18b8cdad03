#include "launch/chat/chat_options.h"

#include <assert.h>
#include <string.h>

#include "common/text/chat/chat.h"

#define ROWS_MAX 96
#define PREDICT_USUAL 256

static_assert(offsetof(or_chat_config_t, generate) == 0, "rows are shared with generate");

// A single prompt's.
static const char *const left_out[] = {"prompt",     "file", "special",       "stop",
                                       "ignore-eos", "json", "display-prompt"};

static const or_option_t own_rows[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Conversation"},
    {"system", NULL, OR_OPTION_STRING, offsetof(or_chat_config_t, system), "TEXT",
     "a message from the system before all others"},
    {"chat-template", NULL, OR_OPTION_STRING, offsetof(or_chat_config_t, chat_template), "NAME",
     "how the conversation becomes a prompt: a family of chat models, or none for a plain play of "
     "User and Assistant; not given: as the model's file says"},
    {"color", NULL, OR_OPTION_FLAG, offsetof(or_chat_config_t, colour), NULL,
     "on a terminal, show drafted and corrected words in two colours (NO_COLOR turns it off too)"},
};

static bool is_left_out(const or_option_t *row)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        if (row->name != NULL && strcmp(row->name, left_out[i]) == 0) {
            return true;
        }
    }
    return false;
}

const or_option_program_t *or_chat_program(void)
{
    static or_option_t table[ROWS_MAX];
    static const or_option_program_t program = {
        .program = "outrider chat",
        .summary = "a conversation in the terminal; /help there lists its commands",
        .usage = "[options]",
        .table = table,
        .examples = "Examples:\n"
                    "  outrider chat -m target.gguf -md draft.gguf\n"
                    "  outrider chat --connect tcp://127.0.0.1:5577 --system \"Be brief.\"\n"
                    "  printf 'Who are you?\\n' | outrider chat -s 7",
    };
    size_t own = sizeof own_rows / sizeof *own_rows;
    memcpy(table, own_rows, sizeof own_rows);
    size_t count = own;
    for (const or_option_t *row = or_generate_program.table; row->help != NULL; row++) {
        if (!is_left_out(row)) {
            assert(count + 1 < ROWS_MAX);
            table[count++] = *row;
        }
    }
    table[count] = (or_option_t){0};
    return &program;
}

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
