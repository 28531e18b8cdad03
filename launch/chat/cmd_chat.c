// outrider chat - a conversation in the terminal, on a cluster of its own or on a coordinator that runs already. Answers go to standard
// output, everything else to standard error; without a terminal each line of standard input is a question.
#include <histedit.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "common/base/interrupt.h"
#include "launch/chat/conversation.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"

#define HISTORY_LINES 1000

// ---- what the user types, a line at a time: edited and remembered on a terminal ----

typedef struct {
    EditLine *editor; // NULL: not a terminal
    History *history;
    char *text; // malloc'd: the last line
    size_t room;
    int interrupts; // before we waited for it
    bool broken;    // by one
} line_t;

typedef enum {
    LINE,
    LINE_END,    // Ctrl-D, or the end of the input
    LINE_BROKEN, // Ctrl-C, or SIGTERM
} line_event_t;

static char *prompt(EditLine *editor)
{
    (void)editor;
    return (char *)"> ";
}

// The handler only has to end a wait.
static void on_continue(int number)
{
    (void)number;
}

// We were stopped (Ctrl-Z) and go on: the shell has used the terminal meanwhile, which the editor does not notice.
static void take_terminal_back(EditLine *editor)
{
    el_set(editor, EL_PREP_TERM, 0);
    el_set(editor, EL_PREP_TERM, 1);
    el_set(editor, EL_REFRESH);
}

// Read the next character for the editor, whose own reader would sleep through signals. Returning 0 ends the line.
static int read_character(EditLine *editor, wchar_t *character)
{
    line_t *line = NULL;
    el_get(editor, EL_CLIENTDATA, &line);
    mbstate_t state = {0};
    for (;;) {
        struct pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {or_interrupt_fd(), POLLIN, 0}};
        char byte;
        if (or_interrupt_count() > line->interrupts) {
            line->broken = true;
            return 0;
        }
        if (poll(waits, 2, -1) < 0) {
            if (or_interrupt_count() == line->interrupts) {
                take_terminal_back(editor);
            }
            continue;
        }
        if (waits[0].revents == 0) {
            continue;
        }
        if (read(STDIN_FILENO, &byte, 1) != 1) {
            return 0;
        }
        size_t used = mbrtowc(character, &byte, 1, &state);
        if (used == (size_t)-1) {
            state = (mbstate_t){0}; // no character: as if it had not been typed
        } else if (used != (size_t)-2) {
            return 1;
        }
    }
}

static or_status_t start_editor(line_t *line)
{
    HistEvent event;
    const struct sigaction action = {.sa_handler = on_continue};
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) {
        setlocale(LC_CTYPE, "C.UTF-8"); // models write UTF-8 whatever the machine was told
    }
    line->history = history_init();
    line->editor = el_init("outrider", stdin, stdout, stderr);
    if (line->history == NULL || line->editor == NULL) {
        return or_fail(OR_ERR_IO, "this terminal cannot be used (is TERM set?)");
    }
    sigaction(SIGCONT, &action, NULL);
    history(line->history, &event, H_SETSIZE, HISTORY_LINES);
    el_set(line->editor, EL_CLIENTDATA, line);
    el_set(line->editor, EL_HIST, history, line->history);
    el_set(line->editor, EL_PROMPT, prompt);
    el_set(line->editor, EL_EDITOR, "emacs");
    el_set(line->editor, EL_GETCFN, read_character);
    el_source(line->editor, NULL); // the user's own ~/.editrc
    return OR_OK;
}

static void line_destroy(line_t **line_p)
{
    line_t *line = *line_p;
    if (line != NULL) {
        if (line->editor != NULL) {
            el_end(line->editor);
        }
        if (line->history != NULL) {
            history_end(line->history);
        }
        free(line->text);
        free(line);
        *line_p = NULL;
    }
}

static or_status_t line_create(line_t **line_p)
{
    line_t *line = calloc(1, sizeof *line);
    if (line == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for lines");
    }
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        or_status_t status = start_editor(line);
        if (status != OR_OK) {
            line_destroy(&line);
            return status;
        }
    }
    *line_p = line;
    return OR_OK;
}

static bool line_is_terminal(const line_t *line)
{
    return line->editor != NULL;
}

// Read an edited line into line->text. False at the end of the input.
static bool read_edited(line_t *line)
{
    int length = 0;
    HistEvent event;
    const char *typed = el_gets(line->editor, &length);
    if (typed == NULL || length <= 0) {
        putchar('\n'); // the cursor stands behind the prompt
        fflush(stdout);
        return false;
    }
    if (typed[0] != '\n') {
        history(line->history, &event, H_ENTER, typed);
    }
    free(line->text);
    line->text = strdup(typed);
    return line->text != NULL;
}

static bool read_plain(line_t *line)
{
    bool is_line = getline(&line->text, &line->room, stdin) >= 0;
    line->broken = or_interrupt_count() > line->interrupts;
    return is_line;
}

static line_event_t line_read(line_t *line, const char **text)
{
    line->interrupts = or_interrupt_count();
    line->broken = false;
    or_interrupt_drain();
    bool is_line = line->editor != NULL ? read_edited(line) : read_plain(line);
    if (line->broken) {
        return LINE_BROKEN;
    }
    if (!is_line) {
        return LINE_END;
    }
    line->text[strcspn(line->text, "\n")] = '\0';
    *text = line->text;
    return LINE;
}

// ---- commands ----

// A command returns false to end the conversation. `rest` is the line behind the command's name.
typedef bool (*command_run_t)(or_conversation_t *talk, const char *rest);

