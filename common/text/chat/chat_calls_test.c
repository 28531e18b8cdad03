// Goal: calls that are complete and well formed are read in every format; all other text stays, whole and in order, and hides no call
// behind it.
// Method: answers written out by hand, and what becomes of them: text as it is, and name(arguments)#id for each call. Every beginning
// of each answer keeps all of its bytes, as text or as calls.
#include "common/text/chat/chat_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/chat/chat_json.h"
#include "tests/support/test_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HERMES(name) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": {}}\n</tool_call>"
#define KIMI(id, arguments)                                                                        \
    "<|tool_call_begin|>" id "<|tool_call_argument_begin|>" arguments "<|tool_call_end|>"
#define SECTION(calls) "<|tool_calls_section_begin|>" calls "<|tool_calls_section_end|>"

static const struct {
    const char *format, *text, *read;
} cases[] = {
    {"qwen3", HERMES("f"), "f({})"},
    {"qwen3", HERMES("f") "\n" HERMES("g-1.x"), "f({})g-1.x({})"},
    {"qwen3", "<tool_call>{\"arguments\":{\"a\":[1,\"</tool_call>\"]},\"name\":\"f\"}</tool_call> ",
     "f({\"a\":[1,\"</tool_call>\"]})"},
    {"qwen3", "<tool_call>{\"name\": \"f\", \"arguments\": {}}", NULL},
    {"qwen3", "<tool_call>{\"name\": \"f\", \"arguments\": {}", NULL},
    {"qwen3", "<tool_call>{\"name\": \"f\"}</tool_call>", NULL},
    {"qwen3", "<tool_call>{\"arguments\": {}}</tool_call>", NULL},
    {"qwen3", "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>", NULL},
    {"qwen3", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", NULL},
    {"qwen3", "<tool_call>{\"name\": \"a b\", \"arguments\": {}}</tool_call>", NULL},
    {"qwen3", "<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>", NULL},
    {"qwen3", "<tool_call>{\"name\": \"f\", \"arguments\": {}} x</tool_call>", NULL},
    {"qwen3", "<tool_call>\nbroken\n</tool_call>", NULL},
    {"qwen3", "<tool_call>broken" HERMES("f") "tail", "<tool_call>brokenf({})tail"},
    {"qwen3", HERMES("f") " <tool_call>", "f({})<tool_call>"},
    {"qwen3", "<tool_call><tool_call><tool_call>", NULL},
    {"llama3.1", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "f({\"a\": 1})"},
    {"llama3.1",
     "<|python_tag|>{\"name\": \"f\", \"arguments\": {}}; {\"name\": \"g\", "
     "\"parameters\": {}}\n",
     "f({})g({})"},
    {"llama3.1", "{\"name\": \"f\", \"parameters\": {}} and so on", NULL},
    {"llama3.1", "{\"name\": \"Bob\"}", NULL},
    {"llama3.1", "<|python_tag|>print(1)", NULL},
    {"mistral-nemo",
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", "
     "\"arguments\": {\"a\": []}, \"id\": \"123456789\"}]",
     "f({})g({\"a\": []})"},
    {"mistral-nemo", "[TOOL_CALLS] [ {\"name\": \"f\", \"arguments\": {}} ] so", "f({})so"},
    {"mistral-nemo", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}", NULL},
    {"mistral-nemo", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\"}]", NULL},
    {"mistral-nemo", "[TOOL_CALLS][]", NULL},
    {"mistral-v11", "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS] g [ARGS] {\"a\": \"[CALL_ID]\"}",
     "f({})g({\"a\": \"[CALL_ID]\"})"},
    {"mistral-v11", "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", "f({})"},
    {"mistral-v11", "[TOOL_CALLS]f[ARGS]{", NULL},
    {"mistral-v11", "[TOOL_CALLS]f[CALL_ID]1", NULL},
    {"mistral-v11", "[TOOL_CALLS]a b[ARGS]{}[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]a b[ARGS]{}f({})"},
    {"kimi-k2", SECTION(KIMI("functions.f:0", "{}") "\n" KIMI("functions.a.b:1", " {\"a\":1} ")),
     "f({})#functions.f:0a.b({\"a\":1})#functions.a.b:1"},
    {"kimi-k2", SECTION(KIMI("f:7", "{}")) " so", "f({})#f:7so"},
    {"kimi-k2", SECTION(KIMI("functions.f", "{}")), NULL},
    {"kimi-k2", SECTION(KIMI("functions.:0", "{}")), NULL},
    {"kimi-k2", SECTION(""), NULL},
    {"kimi-k2", SECTION(KIMI("functions.f:0", "{}") KIMI("functions.g:1", "[]")), NULL},
    {"kimi-k2", "<|tool_calls_section_begin|>" KIMI("functions.f:0", "{}"), NULL},
};

typedef struct {
    char text[1024];
    size_t calls;
} read_t;

static or_status_t take_text(void *context, const char *bytes, size_t count)
{
    read_t *read = context;
    assert_true(strlen(read->text) + count < sizeof read->text);
    strncat(read->text, bytes, count);
    return OR_OK;
}

static or_status_t take_call(void *context, const or_chat_call_t *call)
{
    read_t *read = context;
    const size_t length = strlen(read->text);
    snprintf(read->text + length, sizeof read->text - length, "%s(%.*s)%s%s", call->name,
             (int)call->arguments_bytes, call->arguments, call->id[0] != '\0' ? "#" : "", call->id);
    read->calls++;
    return OR_OK;
}

static void read_calls(const char *format, const char *text, size_t length, read_t *read)
{
    const or_chat_call_sink_t sink = {take_text, take_call, read};
    char *exact =
        malloc(length > 0 ? length : 1); // for AddressSanitizer: nothing behind its end is read
    assert_non_null(exact);
    memcpy(exact, text, length);
    *read = (read_t){0};
    assert_int_equal(or_chat_calls_read(or_chat_tools_by_name(format), exact, length, &sink),
                     OR_OK);
    free(exact);
}

static void whole_calls_are_read_and_all_else_stays(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        read_t read;
        read_calls(cases[i].format, cases[i].text, strlen(cases[i].text), &read);
        assert_string_equal(read.text, cases[i].read != NULL ? cases[i].read : cases[i].text);
        assert_int_equal(cases[i].read != NULL, read.calls > 0);
    }
}

