// Goal: a body becomes exactly the request it describes, with OpenAI's defaults; what cannot be served is refused by its field's name.
// Method: bodies as clients write them, against a vocabulary of five tokens. What sockets send besides is for tests/http and tests/fuzz.
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/rng.h"
#include "common/decode/methods.h"
#include "common/text/chat/chat.h"
#include "common/text/utf8.h"
#include "coordinator/http/api/api_request_test_support.h"
#include "tests/support/test_support.h"

static void completions_have_the_usual_defaults(void **state)
{
    world_t *world = *state;
    assert_true(parse(world, false, "{\"prompt\": \"ab\"}"));
    const or_generate_request_t *generate = &world->request.generate;
    assert_int_equal(generate->max_tokens, 16);
    assert_true(generate->sampling.temperature == 1 && generate->sampling.top_p == 1);
    assert_int_equal(generate->sampling.top_k, 0);
    assert_int_equal(generate->sampling.repeat_last_n, -1);
    assert_false(generate->has_seed || generate->plain || world->request.stream);
    assert_int_equal(generate->logprobs, 0);
    assert_int_equal(world->request.n * world->request.prompt_count, 1);
    assert_memory_equal(world->request.prompts[0].text, "ab", 2);
    assert_int_equal(generate->draft_method, OR_DRAFT_COUPLED);
}

