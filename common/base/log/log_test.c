// Goal: a line says the same as text and as JSON. It stays one line whatever its message contains, and a parser
// accepts the JSON.
// Method: send standard error to a file and read the lines back.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "tests/support/test_support.h"

static char heard[8192];

// Return what `say` writes to standard error.
static const char *hear(void (*say)(void))
{
    char path[] = "/tmp/outrider-log-test-XXXXXX";
    int file = mkstemp(path), kept = dup(STDERR_FILENO);
    assert_true(file >= 0 && kept >= 0);
    unlink(path);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    say();
    or_log_flush();
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    ssize_t length = pread(file, heard, sizeof heard - 1, 0);
    assert_true(length >= 0);
    heard[length] = '\0';
    close(file);
    close(kept);
    return heard;
}

static void say_hard_words(void)
{
    const or_log_subject_t subject = {0x3f, "chat-7"};
    or_log_of(OR_LOG_INFO, subject, "a \"quoted\" back\\slash,\ttab");
}

static void say_what_a_peer_says(void)
{
    or_log(OR_LOG_WARN, "joined \xc3\xa9\xff\xe2\x82 with a\n12:00:00.000 error tester: forged");
}

static void say_nothing_in_particular(void)
{
    or_log(OR_LOG_WARN, "plain %d", 7);
    or_log(OR_LOG_DEBUG, "not shown");
}

static void say_too_much(void)
{
    static char words[10000];
    memset(words, '"', sizeof words - 1);
    or_log(OR_LOG_ERROR, "%s", words);
}

static void text_names_session_and_request(void **state)
{
    (void)state;
    or_log_init("tester", OR_LOG_INFO);
    assert_int_equal(or_log_set_format("text"), OR_OK);
    assert_non_null(
        strstr(hear(say_hard_words), " info tester: session 3f request chat-7: a \"quoted\" "));
    const char *line = strchr(hear(say_what_a_peer_says), '\n');
    assert_non_null(line);
    assert_string_equal(line, "\n"); // one line, whatever the message contains
    assert_non_null(strstr(hear(say_nothing_in_particular), " warn tester: plain 7\n"));
    assert_null(strstr(heard, "not shown"));
}

static void say_what_moves_cursors(void)
{
    or_log(OR_LOG_WARN, "a\x1b[2J\x7f\xc2\x9b"
                        "2Jb \xc2\xa9");
}

// U+009B begins an escape sequence as ESC [ does; U+00A9, two bytes as well, is a letter like any other.
static void text_moves_no_cursor(void **state)
{
    (void)state;
    or_log_init("tester", OR_LOG_INFO);
    assert_non_null(strstr(hear(say_what_moves_cursors), ": a?[2J???2Jb \xc2\xa9\n"));
}

static void what_is_mended_is_one_line_and_as_long(void **state)
{
    (void)state;
    char text[] = "a\x1b[2J\xc2\x9b\x7f\n\xc3\xa9.";
    or_log_mend(text);
    assert_string_equal(text, "a?[2J????\xc3\xa9.");
}

static void json_has_them_as_fields(void **state)
{
    (void)state;
    assert_int_equal(or_log_set_format("json"), OR_OK);
    assert_non_null(strstr(
        hear(say_hard_words),
        "\",\"level\":\"info\",\"role\":\"tester\",\"session\":\"3f\",\"request\":\"chat-7\","
        "\"message\":\"a \\\"quoted\\\" back\\\\slash,\\u0009tab\"}\n"));
    assert_int_equal(strncmp(heard, "{\"time\":\"20", 11), 0);
    assert_null(strstr(hear(say_nothing_in_particular), "session"));
    assert_non_null(
        strstr(hear(say_what_a_peer_says), "joined \xc3\xa9\\ufffd\\ufffd\\ufffd with a\\u000a12"));
    const char *much = hear(say_too_much);
    assert_true(strlen(much) <= 4096);
    assert_string_equal(much + strlen(much) - 3, "\"}\n");
    assert_int_equal(or_log_set_format("text"), OR_OK);
}

static void other_formats_are_refused(void **state)
{
    (void)state;
    assert_int_equal(or_log_set_format("xml"), OR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_names_session_and_request),
        cmocka_unit_test(text_moves_no_cursor),
        cmocka_unit_test(what_is_mended_is_one_line_and_as_long),
        cmocka_unit_test(json_has_them_as_fields),
        cmocka_unit_test(other_formats_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
