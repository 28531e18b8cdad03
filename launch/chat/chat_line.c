#include "launch/chat/chat_line.h"

#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "common/base/interrupt.h"

#define HISTORY_LINES 1000

struct or_chat_line {
    EditLine *editor; // NULL: not a terminal
    History *history;
    char *text; // malloc'd: the last line
    size_t room;
    int interrupts; // before we waited for it
    bool broken;    // by one
};

static char *prompt(EditLine *editor)
{
    (void)editor;
    return (char *)"> ";
}

// It only has to end a wait.
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

// The next character for the editor: its own reader would sleep through signals. 0 ends the line.
static int read_character(EditLine *editor, wchar_t *character)
{
    or_chat_line_t *line = NULL;
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

static or_status_t start_editor(or_chat_line_t *line)
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

or_status_t or_chat_line_create(or_chat_line_t **line_p)
{
    or_chat_line_t *line = calloc(1, sizeof *line);
    if (line == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for lines");
    }
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        or_status_t status = start_editor(line);
        if (status != OR_OK) {
            or_chat_line_destroy(&line);
            return status;
        }
    }
    *line_p = line;
    return OR_OK;
}

void or_chat_line_destroy(or_chat_line_t **line_p)
{
    or_chat_line_t *line = *line_p;
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

bool or_chat_line_is_terminal(const or_chat_line_t *line)
{
    return line->editor != NULL;
}

// Into line->text, without its newline. False at the end.
static bool read_edited(or_chat_line_t *line)
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

static bool read_plain(or_chat_line_t *line)
{
    bool is_line = getline(&line->text, &line->room, stdin) >= 0;
    line->broken = or_interrupt_count() > line->interrupts;
    return is_line;
}

or_chat_line_event_t or_chat_line_read(or_chat_line_t *line, const char **text)
{
    line->interrupts = or_interrupt_count();
    line->broken = false;
    or_interrupt_drain();
    bool is_line = line->editor != NULL ? read_edited(line) : read_plain(line);
    if (line->broken) {
        return OR_CHAT_LINE_BROKEN;
    }
    if (!is_line) {
        return OR_CHAT_LINE_END;
    }
    line->text[strcspn(line->text, "\n")] = '\0';
    *text = line->text;
    return OR_CHAT_LINE;
}