static void chats_go_on_until_their_end(void **state)
{
    world_t *world = *state;
    assert_true(parse(world, true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"));
    assert_int_equal(world->request.generate.max_tokens, 0);
    assert_int_equal(world->request.prompt_count, 1);
    assert_int_equal(world->request.prompts[0].bytes, 0);
    assert_true(parse(
        world, true,
        "{\"messages\": [{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"a\"}, {\"type\": \"text\", \"text\": \"\\u0000b\"}]}], "
        "\"max_completion_tokens\": 9, \"logprobs\": true, \"top_logprobs\": 3}"));
    const or_generate_request_t *generate = &world->request.generate;
    assert_string_equal(generate->messages[0].role, "system");
    assert_int_equal(generate->messages[0].content_bytes, 3);
    assert_memory_equal(generate->messages[0].content, "a\0b", 3);
    assert_int_equal(generate->max_tokens, 9);
    assert_int_equal(generate->logprobs, 4);
}

// Whether a model thinks, in the words of OpenAI, and of the servers that hand settings to templates.
static void thinking_is_said_in_three_ways(void **state)
{
    world_t *world = *state;
    static const struct {
        const char *field;
        or_thinking_t thinking;
    } said[] = {
        {"\"top_k\": 0", OR_THINKING_USUAL},
        {"\"reasoning_effort\": null", OR_THINKING_USUAL},
        {"\"reasoning_effort\": \"none\"", OR_THINKING_OFF},
        {"\"reasoning_effort\": \"minimal\"", OR_THINKING_LOW},
        {"\"reasoning_effort\": \"high\"", OR_THINKING_HIGH},
        {"\"chat_template_kwargs\": {}", OR_THINKING_USUAL},
        {"\"chat_template_kwargs\": {\"enable_thinking\": false}", OR_THINKING_OFF},
        {"\"chat_template_kwargs\": {\"thinking\": true}", OR_THINKING_ON},
        {"\"chat_template_kwargs\": {\"reasoning_effort\": \"low\"}", OR_THINKING_LOW},
    };
    char body[256];
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        snprintf(body, sizeof body,
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
                 "\"assistant\", \"content\": \"b\", \"reasoning_content\": \"c\"}], %s}",
                 said[i].field);
        assert_true(parse(world, true, body));
        assert_int_equal(world->request.generate.thinking, said[i].thinking);
    }
    assert_false(
        parse(world, true, "{\"messages\": [], \"chat_template_kwargs\": {\"tools\": 1}}"));
    assert_false(parse(world, true, "{\"messages\": [], \"chat_template_kwargs\": 1}"));
    assert_false(parse(world, true, "{\"messages\": [], \"reasoning_effort\": \"much\"}"));
}

// What JSON's reader quotes of a body may end inside a character: the sentence is UTF-8 all the same.
static void a_bad_body_is_quoted_in_whole_characters(void **state)
{
    world_t *world = *state;
    assert_false(parse(world, true, "\"\\\xDE\x99"));
    char mended[sizeof world->problem.message];
    memcpy(mended, world->problem.message, sizeof mended);
    or_utf8_mend(mended);
    assert_string_equal(mended, world->problem.message);
}

static void every_field_arrives(void **state)
{
    world_t *world = *state;
    assert_true(
        parse(world, false,
              "{\"model\": \"tales\", \"prompt\": [[1, 3], [4]], \"max_tokens\": -1, "
              "\"temperature\": 0.5, "
              "\"top_p\": 0.9, \"top_k\": 7, \"min_p\": 0.1, \"n\": 2, \"seed\": "
              "9223372036854775807, \"stop\": "
              "[\"a\", \"b\"], \"presence_penalty\": 1, \"frequency_penalty\": -1, "
              "\"repetition_penalty\": 1.5, "
              "\"logit_bias\": {\"4\": -100, \"3\": 2.5}, \"logprobs\": 0, \"stream\": true, "
              "\"stream_options\": {\"include_usage\": true}, \"user\": \"ann\", \"ignore_eos\": "
              "true, \"best_of\": 2, "
              "\"draft\": {\"method\": \"rsd-c\", \"accept\": \"recursive\", \"shape\": \"2x1\", "
              "\"distribution_entries\": 8, "
              "\"temperature\": 0.7, \"details\": true}}"));
    const or_api_request_t *request = &world->request;
    const or_generate_request_t *generate = &request->generate;
    const or_sampling_t *sampling = &generate->sampling;
    assert_int_equal(request->prompt_count, 2);
    assert_int_equal(request->prompts[0].count, 2);
    assert_int_equal(request->prompts[1].tokens[0], 4);
    assert_int_equal(generate->max_tokens, 0);
    assert_true(generate->has_seed && generate->seed == INT64_MAX);
    assert_int_equal(sampling->top_k, 7);
    assert_true(sampling->temperature == 0.5F && sampling->top_p == 0.9F &&
                sampling->min_p == 0.1F);
    assert_true(sampling->presence_penalty == 1 && sampling->frequency_penalty == -1);
    assert_true(sampling->repeat_penalty == 1.5F);
    assert_int_equal(sampling->bias_count, 2);
    assert_true(isinf(sampling->bias[0].bias) && sampling->bias[0].id == 4);
    assert_true(sampling->bias[1].bias == 2.5F);
    assert_int_equal(generate->stop_count, 2);
    assert_true(request->stream && request->include_usage && request->details);
    assert_int_equal(generate->logprobs, 1);
    assert_true(generate->ignore_end);
    assert_int_equal(generate->accept_rule, OR_ACCEPT_RECURSIVE);
    assert_int_equal(generate->draft_shape_count, 2);
    assert_int_equal(generate->distribution_entries, 8);
    assert_true(generate->has_draft_temperature && generate->draft_temperature == 0.7F);
}

static void parameters_are_those_of_the_command(void **state)
{
    world_t *world = *state;
    assert_true(parse(world, false,
                      "{\"prompt\": \"a\", \"repeat_last_n\": 7, \"top_k\": -1, \"draft\": "
                      "{\"method\": \"dyspec-t\", \"accept\": \"recursive\", \"threshold\": 0.25, "
                      "\"calibrated\": true, \"nodes\": 8, \"depth\": 3}}"));
    const or_generate_request_t *generate = &world->request.generate;
    assert_int_equal(generate->sampling.repeat_last_n, 7);
    assert_true(generate->draft_threshold == 0.25F && generate->draft_calibrated);
    assert_int_equal(generate->draft_nodes, 8);
    assert_int_equal(generate->draft_depth, 3);
    assert_refused(world, false, "{\"prompt\": \"a\", \"repeat_last_n\": -2}", 400,
                   "repeat_last_n");
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"threshold\": 2}}", 400,
                   "draft.threshold");
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"calibrated\": 1}}", 400,
                   "draft.calibrated");
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"lenience\": 2}}", 400,
                   "draft.lenience"); // no lossy rule, and nothing of one
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft.nodes\": 8}", 400, "draft.nodes");
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"top_p\": 1}}", 400,
                   "draft.top_p");
}

