// Goal: any body, Last-Event-ID or figures of a peer give a request within its bounds, a place in the text, or JSON;
// or they are refused in words.
// Method: parse as either kind of request and check every promise of api_request.h. Parse as an event id, format,
// and parse to the same. Figures from the input's bytes become JSON that can be read again. As an answer, the input has calls of
// tools or none, and every text without one is all there.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/token_tree.h"
#include "coordinator/http/api/api_event_id.h"
#include "coordinator/http/api/api_request.h"
#include "proto/wire/stats_json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/vocabularies.h"

static bool is_text(const char *text)
{
    json_t *string = json_string(text); // NULL where it is no UTF-8
    json_decref(string);
    return string != NULL;
}

static void check_refusal(const or_api_problem_t *problem)
{
    assert(problem->status >= 400 && problem->status < 600);
    assert(problem->message[0] != '\0' && is_text(problem->message) && is_text(problem->param));
}

static void check_prompt(const or_api_request_t *request, const or_api_prompt_t *prompt,
                         uint32_t vocab_size)
{
    assert(prompt->count == 0 || prompt->tokens != NULL);
    assert(request->chat || prompt->count > 0 || prompt->text != NULL);
    for (uint32_t i = 0; i < prompt->count; i++) {
        assert(prompt->tokens[i] < vocab_size);
    }
}

static void check_request(const or_api_request_t *request, uint32_t vocab_size)
{
    const or_generate_request_t *generate = &request->generate;
    assert(request->n >= 1 && request->prompt_count >= 1);
    assert((uint64_t)request->n * request->prompt_count <= OR_API_TEXTS_MAX);
    assert(or_sampling_check(&generate->sampling, vocab_size) == OR_OK);
    assert(generate->plain || (generate->draft_nodes >= 1 && generate->draft_depth >= 1));
    assert(generate->draft_nodes <= OR_TREE_NODES_MAX);
    assert(generate->logprobs <= OR_LOGPROBS_MAX + 1 && generate->seed <= INT64_MAX);
    const bool written_out = generate->reader != NULL; // a conversation that speaks of tools
    assert(!written_out || (request->chat && request->prompts[0].count > 0));
    assert(request->chat && !written_out ? generate->message_count >= 1
                                         : generate->message_count == 0);
    assert((request->tools != NULL) == (generate->calls != NULL));
    for (uint32_t i = 0; i < request->prompt_count; i++) {
        check_prompt(request, &request->prompts[i], vocab_size);
    }
    for (uint32_t i = 0; i < generate->stop_count; i++) {
        assert(generate->stop[i].length > 0);
    }
    for (uint32_t i = 0; i < generate->message_count; i++) {
        assert(generate->messages[i].role != NULL && generate->messages[i].content != NULL);
    }
}

// Families, and formats of tools in them.
static const char *const formats[][2] = {{"qwen3", "qwen3"},
                                         {"llama3.1", "llama3.1"},
                                         {"mistral-tekken", "mistral-nemo"},
                                         {"mistral-v7", "mistral-v11"},
                                         {"kimi-k2", "kimi-k2"}};
#define FORMATS (sizeof formats / sizeof *formats)

typedef struct {
    size_t text_bytes, calls;
} read_t;

static or_status_t count_text(void *context, const char *bytes, size_t count)
{
    assert(bytes != NULL && count > 0);
    ((read_t *)context)->text_bytes += count;
    return OR_OK;
}

static or_status_t count_call(void *context, const or_chat_call_t *call)
{
    assert(or_chat_is_call_name(call->name, strlen(call->name)));
    json_t *arguments = json_loadb(call->arguments, call->arguments_bytes, JSON_ALLOW_NUL, NULL);
    assert(call->arguments[0] == '{' && call->arguments_bytes >= 2);
    json_decref(arguments); // it may be NULL: strings need not be UTF-8, and numbers may be large
    ((read_t *)context)->calls++;
    return OR_OK;
}

static void try_calls(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < FORMATS; i++) {
        read_t read = {0};
        const or_chat_call_sink_t sink = {count_text, count_call, &read};
        assert(or_chat_calls_read(or_chat_tools_by_name(formats[i][1]), (const char *)data, size,
                                  &sink) == OR_OK);
        assert(read.calls > 0 ? read.text_bytes < size : read.text_bytes == size);
    }
}

static void try_request(bool chat, const uint8_t *data, size_t size)
{
    const or_vocab_t *vocab = fuzz_vocabulary(0);
    or_api_terms_t terms = {.model = "tales.gguf",
                            .vocab = vocab,
                            .tools = or_chat_tools_by_name(formats[size % FORMATS][1])};
    assert(or_chat_by_name(formats[size % FORMATS][0], &terms.chat) == OR_OK);
    or_api_request_t request;
    or_api_problem_t problem = {0};
    if (or_api_request_parse(chat, data, size, &terms, &request, &problem)) {
        check_request(&request, or_vocab_size(vocab));
        or_api_request_fini(&request);
    } else {
        check_refusal(&problem);
    }
}

static void try_event_id(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), again[OR_API_EVENT_ID_BYTES];
    or_api_event_id_t id = {0}, same = {0};
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (or_api_event_id_parse(text, &id)) {
        or_api_event_id_format(&id, again);
        assert(or_api_event_id_parse(again, &same) && memcmp(&id, &same, sizeof id) == 0);
    }
    free(text);
}

static void try_figures(const uint8_t *data, size_t size)
{
    char text[64] = "";
    fuzz_input_t input = {data, size};
    memcpy(text, data, size < sizeof text ? size : sizeof text - 1);
    const or_peer_figures_t peer = {.role = fuzz_byte(&input),
                                    .model = text,
                                    .owner = "",
                                    .state = text,
                                    .round_trip_ms = INFINITY,
                                    .nodes = fuzz_number(&input)};
    const or_policy_terms_t session = {.session = fuzz_number(&input),
                                       .owner = text,
                                       .source = fuzz_byte(&input),
                                       .label = text,
                                       .hit_rate = NAN,
                                       .nodes = fuzz_number(&input)};
    const or_event_t event = {.number = fuzz_number(&input), .kind = text, .text = text};
    const or_stats_t stats = {.model = text,
                              .peers = &peer,
                              .peer_count = 1,
                              .policies = &session,
                              .policy_count = 1,
                              .events = &event,
                              .event_count = 1};
    json_t *object = or_stats_json(&stats, "", fuzz_number(&input));
    assert(object != NULL);
    char *dump = json_dumps(object, JSON_COMPACT);
    json_t *again = json_loads(dump, 0, NULL);
    assert(again != NULL && json_equal(object, again));
    json_decref(again);
    json_decref(object);
    free(dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_request(false, data, size);
    try_request(true, data, size);
    try_event_id(data, size);
    try_calls(data, size);
    try_figures(data, size);
    return 0;
}
