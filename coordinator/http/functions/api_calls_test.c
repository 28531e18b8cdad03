// Goal: calls of tools in an answer become OpenAI's "tool_calls", streamed and whole, wherever the text is cut into deltas; what is no call
// is content, all of it and in order.
// Method: deltas by hand with the places of calls, cut at every byte; the accumulated stream against the whole answer.
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "coordinator/http/api/api_reply.h"
#include "tests/support/test_support.h"

static const test_token_t tokens[] = {{"<unk>", 0, 2}, {"<s>", 0, 3},          {"</s>", 0, 3},
                                      {"a", -1, 1},    {"[TOOL_CALLS]", 0, 3}, {"b", -2, 1}};

typedef struct {
    or_vocab_t *vocab;
    or_api_request_t request;
    or_api_prompt_t prompt;
    or_api_head_t head;
    or_api_choice_t choice;
} world_t;

static int setup(void **state)
{
    static world_t world;
    world = (world_t){0};
    assert_int_equal(test_make_vocab(tokens, sizeof tokens / sizeof *tokens,
                                     TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS, &world.vocab),
                     OR_OK);
    world.request = (or_api_request_t){.chat = true,
                                       .n = 1,
                                       .prompt_count = 1,
                                       .prompts = &world.prompt,
                                       .tools = or_chat_tools_by_name("qwen3")};
    world.head = (or_api_head_t){
        .request = &world.request, .vocab = world.vocab, .model = "tales", .number = 7};
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    world_t *world = *state;
    or_vocab_destroy(&world->vocab);
    return 0;
}

#define CALL(name)                                                                                 \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": {\"a\": \"é\"}}\n</tool_call>"

// The places of a text's calls, as the coordinator's reader of the format notes them.
static uint32_t find_calls(const char *text, uint64_t changes[8])
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, "<tool_call>")) != NULL;) {
        const char *end = strstr(at, "</tool_call>");
        changes[count++] = (uint64_t)(at - text);
        if (end == NULL) {
            break;
        }
        at = end + 12;
        if (*at != '\0') {
            changes[count++] = (uint64_t)(at - text);
        }
    }
    return count;
}

static or_generate_delta_t delta_of(const char *text, size_t from, size_t until, bool end,
                                    uint64_t changes[8])
{
    return (or_generate_delta_t){.text = (const uint8_t *)text + from,
                                 .text_bytes = (uint32_t)(until - from),
                                 .text_offset = from,
                                 .call_changes = changes,
                                 .call_change_count = find_calls(text, changes),
                                 .finish = end ? OR_FINISH_STOP : OR_FINISH_NONE,
                                 .arith_id = "canonical-2"};
}

// What a client makes of a stream.
typedef struct {
    char content[1024], names[64], arguments[256], id[2][16];
    size_t calls;
    const char *finish;
} heard_t;

static void hear_calls(const json_t *calls, heard_t *heard)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i),
                     *function = json_object_get(call, "function");
        const json_t *index = json_object_get(call, "index");
        assert_true(index == NULL || json_integer_value(index) == (json_int_t)heard->calls);
        assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
        strcat(heard->names, json_string_value(json_object_get(function, "name")));
        strcat(heard->arguments, json_string_value(json_object_get(function, "arguments")));
        strcpy(heard->id[heard->calls++ % 2], json_string_value(json_object_get(call, "id")));
    }
}

static void hear(world_t *world, const or_generate_delta_t *delta, heard_t *heard)
{
    json_t *chunks[OR_API_CHUNKS_MAX];
    uint32_t count;
    assert_int_equal(or_api_chunks(&world->head, &world->choice, delta, chunks, &count), OR_OK);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *choice = json_array_get(json_object_get(chunks[i], "choices"), 0);
        const json_t *words = json_object_get(choice, "delta");
        const json_t *content = json_object_get(words, "content");
        const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
        assert_true(content == NULL || json_is_string(content));
        strcat(heard->content, content != NULL ? json_string_value(content) : "");
        hear_calls(json_object_get(words, "tool_calls"), heard);
        if (finish != NULL) {
            heard->finish = strcmp(finish, "stop") == 0 ? "stop" : "tool_calls";
            assert_string_equal(finish, heard->finish);
        }
        json_decref(chunks[i]);
    }
}