static void beginnings_of_answers_lose_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t length = 0; length < strlen(cases[i].text); length++) {
            read_t read;
            read_calls(cases[i].format, cases[i].text, length, &read);
            if (read.calls == 0) {
                assert_int_equal(strlen(read.text), length);
                assert_memory_equal(read.text, cases[i].text, length);
            }
        }
    }
}

static void a_call_that_is_too_deep_stays_text(void **state)
{
    (void)state;
    for (size_t depth = OR_CHAT_JSON_DEPTH_MAX - 2; depth <= OR_CHAT_JSON_DEPTH_MAX; depth++) {
        char text[512];
        read_t read;
        int length =
            snprintf(text, sizeof text, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":");
        memset(text + length, '[', depth);
        memset(text + length + depth, ']', depth);
        snprintf(text + length + 2 * depth, sizeof text - (size_t)length - 2 * depth,
                 "}}</tool_call>");
        read_calls("qwen3", text, strlen(text), &read);
        assert_int_equal(read.calls, depth + 2 <= OR_CHAT_JSON_DEPTH_MAX);
        assert_true(read.calls > 0 || strcmp(read.text, text) == 0);
    }
}

static or_status_t take_nothing(void *context, const char *bytes, size_t count)
{
    (void)context, (void)bytes, (void)count;
    return OR_ERR_NO_MEMORY;
}

static void the_sink_may_fail(void **state)
{
    (void)state;
    read_t read = {0};
    const or_chat_call_sink_t sink = {take_nothing, take_call, &read};
    static const char text[] = "a" HERMES("f");
    assert_int_equal(
        or_chat_calls_read(or_chat_tools_by_name("qwen3"), text, sizeof text - 1, &sink),
        OR_ERR_NO_MEMORY);
    assert_int_equal(read.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_calls_are_read_and_all_else_stays),
        cmocka_unit_test(beginnings_of_answers_lose_nothing),
        cmocka_unit_test(a_call_that_is_too_deep_stays_text),
        cmocka_unit_test(the_sink_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
