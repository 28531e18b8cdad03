// Goal: any body, Last-Event-ID or figures of a peer give a request within its bounds, a place in the text, or JSON;
// or they are refused in words.
// Method: parse as either kind of request and check every promise of api_request.h. Parse as an event id, format,
// and parse to the same. Figures from the input's bytes become JSON that can be read again.
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
    assert(request->chat ? generate->message_count >= 1 : generate->message_count == 0);
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

static void try_request(bool chat, const uint8_t *data, size_t size)
{
    const or_vocab_t *vocab = fuzz_vocabulary(0);
    const or_api_terms_t terms = {.model = "tales.gguf", .vocab = vocab};
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
    try_figures(data, size);
    return 0;
}