static void parameters_are_told(void **state)
{
    (void)state;
    static const char *const exact[] = {"coupled", "naive", "slrs"};
    size_t index, found = 0;
    json_t *parameter, *told = or_api_parameters_json();
    json_array_foreach(json_object_get(told, "parameters"), index, parameter)
    {
        const char *name = json_string_value(json_object_get(parameter, "name"));
        const json_t *choices = json_object_get(parameter, "choices");
        assert_true(strlen(json_string_value(json_object_get(parameter, "help"))) > 10);
        if (strcmp(name, "draft.nodes") == 0) {
            found++;
            assert_true(json_is_null(json_object_get(parameter, "default"))); // it depends
            assert_true(json_number_value(json_object_get(parameter, "most")) == 1024);
        } else if (strcmp(name, "draft.accept") == 0) {
            found++;
            assert_int_equal(json_array_size(choices), 11); // two are lossy
            for (size_t i = 0; i < 3; i++) {
                bool listed = false;
                for (size_t k = 0; k < json_array_size(choices); k++) {
                    listed |= strcmp(json_string_value(json_array_get(choices, k)), exact[i]) == 0;
                }
                assert_true(listed);
            }
        } else if (strcmp(name, "temperature") == 0) {
            found++;
            assert_true(json_number_value(json_object_get(parameter, "default")) == 1);
        }
    }
    assert_int_equal(found, 3);
    json_decref(told);
}

static void drafting_can_be_off(void **state)
{
    world_t *world = *state;
    assert_true(parse(world, false, "{\"prompt\": \"a\", \"draft\": false}"));
    assert_true(world->request.generate.plain);
    assert_true(parse(world, false, "{\"prompt\": \"a\", \"draft\": \"off\"}"));
    assert_true(world->request.generate.plain);
    assert_true(parse(world, false,
                      "{\"prompt\": \"a\", \"draft\": {\"method\": \"none\", \"details\": true}}"));
    assert_true(world->request.generate.plain && world->request.generate.details);
    assert_true(parse(world, false, "{\"prompt\": \"a\", \"draft\": {\"policy\": \"auto\"}}"));
    assert_int_equal(world->request.generate.draft_policy, OR_POLICY_AUTO);
    assert_int_equal(world->request.generate.draft_ahead, 4);
}

// ---- what a body takes ----

static size_t taken, taken_most;

static void *count_malloc(size_t bytes)
{
    void *memory = malloc(bytes);
    taken += memory != NULL ? malloc_usable_size(memory) + sizeof(size_t) : 0;
    taken_most = taken > taken_most ? taken : taken_most;
    return memory;
}

static void count_free(void *memory)
{
    taken -= memory != NULL ? malloc_usable_size(memory) + sizeof(size_t) : 0;
    free(memory);
}

// `{"a":[` and so many of `part` and `]}`, or the same of members, in at most `bytes`.
static size_t fill(char *body, size_t bytes, const char *part)
{
    bool list = part[0] != ':';
    size_t length = (size_t)sprintf(body, "{\"a\":%s", list ? "[" : "{");
    for (unsigned i = 0; length + 64 < bytes; i++) {
        length += list ? (size_t)sprintf(body + length, "%s,", part)
                       : (size_t)sprintf(body + length, "\"%u\"%s,", i, part);
    }
    return length - 1 + (size_t)sprintf(body + length - 1, list ? "]}" : "}}");
}

static void a_body_is_weighed_before_it_takes_memory(void **state)
{
    (void)state;
    static const char *const parts[] = {"9",     "123456", "{}", "[]",  "[[]]",   "{\"\":1}", "0.5",
                                        "\"a\"", "\"\"",   ":1", ":{}", ":\"x\"", "null"};
    size_t room = 300000;
    char *body = malloc(room);
    json_set_alloc_funcs(count_malloc, count_free);
    for (size_t i = 0; i <= sizeof parts / sizeof *parts; i++) {
        size_t length, form_bytes;
        or_api_problem_t problem;
        if (i < sizeof parts / sizeof *parts) {
            length = fill(body, room, parts[i]);
        } else { // one string
            memset(body, 'x', room - 1);
            memcpy(body, "{\"a\":\"", 6);
            memcpy(body + room - 3, "\"}", 3);
            length = room - 1;
        }
        taken = taken_most = 0;
        assert_true(or_api_body_weigh((const uint8_t *)body, length, &form_bytes, &problem));
        json_t *root = or_api_body_parse((const uint8_t *)body, length, &problem);
        assert_non_null(root);
        if (taken_most > form_bytes + 4096) {
            fail_msg("%s: %zu bytes, weighed as %zu",
                     i < sizeof parts / sizeof *parts ? parts[i] : "a string", taken_most,
                     form_bytes);
        }
        json_decref(root);
    }
    json_set_alloc_funcs(malloc, free);
    free(body);
}

