// outrider tokenize - standard input, byte for byte, to token ids on one line; --decode goes the
// other way.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text/tokenizer.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/input.h"
#include "launch/generate/output.h"

typedef struct {
    char *model;
    bool bos, special, decode;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "model or vocabulary file (GGUF); the demonstration target if not given"},
    {"bos", NULL, OR_OPTION_FLAG, offsetof(config_t, bos), NULL, "put the begin token first"},
    {"special", NULL, OR_OPTION_FLAG, offsetof(config_t, special), NULL,
     "special tokens written in the text are special, not text"},
    {"decode", NULL, OR_OPTION_FLAG, offsetof(config_t, decode), NULL,
     "standard input holds ids; write their text, byte for byte"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider tokenize",
    .summary = "standard input to token ids on one line, or back",
    .usage = "[-m FILE] [options] < TEXT",
    .table = table,
    .examples = "Examples:\n"
                "  printf 'Once upon a time' | outrider tokenize --bos\n"
                "  echo 1 458 1112 | outrider tokenize --decode",
};

static or_status_t encode(const config_t *config, const or_vocab_t *vocab, const char *text,
                          size_t length)
{
    int32_t *ids;
    size_t count;
    unsigned flags = OR_TOKENIZE_WHOLE | (config->bos ? OR_TOKENIZE_BOS : 0) |
                     (config->special ? OR_TOKENIZE_SPECIAL : 0);
    or_status_t status = or_tokenize(vocab, text, length, flags, &ids, &count);
    if (status != OR_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        printf("%s%" PRId32, i > 0 ? " " : "", ids[i]);
    }
    putchar('\n');
    free(ids);
    return OR_OK;
}

static or_status_t decode(const or_vocab_t *vocab, const char *input)
{
    int32_t *ids = NULL;
    char *text = NULL;
    size_t count, length;
    or_status_t status = or_input_numbers("token ids", input, 0, &ids, &count);
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        if ((uint32_t)ids[i] >= or_vocab_size(vocab)) {
            status =
                or_fail(OR_ERR_INVALID, "token id %" PRId32 " is not in a vocabulary of %" PRIu32,
                        ids[i], or_vocab_size(vocab));
        }
    }
    if (status == OR_OK) {
        status = or_detokenize(vocab, ids, count, &text, &length);
    }
    if (status == OR_OK) {
        fwrite(text, 1, length, stdout);
    }
    free(text);
    free(ids);
    return status;
}

static or_status_t tokenize(config_t *config)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    char *input = NULL;
    size_t length = 0;
    or_status_t status = or_models_choose_target(&config->model);
    if (status == OR_OK) {
        status = or_gguf_open(config->model, &gguf);
    }
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &vocab);
    }
    if (status == OR_OK) {
        status = or_input_read("-", &input, &length);
    }
    if (status == OR_OK) {
        status = config->decode ? decode(vocab, input) : encode(config, vocab, input, length);
    }
    if (status == OR_OK) {
        status = or_output_flush();
    }
    free(input);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {0};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_status_t status = tokenize(&config);
    return or_command_end(&program, &config, NULL, status, OR_EXIT_FAILURE);
}

const or_command_t or_tokenize_command = {"tokenize", run, "standard input to token ids, or back"};
