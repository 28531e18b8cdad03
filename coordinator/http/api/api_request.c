#include "coordinator/http/api/api_request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/api/api_request_internal.h"

#define MODEL_SUFFIX ".gguf"
#define COMPLETION_TOKENS_USUAL 16u // OpenAI's
#define BIAS_MAX 100                // OpenAI's; its negative bans a token
// The bytes of prompts that the coordinator may be sent: one that n texts share goes n times.
#define SENT_BYTES_MAX (16u << 20)

// ---- memory ----

struct or_api_block {
    struct or_api_block *next;
    max_align_t data[];
};

void *or_api_keep(or_api_request_t *request, size_t count, size_t size, or_api_problem_t *problem)
{
    struct or_api_block *block = calloc(1, sizeof *block + count * size); // counts come from a body
    if (block == NULL) {
        or_api_refuse(problem, 500, NULL, NULL, "There is no memory for the request.");
        return NULL;
    }
    block->next = request->owned;
    request->owned = block;
    request->owned_bytes += sizeof *block + count * size;
    return block->data;
}

const uint8_t *or_api_keep_text(or_api_request_t *request, const json_t *text,
                                or_api_problem_t *problem)
{
    size_t bytes = json_string_length(text);
    uint8_t *copy = or_api_keep(request, bytes + 1, 1, problem);
    if (copy != NULL) {
        memcpy(copy, json_string_value(text), bytes);
    }
    return copy;
}

void or_api_request_forget(or_api_request_t *request)
{
    or_generate_request_t *generate = &request->generate;
    while (request->owned != NULL) {
        struct or_api_block *next = request->owned->next;
        free(request->owned);
        request->owned = next;
    }
    request->owned_bytes = 0;
    request->prompts = NULL;
    generate->messages = NULL;
    generate->stop = NULL;
    generate->draft_shape = NULL;
    generate->sampling.bias = NULL;
    generate->message_count = generate->stop_count = generate->draft_shape_count = 0;
    generate->sampling.bias_count = 0;
}

void or_api_request_fini(or_api_request_t *request)
{
    or_api_request_forget(request);
    *request = (or_api_request_t){0};
}

// ---- single fields ----

bool or_api_is_model(const char *model, const json_t *name)
{
    size_t length = strlen(model), suffix = strlen(MODEL_SUFFIX);
    bool ends = length > suffix && strcmp(model + length - suffix, MODEL_SUFFIX) == 0;
    size_t given = json_string_length(name);
    return or_api_is_word(name, model) || or_api_is_word(name, OR_API_ALIAS) ||
           (ends && given == length - suffix && memcmp(json_string_value(name), model, given) == 0);
}

bool or_api_model_read(const char *model, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    if (!json_is_string(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be a string.", param);
    }
    if (!or_api_is_model(model, value)) {
        return or_api_refuse(problem, 404, "model_not_found", param,
                             "The model '%.100s' does not exist here: this coordinator serves "
                             "'%.100s' (or, whatever it is, '%s').",
                             json_string_value(value), model, OR_API_ALIAS);
    }
    return true;
}

static bool read_model(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    return or_api_model_read(((or_api_reading_t *)into)->terms->model, param, value, problem);
}

static bool refuse_tokens_max(const char *param, or_api_problem_t *problem)
{
    return or_api_refuse(problem, 400, NULL, param,
                         "'%s' must be a whole number of at least 1, or -1: as many as the context "
                         "holds.",
                         param);
}

static bool read_tokens_max(int64_t *most, const char *param, const json_t *value,
                            or_api_problem_t *problem)
{
    *most = json_integer_value(value);
    return (json_is_integer(value) && *most >= -1 && *most != 0 && *most <= INT32_MAX) ||
           refuse_tokens_max(param, problem);
}

// A request for 0 tokens wants the prompt scored or repeated. It is told first that this is not supported.
static bool read_max_tokens(void *into, const char *param, const json_t *value,
                            or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    reading->no_tokens = json_is_integer(value) && json_integer_value(value) == 0;
    return reading->no_tokens || read_tokens_max(&reading->max_tokens, param, value, problem);
}

static bool read_max_completion_tokens(void *into, const char *param, const json_t *value,
                                       or_api_problem_t *problem)
{
    return read_tokens_max(&((or_api_reading_t *)into)->max_completion_tokens, param, value,
                           problem);
}

// vLLM's -1 and llama.cpp's 0 both mean: off.
static bool read_top_k(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    json_int_t top_k = json_integer_value(value);
    if (!json_is_integer(value) || top_k < -1 || top_k > INT32_MAX) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be a whole number of at least 0 (off).", param);
    }
    ((or_api_reading_t *)into)->made.generate.sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
    return true;
}