typedef struct {
    const char *name;
    const char *rest; // what may follow
    command_run_t run;
    const char *help;
} command_t;

static const command_t *commands(size_t *count);

static bool help(or_conversation_t *talk, const char *rest)
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

static bool reset(or_conversation_t *talk, const char *rest)
{
    (void)rest;
    or_chat_history_reset(&talk->history);
    fprintf(stderr, "the conversation begins anew\n");
    return true;
}

static bool undo(or_conversation_t *talk, const char *rest)
{
    (void)rest;
    if (or_chat_history_undo(&talk->history)) {
        fprintf(stderr, "the last question and its answer are forgotten\n");
    } else {
        fprintf(stderr, "there is nothing to undo\n");
    }
    return true;
}

static bool set_system(or_conversation_t *talk, const char *rest)
{
    if (or_chat_history_set_system(&talk->history, rest) != OR_OK) {
        or_command_fail("chat", OR_EXIT_FAILURE);
    } else {
        fprintf(stderr, rest[0] != '\0' ? "the system says so from the next answer on\n"
                                        : "there is no system message now\n");
    }
    return true;
}

static bool set_seed(or_conversation_t *talk, const char *rest)
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

static bool save(or_conversation_t *talk, const char *rest)
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

static bool stats(or_conversation_t *talk, const char *rest)
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
            talk->history.count - (talk->history.system != NULL));
    return true;
}

static bool quit(or_conversation_t *talk, const char *rest)
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

static bool run_command(or_conversation_t *talk, const char *line)
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

// ---- the conversation ----

// Report the failure of one answer. Returns whether the conversation may go on.
static bool fail(or_status_t status, bool terminal, int *code)
{
    int failure = status == OR_ERR_FULL ? OR_EXIT_BUSY : OR_EXIT_FAILURE;
    or_command_fail("chat", failure);
    bool goes_on = terminal && (status == OR_ERR_FULL || status == OR_ERR_INVALID);
    *code = goes_on ? *code : failure;
    return goes_on;
}

// Ask, and print the answer. Returns false to end the conversation with *code.
static bool ask(or_conversation_t *talk, const char *text, bool terminal, int *code)
{
    int before = or_interrupt_count();
    or_status_t status = or_conversation_ask(talk, text);
    int interrupts = or_interrupt_count() - before;
    if (interrupts > (terminal ? 1 : 0) || or_interrupt_is_final()) {
        *code = OR_EXIT_INTERRUPTED;
        return false;
    }
    return status == OR_OK || fail(status, terminal, code);
}

static bool take_line(or_conversation_t *talk, const char *line, bool terminal, int *code)
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

// The user pressed Ctrl-C at the prompt: the first one drops the line. Returns false to end the conversation.
static bool take_break(bool again, bool terminal, int *code)
{
    if (again || !terminal || or_interrupt_is_final()) {
        *code = OR_EXIT_INTERRUPTED;
        return false;
    }
    fprintf(stderr, "Ctrl-C again, Ctrl-D or /quit ends the conversation\n");
    return true;
}

static int converse(or_conversation_t *talk, line_t *line)
{
    bool terminal = line_is_terminal(line);
    bool goes_on = true;
    bool broken = false;
    int code = OR_EXIT_OK;
    if (terminal) {
        fprintf(stderr, "/help lists what can be said besides; Ctrl-D ends\n");
    }
    while (goes_on) {
        const char *text = NULL;
        line_event_t event = line_read(line, &text);
        if (event == LINE) {
            goes_on = take_line(talk, text, terminal, &code);
        } else {
            goes_on = event == LINE_BROKEN && take_break(broken, terminal, &code);
        }
        broken = event == LINE_BROKEN;
    }
    return code;
}

static int run_chat(const or_chat_config_t *config, const or_generate_request_t *request)
{
    or_conversation_t talk = {0};
    line_t *line = NULL;
    int code;
    or_interrupt_watch();
    or_status_t status = line_create(&line);
    if (status == OR_OK) {
        status = or_conversation_init(&talk, config, request, line_is_terminal(line));
    }
    if (status == OR_OK) {
        code = converse(&talk, line);
    } else if (or_interrupt_count() > 0) {
        code = OR_EXIT_INTERRUPTED;
    } else {
        code = or_command_fail("chat", OR_EXIT_FAILURE);
    }
    or_conversation_fini(&talk);
    line_destroy(&line);
    return code;
}

// Generate's rows without a prompt, of which there is a new one for each answer.
static or_status_t make_request(or_chat_config_t *config, or_generate_request_t *request)
{
    or_generate_config_t generate = config->generate;
    generate.prompt = (char *)"";
    or_status_t status = or_generate_request_make(&generate, request);
    return status == OR_OK ? or_chat_config_check(config) : status;
}

static int run(int argc, char **argv)
{
    const or_option_program_t *program = &or_chat_program;
    or_chat_config_t config = or_chat_config_default();
    or_generate_request_t request = {0};
    int code;
    if (!or_command_begin(program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_status_t status = or_command_open_log("chat", config.generate.log_level);
    if (status == OR_OK) {
        status = make_request(&config, &request);
    }
    if (status == OR_OK && config.generate.connect == NULL) {
        status =
            or_models_choose_for(&config.generate.models, &config.generate.parameters, &request);
    }
    code = status == OR_OK ? run_chat(&config, &request)
                           : or_command_fail("chat", or_command_code(status));
    or_generate_request_free(&request);
    or_options_free(program, &config, NULL);
    return code;
}

const or_command_t or_chat_command = {"chat", run, "a conversation in the terminal, on either"};
