// Goal: the text is whole characters, ends before the first stop string, never shows the beginning
// of one, and does not depend on how tokens were grouped.
// Method: tokens of a real vocabulary; texts are tokenised, pushed one by one and compared with a
// search over the whole text.
#include "coordinator/clients/completion.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "tests/support/test_support.h"

static or_gguf_t *gguf;
static or_vocab_t *vocab;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

// Check the completion of `text` with these stop strings, and on the way that only safe text is
// released.
static void check(const char *text, const char *const *stops, uint32_t stop_count,
                  const char *expected)
{
    or_wire_bytes_t wire[4];
    for (uint32_t i = 0; i < stop_count; i++) {
        wire[i] = (or_wire_bytes_t){(const uint8_t *)stops[i], (uint32_t)strlen(stops[i])};
    }
    int32_t *ids = NULL;
    size_t count = 0;
    or_completion_t completion;
    bool stopped = false;
    assert_int_equal(or_tokenize(vocab, text, strlen(text), 0, &ids, &count), OR_OK);
    assert_int_equal(or_completion_init(&completion, vocab, NULL, NULL, OR_THINKING_USUAL, true,
                                        wire, stop_count),
                     OR_OK);
    for (size_t i = 0; i < count && !stopped; i++) {
        assert_int_equal(or_completion_push(&completion, ids[i], &stopped), OR_OK);
        assert_true(completion.released <= strlen(expected));
        assert_memory_equal(completion.bytes, expected, completion.released);
    }
    bool stopped_last;
    assert_int_equal(or_completion_finish(&completion, &stopped_last), OR_OK);
    assert_int_equal(completion.released, strlen(expected));
    assert_memory_equal(completion.bytes, expected, strlen(expected));
    assert_int_equal(stopped, strcmp(text, expected) != 0);
    assert_false(stopped_last);
    or_completion_fini(&completion);
    free(ids);
}

static void text_without_stops_is_the_text(void **state)
{
    (void)state;
    check("The king said: caf\xc3\xa9 \xf0\x9f\x9a\x80 and left.", NULL, 0,
          "The king said: caf\xc3\xa9 \xf0\x9f\x9a\x80 and left.");
}

static void it_ends_before_the_first_stop_string(void **state)
{
    (void)state;
    static const char *const stops[] = {"\n\nQ:", " king", "", "said"};
    check("Long ago the king said so", stops, 4, "Long ago the");
    check("He said so.\n\nQ: what?", stops, 3, "He said so.");
    check("no stop here \n\nQ", stops, 3, "no stop here \n\nQ");
    static const char *const nested[] = {"abcd", "bc"};
    check("xabcd", nested, 2, "xa");
    static const char *const repeats[] = {"aab"};
    check("aaab!", repeats, 1, "a");
    static const char *const rocket[] = {"\x9f\x9a"};
    check("go \xf0\x9f\x9a\x80 go", rocket, 1, "go \xf0");
}

// If one token completes several, the first in the text counts, not the last that was named.
static void a_token_may_complete_several_stop_strings(void **state)
{
    (void)state;
    uint32_t length = 0, tried = 0;
    for (int32_t id = 0; id < (int32_t)or_vocab_size(vocab); id++) {
        const uint8_t *bytes = (const uint8_t *)or_vocab_bytes(vocab, id, &length);
        if (length < 4 || !isalpha(bytes[0]) || !isalpha(bytes[1]) || !isalpha(bytes[2]) ||
            memchr(bytes, bytes[2], length) != bytes + 2) {
            continue;
        }
        or_completion_t completion;
        bool stopped = false;
        const or_wire_bytes_t stops[] = {{bytes + 1, 1}, {bytes + 2, 1}};
        assert_int_equal(
            or_completion_init(&completion, vocab, NULL, NULL, OR_THINKING_USUAL, false, stops, 2),
            OR_OK);
        assert_int_equal(or_completion_push(&completion, id, &stopped), OR_OK);
        assert_true(stopped && completion.released <= 1);
        or_completion_fini(&completion);
        tried++;
    }
    assert_true(tried > 0);
}

