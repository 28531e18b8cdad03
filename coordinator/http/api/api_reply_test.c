// Goal: deltas become OpenAI's objects: roles first, ends last, text that is always UTF-8 and all there, and places that lead back.
// Method: deltas by hand, cut anywhere; the chunks' texts against the whole one's.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "coordinator/http/api/api_event_id.h"
#include "coordinator/http/api/api_reply.h"
#include "tests/support/test_support.h"

static const test_token_t tokens[] = {
    {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1, 1}, {"b", -2, 1}};
#define VOCAB_SIZE 5u

// "a", a euro sign, a byte that is none, "b", the beginning of a character.
#define BYTES                                                                                      \
    "a\xE2\x82\xAC\xFF"                                                                            \
    "b\xF0\x9F"
#define CLEAN                                                                                      \
    "a\xE2\x82\xAC\xEF\xBF\xBD"                                                                    \
    "b\xEF\xBF\xBD"

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
    unsigned wish = TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS;
    assert_int_equal(test_make_vocab(tokens, VOCAB_SIZE, wish, &world.vocab), OR_OK);
    world.request = (or_api_request_t){.n = 1, .prompt_count = 1, .prompts = &world.prompt};
    world.head = (or_api_head_t){.request = &world.request,
                                 .vocab = world.vocab,
                                 .model = "tales",
                                 .number = 7,
                                 .created = 9};
    or_api_choice_init(&world.choice, &world.head, 0);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    world_t *world = *state;
    or_api_choice_fini(&world->choice);
    or_vocab_destroy(&world->vocab);
    return 0;
}

static or_generate_delta_t delta_of(const char *bytes, size_t count, bool end)
{
    return (or_generate_delta_t){.text = (const uint8_t *)bytes,
                                 .text_bytes = (uint32_t)count,
                                 .finish = end ? OR_FINISH_STOP : OR_FINISH_NONE,
                                 .arith_id = "canonical-2",
                                 .seed = 5};
}

// Append the text of a delta's chunks; how many there were.
static uint32_t add_chunks(world_t *world, const or_generate_delta_t *delta, char *text)
{
    json_t *chunks[OR_API_CHUNKS_MAX];
    uint32_t count;
    assert_int_equal(or_api_chunks(&world->head, &world->choice, delta, chunks, &count), OR_OK);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *choice = json_array_get(json_object_get(chunks[i], "choices"), 0);
        const json_t *part = json_object_get(choice, "text");
        if (world->request.chat) {
            part = json_object_get(json_object_get(choice, "delta"), "content");
        }
        strcat(text, part != NULL ? json_string_value(part) : "");
        json_decref(chunks[i]);
    }
    return count;
}

static void text_is_utf8_wherever_it_is_cut(void **state)
{
    world_t *world = *state;
    size_t length = sizeof BYTES - 1;
    for (size_t a = 0; a <= length; a++) {
        for (size_t b = a; b <= length; b++) {
            char text[64] = "";
            const or_generate_delta_t parts[] = {delta_of(BYTES, a, false),
                                                 delta_of(&BYTES[a], b - a, false),
                                                 delta_of(&BYTES[b], length - b, true)};
            for (size_t i = 0; i < 3; i++) {
                add_chunks(world, &parts[i], text);
            }
            assert_string_equal(text, CLEAN);
        }
    }
}

static void a_chat_begins_with_its_role_and_ends_empty(void **state)
{
    world_t *world = *state;
    char text[64] = "";
    world->request.chat = true;
    const or_generate_delta_t delta = delta_of("ab", 2, true);
    json_t *chunks[OR_API_CHUNKS_MAX];
    uint32_t count;
    assert_int_equal(or_api_chunks(&world->head, &world->choice, &delta, chunks, &count), OR_OK);
    assert_int_equal(count, 3);
    const json_t *first = json_array_get(json_object_get(chunks[0], "choices"), 0);
    const json_t *last = json_array_get(json_object_get(chunks[2], "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(first, "delta"), "role")),
                        "assistant");
    assert_int_equal(json_object_size(json_object_get(last, "delta")), 0);
    assert_string_equal(json_string_value(json_object_get(last, "finish_reason")), "stop");
    assert_string_equal(json_string_value(json_object_get(chunks[2], "id")),
                        "chatcmpl-0000000000000007");
    for (uint32_t i = 0; i < count; i++) {
        json_decref(chunks[i]);
    }
    add_chunks(world, &(or_generate_delta_t){.finish = OR_FINISH_NONE, .arith_id = ""}, text);
    assert_string_equal(text, "");
}

// Valid JSON, for the caller to free.
static char *whole_of(const world_t *world)
{
    size_t bytes = 0;
    char *text = or_api_whole(&world->head, &world->choice, 1, &bytes);
    json_t *whole = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(whole));
    assert_int_equal(bytes, strlen(text));
    assert_true(bytes <= or_api_whole_bytes(&world->choice, 1));
    json_decref(whole);
    return text;
}