// Whatever a string says, and wherever it ends: it weighs by its length. A byte of it is any of five.
static void what_a_string_says_weighs_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t body[24], plain[24];
        bool inside = false;
        or_rng_key_t key = or_rng_key(seed, i);
        size_t bytes = or_rng_draw(key, OR_RNG_TEST, 0, 0, 0) % sizeof body, form_bytes,
               plain_bytes;
        or_api_problem_t problem;
        for (uint32_t k = 0; k < bytes; k++) {
            body[k] = (uint8_t) "\"\\x[,"[or_rng_draw(key, OR_RNG_TEST, 1, k, 0) % 5];
        }
        memcpy(plain, body, bytes);
        for (size_t k = 0; k < bytes; k++) {
            bool ends = inside && body[k] == '"', begins = !inside && body[k] == '"';
            if (inside && body[k] == '\\' && k + 1 < bytes) {
                plain[k] = plain[k + 1] = 'x';
                k++;
            } else if (inside && !ends) {
                plain[k] = 'x';
            }
            inside = begins || (inside && !ends);
        }
        assert_true(or_api_body_weigh(body, bytes, &form_bytes, &problem));
        assert_true(or_api_body_weigh(plain, bytes, &plain_bytes, &problem));
        assert_int_equal(form_bytes, plain_bytes);
    }
}

static void bodies_that_take_much_are_refused(void **state)
{
    world_t *world = *state;
    size_t bytes = (size_t)1 << 20;
    char *body = malloc(bytes);
    fill(body, bytes, "{}");
    assert_refused(world, false, body, 400, "");
    assert_non_null(strstr(world->problem.message, "too large"));
    fill(body, bytes, "1"); // half a million token ids
    assert_refused(world, false, body, 400, "a");
    free(body);
}

// The coordinator is sent a prompt for each of its texts.
static void a_prompt_counts_for_each_of_its_texts(void **state)
{
    world_t *world = *state;
    size_t length = 200000;
    char *body = malloc(length + 64);
    int begin = sprintf(body, "{\"n\": 64, \"prompt\": \"");
    memset(body + begin, 'a', length);
    strcpy(body + begin + length, "\"}");
    assert_true(parse(world, false, body));
    body[6] = '9'; // 94 of 200 KB are over 16 MiB
    assert_refused(world, false, body, 400, "n");
    assert_non_null(strstr(world->problem.message, "together"));
    free(body);
}

static void what_is_not_supported_is_named(void **state)
{
    world_t *world = *state;
    assert_refused(world, false, "{\"prompt\": \"a\", \"suffix\": \"b\"}", 400, "suffix");
    assert_refused(world, false, "{\"prompt\": \"a\", \"colour\": null}", 400, "colour");
    assert_refused(world, false, "{\"prompt\": \"a\", \"model\": \"gpt\"}", 404, "model");
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"accept\": \"lenient\"}}", 400,
                   "draft.accept");
    assert_refused(world, false, "{\"prompt\": [5]}", 400, "prompt");
    assert_refused(world, false, "{}", 400, "prompt");
    assert_refused(world, true,
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_calls\": []}]}",
                   400, "messages[0].tool_calls");
    world->terms.chat_trouble = "the file has no template";
    assert_refused(world, true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", 400,
                   "messages");
}

static void assert_told(world_t *world, const char *words)
{
    if (strstr(world->problem.message, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, world->problem.message);
    }
}

