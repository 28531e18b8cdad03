#include "launch/generate/generate_options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/rng.h"
#include "launch/generate/input.h"
#include "proto/net/requests.h"

#define AT(field) offsetof(or_generate_config_t, field)

const or_option_t or_generate_options[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Models and place"},
    {.type = OR_OPTION_PART, .offset = AT(models), .part = or_cluster_model_options},
    {"connect", NULL, OR_OPTION_STRING, AT(connect), "ENDPOINT",
     "use the coordinator there, e.g. tcp://127.0.0.1:5577, instead of a local cluster"},
    OR_KEY_OPTIONS(or_generate_config_t, keys),
    {"padding", NULL, OR_OPTION_FLAG, AT(padding), NULL,
     "messages of an encrypted connection have one of a few sizes, so that sizes tell nothing"},
    {"owner", NULL, OR_OPTION_STRING, AT(owner), "NAME",
     "whose request it is: owners have limits of their own, and share no cached prompts"},
    {"busy-wait", NULL, OR_OPTION_UINT32, AT(busy_wait_s), "S",
     "ask a busy coordinator again for so many seconds in all; 0: not again (exit code 75)"},
    {"reconnect-wait", NULL, OR_OPTION_UINT32, AT(reconnect_wait_s), "S",
     "with --connect: call a coordinator that fell silent for so long; the text goes on where it "
     "was"},
    {.type = OR_OPTION_PART, .offset = AT(models), .part = or_cluster_run_options},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Text"},
    {"prompt", "p", OR_OPTION_STRING, AT(prompt), "TEXT", "what the text begins with"},
    {"file", "f", OR_OPTION_STRING, AT(file), "FILE",
     "the prompt is in a file (- is standard input); one newline at its end is dropped"},
    {"special", NULL, OR_OPTION_FLAG, AT(special), NULL,
     "special tokens written in the prompt are special, not text"},
    {"predict", "n", OR_OPTION_INT32, AT(predict), "N",
     "tokens to write; -1: until an end token or the context",
     .bounds = {1, INFINITY, .has_other = true, .other = -1}},
    {"stop", "r", OR_OPTION_LIST, AT(stop), "TEXT", "end before this text"},
    {"ignore-eos", NULL, OR_OPTION_FLAG, AT(ignore_end), NULL,
     "go on after end tokens: they are written like other tokens, while llama.cpp's option of this "
     "name bans them"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL,
     "Sampling (all filters are off: the text is an exact sample of the target)"},
    {"seed", "s", OR_OPTION_STRING, AT(seed), "N",
     "same seed, same text; 'random' draws one and reports it"},
    {.type = OR_OPTION_PART, .offset = AT(parameters), .part = or_sampling_parameters},
    {"logit-bias", NULL, OR_OPTION_LIST, AT(logit_bias), "ID+B",
     "add B to a token's logit, e.g. 15043+1 or 15043-inf"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL,
     "Drafting (the text stays an exact sample of the target)"},
    {.type = OR_OPTION_PART, .offset = AT(parameters), .part = or_drafting_parameters},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Output"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL, "one line of JSON on standard output"},
    {"display-prompt", NULL, OR_OPTION_FLAG, AT(display_prompt), NULL,
     "print the prompt before the text"},
    {"verbose", "v", OR_OPTION_FLAG, AT(verbose), NULL,
     "show the processes' logs and where the time went"},
    {"log-level", NULL, OR_OPTION_STRING, AT(log_level), "LEVEL",
     "error, warn, info, debug or trace"},
    {0}};

static const char *const either[] = {"prompt", "file", NULL};

const or_option_program_t or_generate_program = {
    .program = "outrider generate",
    .summary = "write text after a prompt, token for token what the target alone would write",
    .usage = "-p TEXT [options]",
    .table = or_generate_options,
    .either = either,
    .examples = "Examples:\n"
                "  outrider generate -p \"Once upon a time\" -n 64\n"
                "  outrider generate -m target.gguf -md draft.gguf -f prompt.txt --temp 0 --json\n"
                "  outrider generate --connect tcp://127.0.0.1:5577 -p \"It was\" -s 7",
};

or_generate_config_t or_generate_config_default(void)
{
    return (or_generate_config_t){.models = or_cluster_models_default(),
                                  .padding = true,
                                  .predict = 128,
                                  .busy_wait_s = OR_REQUESTS_BUSY_WAIT_S,
                                  .reconnect_wait_s = OR_REQUESTS_RECONNECT_WAIT_S,
                                  .parameters = or_parameters_default(),
                                  .seed = (char *)"random",
                                  .display_prompt = true,
                                  .log_level = (char *)"info"};
}

bool or_generate_seed_is_drawn(const char *text)
{
    return strcmp(text, "random") == 0 || strcmp(text, "-1") == 0;
}

or_status_t or_generate_seed_parse(const char *text, uint64_t *seed)
{
    if (or_generate_seed_is_drawn(text)) {
        *seed = or_rng_system_seed() >> 32; // short enough to be typed again
        return OR_OK;
    }
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number > INT64_MAX) {
        return or_fail(OR_ERR_INVALID,
                       "-s/--seed: '%s' is not 'random' or a whole number from 0 to %" PRId64, text,
                       INT64_MAX);
    }
    *seed = number;
    return OR_OK;
}

