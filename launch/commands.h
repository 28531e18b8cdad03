// commands - the subcommands of `outrider`, one file each, and what all of them do first and last.
//
// argv[0] is the subcommand's name; what is returned is the exit code. Errors are sentences on standard error.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "common/base/options/options.h"

enum {
    OR_EXIT_OK = 0,
    OR_EXIT_FAILURE = 1,      // the world said no
    OR_EXIT_USAGE = 2,        // the command line makes no sense
    OR_EXIT_UNREACHABLE = 3,  // status: no coordinator answers
    OR_EXIT_BUSY = 75,        // the service is full: try again later (EX_TEMPFAIL of sysexits.h)
    OR_EXIT_INTERRUPTED = 130 // Ctrl-C, as a shell reports it
};

// A row of a list of commands, which ends with NULL.
typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; // in the list
} or_command_t;

extern const or_command_t or_generate_command, or_chat_command, or_bench_command, or_up_command,
    or_status_command, or_keys_command, or_doctor_command, or_tokenize_command, or_model_command,
    or_demo_command;
// outrider bench load, step, kernels
extern const or_command_t or_bench_load_command, or_bench_step_command, or_bench_kernels_command;
// outrider keys list (the others are in one file with `outrider keys`)
extern const or_command_t or_keys_list_command;
// outrider model inspect, compare, eval, convert, quantize, imatrix, inflate
extern const or_command_t or_model_inspect_command, or_model_compare_command, or_model_eval_command,
    or_model_convert_command, or_model_quantize_command, or_model_imatrix_command,
    or_model_inflate_command, or_model_pack_command;

// ---- a command that runs others ----

// The command of this name; NULL if there is none.
const or_command_t *or_command_find(const or_command_t *const *list, const char *name);
// Run the command of `list` that argv[1] names, or answer --help, -h and --help-json. Returns the exit code; -1 for another
// word. Without a word the help goes to standard error.
int or_command_dispatch(const or_option_program_t *program, const or_command_t *const *list,
                        void (*print_help)(FILE *out), int argc, char **argv);
// Print what --help of such a command begins with: its summary, its usage and its list.
void or_command_print_list(FILE *out, const or_option_program_t *program,
                           const or_command_t *const *list);
// Print that argv[1] is none of the list's, which is named, and return the exit code.
int or_command_fail_unknown(const or_option_program_t *program, const or_command_t *const *list,
                            const char *word);

// ---- a command of its own ----

// Read the command line into `config`, and the words that are no options into `words` (NULL: there must be none). False if
// that is all: after --help and the like, after --list-devices of a program that has it, and if the command line makes no
// sense. *code is the exit code then, and nothing is owned.
bool or_command_begin(const or_option_program_t *program, int argc, char **argv, void *config,
                      or_option_list_t *words, int *code);
// Free what or_command_begin has put into `config` and `words`. Returns OR_EXIT_OK if `status` is OR_OK; else prints the
// error and returns `code`.
int or_command_end(const or_option_program_t *program, void *config, or_option_list_t *words,
                   or_status_t status, int code);
// OR_EXIT_USAGE for what is wrong with the command line, else OR_EXIT_FAILURE.
int or_command_code(or_status_t status);

// Make `role` the log's name and `level` its level. OR_ERR_INVALID.
or_status_t or_command_open_log(const char *role, const char *level);
// An option that says how many threads. OR_ERR_INVALID if they are more than workers.h allows.
or_status_t or_command_check_threads(const char *option, uint32_t threads);

// Print or_error_text() as "outrider <command>: ..." and return `code`.
int or_command_fail(const char *command, int code);
