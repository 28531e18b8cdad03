// outrider model - what is in a model file, what it computes, and other files made of it.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launch/commands.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"inspect", or_command_model_inspect}, {"compare", or_command_model_compare},
    {"eval", or_command_model_eval},       {"quantize", or_command_model_quantize},
    {"inflate", or_command_model_inflate},
};

static void print_help(FILE *out)
{
    fputs("outrider model - look into model files, and make others of them\n\n"
          "usage: outrider model inspect FILE [--json]\n"
          "       outrider model compare TARGET DRAFT [-f TEXTFILE] [--json]\n"
          "       outrider model eval --ids 1,2,3 [-m FILE] [--tree IDS] [--parents LIST] "
          "[options]\n"
          "       outrider model quantize IN OUT TYPE [options]\n"
          "       outrider model inflate IN OUT SIZE [--type TYPE] [options]\n\n"
          "Each says more with --help.\n",
          out);
}

int or_command_model(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
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
