// outrider keys - who may connect to a coordinator, and who we are when we do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/commands.h"
#include "launch/keys/keys_options.h"

static const or_command_t commands[] = {
    {"new", or_command_keys_new,
     "make this machine's key, or a coordinator's, and say what to do next"},
    {"list", or_command_keys_list, "our keys, who may connect here, and the coordinators we know"},
    {"authorize", or_command_keys_authorize, "let a key connect to this machine's coordinator"},
    {"revoke", or_command_keys_revoke, "let it no more: at once, also where it is connected"},
    {"trust", or_command_keys_trust, "remember a coordinator's key"},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const or_option_program_t program = {
    .program = "outrider keys",
    .summary = "who may connect to a coordinator, and who we are when we do",
    .usage = "COMMAND [options]",
    .examples =
        "Each says more with --help. Keys lie in $OUTRIDER_KEYS or ~/.config/outrider. To pair a "
        "laptop with a\nserver (outrider up --listen tcp://0.0.0.0:5577):\n\n"
        "  server$ outrider keys new --coordinator      prints KEY1\n"
        "  laptop$ outrider keys trust tcp://SERVER:5577 'KEY1'\n"
        "  laptop$ outrider keys new                    prints KEY2\n"
        "  server$ outrider keys authorize 'KEY2' --name laptop\n"
        "  laptop$ outrider generate --connect tcp://SERVER:5577 -p \"Once upon a time\"",
};

static void print_help(FILE *out)
{
    fprintf(out, "%s - %s\n\nusage: %s %s\n\n", program.program, program.summary, program.program,
            program.usage);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
    fprintf(out, "\n%s\n", program.examples);
}

int or_command_keys(int argc, char **argv)
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
                "outrider keys: there is no '%s'; it is new, list, authorize, revoke or trust\n",
                argv[1]);
        return OR_EXIT_USAGE;
    }
    print_help(help ? stdout : stderr);
    return help ? OR_EXIT_OK : OR_EXIT_USAGE;
}

void or_keys_use_folder(const char *folder)
{
    if (folder != NULL) {
        setenv("OUTRIDER_KEYS", folder, 1);
    }
}

or_status_t or_keys_open_authorized(const char *file, or_keyring_t **keyring_p)
{
    char path[OR_KEYS_PATH_BYTES];
    or_status_t status = OR_OK;
    if (file == NULL) {
        status = or_keys_path("authorized", path, sizeof path);
    }
    return status == OR_OK ? or_keyring_open(file != NULL ? file : path, keyring_p) : status;
}