static json_t *whole_of(world_t *world)
{
    size_t bytes;
    char *text = or_api_whole(&world->head, &world->choice, 1, &bytes);
    assert_non_null(text);
    json_t *whole = json_loadb(text, bytes, 0, NULL);
    assert_non_null(whole);
    free(text);
    return whole;
}

static void assert_whole(world_t *world, const char *text, const heard_t *streamed)
{
    uint64_t changes[8];
    const or_generate_delta_t all = delta_of(text, 0, strlen(text), true, changes);
    heard_t heard = {0};
    or_api_choice_init(&world->choice, &world->head, 0);
    assert_int_equal(or_api_gather(&world->head, &world->choice, &all), OR_OK);
    json_t *whole = whole_of(world);
    const json_t *choice = json_array_get(json_object_get(whole, "choices"), 0);
    const json_t *message = json_object_get(choice, "message");
    const json_t *content = json_object_get(message, "content");
    const json_t *calls = json_object_get(message, "tool_calls");
    hear_calls(calls, &heard);
    assert_true(calls == NULL || json_object_get(json_array_get(calls, 0), "index") == NULL);
    assert_int_equal(json_is_null(content), heard.calls > 0 && streamed->content[0] == '\0');
    assert_string_equal(json_is_null(content) ? "" : json_string_value(content), streamed->content);
    assert_string_equal(heard.names, streamed->names);
    assert_string_equal(heard.arguments, streamed->arguments);
    assert_string_equal(heard.id[0], streamed->id[0]);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")),
                        streamed->finish);
    json_decref(whole);
    or_api_choice_fini(&world->choice);
}

