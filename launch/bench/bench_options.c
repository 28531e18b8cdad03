#include "launch/bench/bench_options.h"

#include <inttypes.h>

#include "launch/bench/bench_figures.h"

#define AT(field) offsetof(or_bench_config_t, field)

// The parameters that are compared here, and so lists.
static const char *const listed[] = {
    "temp",  "draft-method",         "accept", "draft-nodes", "draft-shape",
    "plain", "distribution-entries", NULL};

static const or_option_t table[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Models and place"},
    {.type = OR_OPTION_PART, .offset = AT(models), .part = or_cluster_model_options},
    {"connect", NULL, OR_OPTION_STRING, AT(connect), "ENDPOINT",
     "use the coordinator there instead of a local cluster; -m and -md then only tell the models' "
     "sizes"},
    OR_KEY_OPTIONS(or_bench_config_t, keys),
    {"padding", NULL, OR_OPTION_FLAG, AT(padding), NULL,
     "messages of an encrypted connection have one of a few sizes, so that sizes tell nothing"},
    {"owner", NULL, OR_OPTION_STRING, AT(owner), "NAME", "whose requests these are"},
    {.type = OR_OPTION_PART, .offset = AT(models), .part = or_cluster_run_options},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Texts"},
    {"prompts", NULL, OR_OPTION_STRING, AT(prompts), "FILE",
     "JSON lines with \"turns\" and \"category\" (Spec-Bench) or \"prompt\"; a handful of our own "
     "if not given"},
    {"categories", NULL, OR_OPTION_STRING, AT(categories), "LIST",
     "of the prompts only these, as math,coding"},
    {"prompt-limit", NULL, OR_OPTION_UINT32, AT(prompt_limit), "N",
     "prompts at most, taken from all categories in turn; 0: all"},
    {"predict", "n", OR_OPTION_UINT32, AT(predict), "N", "tokens to write after each",
     .bounds = {1, INFINITY}},
    {"ignore-eos", NULL, OR_OPTION_FLAG, AT(ignore_end), NULL,
     "go on after end tokens: they are written like other tokens, while llama.cpp's option of this "
     "name bans them"},
    {"temp", NULL, OR_OPTION_STRING, AT(temperatures), "LIST", "temperatures, as 0,0.3,1"},
    {.type = OR_OPTION_PART,
     .offset = AT(parameters),
     .part = or_sampling_parameters,
     .except = listed},
    {"repeats", NULL, OR_OPTION_UINT32, AT(repeats), "R",
     "how often everything is done, each time with another seed"},
    {"seeds", NULL, OR_OPTION_UINT32, AT(repeats), "R", "the same"},
    {"seed", "s", OR_OPTION_UINT64, AT(seed), "N", "of the first repeat"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL,
     "What is compared (plain decoding is always with them)"},
    {"methods", NULL, OR_OPTION_STRING, AT(methods), "LIST",
     "pairs of draft method and acceptance rule, as rsd-s+recursive,chain+sps; a rule alone brings "
     "its usual method, a method alone the coupled rule; all: every legal pair, of multi only with "
     "--multi-model; pairs that cannot draft ahead are run without"},
    {"nodes", NULL, OR_OPTION_STRING, AT(nodes), "LIST", "most guesses a round, as 4,16,64"},
    {"distribution-entries", NULL, OR_OPTION_STRING, AT(distribution_entries), "LIST",
     "tokens of a drafter's distribution that are drawn from and sent, as 8,16,32,64: rules that "
     "need distributions are run with each"},
    {.type = OR_OPTION_PART,
     .offset = AT(parameters),
     .part = or_drafting_parameters,
     .except = listed},
    {"fixed-length", NULL, OR_OPTION_FLAG, AT(fixed_length), NULL,
     "RSD's first experiment: trees of 2, 3, 4 and 5 levels"},
    {"fixed-budget", NULL, OR_OPTION_FLAG, AT(fixed_budget), NULL,
     "RSD's second experiment: trees of 6, 10, 14, 21 and 30 nodes"},
    {"k-config", NULL, OR_OPTION_FLAG, AT(k_config), NULL,
     "the multi-candidate configurations, from 1x1x1x1x1 to 32"},
    {"spec-bench", NULL, OR_OPTION_FLAG, AT(spec_bench), NULL,
     "the survey's table: speed-up by task, MT-Bench's categories as one"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Transport and scheduling alone"},
    {"synthetic-acceptance", NULL, OR_OPTION_STRING, AT(synthetic), "LIST",
     "no models: the verifier accepts a node's first child with the first probability, its second "
     "with the second, as 0.6,0.2; --nodes and --draft-depth bound the trees"},
    {"step-us", NULL, OR_OPTION_UINT32, AT(step_us), "US", "what its verifier takes for a tree"},
    {"draft-us", NULL, OR_OPTION_UINT32, AT(draft_us), "US", "what its drafter takes for a tree"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Output"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL, "one line of JSON instead of the table"},
    {"csv", NULL, OR_OPTION_STRING, AT(csv), "FILE", "also write a row a case"},
    {"plots", NULL, OR_OPTION_STRING, AT(plots), "DIR", "also draw the figures, as SVG files"},
    {"verbose", "v", OR_OPTION_FLAG, AT(verbose), NULL, "show the processes' logs"},
    {"log-level", NULL, OR_OPTION_STRING, AT(log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {0}};

static const char *const commands[] = {"load", "step", "kernels", NULL};

const or_option_program_t or_bench_program = {
    .program = "outrider bench",
    .summary = "compare drafting methods and acceptance rules with each other and with plain "
               "decoding",
    .usage = "[options], or one of load (many requests at once), step (the time of a forward pass) "
             "and\n       kernels (of each kernel); each says more with --help",
    .table = table,
    .examples =
        "Methods are compared by the trees that they were asked for, so --draft-policy is fixed "
        "here.\n\n"
        "Examples:\n"
        "  outrider bench -n 64 --methods coupled,rsd-s+recursive --nodes 4,16\n"
        "  outrider bench --fixed-budget --methods all --temp 0,0.3,1 --draft-temp 1 "
        "--plots plots\n"
        "  outrider bench --synthetic-acceptance 0.6,0.2 --step-us 5000 --nodes 4,16\n"
        "  outrider bench --spec-bench --prompts spec_bench.jsonl --prompt-limit 24 --temp 0",
    .commands = commands,
};

or_bench_config_t or_bench_config_default(void)
{
    or_parameters_t parameters = or_parameters_default();
    parameters.policy =
        (char *)"fixed"; // methods are compared by the trees that they were asked for
    return (or_bench_config_t){.models = or_cluster_models_default(),
                               .padding = true,
                               .predict = 64,
                               .temperatures = (char *)"0,1",
                               .seed = 1,
                               .repeats = 3,
                               .nodes = (char *)"16",
                               .distribution_entries = (char *)"32",
                               .parameters = parameters,
                               .log_level = (char *)"warn"};
}

// Do the options go together?
static or_status_t check_experiment(const or_bench_config_t *config)
{
    if (config->fixed_length + config->fixed_budget + config->k_config + config->spec_bench > 1) {
        return or_fail(OR_ERR_INVALID,
                       "one of --fixed-length, --fixed-budget, --k-config and --spec-bench");
    }
    bool experiment = config->fixed_length || config->fixed_budget || config->k_config;
    if (config->synthetic != NULL && (config->methods != NULL || experiment)) {
        return or_fail(OR_ERR_INVALID, "--synthetic-acceptance brings its own method: leave out "
                                       "--methods and the papers' experiments");
    }
    if (config->synthetic != NULL && config->connect != NULL) {
        return or_fail(OR_ERR_INVALID,
                       "--synthetic-acceptance starts a coordinator: leave out --connect");
    }
    return OR_OK;
}

static or_status_t check_numbers(const or_bench_config_t *config)
{
    if (config->repeats < 1 || config->repeats > OR_BENCH_REPEATS_MAX) {
        return or_fail(OR_ERR_INVALID, "--repeats: %" PRIu32 " is not between 1 and %u",
                       config->repeats, OR_BENCH_REPEATS_MAX);
    }
    if (config->seed > (uint64_t)INT64_MAX - config->repeats) {
        return or_fail(OR_ERR_INVALID, "-s/--seed: %" PRIu64 " is too large", config->seed);
    }
    or_generate_request_t request;
    or_cluster_models_t models = config->models;
    if (config->connect != NULL) {
        models.model = models.draft_model = NULL; // they tell the sizes of those that run there,
        models.multi_models.count = 0;            // and whether there are several draft models
    }
    or_status_t status = or_cluster_models_check(&models, config->connect);
    return status == OR_OK
               ? or_parameters_values(&config->parameters, or_name_option, &request, NULL)
               : status;
}

or_status_t or_bench_config_check(const or_bench_config_t *config)
{
    or_status_t status = check_experiment(config);
    return status == OR_OK ? check_numbers(config) : status;
}

or_bench_kind_t or_bench_config_kind(const or_bench_config_t *config)
{
    if (config->fixed_length) {
        return OR_BENCH_FIXED_LENGTH;
    }
    if (config->fixed_budget) {
        return OR_BENCH_FIXED_BUDGET;
    }
    return config->k_config ? OR_BENCH_K_CONFIG : OR_BENCH_BY_NODES;
}
