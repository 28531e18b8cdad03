// outrider model - what is in a model file, what it computes, and other files made of it.
#include "launch/commands.h"

static const or_command_t *const commands[] = {
    &or_model_inspect_command, &or_model_compare_command,  &or_model_eval_command,
    &or_model_convert_command, &or_model_quantize_command, &or_model_imatrix_command,
    &or_model_inflate_command, &or_model_pack_command,     NULL};

static const or_option_program_t program = {
    .program = "outrider model",
    .summary = "look into model files, and make others of them",
    .usage = "COMMAND [options]",
};

static void print_help(FILE *out)
{
    fprintf(out, "%s - %s\n\n", program.program, program.summary);
    for (size_t i = 0; commands[i] != NULL; i++) {
        fprintf(out, "%s outrider model %s %s\n", i == 0 ? "usage:" : "      ", commands[i]->name,
                commands[i]->help);
    }
    fputs("\nEach says more with --help.\n", out);
}

static int run(int argc, char **argv)
{
    int code = or_command_dispatch(&program, commands, print_help, argc, argv);
    return code >= 0 ? code : or_command_fail_unknown(&program, commands, argv[1]);
}

const or_command_t or_model_command = {"model", run,
                                       "look into model files and make others: inspect, eval, "
                                       "compare, convert, quantize, imatrix, inflate, pack"};
