// Goal: an answer is taken apart into what was thought and what is answered, in every way that families write it, whatever the
// grouping of its bytes. Nothing but marks, headers and the white space behind them is lost.
// Method: write answers out by hand, with marks as tokens and, in a vocabulary without these, as text. Cut them at every
// place, and compare the parts.
#include "common/text/chat/chat_reply.h"

#include <string.h>

#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_internal.h"
#include "tests/support/test_support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { TEXT = 1, CONTROL = 3, USER = 4 };
static const test_token_t with_marks[] = {{"<unk>", 0, 2},
                                          {"<s>", 0, CONTROL},
                                          {"</s>", 0, CONTROL},
                                          {"<think>", 0, USER},
                                          {"</think>", 0, USER},
                                          {"<|start|>", 0, CONTROL},
                                          {"<|end|>", 0, CONTROL},
                                          {"<|channel|>", 0, CONTROL},
                                          {"<|message|>", 0, CONTROL},
                                          {"<|return|>", 0, CONTROL},
                                          {"<|channel>", 0, CONTROL},
                                          {"<channel|>", 0, CONTROL},
                                          {"<|START_THINKING|>", 0, USER},
                                          {"<|END_THINKING|>", 0, USER},
                                          {"<|START_RESPONSE|>", 0, USER},
                                          {"<|END_RESPONSE|>", 0, USER},
                                          {"<tool_call>", 0, USER},
                                          {"</tool_call>", 0, USER},
                                          {"[TOOL_CALLS]", 0, CONTROL},
                                          {"[ARGS]", 0, CONTROL},
                                          {"<|tool_calls_section_begin|>", 0, CONTROL},
                                          {"<|tool_calls_section_end|>", 0, CONTROL},
                                          {"<|tool_call_begin|>", 0, CONTROL},
                                          {"<|tool_call_end|>", 0, CONTROL},
                                          {"a", -1, TEXT}};

// The parts as they come.
typedef struct {
    char text[3][256]; // OR_CHAT_ANSWER, OR_CHAT_REASONING, OR_CHAT_CALL
    size_t lengths[3];
} parts_t;

static or_status_t take(void *context, or_chat_part_t part, const char *bytes, size_t count)
{
    parts_t *parts = context;
    assert_true(part == OR_CHAT_ANSWER || part == OR_CHAT_REASONING || part == OR_CHAT_CALL);
    assert_true(parts->lengths[part] + count < sizeof parts->text[part]);
    memcpy(parts->text[part] + parts->lengths[part], bytes, count);
    parts->lengths[part] += count;
    return OR_OK;
}

// Write the text, in which special and user-defined tokens are tokens, and the rest comes `step` bytes at a time.
static void read_answer(const or_chat_t *chat, const or_chat_tools_t *tools, uint32_t thinking,
                        const or_vocab_t *vocab, const char *text, size_t step, parts_t *parts)
{
    or_chat_reader_t reader;
    size_t length = strlen(text);
    or_chat_reader_init(&reader, chat, tools, thinking, vocab);
    *parts = (parts_t){0};
    for (size_t at = 0; at < length;) {
        int32_t id = or_vocab_marked_at(vocab, text + at, length - at, true);
        size_t used = 1;
        if (id != OR_TOKEN_NONE) {
            bool is_mark;
            used = vocab->tokens[id].piece_length;
            assert_int_equal(or_chat_reader_token(&reader, id, take, parts, &is_mark), OR_OK);
            if (!is_mark) {
                assert_int_equal(or_chat_reader_text(&reader, vocab->tokens[id].bytes,
                                                     vocab->widths[id], take, parts),
                                 OR_OK);
            }
        } else {
            while (used < step && at + used < length &&
                   or_vocab_marked_at(vocab, text + at + used, length - at - used, true) ==
                       OR_TOKEN_NONE) {
                used++;
            }
            assert_int_equal(or_chat_reader_text(&reader, text + at, used, take, parts), OR_OK);
        }
        at += used;
    }
    assert_int_equal(or_chat_reader_finish(&reader, take, parts), OR_OK);
}