// In a conversation the marks around thoughts are no text, and stop strings end thoughts as well.
static void thoughts_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stop, *expected;
        uint32_t change_count;
        uint64_t changes[3];
    } cases[] = {
        {"<think>\nsee here.</think>\n\nWell.", NULL, "see here.Well.", 2, {0, 9}},
        {"Well.<think>see</think> then", NULL, "Well.seethen", 2, {5, 8}},
        {"<think>see here</think>Well", "here", "see ", 1, {0}},
        {"<think>see</think>Well here", "here", "seeWell ", 2, {0, 3}},
        {"<think>see</think>here", "here", "see", 1, {0}},
        {"Well <thin", NULL, "Well <thin", 0, {0}},
        // Text that waited, because a mark might have come of it.
        {"Well <thin", "<th", "Well ", 0, {0}},
        {"see here <thin", "here <", "see ", 0, {0}},
        {"<think>see</thin", "<", "see", 1, {0}},
    };
    const or_chat_t *chat = NULL;
    assert_int_equal(or_chat_by_name("qwen3", &chat), OR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const or_wire_bytes_t stop = {(const uint8_t *)cases[i].stop,
                                      cases[i].stop != NULL ? (uint32_t)strlen(cases[i].stop) : 0};
        int32_t *ids = NULL;
        size_t count = 0;
        or_completion_t completion;
        bool stopped = false;
        assert_int_equal(or_tokenize(vocab, cases[i].text, strlen(cases[i].text),
                                     OR_TOKENIZE_CONTINUES, &ids, &count),
                         OR_OK);
        assert_int_equal(or_completion_init(&completion, vocab, chat, NULL, OR_THINKING_USUAL,
                                            false, &stop, stop.length > 0),
                         OR_OK);
        for (size_t k = 0; k < count && !stopped; k++) {
            assert_int_equal(or_completion_push(&completion, ids[k], &stopped), OR_OK);
        }
        bool stopped_last;
        assert_int_equal(or_completion_finish(&completion, &stopped_last), OR_OK);
        assert_int_equal(stopped || stopped_last, stop.length > 0);
        assert_int_equal(completion.length, strlen(cases[i].expected));
        assert_memory_equal(completion.bytes, cases[i].expected, completion.length);
        assert_int_equal(completion.change_count, cases[i].change_count);
        for (uint32_t k = 0; k < completion.change_count; k++) {
            assert_int_equal(completion.changes[k], cases[i].changes[k]);
        }
        or_completion_fini(&completion);
        free(ids);
    }
}

// Calls of tools are told apart, and a stop string is looked for around them, not in them.
static void calls_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stop, *expected;
        uint32_t change_count;
        uint64_t changes[2];
    } cases[] = {
        {"So <tool_call>f</tool_call> on", NULL, "So <tool_call>f</tool_call> on", 2, {3, 27}},
        {"So <tool_call>f stop</tool_call> on", "stop", NULL, 2, {3, 32}},
        {"So <tool_call>f</tool_call> stop on", "stop", "So <tool_call>f</tool_call> ", 2, {3, 27}},
        {"So stop<tool_call>f</tool_call>", "stop", "So ", 0, {0}},
        {"<tool_call>st</tool_call>op", "</tool_call>op", NULL, 2, {0, 25}},
        {"<tool_call>f stop", "stop", NULL, 1, {0}},
    };
    const or_chat_t *chat = NULL;
    assert_int_equal(or_chat_by_name("qwen3", &chat), OR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *expected = cases[i].expected != NULL ? cases[i].expected : cases[i].text;
        const or_wire_bytes_t stop = {(const uint8_t *)cases[i].stop,
                                      cases[i].stop != NULL ? (uint32_t)strlen(cases[i].stop) : 0};
        int32_t *ids = NULL;
        size_t count = 0;
        or_completion_t completion;
        bool stopped = false;
        assert_int_equal(or_tokenize(vocab, cases[i].text, strlen(cases[i].text),
                                     OR_TOKENIZE_CONTINUES, &ids, &count),
                         OR_OK);
        assert_int_equal(or_completion_init(&completion, vocab, chat,
                                            or_chat_tools_by_name("qwen3"), OR_THINKING_USUAL,
                                            false, &stop, stop.length > 0),
                         OR_OK);
        for (size_t k = 0; k < count && !stopped; k++) {
            assert_int_equal(or_completion_push(&completion, ids[k], &stopped), OR_OK);
        }
        bool stopped_last;
        assert_int_equal(or_completion_finish(&completion, &stopped_last), OR_OK);
        assert_int_equal(stopped || stopped_last, cases[i].expected != NULL && stop.length > 0);
        assert_int_equal(completion.length, strlen(expected));
        assert_memory_equal(completion.bytes, expected, completion.length);
        assert_int_equal(completion.call_change_count, cases[i].change_count);
        for (uint32_t k = 0; k < completion.call_change_count; k++) {
            assert_int_equal(completion.call_changes[k], cases[i].changes[k]);
        }
        or_completion_fini(&completion);
        free(ids);
    }
}

