// Goal: tools, calls and results in a body become the prompt's tokens and say how the answer is read; what is wrong with them is refused by
// its field's name.
// Method: bodies as clients write them, for a model with a format of tools and for one without. The prompts' texts are for tests/text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "coordinator/http/api/api_request_test_support.h"
#include "tests/support/test_support.h"

#define ASKED "{\"role\": \"user\", \"content\": \"a\"}"
#define CALLED(call) MADE("", call)
#define THOUGHT(call) MADE("\"reasoning_content\": \"Hm.\", ", call)
#define MADE(more, call)                                                                           \
    "{\"messages\": [" ASKED ", {\"role\": \"assistant\", " more                                   \
    "\"content\": null, \"tool_calls\": [" call                                                    \
    "]}, {\"role\": \"tool\", \"tool_call_id\": \"1\", \"name\": \"f\", \"content\": \"b\"}]}"
#define CALL(arguments)                                                                            \
    "{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "      \
    "\"" arguments "\"}}"
#define TOOLS(tool) "{\"messages\": [" ASKED "], \"tools\": [" tool "]}"

// A conversation with tools is written out at once: the coordinator gets its tokens, and how to read the answer.
static void tools_become_a_prompt(void **state)
{
    static const test_token_t bytes[] = {
        {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1, 1}};
    static const char tool[] = "{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                               "\"strict\": false, \"parameters\": {}}}";
    world_t *world = *state;
    char body[1024];
    or_vocab_destroy(&world->vocab);
    assert_int_equal(test_make_vocab(bytes, 4,
                                     TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS | TEST_WITH_BYTES,
                                     &world->vocab),
                     OR_OK);
    world->terms.vocab = world->vocab;
    world->terms.tools = or_chat_tools_by_name("qwen3");
    assert_int_equal(or_chat_by_name("qwen3", &world->terms.chat), OR_OK);
    snprintf(body, sizeof body, TOOLS("%s"), tool);
    assert_true(parse(world, true, body));
    const or_generate_request_t *generate = &world->request.generate;
    assert_int_equal(generate->message_count, 0);
    assert_string_equal(generate->reader, "qwen3");
    assert_string_equal(generate->calls, "qwen3");
    assert_ptr_equal(world->request.tools, world->terms.tools);
    assert_true(world->request.prompts[0].count > 300 && !world->request.one_call);
    // Without tools to call, what was called is written out all the same.
    assert_true(parse(world, true, CALLED(CALL(" {\\\"a\\\": 1}\\n"))));
    const uint32_t called = world->request.prompts[0].count;
    assert_true(called > 50 && world->request.tools == NULL);
    assert_true(parse(world, true, THOUGHT(CALL(" {\\\"a\\\": 1}\\n"))));
    assert_int_equal(world->request.prompts[0].count - called,
                     sizeof "<think>\nHm.\n</think>\n\n" - 1);
    assert_null(world->request.generate.calls);
    assert_string_equal(world->request.generate.reader, "qwen3");
    assert_true(parse(world, true, CALLED(CALL(""))));
    snprintf(body, sizeof body,
             "{\"messages\": [" ASKED "], \"tools\": [%s], \"tool_choice\": \"auto\", "
             "\"parallel_tool_calls\": false}",
             tool);
    assert_true(parse(world, true, body));
    assert_true(world->request.one_call && world->request.tools != NULL);
    // Where no tool may be called, the conversation is one as before.
    snprintf(body, sizeof body,
             "{\"messages\": [" ASKED "], \"tools\": [%s], \"tool_choice\": \"none\"}", tool);
    assert_true(parse(world, true, body));
    assert_int_equal(world->request.generate.message_count, 1);
    assert_null(world->request.tools);
    assert_true(parse(world, true, TOOLS("")));
    assert_int_equal(world->request.generate.message_count, 1);
}

static void wrong_tools_are_named(void **state)
{
    static const struct {
        const char *body, *param;
    } wrong[] = {
        {TOOLS("5"), "tools[0]"},
        {TOOLS("{}"), "tools[0]"},
        {TOOLS("{\"type\": \"retrieval\"}"), "tools[0].type"},
        {TOOLS("{\"function\": {}}"), "tools[0].function"},
        {TOOLS("{\"function\": {\"name\": \"a b\"}}"), "tools[0].function.name"},
        {TOOLS("{\"function\": {\"name\": \"f\", \"strict\": true}}"), "tools[0].function.strict"},
        {TOOLS("{\"function\": {\"name\": \"f\", \"parameters\": 5}}"),
         "tools[0].function.parameters"},
        {TOOLS("{\"function\": {\"name\": \"f\", \"colour\": 5}}"), "tools[0].function.colour"},
        {"{\"messages\": [" ASKED "], \"tools\": {}}", "tools"},
        {"{\"messages\": [" ASKED "], \"tool_choice\": \"required\"}", "tool_choice"},
        {"{\"messages\": [" ASKED "], \"tool_choice\": {\"type\": \"function\"}}", "tool_choice"},
        {"{\"messages\": [" ASKED "], \"parallel_tool_calls\": 1}", "parallel_tool_calls"},
        {CALLED("5"), "messages[1].tool_calls[0]"},
        {CALLED("{\"id\": \"1\"}"), "messages[1].tool_calls[0]"},
        {CALLED("{\"id\": \"a\\u0000\"}"), "messages[1].tool_calls[0].id"},
        {CALLED(CALL("[1]")), "messages[1].tool_calls[0].function.arguments"},
        {CALLED(CALL("{} {}")), "messages[1].tool_calls[0].function.arguments"},
        {CALLED(CALL("{}\\u0000")), "messages[1].tool_calls[0].function.arguments"},
        {CALLED(CALL("{\\\"a\\\": }")), "messages[1].tool_calls[0].function.arguments"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_calls\": [" CALL(
             "{}") "]}]}",
         "messages[0].tool_calls"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_call_id\": \"1\"}]}",
         "messages[0].tool_call_id"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": \"b\"}]}",
         "messages[0].name"},
        {"{\"messages\": [" ASKED ", {\"role\": \"tool\", \"content\": \"b\"}]}", "messages"},
    };
    world_t *world = *state;
    world->terms.tools = or_chat_tools_by_name("qwen3");
    assert_int_equal(or_chat_by_name("qwen3", &world->terms.chat), OR_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_refused(world, true, wrong[i].body, 400, wrong[i].param);
    }
    // A model without a format names its template.
    world->terms.tools = NULL;
    assert_refused(world, true, TOOLS(""), 400, "tools");
    assert_non_null(strstr(world->problem.message, "for its chat template, qwen3."));
    assert_refused(world, true, CALLED(CALL("{}")), 400, "messages[1].tool_calls");
    assert_refused(world, true, "{\"messages\": [{\"role\": \"tool\", \"content\": \"b\"}]}", 400,
                   "messages[0].role");
}

