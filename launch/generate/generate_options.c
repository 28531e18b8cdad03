#include "launch/generate/generate_options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/rng.h"
#include "common/decode/methods.h"
#include "common/decode/shape.h"
#include "common/decode/token_tree.h"
#include "launch/cluster/draft_ahead.h"
#include "launch/generate/input.h"
#include "proto/net/requests.h"

#define AT(field) offsetof(or_generate_config_t, field)
#define AT_SAMPLING(field) (AT(sampling) + offsetof(or_sampling_t, field))

static const or_option_t table[] = {
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Models and place"},
    {"model", "m", OR_OPTION_STRING, AT(model), "FILE",
     "target model (GGUF); the demonstration pair if not given"},
    {"model-draft", "md", OR_OPTION_STRING, AT(draft_model), "FILE",
     "draft model; any vocabulary will do (--vocab-map)"},
    {"multi-model", NULL, OR_OPTION_LIST, AT(multi_models), "FILE",
     "a further draft model, of the first one's vocabulary, for --draft-method multi"},
    {"acceptance-file", NULL, OR_OPTION_STRING, AT(acceptance_file), "FILE",
     "where the drafter remembers how often guesses are accepted (sequoia, calibrated dyspec)"},
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
    {"ctx-size", "c", OR_OPTION_UINT32, AT(context), "N",
     "context in tokens; 0: what the model was made for"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N",
     "threads of the target; 0: one a CPU it may use"},
    {"threads-draft", "td", OR_OPTION_UINT32, AT(draft_threads), "N",
     "threads of the draft model; 0: one a CPU it may use"},
    OR_TARGET_OPTIONS(or_generate_config_t, target),
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL, "Text"},
    {"prompt", "p", OR_OPTION_STRING, AT(prompt), "TEXT", "what the text begins with"},
    {"file", "f", OR_OPTION_STRING, AT(file), "FILE",
     "the prompt is in a file (- is standard input); one newline at its end is dropped"},
    {"special", NULL, OR_OPTION_FLAG, AT(special), NULL,
     "special tokens written in the prompt are special, not text"},
    {"predict", "n", OR_OPTION_INT32, AT(predict), "N",
     "tokens to write; -1: until an end token or the context"},
    {"stop", "r", OR_OPTION_LIST, AT(stop), "TEXT", "end before this text"},
    {"ignore-eos", NULL, OR_OPTION_FLAG, AT(ignore_end), NULL,
     "go on after end tokens: they are written like other tokens, while llama.cpp's option of this "
     "name bans them"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL,
     "Sampling (all filters are off: the text is an exact sample of the target)"},
    {"seed", "s", OR_OPTION_STRING, AT(seed), "N",
     "same seed, same text; 'random' draws one and reports it"},
    {"temp", NULL, OR_OPTION_FLOAT, AT_SAMPLING(temperature), "T",
     "temperature; 0 takes the best token"},
    {"top-k", NULL, OR_OPTION_UINT32, AT_SAMPLING(top_k), "K", "the K best tokens only; 0: off"},
    {"top-p", NULL, OR_OPTION_FLOAT, AT_SAMPLING(top_p), "P",
     "the fewest tokens whose probabilities reach P; 1: off"},
    {"min-p", NULL, OR_OPTION_FLOAT, AT_SAMPLING(min_p), "P",
     "tokens of at least P times the best one's probability; 0: off"},
    {"repeat-penalty", NULL, OR_OPTION_FLOAT, AT_SAMPLING(repeat_penalty), "X",
     "make tokens seen lately less likely; 1: off"},
    {"presence-penalty", NULL, OR_OPTION_FLOAT, AT_SAMPLING(presence_penalty), "X",
     "subtracted from the logit of a token seen lately; 0: off"},
    {"frequency-penalty", NULL, OR_OPTION_FLOAT, AT_SAMPLING(frequency_penalty), "X",
     "subtracted as often as it was seen; 0: off"},
    {"repeat-last-n", NULL, OR_OPTION_INT32, AT_SAMPLING(repeat_last_n), "N",
     "how far back 'lately' reaches; 0: off, -1: all"},
    {"logit-bias", NULL, OR_OPTION_LIST, AT(logit_bias), "ID+B",
     "add B to a token's logit, e.g. 15043+1 or 15043-inf"},
    {NULL, NULL, OR_OPTION_HEADING, 0, NULL,
     "Drafting (the text stays an exact sample of the target)"},
    {"draft-method", NULL, OR_OPTION_STRING, AT(draft_method), "NAME",
     "coupled, chain, kseq, multi, mcsd, rsd-c, rsd-s, dyspec, dyspec-t, sequoia, topk, ngram, or "
     "none (as --plain); if not given, what suits --accept"},
    {"accept", NULL, OR_OPTION_STRING, AT(accept), "NAME",
     "acceptance rule: coupled; greedy at temperature 0; naive; sps, block, kseq, otm, "
     "multi-round, recursive or traversal, which believe what the drafter says it drew and take "
     "trusted drafters only; slrs with --vocab-map slrs; typical, lenient with --allow-lossy; if "
     "not "
     "given, coupled"},
    {"vocab-map", NULL, OR_OPTION_STRING, AT(vocab_map), "NAME",
     "a drafter of another vocabulary: tli (draft what both have), slem (by way of the text), slrs "
     "(its rejection rule), union (the papers' baseline), same (none such), or auto; see outrider "
     "model compare"},
    {"draft-nodes", NULL, OR_OPTION_UINT32, AT(draft_nodes), "N", "most guesses a round"},
    {"draft-depth", NULL, OR_OPTION_UINT32, AT(draft_depth), "N", "most guesses in a row"},
    {"draft-policy", NULL, OR_OPTION_STRING, AT(draft_policy), "NAME",
     "fixed: wait for what was asked for, in every round; auto: at most that, as much of it as the "
     "link, the load and the text make worth its time"},
    {"draft-ahead", NULL, OR_OPTION_INT32, AT(draft_ahead), "N",
     "draft on while rounds are in flight: 1 has the next tree ready, 2 to 8 send guesses for so "
     "many rounds (methods coupled and topk); -1: 0, or 4 with --draft-policy auto"},
    {"draft-shape", NULL, OR_OPTION_STRING, AT(draft_shape), "SHAPE",
     "mcsd, rsd-c: children by level, as 4x2x1; rsd-s, kseq, multi: width x length, as 4x4; "
     "instead of "
     "--draft-nodes and --draft-depth"},
    {"distribution-entries", NULL, OR_OPTION_UINT32, AT(distribution_entries), "K",
     "rules that believe draws: tokens of a drafter's distribution that are drawn from and sent"},
    {"draft-threshold", NULL, OR_OPTION_FLOAT, AT(draft_threshold), "P",
     "dyspec-t: keep guesses likelier to be reached than P; 0: what suits the number of nodes"},
    {"draft-calibrated", NULL, OR_OPTION_FLAG, AT(draft_calibrated), NULL,
     "dyspec, dyspec-t: grow by measured acceptance, not by the drafter's probabilities"},
    {"allow-lossy", NULL, OR_OPTION_FLAG, AT(allow_lossy), NULL,
     "rules that do not sample the target's distribution may be asked for"},
    {"lenience", NULL, OR_OPTION_FLOAT, AT(lenience), "L",
     "lenient: how much likelier than the target the drafter may be; 0: the usual, 2"},
    {"typical-epsilon", NULL, OR_OPTION_FLOAT, AT(typical_epsilon), "E",
     "typical: tokens of more than this probability pass; 0: the usual, 0.09"},
    {"typical-delta", NULL, OR_OPTION_FLOAT, AT(typical_delta), "D",
     "typical: less is enough where the target is unsure; 0: the usual, 0.3"},
    {"draft-temp", NULL, OR_OPTION_FLOAT, AT(draft_temperature), "T",
     "the drafter's temperature; -1: as --temp, or 1 where that is 0"},
    {"plain", NULL, OR_OPTION_FLAG, AT(plain), NULL, "no drafter at all"},
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
    .table = table,
    .either = either,
    .examples = "Examples:\n"
                "  outrider generate -p \"Once upon a time\" -n 64\n"
                "  outrider generate -m target.gguf -md draft.gguf -f prompt.txt --temp 0 --json\n"
                "  outrider generate --connect tcp://127.0.0.1:5577 -p \"It was\" -s 7",
};

