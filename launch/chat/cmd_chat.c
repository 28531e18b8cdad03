// outrider chat - a conversation in the terminal, on a cluster of its own or on a coordinator that runs already. Answers go to standard
// output, everything else to standard error; without a terminal each line of standard input is a question.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "launch/chat/chat_line.h"
#include "launch/chat/chat_talk.h"
#include "launch/commands.h"
#include "launch/model/models.h"

// ---- commands
// ----------------------------------------------------------------------------------------

// Each returns false to end the conversation. `rest` is what stands behind the command's name.
typedef bool (*command_run_t)(or_chat_talk_t *talk, const char *rest);

typedef struct {
    const char *name;
    const char *rest; // what may follow
    command_run_t run;
    const char *help;
} command_t;

static const command_t *commands(size_t *count);

static bool help(or_chat_talk_t *talk, const char *rest)
{
    (void)rest;
    size_t count;
    const command_t *list = commands(&count);
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "  %-7s %-5s %s\n", list[i].name, list[i].rest, list[i].help);
    }
    fprintf(stderr,
            "  //...         a message that begins with /\n"
            "Ctrl-C stops an answer, twice it ends the conversation; Ctrl-D ends it too.\n");
    if (talk->painter.colour) {
        fprintf(stderr,
                "Answers: " OR_CHAT_DRAFTED "guessed by the drafter" OR_CHAT_NO_COLOUR
                ", " OR_CHAT_CORRECTED "written by the target itself" OR_CHAT_NO_COLOUR ".\n");
    }
    return true;
}

static bool reset(or_chat_talk_t *talk, const char *rest)
{
    (void)rest;
    or_chat_history_reset(&talk->history);
    fprintf(stderr, "the conversation begins anew\n");
    return true;
}

static bool undo(or_chat_talk_t *talk, const char *rest)
{
    (void)rest;
    if (or_chat_history_undo(&talk->history)) {
        fprintf(stderr, "the last question and its answer are forgotten\n");
    } else {
        fprintf(stderr, "there is nothing to undo\n");
    }
    return true;
}

static bool set_system(or_chat_talk_t *talk, const char *rest)
{
    if (or_chat_history_set_system(&talk->history, rest) != OR_OK) {
        or_command_fail("chat", OR_EXIT_FAILURE);
    } else {
        fprintf(stderr, rest[0] != '\0' ? "the system says so from the next answer on\n"
                                        : "there is no system message now\n");
    }
    return true;
}

static bool set_seed(or_chat_talk_t *talk, const char *rest)
{
    uint64_t seed;
    if (or_generate_seed_parse(rest, &seed) != OR_OK) {
        fprintf(stderr,
                "/seed takes random or a whole number, and then each answer has that seed\n");
        return true;
    }
    talk->draws_seeds = or_generate_seed_is_drawn(rest);
    talk->seed = seed;
    if (talk->draws_seeds) {
        fprintf(stderr, "each answer has a seed of its own\n");
    } else {
        fprintf(stderr, "each answer has the seed %" PRIu64 "\n", seed);
    }
    return true;
}

static bool save(or_chat_talk_t *talk, const char *rest)
{
    if (rest[0] == '\0') {
        fprintf(stderr, "/save takes the name of a file\n");
    } else if (or_chat_history_save(&talk->history, rest) != OR_OK) {
        or_command_fail("chat", OR_EXIT_FAILURE);
    } else {
        fprintf(stderr, "%" PRIu32 " messages are in %s\n", talk->history.count, rest);
    }
    return true;
}

static bool stats(or_chat_talk_t *talk, const char *rest)
{
    (void)rest;
    fprintf(stderr, "%" PRIu64 " tokens in %" PRIu32 " answer%s", talk->tokens, talk->answers,
            talk->answers == 1 ? "" : "s");
    if (talk->target_calls > 0) {
        fprintf(stderr, ", %.1f per target call",
                (double)talk->tokens / (double)talk->target_calls);
    }
    if (talk->drafted > 0) {
        fprintf(stderr, ", %.0f %% of drafted tokens accepted",
                100 * (double)talk->accepted / (double)talk->drafted);
    }
    fprintf(stderr, "; %" PRIu32 " turns in the conversation\n",
            or_chat_history_turns(&talk->history));
    return true;
}

static bool quit(or_chat_talk_t *talk, const char *rest)
{
    (void)talk;
    (void)rest;
    return false;
}

static const command_t *commands(size_t *count)
{
    static const command_t list[] = {
        {"/help", "", help, "this list"},
        {"/reset", "", reset, "begin anew; the system message stays"},
        {"/undo", "", undo, "forget the last question and its answer"},
        {"/system", "TEXT", set_system,
         "a message from the system before all others; without TEXT: none"},
        {"/seed", "N", set_seed, "the seed of every answer from now on, or random"},
        {"/save", "FILE", save, "write the conversation as JSON messages"},
        {"/stats", "", stats, "figures so far"},
        {"/quit", "", quit, "end"},
    };
    *count = sizeof list / sizeof *list;
    return list;
}