// "15043+1.5", "15043-inf".
static or_status_t parse_bias(const char *text, or_logit_bias_t *bias)
{
    char *end;
    errno = 0;
    unsigned long id = strtoul(text, &end, 10);
    const char *number = end;
    float value = strtof(number, &end);
    if (*text < '0' || *text > '9' || errno != 0 || id > INT32_MAX ||
        (*number != '+' && *number != '-') || end == number || *end != '\0' || isnan(value)) {
        return or_fail(OR_ERR_INVALID,
                       "--logit-bias: '%s' is not a token id with a signed bias, as 15043+1", text);
    }
    *bias = (or_logit_bias_t){(int32_t)id, value};
    return OR_OK;
}

static or_status_t make_bias(const or_option_list_t *list, or_sampling_t *sampling)
{
    if (list->count == 0) {
        return OR_OK;
    }
    or_logit_bias_t *bias = calloc(list->count, sizeof *bias);
    if (bias == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for --logit-bias");
    }
    sampling->bias = bias;
    sampling->bias_count = (uint32_t)list->count;
    or_status_t status = OR_OK;
    for (size_t i = 0; i < list->count && status == OR_OK; i++) {
        status = parse_bias(list->items[i], &bias[i]);
    }
    return status;
}

static or_status_t make_stop(const or_option_list_t *list, or_generate_request_t *request)
{
    or_wire_bytes_t *stop = calloc(list->count + 1, sizeof *stop);
    if (stop == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for --stop");
    }
    request->stop = stop;
    request->stop_count = (uint32_t)list->count;
    for (size_t i = 0; i < list->count; i++) {
        stop[i] =
            (or_wire_bytes_t){(const uint8_t *)list->items[i], (uint32_t)strlen(list->items[i])};
        if (stop[i].length == 0) {
            return or_fail(OR_ERR_INVALID, "-r/--stop: an empty text would end everything");
        }
    }
    return OR_OK;
}

static or_status_t make_prompt(const or_generate_config_t *config, or_generate_request_t *request)
{
    if ((config->prompt != NULL) == (config->file != NULL)) {
        return or_fail(OR_ERR_INVALID, config->prompt != NULL
                                           ? "give the prompt with -p or with -f, not both"
                                           : "give the prompt with -p TEXT or with -f FILE");
    }
    char *text;
    size_t length;
    or_status_t status = OR_OK;
    if (config->file != NULL) {
        status = or_input_read(config->file, &text, &length);
        if (status == OR_OK && length > 0 && text[length - 1] == '\n') {
            length--;
        }
    } else {
        length = strlen(config->prompt);
        text = strdup(config->prompt);
        if (text == NULL) {
            status = or_fail(OR_ERR_NO_MEMORY, "no memory for the prompt");
        }
    }
    if (status == OR_OK) {
        request->prompt = (uint8_t *)text;
        request->prompt_bytes = (uint32_t)length; // or_input_read stops far below 4 GiB
    }
    return status;
}

// The shape that the request borrows becomes its own.
static or_status_t keep_shape(const or_shape_t *shape, or_generate_request_t *request)
{
    request->draft_shape = NULL;
    if (shape->count == 0) {
        return OR_OK;
    }
    uint32_t *widths = calloc(shape->count, sizeof *widths);
    if (widths == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for --draft-shape");
    }
    memcpy(widths, shape->widths, shape->count * sizeof *widths);
    request->draft_shape = widths;
    return OR_OK;
}

or_status_t or_generate_request_make(const or_generate_config_t *config,
                                     or_generate_request_t *request)
{
    or_generate_request_t made;
    or_shape_t shape;
    or_status_t status = or_cluster_models_check(&config->models, config->connect);
    if (status == OR_OK) {
        status = or_parameters_settle(&config->parameters, or_name_option, &made, &shape, NULL);
    }
    if (status != OR_OK) {
        return status;
    }
    made.max_tokens = config->predict > 0 ? (uint32_t)config->predict : 0;
    made.has_seed = true;
    made.ignore_end = config->ignore_end;
    made.special = config->special;
    status = keep_shape(&shape, &made);
    if (status == OR_OK) {
        status = or_generate_seed_parse(config->seed, &made.seed);
    }
    if (status == OR_OK) {
        status = make_bias(&config->logit_bias, &made.sampling);
    }
    if (status == OR_OK) {
        // The vocabulary is the coordinator's to know: it checks the ids of the bias again.
        status = or_sampling_check(&made.sampling, INT32_MAX);
    }
    if (status == OR_OK) {
        status = make_stop(&config->stop, &made);
    }
    if (status == OR_OK) {
        status = make_prompt(config, &made);
    }
    if (status != OR_OK) {
        or_generate_request_free(&made);
        return status;
    }
    *request = made;
    return OR_OK;
}

void or_generate_request_free(or_generate_request_t *request)
{
    free((void *)request->sampling.bias);
    free((void *)request->stop);
    free((void *)request->draft_shape);
    free((void *)request->prompt);
    *request = (or_generate_request_t){0};
}
