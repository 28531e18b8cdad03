// outrider - the command: picks a subcommand.
#include <stdio.h>
#include <string.h>

#include "common/base/options/program.h"
#include "common/base/version.h"
#include "launch/commands.h"

static const or_command_t *const commands[] = {&or_demo_command,
                                               &or_generate_command,
                                               &or_chat_command,
                                               &or_bench_command,
                                               &or_up_command,
                                               &or_status_command,
                                               &or_keys_command,
                                               &or_doctor_command,
                                               &or_tokenize_command,
                                               &or_model_command,
                                               NULL};

static const or_option_program_t program = {
    .program = "outrider",
    .summary = "speculative decoding across processes, exact to the token",
    .usage = "COMMAND [options]",
    .examples = "Example:\n  outrider generate -p \"Once upon a time\" -n 64",
};

static void print_help(FILE *out)
{
    or_command_print_list(out, &program, commands);
    fputs("\n`outrider COMMAND --help` lists a command's options. Try:\n\n"
          "  outrider generate -p \"Once upon a time\" -n 64\n",
          out);
}

static int fail_unknown(const char *word)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; commands[i] != NULL; i++) {
        size_t distance = or_options_distance(word, commands[i]->name);
        if (distance < best) {
            best = distance;
            nearest = commands[i]->name;
        }
    }
    bool near = or_options_is_near(word, best);
    fprintf(stderr, "outrider: there is no command '%s'%s%s%s (outrider --help lists all)\n", word,
            near ? "; the nearest is '" : "", near ? nearest : "", near ? "'" : "");
    return OR_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    const char *word = argc >= 2 ? argv[1] : "";
    if (strcmp(word, "help") == 0) { // help model pack: model pack --help
        memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = (char *)"--help";
        word = argv[1];
    }
    if (strcmp(word, "--version") == 0) {
        printf("outrider %s (protocol %u, arithmetic %s)\n", OR_VERSION, OR_PROTOCOL_VERSION,
               OR_ARITH_ID);
        return OR_EXIT_OK;
    }
    int code = or_command_dispatch(&program, commands, print_help, argc, argv);
    return code >= 0 ? code : fail_unknown(word);
}

int main(int argc, char **argv)
{
    or_program_begin();
    return or_program_end(run(argc, argv));
}
