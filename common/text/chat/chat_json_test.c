// Goal: JSON in prompts is written as Python's json.dumps does, and nothing that is no whole JSON value counts as one.
// Method: values with what Python made of them; every beginning of a value; depths around the bound.
#include "common/text/chat/chat_json.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_written(const char *text, unsigned indent, const char *expected)
{
    const or_chat_json_t value = {text, or_chat_json_length(text, strlen(text))};
    or_chat_buffer_t buffer = {0};
    assert_int_equal(value.length, strlen(text));
    or_chat_json_write(&value, indent, &buffer);
    or_chat_buffer_add(&buffer, "", 1);
    assert_false(buffer.failed);
    assert_string_equal(buffer.bytes, expected);
    free(buffer.bytes);
}

static void values_are_written_as_python_does(void **state)
{
    (void)state;
    static const char *const values[][2] = {
        {"{ \"b\" :1,\"a\":[ ] , \"c\":{ } }", "{\"b\": 1, \"a\": [], \"c\": {}}"},
        {"[true,false,null]", "[true, false, null]"},
        {"\"\\u00e9\\/\\ud83d\\ude00\\u001f\\b\\u0008\\\"\\\\\\u007f\\u0000z\"",
         "\"é/😀\\u001f\\b\\b\\\"\\\\\x7f\\u0000z\""},
        {"\"naïve </b> \\n\"", "\"naïve </b> \\n\""},
        {"-0", "0"},
        {"-0.0", "-0.0"},
        {"0.10000000000000001", "0.1"},
        {"1.50", "1.5"},
        {"1e5", "100000.0"},
        {"1E15", "1000000000000000.0"},
        {"1e16", "1e+16"},
        {"123456789012345680000.0", "1.2345678901234568e+20"},
        {"0.0001", "0.0001"},
        {"0.00001234", "1.234e-05"},
        {"5e-324", "5e-324"},
        {"-1e400", "-Infinity"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"3.141592653589793", "3.141592653589793"},
    };
    for (size_t i = 0; i < COUNT(values); i++) {
        assert_written(values[i][0], 0, values[i][1]);
    }
    assert_written("{\"a\":[1,{\"b\":[]}],\"c\":{}}", 4,
                   "{\n    \"a\": [\n        1,\n        {\n            \"b\": []\n        }\n    "
                   "],\n    \"c\": {}\n}");
}

static void what_is_no_whole_value_is_none(void **state)
{
    (void)state;
    static const char *const none[] = {"",          " 1",          "{",           "{a:1}",
                                       "{\"a\" 1}", "{\"a\":1,}",  "[1,]",        "[1 2]",
                                       "nul",       "01",          "-",           "1.",
                                       "1e",        ".5",          "\"a",         "\"\\x\"",
                                       "\"\n\"",    "\"\\ud800\"", "\"\\udc00\"", "\"\\u12\"",
                                       "[\"a]",     "{1:2}",       "\"\\u12g4",   "[1}",
                                       "{\"a\":1]", "'a'",         "NaN",         "\"\\ud83d\\n\"",
                                       "\"\\\"",    "\"\\",        "{\"a\":,}",   "[,]"};
    for (size_t i = 0; i < COUNT(none); i++) {
        assert_int_equal(or_chat_json_length(none[i], strlen(none[i])), 0);
    }
    static const char whole[] = "{\"a\": [1.5, \"\\ud83d\\ude00\", null], \"b\": {\"c\": true}}";
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char *part = malloc(length + 1); // for AddressSanitizer: nothing behind its end is read
        assert_non_null(part);
        memcpy(part, whole, length);
        char *exact = realloc(part, length > 0 ? length : 1);
        assert_non_null(exact);
        assert_int_equal(or_chat_json_length(exact, length), 0);
        free(exact);
    }
    assert_int_equal(or_chat_json_length(whole, sizeof whole - 1), sizeof whole - 1);
    assert_int_equal(or_chat_json_length("[1] [2]", 7), 3);
}

static void depth_and_size_have_bounds(void **state)
{
    (void)state;
    static char deep[2 * OR_CHAT_JSON_DEPTH_MAX + 3];
    for (unsigned depth = OR_CHAT_JSON_DEPTH_MAX; depth <= OR_CHAT_JSON_DEPTH_MAX + 1; depth++) {
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        const size_t length = (size_t)depth * 2;
        assert_int_equal(or_chat_json_length(deep, length),
                         depth <= OR_CHAT_JSON_DEPTH_MAX ? length : 0);
    }
    const size_t bytes = OR_CHAT_JSON_BYTES_MAX / 4;
    char *wide = malloc(bytes + 2);
    assert_non_null(wide);
    memset(wide, '[', 1);
    for (size_t i = 1; i <= bytes; i++) {
        wide[i] = i % 2 == 1 ? '1' : ',';
    }
    wide[bytes % 2 == 0 ? bytes : bytes + 1] = ']';
    const or_chat_json_t value = {wide, or_chat_json_length(wide, bytes + 1)};
    assert_true(value.length > 0);
    or_chat_buffer_t buffer = {0};
    or_chat_json_write(&value, 32, &buffer);
    assert_true(buffer.failed && buffer.length <= OR_CHAT_JSON_BYTES_MAX);
    free(buffer.bytes);
    free(wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_written_as_python_does),
        cmocka_unit_test(what_is_no_whole_value_is_none),
        cmocka_unit_test(depth_and_size_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