// -1 means that a seed is drawn, as in vLLM and llama.cpp.
static bool read_seed(void *into, const char *param, const json_t *value, or_api_problem_t *problem)
{
    or_generate_request_t *generate = &((or_api_reading_t *)into)->made.generate;
    json_int_t seed = json_integer_value(value);
    if (!json_is_integer(value) || seed < -1) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be a whole number from 0 to 9223372036854775807, or -1: "
                             "one is drawn.",
                             param);
    }
    generate->seed = seed >= 0 ? (uint64_t)seed : 0;
    generate->has_seed = seed >= 0;
    return true;
}

static bool take_stop(or_api_request_t *request, const char *param, const json_t *text,
                      or_wire_bytes_t *stop, or_api_problem_t *problem)
{
    size_t length = json_string_length(text);
    if (length == 0) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be a text or an array of texts, none of them empty.",
                             param);
    }
    if (length > OR_STOP_BYTES_MAX) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' has a text of %zu bytes: at most %u are read.", param, length,
                             OR_STOP_BYTES_MAX);
    }
    *stop = (or_wire_bytes_t){or_api_keep_text(request, text, problem), (uint32_t)length};
    return stop->bytes != NULL;
}

static bool read_stop(void *into, const char *param, const json_t *value, or_api_problem_t *problem)
{
    or_api_request_t *request = &((or_api_reading_t *)into)->made;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > OR_STOP_STRINGS_MAX) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' has %zu texts: at most %u are read.",
                             param, count, OR_STOP_STRINGS_MAX);
    }
    or_wire_bytes_t *stop = or_api_keep(request, count, sizeof *stop, problem);
    if (stop == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (!take_stop(request, param, text, &stop[i], problem)) {
            return false;
        }
    }
    request->generate.stop = stop;
    request->generate.stop_count = (uint32_t)count;
    return true;
}

static bool read_bias(const char *key, const json_t *value, uint32_t vocab_size,
                      or_logit_bias_t *bias)
{
    char *end;
    errno = 0;
    unsigned long id = strtoul(key, &end, 10);
    double number = json_number_value(value);
    *bias = (or_logit_bias_t){(int32_t)id, number <= -BIAS_MAX ? -INFINITY : (float)number};
    return key[0] >= '0' && key[0] <= '9' && *end == '\0' && errno == 0 && id < vocab_size &&
           json_is_number(value) && number >= -BIAS_MAX && number <= BIAS_MAX;
}

static bool read_logit_bias(void *into, const char *param, const json_t *value,
                            or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    or_sampling_t *sampling = &reading->made.generate.sampling;
    uint32_t vocab_size = or_vocab_size(reading->terms->vocab);
    size_t count = json_object_size(value);
    if (!json_is_object(value) || count > OR_BIASES_MAX) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be an object of at most %u token ids.", param,
                             OR_BIASES_MAX);
    }
    or_logit_bias_t *bias = or_api_keep(&reading->made, count, sizeof *bias, problem);
    if (bias == NULL) {
        return false;
    }
    const char *key;
    json_t *number;
    sampling->bias = bias;
    // NOLINTNEXTLINE(bugprone-casting-through-void): jansson's iterators want an object that may change
    json_object_foreach((json_t *)(void *)(uintptr_t)value, key, number)
    {
        if (!read_bias(key, number, vocab_size, &bias[sampling->bias_count++])) {
            return or_api_refuse(problem, 400, NULL, param,
                                 "'%s': each key is a token id below %u, with a number from -%d to "
                                 "%d.",
                                 param, vocab_size, BIAS_MAX, BIAS_MAX);
        }
    }
    return true;
}

// A completion's: how many others besides the chosen one.
static bool read_logprobs(void *into, const char *param, const json_t *value,
                          or_api_problem_t *problem)
{
    or_api_request_t *request = &((or_api_reading_t *)into)->made;
    json_int_t top = json_integer_value(value);
    if (!json_is_integer(value) || top < 0 || top > OR_LOGPROBS_MAX) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be a whole number from 0 to %u.",
                             param, OR_LOGPROBS_MAX);
    }
    request->logprobs = true;
    request->top_logprobs = (uint32_t)top;
    return true;
}

static const or_api_field_t stream_fields[] = {
    {"include_usage", OR_API_FLAG, .offset = offsetof(or_api_reading_t, made.include_usage)},
    {"include_obfuscation", OR_API_ONLY, .only = "[false]"},
    {0}};