static void calls_are_the_same_wherever_the_text_is_cut(void **state)
{
    world_t *world = *state;
    static const struct {
        const char *text, *content, *names;
    } cases[] = {
        {CALL("f"), "", "f"},
        {"Sé. " CALL("f") "\n" CALL("g") " \n", "Sé. ", "fg"},
        {CALL("f") CALL("g") "\n so", "so", "fg"},
        {"a <tool_call>no</tool_call> b " CALL("f") "c", "a <tool_call>no</tool_call> b c", "f"},
        {"a <tool_call>{\"name\": \"f\"", "a <tool_call>{\"name\": \"f\"", ""},
        {"no call", "no call", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t length = strlen(cases[i].text);
        for (size_t a = 0; a <= length; a++) {
            for (size_t b = a; b <= length; b += 3) {
                uint64_t changes[8];
                heard_t heard = {0};
                const or_generate_delta_t deltas[] = {
                    delta_of(cases[i].text, 0, a, false, changes),
                    delta_of(cases[i].text, a, b, false, changes),
                    delta_of(cases[i].text, b, length, true, changes)};
                or_api_choice_init(&world->choice, &world->head, 0);
                for (size_t k = 0; k < 3; k++) {
                    hear(world, &deltas[k], &heard);
                }
                or_api_choice_fini(&world->choice);
                assert_string_equal(heard.content, cases[i].content);
                assert_string_equal(heard.names, cases[i].names);
                assert_string_equal(heard.finish, heard.calls > 0 ? "tool_calls" : "stop");
                if (a == b) {
                    assert_whole(world, cases[i].text, &heard);
                }
            }
        }
    }
}

static void ids_and_the_number_of_calls(void **state)
{
    world_t *world = *state;
    static const char text[] = CALL("f") CALL("g");
    uint64_t changes[8];
    const or_generate_delta_t all = delta_of(text, 0, sizeof text - 1, true, changes);
    heard_t first = {0}, again = {0}, one = {0};
    or_api_choice_init(&world->choice, &world->head, 0);
    hear(world, &all, &first);
    or_api_choice_fini(&world->choice);
    assert_int_equal(strlen(first.id[0]), 9);
    assert_string_not_equal(first.id[0], first.id[1]);
    world->head.number++;
    or_api_choice_init(&world->choice, &world->head, 0);
    hear(world, &all, &again);
    or_api_choice_fini(&world->choice);
    assert_string_not_equal(first.id[0], again.id[0]);
    world->request.one_call = true;
    or_api_choice_init(&world->choice, &world->head, 0);
    hear(world, &all, &one);
    or_api_choice_fini(&world->choice);
    assert_int_equal(one.calls, 1);
    assert_string_equal(one.names, "f");
    assert_string_equal(one.content, "");
}

// Behind so many calls the places of others are not noted: what is no call there is content, and a thought stays one.
static void calls_are_found_without_their_places(void **state)
{
    world_t *world = *state;
    static const char text[] = CALL("f") " so " CALL("g") "Hm." CALL("h");
    const uint64_t thought = sizeof CALL("f") + sizeof CALL("g") + 2;
    const uint64_t places[] = {0}, thoughts[] = {thought, thought + 3};
    heard_t heard = {0};
    uint64_t changes[8];
    or_generate_delta_t all = delta_of(text, 0, sizeof text - 1, true, changes);
    all.call_changes = places;
    all.call_change_count = 1;
    all.part_changes = thoughts;
    all.part_change_count = 2;
    or_api_choice_init(&world->choice, &world->head, 0);
    hear(world, &all, &heard);
    or_api_choice_fini(&world->choice);
    assert_string_equal(heard.content, "so ");
    assert_string_equal(heard.names, "fgh");
}

// A mark that prints nothing is the text of its token, as the answer spells it out.
static void marks_have_the_origins_of_their_tokens(void **state)
{
    world_t *world = *state;
    static const uint32_t ids[] = {3, 1, 4, 5};
    static const uint64_t ends[] = {1, 1, 13, 14};
    static const uint8_t origins[] = {0, 1, 1, 0};
    uint64_t changes[] = {1};
    or_generate_delta_t all = {.text = (const uint8_t *)"a[TOOL_CALLS]b",
                               .text_bytes = 14,
                               .call_changes = changes,
                               .call_change_count = 1,
                               .tokens = ids,
                               .token_ends = ends,
                               .origins = origins,
                               .count = 4,
                               .token_end_count = 4,
                               .origin_count = 4,
                               .finish = OR_FINISH_STOP,
                               .arith_id = "canonical-2"};
    world->request.details = true;
    world->request.tools = or_chat_tools_by_name("mistral-nemo");
    or_api_choice_init(&world->choice, &world->head, 0);
    assert_int_equal(or_api_gather(&world->head, &world->choice, &all), OR_OK);
    size_t bytes;
    char *text = or_api_whole(&world->head, &world->choice, 1, &bytes);
    assert_non_null(text);
    assert_non_null(strstr(text, "[{\"id\":3,\"text\":\"a\",\"drafted\":false},"
                                 "{\"id\":1,\"text\":\"\",\"drafted\":true},"
                                 "{\"id\":4,\"text\":\"[TOOL_CALLS]\",\"drafted\":true},"
                                 "{\"id\":5,\"text\":\"b\",\"drafted\":false}]"));
    free(text);
    or_api_choice_fini(&world->choice);
}

// Text that waits for the end of a call does so up to a bound. Then it is text, and so is all that follows in it.
static void a_call_that_is_too_long_is_text(void **state)
{
    world_t *world = *state;
    const size_t step = 4096, length = OR_CHAT_CALL_BYTES_MAX + 4 * step + 100;
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, 'x', length);
    memcpy(text, "<tool_call>", 11);
    text[length] = '\0';
    size_t heard = 0;
    or_api_choice_init(&world->choice, &world->head, 0);
    for (size_t at = 0; at < length; at += step) {
        const size_t until = at + step < length ? at + step : length;
        uint64_t changes[8];
        const or_generate_delta_t delta = delta_of(text, at, until, until == length, changes);
        assert_int_equal(or_api_gather(&world->head, &world->choice, &delta), OR_OK);
        assert_true(world->choice.text.count == 0 || world->choice.text.count == until);
        assert_true(world->choice.call_text.count <= OR_CHAT_CALL_BYTES_MAX);
        heard = world->choice.text.count;
    }
    assert_int_equal(heard, length);
    assert_memory_equal(world->choice.text.bytes, text, length);
    assert_int_equal(world->choice.call_count, 0);
    or_api_choice_fini(&world->choice);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_are_the_same_wherever_the_text_is_cut, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(ids_and_the_number_of_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_are_found_without_their_places, setup, teardown),
        cmocka_unit_test_setup_teardown(marks_have_the_origins_of_their_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_that_is_too_long_is_text, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