static bool run_command(or_chat_talk_t *talk, const char *line)
{
    size_t count;
    const command_t *list = commands(&count);
    size_t length = strcspn(line, " \t");
    const char *rest = line + length + strspn(line + length, " \t");
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i].name) == length && memcmp(list[i].name, line, length) == 0) {
            return list[i].run(talk, rest);
        }
    }
    fprintf(stderr, "there is no command %.*s; /help lists them\n", (int)length, line);
    return true;
}

// ---- the conversation
// ----------------------------------------------------------------------------------------

// A failure of one answer; may the conversation go on?
static bool fail(or_status_t status, bool terminal, int *code)
{
    int failure = status == OR_ERR_FULL ? OR_EXIT_BUSY : OR_EXIT_FAILURE;
    or_command_fail("chat", failure);
    bool goes_on = terminal && (status == OR_ERR_FULL || status == OR_ERR_INVALID);
    *code = goes_on ? *code : failure;
    return goes_on;
}

// False ends the conversation, with *code.
static bool ask(or_chat_talk_t *talk, const char *text, bool terminal, int *code)
{
    int before = or_interrupt_count();
    or_status_t status = or_chat_talk_ask(talk, text);
    int interrupts = or_interrupt_count() - before;
    if (interrupts > (terminal ? 1 : 0) || or_interrupt_is_final()) {
        *code = OR_EXIT_INTERRUPTED;
        return false;
    }
    return status == OR_OK || fail(status, terminal, code);
}

static bool take_line(or_chat_talk_t *talk, const char *line, bool terminal, int *code)
{
    line += strspn(line, " \t\r");
    if (line[0] == '\0') {
        return true;
    }
    if (line[0] == '/' && line[1] != '/') {
        return run_command(talk, line);
    }
    return ask(talk, line + (line[0] == '/' ? 1 : 0), terminal, code);
}

// Ctrl-C at the prompt: the first one drops the line. False ends the conversation.
static bool take_break(bool again, bool terminal, int *code)
{
    if (again || !terminal || or_interrupt_is_final()) {
        *code = OR_EXIT_INTERRUPTED;
        return false;
    }
    fprintf(stderr, "Ctrl-C again, Ctrl-D or /quit ends the conversation\n");
    return true;
}

static int converse(or_chat_talk_t *talk, or_chat_line_t *line)
{
    bool terminal = or_chat_line_is_terminal(line);
    bool goes_on = true;
    bool broken = false;
    int code = OR_EXIT_OK;
    if (terminal) {
        fprintf(stderr, "/help lists what can be said besides; Ctrl-D ends\n");
    }
    while (goes_on) {
        const char *text = NULL;
        or_chat_line_event_t event = or_chat_line_read(line, &text);
        if (event == OR_CHAT_LINE) {
            goes_on = take_line(talk, text, terminal, &code);
        } else {
            goes_on = event == OR_CHAT_LINE_BROKEN && take_break(broken, terminal, &code);
        }
        broken = event == OR_CHAT_LINE_BROKEN;
    }
    return code;
}

static int run_chat(const or_chat_config_t *config, const or_generate_request_t *request)
{
    or_chat_talk_t talk = {0};
    or_chat_line_t *line = NULL;
    int code;
    or_interrupt_watch();
    or_status_t status = or_chat_line_create(&line);
    if (status == OR_OK) {
        status = or_chat_talk_init(&talk, config, request, or_chat_line_is_terminal(line));
    }
    if (status == OR_OK) {
        code = converse(&talk, line);
    } else if (or_interrupt_count() > 0) {
        code = OR_EXIT_INTERRUPTED;
    } else {
        code = or_command_fail("chat", OR_EXIT_FAILURE);
    }
    or_chat_talk_fini(&talk);
    or_chat_line_destroy(&line);
    return code;
}

// What generate's rows do not ask for here: a prompt, of which there is a new one for each answer.
static or_status_t make_request(or_chat_config_t *config, or_generate_request_t *request)
{
    or_generate_config_t generate = config->generate;
    generate.prompt = (char *)"";
    or_status_t status = or_generate_request_make(&generate, request);
    return status == OR_OK ? or_chat_config_check(config) : status;
}

int or_command_chat(int argc, char **argv)
{
    const or_option_program_t *program = &or_chat_program;
    or_chat_config_t config = or_chat_config_default();
    or_generate_request_t request = {0};
    or_options_next_t next;
    or_log_level_t level;
    or_status_t status = or_options_parse(program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("chat", OR_EXIT_USAGE);
    }
    if (config.generate.target.list_devices) {
        return or_command_list_devices(program, &config);
    }
    status = or_log_parse_level(config.generate.log_level, &level);
    if (status == OR_OK) {
        or_log_init("chat", level);
        status = make_request(&config, &request);
    }
    if (status == OR_OK && config.generate.connect == NULL) {
        status =
            or_models_choose(&config.generate.model, &config.generate.draft_model, request.plain);
    }
    int code;
    if (status == OR_OK) {
        code = run_chat(&config, &request);
    } else {
        code = or_command_fail("chat", status == OR_ERR_INVALID ? OR_EXIT_USAGE : OR_EXIT_FAILURE);
    }
    or_generate_request_free(&request);
    or_options_free(program, &config, NULL);
    return code;
}