or_generate_config_t or_generate_config_default(void)
{
    return (or_generate_config_t){.target = or_target_options_default(),
                                  .padding = true,
                                  .predict = 128,
                                  .busy_wait_s = OR_REQUESTS_BUSY_WAIT_S,
                                  .reconnect_wait_s = OR_REQUESTS_RECONNECT_WAIT_S,
                                  .sampling = or_sampling_default(),
                                  .seed = (char *)"random",
                                  .vocab_map = (char *)"auto",
                                  .draft_policy = (char *)"fixed",
                                  .draft_ahead = OR_DRAFT_AHEAD_USUAL,
                                  .draft_nodes = 16,
                                  .draft_depth = 16,
                                  .distribution_entries = OR_DISTRIBUTION_ENTRIES,
                                  .draft_temperature = -1.0F,
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

static or_status_t make_shape(const or_generate_config_t *config, or_draft_method_t method,
                              or_generate_request_t *request)
{
    or_shape_t shape;
    or_status_t status = or_shape_parse(config->draft_shape, &shape);
    if (status == OR_OK) {
        status = or_shape_check(&shape, method, config->draft_depth);
    }
    if (status != OR_OK) {
        return status;
    }
    uint32_t *widths = calloc(shape.count, sizeof *widths);
    if (widths == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for --draft-shape");
    }
    memcpy(widths, shape.widths, shape.count * sizeof *widths);
    request->draft_shape = widths;
    request->draft_shape_count = shape.count;
    return OR_OK;
}

// The rule that goes without saying.
static const char *usual_accept(const or_generate_config_t *config, or_vocab_method_t vocab_method)
{
    return config->accept != NULL          ? config->accept
           : vocab_method == OR_VOCAB_SLRS ? "slrs"
                                           : "coupled";
}

// What was asked for by name must be possible; what comes by itself, the coordinator leaves out.
static or_status_t make_ahead(const or_generate_config_t *config, or_generate_request_t *request)
{
    or_status_t status = or_draft_ahead_parse(config->draft_policy, config->draft_ahead, request);
    if (status == OR_OK && config->draft_ahead > 0 && !request->plain &&
        !or_draft_ahead_is_legal(request->draft_method, request->accept_rule)) {
        bool looks_up = request->draft_method == OR_DRAFT_NGRAM;
        return or_fail(OR_ERR_INVALID,
                       "--draft-ahead: guesses of %s for %s %s: leave it "
                       "out, or use --draft-method coupled or topk with --accept coupled, greedy "
                       "or naive",
                       or_draft_method_name(request->draft_method),
                       or_accept_rule_name(request->accept_rule),
                       looks_up ? "are looked up in no time, which leaves nothing to do ahead"
                                : "are drawn for one text alone");
    }
    return status;
}

static or_status_t make_methods(const or_generate_config_t *config, or_generate_request_t *request)
{
    or_draft_method_t method;
    or_accept_rule_t rule;
    or_vocab_method_t vocab_method;
    or_status_t status = or_vocab_method_parse(config->vocab_map, &vocab_method);
    if (status == OR_OK) {
        status = or_accept_rule_parse(usual_accept(config, vocab_method), &rule);
    }
    if (status == OR_OK) {
        status = or_vocab_method_check(vocab_method, rule);
    }
    if (status == OR_OK) {
        method = or_accept_rule_usual_method(rule);
        status = config->draft_method != NULL ? or_draft_method_parse(config->draft_method, &method)
                                              : OR_OK;
    }
    if (status == OR_OK) {
        status = or_methods_check(method, rule, config->sampling.temperature);
    }
    if (status == OR_OK && or_accept_rule_is_lossy(rule) && !config->allow_lossy) {
        status = or_fail(OR_ERR_INVALID,
                         "--accept %s does not sample the target's distribution: allow that with "
                         "--allow-lossy, or use --accept coupled",
                         config->accept);
    }
    if (status == OR_OK && config->draft_shape != NULL) {
        status = make_shape(config, method, request);
    }
    if (status == OR_OK) {
        request->draft_method = method;
        request->accept_rule = rule;
        request->vocab_method = vocab_method;
        request->plain = config->plain || method == OR_DRAFT_NONE;
    }
    return status;
}

// Numbers of single rules and methods; 0: the usual.
static or_status_t check_rule_numbers(const or_generate_config_t *config)
{
    if (config->lenience != 0 && !(config->lenience >= 1)) {
        return or_fail(OR_ERR_INVALID, "--lenience: %g is below 1", (double)config->lenience);
    }
    if (!(config->typical_epsilon >= 0 && config->typical_epsilon <= 1)) {
        return or_fail(OR_ERR_INVALID, "--typical-epsilon: %g is not between 0 and 1",
                       (double)config->typical_epsilon);
    }
    if (!(config->typical_delta >= 0)) {
        return or_fail(OR_ERR_INVALID, "--typical-delta: %g is below 0",
                       (double)config->typical_delta);
    }
    if (!(config->draft_threshold >= 0 && config->draft_threshold <= 1)) {
        return or_fail(OR_ERR_INVALID, "--draft-threshold: %g is not between 0 and 1",
                       (double)config->draft_threshold);
    }
    return OR_OK;
}

static or_status_t check_numbers(const or_generate_config_t *config)
{
    if (config->predict < -1 || config->predict == 0) {
        return or_fail(OR_ERR_INVALID, "-n/--predict: %" PRId32 " is neither -1 nor 1 or more",
                       config->predict);
    }
    if (config->draft_nodes < 1 || config->draft_nodes > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "--draft-nodes: %" PRIu32 " is not between 1 and %u",
                       config->draft_nodes, OR_TREE_NODES_MAX);
    }
    if (config->draft_depth < 1) {
        return or_fail(OR_ERR_INVALID, "--draft-depth: at least 1 is needed; see --plain");
    }
    if (config->distribution_entries < 1 ||
        config->distribution_entries > OR_DISTRIBUTION_ENTRIES_MAX) {
        return or_fail(OR_ERR_INVALID,
                       "--distribution-entries: %" PRIu32 " is not between 1 and %u",
                       config->distribution_entries, OR_DISTRIBUTION_ENTRIES_MAX);
    }
    if (!(config->draft_temperature > 0) && config->draft_temperature != -1) {
        return or_fail(OR_ERR_INVALID, "--draft-temp: %g is neither -1 nor above 0",
                       (double)config->draft_temperature);
    }
    if (config->context == 1) {
        return or_fail(OR_ERR_INVALID, "-c/--ctx-size: 1 is below 2");
    }
    or_status_t status = or_target_options_check(&config->target, config->connect);
    return status == OR_OK ? check_rule_numbers(config) : status;
}

or_status_t or_generate_request_make(const or_generate_config_t *config,
                                     or_generate_request_t *request)
{
    or_generate_request_t made = {
        .max_tokens = config->predict > 0 ? (uint32_t)config->predict : 0,
        .sampling = config->sampling,
        .has_seed = true,
        .draft_nodes = config->draft_nodes,
        .draft_depth = config->draft_depth,
        .distribution_entries = config->distribution_entries,
        .allow_lossy = config->allow_lossy,
        .lenience = config->lenience,
        .typical_epsilon = config->typical_epsilon,
        .typical_delta = config->typical_delta,
        .draft_threshold = config->draft_threshold,
        .draft_calibrated = config->draft_calibrated,
        .has_draft_temperature = config->draft_temperature >= 0,
        .draft_temperature = config->draft_temperature >= 0 ? config->draft_temperature : 0,
        .ignore_end = config->ignore_end,
        .special = config->special,
    };
    or_status_t status = check_numbers(config);
    if (status == OR_OK) {
        status = or_generate_seed_parse(config->seed, &made.seed);
    }
    if (status == OR_OK) {
        status = make_methods(config, &made);
    }
    if (status == OR_OK) {
        status = make_ahead(config, &made);
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