static bool read_stream_options(void *into, const char *param, const json_t *value,
                                or_api_problem_t *problem)
{
    ((or_api_reading_t *)into)->stream_options_given = true;
    if (!json_is_object(value)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be an object.", param);
    }
    return or_api_object_read(value, param, stream_fields, into, problem);
}

// The API key says whose text it is, and so with whose it shares prefixes. The client's own words for that are checked
// and not used.
static bool read_label(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    (void)into;
    return json_is_string(value) ||
           or_api_refuse(problem, 400, NULL, param, "'%s' must be a string.", param);
}

// ---- tables ----

#define AT(field) offsetof(or_api_reading_t, made.field)

#define COMMON_FIELDS                                                                              \
    {"model", OR_API_OWN, .read = read_model},                                                     \
        {"max_tokens", OR_API_OWN, .read = read_max_tokens},                                       \
        {"top_k", OR_API_OWN, .read = read_top_k},                                                 \
        {"n", OR_API_COUNT, .offset = AT(n), .least = 1, .most = OR_API_TEXTS_MAX},                \
        {"seed", OR_API_OWN, .read = read_seed}, {"stop", OR_API_OWN, .read = read_stop},          \
        {"logit_bias", OR_API_OWN, .read = read_logit_bias},                                       \
        {"ignore_eos", OR_API_FLAG, .offset = AT(generate.ignore_end)},                            \
        {"stream", OR_API_FLAG, .offset = AT(stream)},                                             \
        {"stream_options", OR_API_OWN, .read = read_stream_options},                               \
        {"user", OR_API_OWN, .read = read_label},                                                  \
        {"safety_identifier", OR_API_OWN, .read = read_label},                                     \
        {"prompt_cache_key", OR_API_OWN, .read = read_label},                                      \
    {                                                                                              \
        "draft", OR_API_OWN, .read = or_api_read_draft                                             \
    }

static const or_api_field_t completion_fields[] = {
    COMMON_FIELDS,
    {"prompt", OR_API_OWN, .read = or_api_read_prompt},
    {"echo", OR_API_FLAG, .offset = AT(echo)},
    {"logprobs", OR_API_OWN, .read = read_logprobs},
    {"best_of", OR_API_COUNT, .offset = offsetof(or_api_reading_t, best_of), .least = 1,
     .most = OR_API_TEXTS_MAX},
    {"suffix", OR_API_ONLY, .only = "[\"\"]"},
    {.read = or_api_read_parameter}};

static const or_api_field_t chat_fields[] = {
    COMMON_FIELDS,
    {"messages", OR_API_OWN, .read = or_api_read_messages},
    {"reasoning_effort", OR_API_OWN, .read = or_api_read_effort},
    {"chat_template_kwargs", OR_API_OWN, .read = or_api_read_template_settings},
    {"max_completion_tokens", OR_API_OWN, .read = read_max_completion_tokens},
    {"logprobs", OR_API_FLAG, .offset = AT(logprobs)},
    {"top_logprobs", OR_API_COUNT, .offset = AT(top_logprobs), .least = 0, .most = OR_LOGPROBS_MAX},
    {"response_format", OR_API_ONLY, .only = "[{\"type\": \"text\"}]"},
    {"modalities", OR_API_ONLY, .only = "[[\"text\"]]"},
    {"tools", OR_API_OWN, .read = or_api_read_tools},
    {"tool_choice", OR_API_OWN, .read = or_api_read_tool_choice},
    {"parallel_tool_calls", OR_API_OWN, .read = or_api_read_parallel_calls},
    {"functions", OR_API_ONLY, .only = "[]"},
    {"function_call", OR_API_ONLY, .only = "[\"none\"]"},
    {"service_tier", OR_API_ONLY, .only = "[\"auto\", \"default\"]"},
    {"store", OR_API_ONLY, .only = "[false]"},
    {.read = or_api_read_parameter}};

// ---- all together ----

// Refuse a request for the prompt's own probabilities before a length of 0 is refused.
static bool settle_echo(const or_api_reading_t *reading, or_api_problem_t *problem)
{
    if (reading->made.echo && reading->made.logprobs) {
        return or_api_refuse(problem, 400, "unsupported_parameter", "echo",
                             "'echo' with 'logprobs' is not supported by Outrider: those of the "
                             "prompt are not computed.");
    }
    return !reading->no_tokens || refuse_tokens_max("max_tokens", problem);
}

