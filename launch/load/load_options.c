#include "launch/load/load_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "launch/generate/input.h"

#define AT(field) offsetof(or_load_config_t, field)
#define SEEDS_MAX 1000u
#define SECONDS_MAX 86400u

static const or_option_t table[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Models and place"},
    {"connect", NULL, OR_OPTION_STRING, AT(connect), "ENDPOINT",
     "put the load on the coordinator there instead of on a local cluster"},
    OR_KEY_OPTIONS(or_load_config_t, keys),
    {"padding", NULL, OR_OPTION_FLAG, AT(padding), NULL,
     "messages of an encrypted connection have one of a few sizes, so that sizes tell nothing"},
    {"owner", NULL, OR_OPTION_STRING, AT(owner), "NAME",
     "whose texts they are: limits and shared prefixes are by owner"},
    {.type = OR_OPTION_PART, .offset = AT(models), .part = or_cluster_model_options},
    {.type = OR_OPTION_PART, .offset = AT(models), .part = or_cluster_run_options},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Load"},
    {"sessions", NULL, OR_OPTION_STRING, AT(sessions), "LIST",
     "how many requests run at once, one measurement each, as 1,4,16,64"},
    {"seconds", NULL, OR_OPTION_UINT32, AT(seconds), "S", "how long each measurement takes",
     .bounds = {1, SECONDS_MAX}},
    {"check", NULL, OR_OPTION_FLAG, AT(check), NULL,
     "decode every prompt and seed plainly first, and compare all texts with that"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Texts"},
    {"prompts", NULL, OR_OPTION_STRING, AT(prompts), "FILE",
     "JSON lines with \"turns\" and \"category\" (Spec-Bench) or \"prompt\"; a handful of our own "
     "if not given"},
    {"prompt-limit", NULL, OR_OPTION_UINT32, AT(prompt_limit), "N", "prompts at most; 0: all"},
    {"max-tokens", "n", OR_OPTION_UINT32, AT(max_tokens), "N", "tokens to write after each",
     .bounds = {1, INT32_MAX}},
    {"ignore-eos", NULL, OR_OPTION_FLAG, AT(ignore_end), NULL,
     "go on after end tokens: they are written like other tokens, while llama.cpp's option of this "
     "name bans them"},
    {.type = OR_OPTION_PART, .offset = AT(parameters), .part = or_sampling_parameters},
    {"seed", "s", OR_OPTION_UINT64, AT(seed), "N", "the first seed"},
    {"seeds", NULL, OR_OPTION_UINT32, AT(seeds), "R", "each prompt is asked with so many seeds",
     .bounds = {1, SEEDS_MAX}},
    {.type = OR_OPTION_PART, .offset = AT(parameters), .part = or_drafting_parameters},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Output"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL,
     "a JSON array of one object a measurement instead of the table"},
    {"verbose", "v", OR_OPTION_FLAG, AT(verbose), NULL, "show the processes' logs"},
    {"log-level", NULL, OR_OPTION_STRING, AT(log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {0}};

const or_option_program_t or_load_program = {
    .program = "outrider bench load",
    .summary = "keep many requests running for a while; throughput, latency and errors",
    .usage = "[options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider bench load --sessions 1,4,16,64 --seconds 30 --check\n"
                "  outrider bench load --connect tcp://127.0.0.1:5577 --sessions 64 --json\n\n"
                "Exit status 1 if a text was wrong (--check), a request ended with an error, or "
                "nothing came.\n",
};

or_load_config_t or_load_config_default(void)
{
    or_load_config_t config = {.models = or_cluster_models_default(),
                               .padding = true,
                               .owner = (char *)"",
                               .sessions = (char *)"1,4,16,64",
                               .seconds = 10,
                               .max_tokens = 64,
                               .parameters = or_parameters_default(),
                               .seed = 1,
                               .seeds = 4,
                               .log_level = (char *)"warn"};
    config.parameters.request.sampling.temperature = 1;
    return config;
}

static or_status_t parse_sessions(const char *list, or_load_plan_t *plan)
{
    char word[OR_INPUT_WORD_BYTES];
    or_status_t status;
    while ((status = or_input_word("--sessions", &list, word)) == OR_OK) {
        char *end;
        errno = 0;
        unsigned long value = strtoul(word, &end, 10);
        if (errno != 0 || *end != '\0' || word[0] == '-' || value < 1 ||
            value > OR_LOAD_SESSIONS_MAX) {
            return or_fail(OR_ERR_INVALID, "--sessions: '%s' is not a number from 1 to %u", word,
                           OR_LOAD_SESSIONS_MAX);
        }
        if (plan->step_count == OR_LOAD_STEPS_MAX) {
            return or_fail(OR_ERR_INVALID, "--sessions: more than %u numbers", OR_LOAD_STEPS_MAX);
        }
        plan->steps[plan->step_count++] = (uint32_t)value;
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

or_status_t or_load_plan_make(const or_load_config_t *config, or_load_plan_t *plan)
{
    *plan = (or_load_plan_t){0};
    if (config->seed > (uint64_t)INT64_MAX - config->seeds) {
        return or_fail(OR_ERR_INVALID, "-s/--seed: %" PRIu64 " is too large", config->seed);
    }
    or_generate_request_t *request = &plan->request;
    or_status_t status = or_cluster_models_check(&config->models, config->connect);
    if (status == OR_OK) {
        status =
            or_parameters_settle(&config->parameters, or_name_option, request, &plan->shape, NULL);
    }
    if (status == OR_OK && config->check && !or_accept_rule_takes_any_guess(request->accept_rule)) {
        status = or_fail(OR_ERR_INVALID,
                         "--check: texts under --accept %s are others than plain decoding's: use "
                         "--accept coupled, greedy or naive",
                         config->parameters.accept);
    }
    request->max_tokens = config->max_tokens;
    request->has_seed = true;
    request->ignore_end = config->ignore_end;
    return status == OR_OK ? parse_sessions(config->sessions, plan) : status;
}