static const struct {
    const char *family, *text, *thought, *answer;
} cases[] = {
    {"chatml", " a<think>b</think>", "", " a<think>b</think>"}, // it has no marks
    {"qwen3", "<think>\nWhy?\n</think>\n\nHello!\n", "Why?\n", "Hello!\n"},
    {"qwen3", " Hello <b> </b> <th", "", " Hello <b> </b> <th"},
    {"qwen3", "<think>endless", "endless", ""},
    {"qwen3", "<think></think>Hi", "", "Hi"},
    {"qwen3", "a<think>b</think>c<think>d", "bd", "ac"},
    {"qwen3", "", "", ""},
    {"qwq", "Hm.\n</think>\n\nHi", "Hm.\n", "Hi"},
    {"deepseek-r1", "\nHm.</think>Hi", "Hm.", "Hi"},
    {"deepseek-v3.1", "Hi", "", "Hi"},
    {"glm-4.7", "Hm</think>Hi", "Hm", "Hi"},
    {"glm-4.6", "\n<think>Hm</think>\nHi", "Hm", "Hi"},
    {"glm-4.6", "\nHi", "", "Hi"},
    {"glm4", "\nHi <think>", "", "Hi <think>"},
    {"glm-z1", "\nHm</think>\nHi", "Hm", "Hi"},
    {"exaone4", "Hi", "", "Hi"},
    {"qwen3", "\nHi", "", "\nHi"},
    {"harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi",
     "Hm.", "Hi"},
    {"harmony", "<|channel|>final<|message|>Hi", "", "Hi"},
    {"harmony", "<|message|>Hi", "", "Hi"},
    {"harmony", "<|channel|>commentary to=f json<|message|>{}<|end|><|start|>assistant", "{}", ""},
    {"harmony", "no header", "", "no header"},
    {"harmony", "a text that is longer than a header may be, so that it cannot be one at all", "",
     "a text that is longer than a header may be, so that it cannot be one at all"},
    {"gemma4", "Hi", "", "Hi"},
    {"gemma4", "<|channel>thought\nHm.\n<channel|>Hi", "Hm.\n", "Hi"},
    {"command-r7b", "<|START_RESPONSE|>Hi<|END_RESPONSE|>", "", "Hi"},
    {"command-r7b", "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>",
     "Hm", "Hi"},
};

static void check_answer(const or_vocab_t *vocab, const char *family, uint32_t thinking,
                         const char *text, const char *thought, const char *answer)
{
    const or_chat_t *chat = NULL;
    assert_int_equal(or_chat_by_name(family, &chat), OR_OK);
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        parts_t parts;
        read_answer(chat, NULL, thinking, vocab, text, step, &parts);
        assert_string_equal(parts.text[OR_CHAT_REASONING], thought);
        assert_string_equal(parts.text[OR_CHAT_ANSWER], answer);
        assert_string_equal(parts.text[OR_CHAT_CALL], "");
    }
}

// The text of calls has its marks, whether they are tokens that print nothing, tokens that print themselves, or text.
static const struct {
    const char *family, *format, *text, *thought, *answer, *calls;
} calling[] = {
    {"qwen3", "qwen3", "<think>\n<tool_call>\n</think>\n\nSo: <tool_call>a</tool_call>\nb",
     "<tool_call>\n", "So: \nb", "<tool_call>a</tool_call>"},
    {"qwen3", "qwen3", "<think></think>\n<tool_call>\n a</tool_call>\nb", "", "\nb",
     "<tool_call>\n a</tool_call>"},
    {"qwen3", "qwen3", "<tool_call>a</think><think></tool_call><tool_call>b</tool_call> ", "", " ",
     "<tool_call>a</think><think></tool_call><tool_call>b</tool_call>"},
    {"qwen3", "qwen3", "a</tool_call> <tool", "", "a</tool_call> <tool", ""},
    {"qwen3", "qwen3", "<tool_call>a<tool_call></tool_c", "", "",
     "<tool_call>a<tool_call></tool_c"},
    {"qwq", "qwq", "Hm</think>\n<tool_call>a", "Hm", "", "<tool_call>a"},
    {"chatml", "qwen2.5", " <tool_call>a</tool_call>{", "", " {", "<tool_call>a</tool_call>"},
    {"llama3.1", "llama3.1", "{\"a\"} b", "", "", "{\"a\"} b"},
    {"llama3.1", "llama3.1", " \n{", "", "", " \n{"}, // white space that may stand before a call
    {"llama3.1", "llama3.1", "\na \n{", "", "a \n{", "\n"},
    {"llama3.1", "llama3.1", "\n", "", "", "\n"},
    {"llama3.1", "llama3.1", "a {", "", "a {", ""},
    {"llama3.1", "llama3.1", "a <|python_tag|>{", "", "a ", "<|python_tag|>{"},
    {"mistral-tekken", "mistral-nemo", "a[TOOL_CALLS][b]", "", "a", "[TOOL_CALLS][b]"},
    {"mistral-v7", "mistral-v11", "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]", "", "",
     "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]"},
    {"kimi-k2", "kimi-k2", "a<|tool_call_end|>", "", NULL, ""},
    {"kimi-k2", "kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>b",
     "", "b",
     "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>"},
};