static void sentences_speak_of_fields(void **state)
{
    world_t *world = *state;
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"shape\": \"2x1\"}}", 400,
                   "draft.shape");
    assert_told(world, "takes draft.nodes and draft.depth");
    assert_refused(world, false, "{\"prompt\": \"a\", \"draft\": {\"accept\": \"greedy\"}}", 400,
                   "draft");
    assert_told(world, "set temperature 0 or use draft.accept coupled");
    // The error names the field of lm-eval's request that cannot be, not one that could.
    assert_refused(world, false,
                   "{\"prompt\": \"a\", \"max_tokens\": 0, \"echo\": true, \"logprobs\": 1}", 400,
                   "echo");
    assert_refused(world, false, "{\"prompt\": \"a\", \"max_tokens\": 0, \"echo\": true}", 400,
                   "max_tokens");
}

static void other_servers_words_are_known(void **state)
{
    world_t *world = *state;
    assert_true(parse(world, false, "{\"prompt\": \"a\", \"seed\": -1}"));
    assert_false(world->request.generate.has_seed);
    assert_refused(world, false, "{\"prompt\": \"a\", \"seed\": -2}", 400, "seed");
    assert_true(parse(world, true,
                      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"content\": "
                      "null, \"role\": \"assistant\"}]}"));
    assert_int_equal(world->request.generate.messages[1].content_bytes, 0);
    assert_refused(world, true, "{\"messages\": [{\"role\": \"user\", \"content\": null}]}", 400,
                   "messages[0]");
    assert_refused(world, true, "{\"messages\": [{\"role\": \"assistant\"}]}", 400, "messages[0]");
}

static void defaults_may_be_said(void **state)
{
    world_t *world = *state;
    assert_true(
        parse(world, true,
              "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": null}], "
              "\"tools\": null, "
              "\"response_format\": {\"type\": \"text\"}, \"n\": 1, \"store\": false, "
              "\"modalities\": [\"text\"], \"service_tier\": \"auto\", \"max_tokens\": null}"));
}

// A name may be as long as the body: what is said of it stays UTF-8.
static void long_names_are_cut_between_characters(void **state)
{
    world_t *world = *state;
    char body[600] = "{\"prompt\": \"a\", \"";
    for (size_t i = 0; i < 3; i++) { // each way to stand on a boundary
        memset(body + 17, 'x', i);
        size_t at = 17 + i;
        for (; at < 500; at += 3) {
            memcpy(body + at, "\xE2\x82\xAC", 3);
        }
        memcpy(body + at, "\": 1}", 6);
        assert_false(parse(world, false, body));
        json_t *told = json_string(world->problem.message),
               *param = json_string(world->problem.param);
        assert_non_null(told);
        assert_non_null(param);
        json_decref(told);
        json_decref(param);
    }
}

// The coordinator is sent each text's turns, so they are weighed where nothing is said in them, too.
static void turns_are_weighed_though_nothing_is_said(void **state)
{
    enum { TURNS = 8192 };
    static const char turn[] = "{\"role\": \"user\", \"content\": \"\"},";
    world_t *world = *state;
    char *body = malloc(TURNS * sizeof turn + 64);
    assert_non_null(body);
    for (unsigned n = 1; n <= 128; n += 127) {
        char *end = body + sprintf(body, "{\"n\": %u, \"messages\": [", n);
        for (int i = 0; i < TURNS; i++) {
            end = stpcpy(end, turn);
        }
        memcpy(end - 1, "]}", 3); // in place of the last comma
        if (n == 1) {
            assert_true(parse(world, true, body));
        } else {
            assert_refused(world, true, body, 400, "n");
        }
    }
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(completions_have_the_usual_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(chats_go_on_until_their_end, setup, teardown),
        cmocka_unit_test_setup_teardown(thinking_is_said_in_three_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_body_is_quoted_in_whole_characters, setup, teardown),
        cmocka_unit_test_setup_teardown(every_field_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_are_those_of_the_command, setup, teardown),
        cmocka_unit_test_setup_teardown(parameters_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(drafting_can_be_off, setup, teardown),
        cmocka_unit_test(what_a_string_says_weighs_nothing),
        cmocka_unit_test_setup_teardown(a_body_is_weighed_before_it_takes_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_that_take_much_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prompt_counts_for_each_of_its_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_supported_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(sentences_speak_of_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(other_servers_words_are_known, setup, teardown),
        cmocka_unit_test_setup_teardown(defaults_may_be_said, setup, teardown),
        cmocka_unit_test_setup_teardown(long_names_are_cut_between_characters, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_are_weighed_though_nothing_is_said, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