// The words of one part of a chat's streamed deltas.
static void add_words(world_t *world, const or_generate_delta_t *delta, const char *part,
                      char *text)
{
    json_t *chunks[OR_API_CHUNKS_MAX];
    uint32_t count;
    assert_int_equal(or_api_chunks(&world->head, &world->choice, delta, chunks, &count), OR_OK);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *choice = json_array_get(json_object_get(chunks[i], "choices"), 0);
        const json_t *words = json_object_get(json_object_get(choice, "delta"), part);
        strcat(text, words != NULL ? json_string_value(words) : "");
        json_decref(chunks[i]);
    }
}

// "Hmé" is a thought and "Hi" the answer, in two deltas that are cut at every byte. A character that is cut is whole.
static void thoughts_stand_beside_the_answer(void **state)
{
    world_t *world = *state;
    static const char text[] = "HméHi";
    static const uint64_t changes[] = {0, 4};
    static const char *const parts[] = {"reasoning_content", "content"};
    static const char *const words[] = {"Hmé", "Hi"};
    world->request.chat = true;
    for (size_t cut = 0; cut <= sizeof text - 1; cut++) {
        or_generate_delta_t deltas[] = {delta_of(text, cut, false),
                                        delta_of(text + cut, sizeof text - 1 - cut, true)};
        deltas[0].part_changes = deltas[1].part_changes = changes;
        deltas[0].part_change_count = deltas[1].part_change_count = 2;
        deltas[1].text_offset = cut;
        for (size_t part = 0; part < 2; part++) {
            char streamed[64] = "";
            add_words(world, &deltas[0], parts[part], streamed);
            add_words(world, &deltas[1], parts[part], streamed);
            assert_string_equal(streamed, words[part]);
            or_api_choice_fini(&world->choice);
            or_api_choice_init(&world->choice, &world->head, 0);
        }
        assert_int_equal(or_api_gather(&world->head, &world->choice, &deltas[0]), OR_OK);
        assert_int_equal(or_api_gather(&world->head, &world->choice, &deltas[1]), OR_OK);
        char *dump = whole_of(world);
        assert_non_null(strstr(dump, "\"content\":\"Hi\""));
        assert_non_null(strstr(dump, "\"reasoning_content\":\"Hmé\""));
        free(dump);
        or_api_choice_fini(&world->choice);
        or_api_choice_init(&world->choice, &world->head, 0);
    }
}

static void a_whole_answer_is_what_its_deltas_were(void **state)
{
    world_t *world = *state;
    world->request.logprobs = true;
    world->request.top_logprobs = 1;
    const uint32_t ids[] = {3, 4, 2};
    const uint32_t top[] = {4};
    const float best[] = {-0.5F};
    const or_token_logprob_t logprobs[] = {
        {3, -1, top, best, 1}, {4, -INFINITY, top, best, 1}, {2, -1, top, best, 1}};
    or_generate_delta_t delta = delta_of("a", 1, false), end = delta_of("b", 1, true);
    delta.tokens = ids, delta.count = delta.logprob_count = 1, delta.logprobs = logprobs;
    end.tokens = ids + 1, end.count = end.logprob_count = 2, end.logprobs = logprobs + 1;
    end.stats = (or_generate_stats_t){.prompt_tokens = 6,
                                      .prompt_reused = 2,
                                      .completion_tokens = 3,
                                      .drafted = 8,
                                      .accepted = 1};
    assert_int_equal(or_api_gather(&world->head, &world->choice, &delta), OR_OK);
    assert_int_equal(or_api_gather(&world->head, &world->choice, &end), OR_OK);
    char *dump = whole_of(world);
    assert_non_null(strstr(dump, "\"text\":\"ab\""));
    // The end token is no part of the text; what cannot be is very unlikely.
    assert_non_null(strstr(dump, "\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-1.0,-9999.0]"));
    assert_non_null(strstr(
        dump, "\"top_logprobs\":[{\"b\":-0.5,\"a\":-1.0},{\"b\":-0.5}],\"text_offset\":[0,1]"));
    assert_non_null(strstr(dump, "\"prompt_tokens\":6,\"completion_tokens\":3,\"total_tokens\":9"));
    assert_non_null(strstr(dump, "\"cached_tokens\":2"));
    assert_non_null(strstr(dump, "\"draft_n\":8,\"draft_n_accepted\":1"));
    free(dump);
}

