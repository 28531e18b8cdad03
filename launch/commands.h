// commands - the subcommands of `outrider`, one file each.
//
// argv[0] is the subcommand's name; what is returned is the exit code. Errors are sentences on
// standard error.
#pragma once

#include <stdint.h>

#include "common/base/options/options.h"

enum {
    OR_EXIT_OK = 0,
    OR_EXIT_FAILURE = 1,      // the world said no
    OR_EXIT_USAGE = 2,        // the command line makes no sense
    OR_EXIT_UNREACHABLE = 3,  // status: no coordinator answers
    OR_EXIT_BUSY = 75,        // the service is full: try again later (EX_TEMPFAIL of sysexits.h)
    OR_EXIT_INTERRUPTED = 130 // Ctrl-C, as a shell reports it
};

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; // in the list of commands
} or_command_t;

#define OR_COMMANDS_MAX 16 // of one program

// --help-json of `program`, whose only words are these commands: print it and return the exit code.
int or_command_list_json(const or_option_program_t *program, const or_command_t *list,
                         size_t count);

int or_command_generate(int argc, char **argv);
int or_command_chat(int argc, char **argv);
int or_command_bench(int argc, char **argv);
int or_command_bench_load(int argc, char **argv);    // outrider bench load
int or_command_bench_step(int argc, char **argv);    // outrider bench step
int or_command_bench_kernels(int argc, char **argv); // outrider bench kernels
int or_command_up(int argc, char **argv);
int or_command_status(int argc, char **argv);
int or_command_doctor(int argc, char **argv);
int or_command_tokenize(int argc, char **argv);
int or_command_keys(int argc, char **argv); // of which there are five:
int or_command_keys_new(int argc, char **argv);
int or_command_keys_list(int argc, char **argv);
int or_command_keys_authorize(int argc, char **argv);
int or_command_keys_revoke(int argc, char **argv);
int or_command_keys_trust(int argc, char **argv);
int or_command_model(int argc, char **argv); // of which there are five:
int or_command_model_inspect(int argc, char **argv);
int or_command_model_compare(int argc, char **argv);
int or_command_model_eval(int argc, char **argv);
int or_command_model_quantize(int argc, char **argv);
int or_command_model_inflate(int argc, char **argv);

// An option that says how many threads. OR_ERR_INVALID if they are more than workers.h allows.
or_status_t or_command_check_threads(const char *option, uint32_t threads);

// --list-devices: print the GPUs, free what parsing put into `config`, and return the exit code.
int or_command_list_devices(const or_option_program_t *program, void *config);

// Print or_error_text() as "outrider <command>: ..." and return `code`.
int or_command_fail(const char *command, int code);
