#include "launch/commands.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/model/cpu/workers.h"
#include "common/model/gpu/gpu_choice.h"

#define COMMANDS_MAX 16 // of one program

int or_command_fail(const char *command, int code)
{
    char text[2048];
    snprintf(text, sizeof text, "%s", or_error_text());
    or_log_mend(text); // it may be what a coordinator says
    or_log_flush();    // what led to it comes first
    fprintf(stderr, "outrider %s: %s\n", command, text);
    return code;
}

// ---- a command that runs others ----

const or_command_t *or_command_find(const or_command_t *const *list, const char *name)
{
    while (*list != NULL && strcmp((*list)->name, name) != 0) {
        list++;
    }
    return *list;
}

static int print_json(const or_option_program_t *program, const or_command_t *const *list)
{
    const char *names[COMMANDS_MAX + 1] = {0};
    or_option_program_t named = *program;
    for (size_t i = 0; i < COMMANDS_MAX && list[i] != NULL; i++) {
        names[i] = list[i]->name;
    }
    named.commands = names;
    or_status_t status = or_options_print_commands(&named);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("--help-json", OR_EXIT_FAILURE);
}

int or_command_dispatch(const or_option_program_t *program, const or_command_t *const *list,
                        void (*print_help)(FILE *out), int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return OR_EXIT_USAGE;
    }
    const or_command_t *command = or_command_find(list, argv[1]);
    if (command != NULL) {
        return command->run(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "--help-json") == 0) {
        return print_json(program, list);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return OR_EXIT_OK;
    }
    return -1;
}

void or_command_print_list(FILE *out, const or_option_program_t *program,
                           const or_command_t *const *list)
{
    fprintf(out, "%s - %s\n\nusage: %s %s\n\n", program->program, program->summary,
            program->program, program->usage);
    for (; *list != NULL; list++) {
        fprintf(out, "  %-10s %s\n", (*list)->name, (*list)->help);
    }
}

int or_command_fail_unknown(const or_option_program_t *program, const or_command_t *const *list,
                            const char *word)
{
    fprintf(stderr, "%s: there is no '%s'; it is", program->program, word);
    for (size_t i = 0; list[i] != NULL; i++) {
        const char *before = i == 0 ? " " : list[i + 1] != NULL ? ", " : " or ";
        fprintf(stderr, "%s%s", before, list[i]->name);
    }
    fputc('\n', stderr);
    return OR_EXIT_USAGE;
}

// ---- a command of its own ----

// "bench load" of "outrider bench load".
static const char *name_of(const or_option_program_t *program)
{
    return strchr(program->program, ' ') + 1;
}

bool or_command_begin(const or_option_program_t *program, int argc, char **argv, void *config,
                      or_option_list_t *words, int *code)
{
    or_options_next_t next;
    or_status_t status = or_options_parse(program, argc, argv, config, words, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        *code = status == OR_OK ? OR_EXIT_OK : or_command_fail(name_of(program), OR_EXIT_USAGE);
        return false;
    }
    if (or_options_flag(program->table, config, "list-devices")) {
        or_gpu_list(or_gpu_functions(), stdout);
        or_options_free(program, config, words);
        *code = OR_EXIT_OK;
        return false;
    }
    return true;
}

int or_command_end(const or_option_program_t *program, void *config, or_option_list_t *words,
                   or_status_t status, int code)
{
    or_options_free(program, config, words);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail(name_of(program), code);
}

int or_command_code(or_status_t status)
{
    return status == OR_ERR_INVALID ? OR_EXIT_USAGE : OR_EXIT_FAILURE;
}

or_status_t or_command_open_log(const char *role, const char *level)
{
    or_log_level_t parsed;
    or_status_t status = or_log_parse_level(level, &parsed);
    if (status == OR_OK) {
        or_log_init(role, parsed);
    }
    return status;
}

or_status_t or_command_check_threads(const char *option, uint32_t threads)
{
    return threads <= OR_THREADS_MAX ? OR_OK
                                     : or_fail(OR_ERR_INVALID, "%s: %" PRIu32 " is over %u", option,
                                               threads, OR_THREADS_MAX);
}