// A prompt that is echoed is gathered with the text, and each of its bytes may become six.
static void an_echo_is_gathered(void **state)
{
    world_t *world = *state;
    static uint8_t prompt[5000];
    memset(prompt, 1, sizeof prompt);
    world->request.echo = true;
    world->prompt = (or_api_prompt_t){.text = prompt, .bytes = sizeof prompt};
    const or_generate_delta_t delta = delta_of("a", 1, false), end = delta_of("b", 1, true);
    assert_int_equal(or_api_gather(&world->head, &world->choice, &delta), OR_OK);
    assert_int_equal(or_api_gather(&world->head, &world->choice, &end), OR_OK);
    assert_true(or_api_gathered_bytes(&world->choice) > sizeof prompt);
    char *dump = whole_of(world);
    assert_true(strlen(dump) > 6 * sizeof prompt);
    assert_non_null(strstr(dump, "\"text\":\"\\u0001\\u0001"));
    assert_non_null(strstr(dump, "\\u0001ab\""));
    free(dump);
}

// "ab|ba", the end at "|": in one delta with all tokens, or with tokens that had come before.
static void tokens_end_where_the_text_does(void **state)
{
    world_t *world = *state;
    const uint32_t ids[] = {3, 4, 4, 3};
    const uint8_t origins[] = {0, 1, 1, 0};
    const uint64_t ends[] = {1, 2, 3, 4}, cut[] = {1, 2, 2, 2};
    world->request.details = true;
    for (uint32_t early = 0; early <= 4; early++) {
        uint32_t told =
            early < 2 ? early : 2; // the rest of the text is held back: it may be a stop's
        or_generate_delta_t delta = delta_of("ab", told, false),
                            end = delta_of(&"ab"[told], 2 - told, true);
        delta.tokens = ids, delta.origins = origins, delta.token_ends = ends;
        delta.count = delta.origin_count = delta.token_end_count = early;
        end.tokens = ids + early, end.origins = origins + early, end.token_ends = cut + early;
        end.count = end.origin_count = end.token_end_count = 4 - early;
        end.text_offset = told;
        assert_int_equal(or_api_gather(&world->head, &world->choice, &delta), OR_OK);
        assert_int_equal(or_api_gather(&world->head, &world->choice, &end), OR_OK);
        char *dump = whole_of(world);
        assert_non_null(strstr(dump, "\"tokens\":[{\"id\":3,\"text\":\"a\",\"drafted\":false},"
                                     "{\"id\":4,\"text\":\"b\",\"drafted\":true}]"));
        free(dump);
        or_api_choice_fini(&world->choice);
        or_api_choice_init(&world->choice, &world->head, 0);
    }
}

static double timing(world_t *world, const or_generate_stats_t *stats, const char *name)
{
    world->choice.stats = *stats;
    char *dump = whole_of(world);
    json_t *whole = json_loads(dump, 0, NULL);
    free(dump);
    double number = json_number_value(json_object_get(json_object_get(whole, "timings"), name));
    json_decref(whole);
    return number;
}

// The first of four rounds reads the prompt, too: 40 ms, and the others 10 ms each.
static void rates_are_of_the_tokens_they_count(void **state)
{
    world_t *world = *state;
    or_generate_stats_t stats = {.prompt_tokens = 9,
                                 .completion_tokens = 8,
                                 .target_calls = 4,
                                 .queue_us = 500000,
                                 .first_token_us = 40000,
                                 .round_us = 30000,
                                 .elapsed_us = 70000};
    assert_true(timing(world, &stats, "predicted_ms") == 40);
    assert_true(timing(world, &stats, "prompt_ms") == 30);
    assert_true(timing(world, &stats, "predicted_per_second") == 200);
    assert_true(timing(world, &stats, "queue_ms") == 500);
    stats.resumed_tokens = 1; // another coordinator counted it, and read the prompt
    assert_true(timing(world, &stats, "predicted_per_second") == 100);
    assert_true(timing(world, &stats, "predicted_n") == 8);
    stats = (or_generate_stats_t){
        .completion_tokens = 4, .target_calls = 1, .first_token_us = 40000, .elapsed_us = 40014};
    assert_true(timing(world, &stats, "predicted_per_second") == 0);
    assert_true(timing(world, &stats, "predicted_ms") == 0);
}