// Check fields that depend on each other.
static bool settle_texts(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_api_request_t *request = &reading->made;
    const char *needed = request->chat ? "messages" : "prompt";
    if (request->prompt_count == 0 && request->generate.message_count == 0) {
        return or_api_refuse(problem, 400, "missing_required_parameter", needed,
                             "Missing required parameter: '%s'.", needed);
    }
    if (request->n * (uint64_t)request->prompt_count > OR_API_TEXTS_MAX) {
        return or_api_refuse(problem, 400, NULL, "n", "'n' times the number of prompts is over %u.",
                             OR_API_TEXTS_MAX);
    }
    if (reading->best_of != 0 && reading->best_of != request->n) {
        return or_api_refuse(problem, 400, "unsupported_parameter", "best_of",
                             "'best_of' other than 'n' is not supported by Outrider: every text "
                             "is one.");
    }
    if (reading->max_tokens != 0 && reading->max_completion_tokens != 0) {
        return or_api_refuse(problem, 400, NULL, "max_tokens",
                             "'max_tokens' is the old name of 'max_completion_tokens': give one of "
                             "them.");
    }
    int64_t most = reading->max_tokens + reading->max_completion_tokens;
    request->generate.max_tokens = most > 0                      ? (uint32_t)most
                                   : most == 0 && !request->chat ? COMPLETION_TOKENS_USUAL
                                                                 : 0;
    return true;
}

static bool settle_output(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_api_request_t *request = &reading->made;
    if (request->chat && request->top_logprobs > 0 && !request->logprobs) {
        return or_api_refuse(problem, 400, NULL, "top_logprobs",
                             "'top_logprobs' needs 'logprobs': true.");
    }
    if (reading->stream_options_given && !request->stream) {
        return or_api_refuse(problem, 400, NULL, "stream_options",
                             "'stream_options' needs 'stream': true.");
    }
    request->generate.logprobs = request->logprobs ? request->top_logprobs + 1 : 0;
    return true;
}

// Check the bytes that the coordinator is sent for all texts. A turn costs it something also where nothing is said.
static bool check_sent(const or_api_request_t *request, or_api_problem_t *problem)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->prompt_count; i++) {
        const or_api_prompt_t *prompt = &request->prompts[i];
        bytes += prompt->bytes + (uint64_t)prompt->count * sizeof *prompt->tokens;
    }
    for (uint32_t i = 0; i < request->generate.message_count; i++) {
        const or_chat_message_t *message = &request->generate.messages[i];
        bytes += sizeof *message + message->content_bytes;
    }
    bytes *= request->n;
    return bytes <= SENT_BYTES_MAX ||
           or_api_refuse(problem, 400, "request_too_large", "n",
                         "All texts' prompts together have %zu bytes: at most %u are read.",
                         (size_t)bytes, SENT_BYTES_MAX);
}

// A conversation is one prompt, which the coordinator makes.
static bool settle_chat(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_api_request_t *request = &reading->made;
    if (!request->chat) {
        return true;
    }
    if (reading->terms->chat_trouble != NULL) {
        return or_api_refuse(problem, 400, "unsupported_parameter", "messages",
                             "This model has no conversations: %s", reading->terms->chat_trouble);
    }
    request->prompts = or_api_keep(request, 1, sizeof *request->prompts, problem);
    request->prompt_count = 1;
    return request->prompts != NULL;
}

static bool read_all(or_api_reading_t *reading, const json_t *body, or_api_problem_t *problem)
{
    bool chat = reading->made.chat;
    return or_api_object_read(body, "", chat ? chat_fields : completion_fields, reading, problem) &&
           settle_echo(reading, problem) && settle_texts(reading, problem) &&
           settle_output(reading, problem) && settle_chat(reading, problem) &&
           or_api_settle_tools(reading, problem) && check_sent(&reading->made, problem) &&
           or_api_settle_draft(reading, problem);
}

bool or_api_request_parse(bool chat, const uint8_t *body, size_t bytes, const or_api_terms_t *terms,
                          or_api_request_t *request, or_api_problem_t *problem)
{
    or_api_reading_t reading = {.terms = terms,
                                .body_bytes = bytes,
                                .parameters = or_api_parameters_usual(),
                                .made = {.chat = chat, .n = 1}};
    reading.made.generate = reading.parameters.request;
    json_t *root = or_api_body_parse(body, bytes, problem);
    if (root == NULL) {
        return false;
    }
    bool read = read_all(&reading, root, problem);
    json_decref(root);
    if (!read) {
        or_api_request_fini(&reading.made);
        return false;
    }
    *request = reading.made;
    return true;
}
