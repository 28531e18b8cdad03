// outrider model - what is in a model file, what it computes, and other files made of it.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launch/commands.h"

static const or_command_t commands[] = {
    {"inspect", or_command_model_inspect, "FILE [--json]"},
    {"compare", or_command_model_compare, "TARGET DRAFT [-f TEXTFILE] [--json]"},
    {"eval", or_command_model_eval,
     "--ids 1,2,3 [-m FILE] [--tree IDS] [--parents LIST] [options]"},
    {"quantize", or_command_model_quantize, "IN OUT TYPE [options]"},
    {"inflate", or_command_model_inflate, "IN OUT SIZE [--type TYPE] [options]"},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const or_option_program_t program = {
    .program = "outrider model",
    .summary = "look into model files, and make others of them",
    .usage = "COMMAND [options]",
};

static void print_help(FILE *out)
{
    fprintf(out, "%s - %s\n\n", program.program, program.summary);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "%s outrider model %s %s\n", i == 0 ? "usage:" : "      ", commands[i].name,
                commands[i].help);
    }
    fputs("\nEach says more with --help.\n", out);
}

int or_command_model(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (argc >= 2 && strcmp(argv[1], "--help-json") == 0) {
        return or_command_list_json(&program, commands, COMMAND_COUNT);
    }
    bool help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (argc >= 2 && !help) {
        fprintf(stderr,
                "outrider model: there is no '%s'; it is inspect, compare, eval, quantize or "
                "inflate\n",
                argv[1]);
        return OR_EXIT_USAGE;
    }
    print_help(help ? stdout : stderr);
    return help ? OR_EXIT_OK : OR_EXIT_USAGE;
}