static void check_calls(const or_vocab_t *vocab)
{
    for (size_t i = 0; i < COUNT(calling); i++) {
        const or_chat_t *chat = NULL;
        assert_int_equal(or_chat_by_name(calling[i].family, &chat), OR_OK);
        for (size_t step = 1; step <= strlen(calling[i].text) + 1; step++) {
            parts_t parts;
            read_answer(chat, or_chat_tools_by_name(calling[i].format), OR_THINKING_USUAL, vocab,
                        calling[i].text, step, &parts);
            assert_string_equal(parts.text[OR_CHAT_CALL], calling[i].calls);
            assert_string_equal(parts.text[OR_CHAT_REASONING], calling[i].thought);
            if (calling[i].answer != NULL) { // else it depends on what prints something
                assert_string_equal(parts.text[OR_CHAT_ANSWER], calling[i].answer);
            }
        }
    }
}

static void check(const or_vocab_t *vocab)
{
    check_calls(vocab);
    for (size_t i = 0; i < COUNT(cases); i++) {
        check_answer(vocab, cases[i].family, OR_THINKING_USUAL, cases[i].text, cases[i].thought,
                     cases[i].answer);
    }
    // The prompt opens a thought, or closes one, as was asked for.
    check_answer(vocab, "glm-4.7", OR_THINKING_OFF, "Hi", "", "Hi");
    check_answer(vocab, "qwen3.5", OR_THINKING_OFF, "Hi", "", "Hi");
    check_answer(vocab, "deepseek-v3.1", OR_THINKING_ON, "Hm</think>Hi", "Hm", "Hi");
    check_answer(vocab, "exaone4", OR_THINKING_ON, "Hm</think>Hi", "Hm", "Hi");
    check_answer(vocab, "smollm3", OR_THINKING_OFF, "Hi", "", "Hi");
}

static void with_vocabulary(const test_token_t *tokens, size_t count)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(tokens, (uint32_t)count,
                                     TEST_WITH_BOS_EOS | TEST_WITH_UNKNOWN | TEST_WITH_BYTES,
                                     &vocab),
                     OR_OK);
    check(vocab);
    or_vocab_destroy(&vocab);
}

static void marks_that_are_tokens(void **state)
{
    (void)state;
    with_vocabulary(with_marks, COUNT(with_marks));
}

static void marks_that_are_text(void **state)
{
    (void)state;
    static const test_token_t none[] = {
        {"<unk>", 0, 2}, {"<s>", 0, CONTROL}, {"</s>", 0, CONTROL}, {"a", -1, TEXT}};
    with_vocabulary(none, COUNT(none));
}

// Where the vocabulary has the mark, the same letters are words: a model that tells of <think> does not think.
static void words_that_look_like_marks(void **state)
{
    (void)state;
    or_vocab_t *vocab = NULL;
    const or_chat_t *chat = NULL;
    or_chat_reader_t reader;
    parts_t parts = {0};
    assert_int_equal(test_make_vocab(with_marks, COUNT(with_marks),
                                     TEST_WITH_BOS_EOS | TEST_WITH_UNKNOWN | TEST_WITH_BYTES,
                                     &vocab),
                     OR_OK);
    assert_int_equal(or_chat_by_name("qwen3", &chat), OR_OK);
    or_chat_reader_init(&reader, chat, NULL, OR_THINKING_USUAL, vocab);
    assert_int_equal(or_chat_reader_text(&reader, "<think>", 7, take, &parts), OR_OK);
    assert_int_equal(or_chat_reader_finish(&reader, take, &parts), OR_OK);
    assert_string_equal(parts.text[OR_CHAT_ANSWER], "<think>");
    or_vocab_destroy(&vocab);
}

// What is no conversation has no parts.
static void a_text_is_an_answer(void **state)
{
    (void)state;
    or_chat_reader_t reader;
    parts_t parts = {0};
    or_chat_reader_init(&reader, NULL, NULL, OR_THINKING_USUAL, NULL);
    assert_int_equal(or_chat_reader_text(&reader, "\n<think>a", 9, take, &parts), OR_OK);
    assert_int_equal(or_chat_reader_finish(&reader, take, &parts), OR_OK);
    assert_string_equal(parts.text[OR_CHAT_ANSWER], "\n<think>a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_that_are_tokens),
        cmocka_unit_test(marks_that_are_text),
        cmocka_unit_test(words_that_look_like_marks),
        cmocka_unit_test(a_text_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
