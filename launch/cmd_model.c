// outrider model - what is in a model file, how it pairs with another, and what it computes.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launch/commands.h"

static void print_help(FILE *out)
{
    fputs("outrider model - look into model files\n\n"
          "usage: outrider model inspect FILE [--json]\n"
          "       outrider model compare TARGET DRAFT [-f TEXTFILE] [--json]\n"
          "       outrider model eval --ids 1,2,3 [-m FILE] [--tree IDS] [--parents LIST] "
          "[options]\n\n"
          "Each says more with --help.\n",
          out);
}

int or_command_model(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "inspect") == 0) {
        return or_command_model_inspect(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "compare") == 0) {
        return or_command_model_compare(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "eval") == 0) {
        return or_command_model_eval(argc - 1, argv + 1);
    }
    bool help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (argc >= 2 && !help) {
        fprintf(stderr, "outrider model: there is no '%s'; it is inspect, compare or eval\n",
                argv[1]);
        return OR_EXIT_USAGE;
    }
    print_help(help ? stdout : stderr);
    return help ? OR_EXIT_OK : OR_EXIT_USAGE;
}