// Where a message can be sent back with one call only, no answer has more.
static void calls_that_cannot_be_sent_back_are_left_out(void **state)
{
    world_t *world = *state;
    world->terms.tools = or_chat_tools_by_name("llama3.1");
    assert_int_equal(or_chat_by_name("llama3.1", &world->terms.chat), OR_OK);
    assert_true(parse(world, true, TOOLS("{\"function\": {\"name\": \"f\"}}")));
    assert_true(world->request.one_call);
}

// A body with so many tools, each of them deep.
static char *make_deep(size_t count)
{
    enum { DEPTH = 50, NUMBERS = 100 };
    char *body = malloc(count * 512 + 512);
    assert_non_null(body);
    size_t length = (size_t)sprintf(body, "{\"messages\": [" ASKED "], \"tools\": [");
    for (size_t i = 0; i < count; i++) {
        length += (size_t)sprintf(
            body + length,
            "%s{\"function\": {\"name\": \"f\", \"parameters\": {\"a\": ", i > 0 ? "," : "");
        memset(body + length, '[', DEPTH);
        memset(body + length + DEPTH, '1', 2 * NUMBERS - 1);
        for (size_t k = 0; k + 1 < NUMBERS; k++) {
            body[length + DEPTH + 2 * k + 1] = ',';
        }
        memset(body + length + DEPTH + 2 * NUMBERS - 1, ']', DEPTH);
        length += 2 * DEPTH + 2 * NUMBERS - 1;
        length += (size_t)sprintf(body + length, "}}}");
    }
    sprintf(body + length, "]}");
    return body;
}

static void assert_takes_much(world_t *world, const char *body, size_t most)
{
    char sentence[64];
    snprintf(sentence, sizeof sentence, "take over %zu bytes", most);
    assert_refused(world, true, body, 400, "messages");
    assert_non_null(strstr(world->problem.message, sentence));
}

// Llama's template indents what tools have: much is made of little.
static void deep_tools_take_much(void **state)
{
    static const size_t counts[] = {20, 300, 1500};
    world_t *world = *state;
    world->terms.tools = or_chat_tools_by_name("llama3.1");
    assert_int_equal(or_chat_by_name("llama3.1", &world->terms.chat), OR_OK);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char *body = make_deep(counts[i]);
        const size_t grown = 8 * strlen(body) + 65536;
        assert_takes_much(world, body, grown < 4194304 ? grown : 4194304);
        free(body);
    }
    char *body = make_deep(1);
    assert_true(parse(world, true, body));
    free(body);
}

// Mistral's lists the tools before each question that has the words of the last.
static void a_list_at_each_question_takes_much(void **state)
{
    enum { COUNT = 200, BYTES = 16384 };
    world_t *world = *state;
    char body[BYTES];
    size_t length = (size_t)sprintf(body, "{\"tools\": [");
    for (size_t i = 0; i < COUNT / 4; i++) {
        length +=
            (size_t)sprintf(body + length, "%s{\"function\": {\"name\": \"f\"}}", i > 0 ? "," : "");
    }
    length += (size_t)sprintf(body + length, "], \"messages\": [");
    for (size_t i = 0; i < COUNT; i++) {
        length += (size_t)sprintf(body + length, "%s" ASKED, i > 0 ? "," : "");
        if (i + 1 < COUNT) {
            length += (size_t)sprintf(body + length, ",{\"role\":\"assistant\",\"content\":\"\"}");
        }
    }
    sprintf(body + length, "]}");
    world->terms.tools = or_chat_tools_by_name("mistral-nemo");
    assert_int_equal(or_chat_by_name("mistral-tekken", &world->terms.chat), OR_OK);
    assert_takes_much(world, body, 8 * strlen(body) + 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tools_become_a_prompt, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_tools_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_that_cannot_be_sent_back_are_left_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(deep_tools_take_much, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_at_each_question_takes_much, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