// Write a text over and over; in its later half calls stay open, where calls are read.
static void push_without_end(const char *text, const or_chat_tools_t *tools,
                             or_completion_t *completion)
{
    const or_chat_t *chat = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    assert_int_equal(or_chat_by_name("qwen3", &chat), OR_OK);
    assert_int_equal(or_tokenize(vocab, text, strlen(text), OR_TOKENIZE_CONTINUES, &ids, &count),
                     OR_OK);
    assert_int_equal(
        or_completion_init(completion, vocab, chat, tools, OR_THINKING_USUAL, false, NULL, 0),
        OR_OK);
    for (size_t i = 0; i < 100 * count; i++) {
        bool stopped;
        assert_int_equal(or_completion_push(completion, ids[i % count], &stopped), OR_OK);
        assert_true(tools == NULL || i < 50 * count || completion->call_change_count % 2 == 1);
    }
    free(ids);
}

// A model that calls without end makes no list without end, and what it writes last may be a call.
static void calls_have_no_end(void **state)
{
    (void)state;
    or_completion_t completion;
    push_without_end("<tool_call>a</tool_call>b", or_chat_tools_by_name("qwen3"), &completion);
    assert_in_range(completion.call_change_count, 1, OR_PART_CHANGES_MAX);
    or_completion_fini(&completion);
}

// A model that changes its mind without end makes no list without end, and ends as one that answers.
static void changes_have_an_end(void **state)
{
    (void)state;
    or_completion_t completion;
    push_without_end("<think>a</think>b", NULL, &completion);
    assert_int_equal(completion.change_count, OR_PART_CHANGES_MAX);
    assert_int_equal(OR_PART_CHANGES_MAX % 2, 0);
    or_completion_fini(&completion);
}

// A character whose bytes stand on both sides of a mark is none: each part has the bytes that came in it.
static void no_character_reaches_over_a_mark(void **state)
{
    (void)state;
    enum { BEGIN = 3, END, BYTES, CONTROL = 3, USER };
    static const test_token_t tokens[] = {{"<unk>", 0, 2},
                                          {"<s>", 0, CONTROL},
                                          {"</s>", 0, CONTROL},
                                          {"<think>", 0, USER},
                                          {"</think>", 0, USER}};
    static const int32_t ids[] = {BEGIN, BYTES + 'a',  BYTES + 0xE2, BYTES + 0x82,
                                  END,   BYTES + 0xAC, BYTES + 'b'};
    const or_chat_t *chat = NULL;
    or_vocab_t *small = NULL;
    or_completion_t completion;
    assert_int_equal(or_chat_by_name("qwen3", &chat), OR_OK);
    assert_int_equal(test_make_vocab(tokens, sizeof tokens / sizeof *tokens,
                                     TEST_WITH_BOS_EOS | TEST_WITH_UNKNOWN | TEST_WITH_BYTES,
                                     &small),
                     OR_OK);
    assert_int_equal(
        or_completion_init(&completion, small, chat, NULL, OR_THINKING_USUAL, false, NULL, 0),
        OR_OK);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        bool stopped;
        assert_int_equal(or_completion_push(&completion, ids[i], &stopped), OR_OK);
    }
    bool stopped;
    assert_int_equal(or_completion_finish(&completion, &stopped), OR_OK);
    assert_int_equal(completion.length, 5);
    assert_memory_equal(completion.bytes,
                        "a\xE2\x82\xAC"
                        "b",
                        5);
    assert_int_equal(completion.change_count, 2);
    assert_int_equal(completion.changes[0], 0);
    assert_int_equal(completion.changes[1], 3);
    or_completion_fini(&completion);
    or_vocab_destroy(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_stops_is_the_text),
        cmocka_unit_test(it_ends_before_the_first_stop_string),
        cmocka_unit_test(a_token_may_complete_several_stop_strings),
        cmocka_unit_test(thoughts_are_told_apart),
        cmocka_unit_test(calls_are_told_apart),
        cmocka_unit_test(calls_have_no_end),
        cmocka_unit_test(changes_have_an_end),
        cmocka_unit_test(no_character_reaches_over_a_mark),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
