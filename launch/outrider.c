// outrider - the command: picks a subcommand.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/options/options.h"
#include "common/base/options/program.h"
#include "common/base/version.h"
#include "common/model/cpu/workers.h"
#include "common/model/gpu/gpu_choice.h"
#include "launch/commands.h"

static const or_command_t commands[] = {
    {"generate", or_command_generate,
     "write text after a prompt, on a cluster of its own or on one that runs"},
    {"chat", or_command_chat, "a conversation in the terminal, on either"},
    {"bench", or_command_bench,
     "compare drafting methods and acceptance rules with plain decoding"},
    {"up", or_command_up, "run a local cluster in the foreground"},
    {"status", or_command_status, "how a running service does; a health and readiness probe"},
    {"keys", or_command_keys, "who may connect to a coordinator, and who we are when we do"},
    {"doctor", or_command_doctor,
     "check installation, models, ports and a coordinator, and say what to do next"},
    {"tokenize", or_command_tokenize, "standard input to token ids, or back"},
    {"model", or_command_model,
     "look into model files and make others: inspect, eval, compare, quantize, inflate"},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

int or_command_fail(const char *command, int code)
{
    char text[2048];
    snprintf(text, sizeof text, "%s", or_error_text());
    or_log_mend(text); // it may be what a coordinator says
    or_log_flush();    // what led to it comes first
    fprintf(stderr, "outrider %s: %s\n", command, text);
    return code;
}

or_status_t or_command_check_threads(const char *option, uint32_t threads)
{
    return threads <= OR_THREADS_MAX ? OR_OK
                                     : or_fail(OR_ERR_INVALID, "%s: %" PRIu32 " is over %u", option,
                                               threads, OR_THREADS_MAX);
}

int or_command_list_devices(const or_option_program_t *program, void *config)
{
    or_gpu_list(or_gpu_functions(), stdout);
    or_options_free(program, config, NULL);
    return OR_EXIT_OK;
}

int or_command_list_json(const or_option_program_t *program, const or_command_t *list, size_t count)
{
    const char *names[OR_COMMANDS_MAX + 1] = {0};
    or_option_program_t named = *program;
    for (size_t i = 0; i < count && i < OR_COMMANDS_MAX; i++) {
        names[i] = list[i].name;
    }
    named.commands = names;
    or_status_t status = or_options_print_commands(&named);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("--help-json", OR_EXIT_FAILURE);
}

static const or_option_program_t program = {
    .program = "outrider",
    .summary = "speculative decoding across processes, exact to the token",
    .usage = "COMMAND [options]",
    .examples = "Example:\n  outrider generate -p \"Once upon a time\" -n 64",
};

static void print_help(FILE *out)
{
    fprintf(out, "%s - %s\n\nusage: %s %s\n\n", program.program, program.summary, program.program,
            program.usage);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
    fputs("\n`outrider COMMAND --help` lists a command's options. Try:\n\n"
          "  outrider generate -p \"Once upon a time\" -n 64\n",
          out);
}

// The command that may have been meant; NULL if none is near.
static const char *nearest_command(const char *word)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        size_t distance = or_options_distance(word, commands[i].name);
        if (distance < best) {
            best = distance;
            nearest = commands[i].name;
        }
    }
    return or_options_is_near(word, best) ? nearest : NULL;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return OR_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(stdout);
        return OR_EXIT_OK;
    }
    if (strcmp(word, "--help-json") == 0) {
        return or_command_list_json(&program, commands, COMMAND_COUNT);
    }
    if (strcmp(word, "--version") == 0) {
        printf("outrider %s (protocol %u, arithmetic %s)\n", OR_VERSION, OR_PROTOCOL_VERSION,
               OR_ARITH_ID);
        return OR_EXIT_OK;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(word, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    const char *nearest = nearest_command(word);
    fprintf(stderr, "outrider: there is no command '%s'%s%s%s (outrider --help lists all)\n", word,
            nearest != NULL ? "; the nearest is '" : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "'" : "");
    return OR_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    or_program_begin();
    return or_program_end(run(argc, argv));
}