static void an_end_is_told_once(void **state)
{
    world_t *world = *state;
    const or_generate_delta_t end = delta_of("", 0, true);
    char text[64] = "";
    world->choice.begun = world->choice.end_told = true;
    assert_int_equal(add_chunks(world, &end, text), 0);
    world->choice.end_told = false;
    assert_int_equal(add_chunks(world, &end, text), 1);
}

static void places_lead_back(void **state)
{
    (void)state;
    or_api_event_id_t id = {.tokens = INT32_MAX,
                            .text_bytes = UINT32_MAX,
                            .characters = UINT32_MAX - 1,
                            .number = 3,
                            .created = 1700000000,
                            .request = or_api_event_request(true, (const uint8_t *)"a", 1),
                            .said = OR_API_SAID_USAGE};
    memset(id.secret, 0xA5, sizeof id.secret);
    or_api_event_id_t back = {0};
    char text[OR_API_EVENT_ID_BYTES], again[OR_API_EVENT_ID_BYTES];
    or_api_event_id_format(&id, text);
    assert_int_equal(strlen(text), OR_API_EVENT_ID_BYTES - 1);
    assert_true(or_api_event_id_parse(text, &back));
    or_api_event_id_format(&back, again);
    assert_string_equal(text, again);
    assert_memory_equal(back.secret, id.secret, sizeof id.secret);
    assert_true(back.tokens == id.tokens && back.text_bytes == id.text_bytes);
    assert_true(back.characters == id.characters && back.number == id.number);
    assert_true(back.created == id.created && back.request == id.request && back.said == id.said);
    assert_int_not_equal(id.request, or_api_event_request(false, (const uint8_t *)"a", 1));
    assert_int_not_equal(id.request, or_api_event_request(true, (const uint8_t *)"b", 1));
    text[3] = '!';
    assert_false(or_api_event_id_parse(text, &back));
    assert_false(or_api_event_id_parse("", &back));
}

// 5 other tokens each: 3 KB as objects.
static void logprobs_cost_what_they_are_in_json(void **state)
{
    world_t *world = *state;
    world->request.logprobs = world->request.chat = true;
    world->request.top_logprobs = 5;
    const uint32_t top[] = {3, 4, 3, 4, 3};
    const float best[] = {-0.123456789F, -1.23456789F, -2.3456789F, -3.456789F, -4.56789F};
    const or_token_logprob_t logprob = {3, -0.123456789F, top, best, 5};
    for (uint32_t i = 0; i < 1000; i++) {
        or_generate_delta_t delta = delta_of("a", 1, i == 999);
        delta.tokens = top, delta.count = delta.logprob_count = 1, delta.logprobs = &logprob;
        assert_int_equal(or_api_gather(&world->head, &world->choice, &delta), OR_OK);
    }
    assert_in_range(or_api_gathered_bytes(&world->choice), 100u * 1000, 700u * 1000);
    char *text = whole_of(world);
    json_t *whole = json_loads(text, 0, NULL);
    json_t *one = json_array_get(json_object_get(whole, "choices"), 0);
    assert_int_equal(json_array_size(json_object_get(json_object_get(one, "logprobs"), "content")),
                     1000);
    json_decref(whole);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_utf8_wherever_it_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chat_begins_with_its_role_and_ends_empty, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(logprobs_cost_what_they_are_in_json, setup, teardown),
        cmocka_unit_test_setup_teardown(thoughts_stand_beside_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_whole_answer_is_what_its_deltas_were, setup, teardown),
        cmocka_unit_test_setup_teardown(an_echo_is_gathered, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_end_where_the_text_does, setup, teardown),
        cmocka_unit_test_setup_teardown(rates_are_of_the_tokens_they_count, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_is_told_once, setup, teardown),
        cmocka_unit_test(places_lead_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
