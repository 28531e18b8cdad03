// Goal: an answer for which there was not memory enough is none: no event and no whole answer lacks a word, an entry or a member.
// Method: a text with everything that can be said of it, as events and as one answer, in several shapes; for every n the nth
// allocation fails, libjansson's included, and what comes out is compared with what comes out in peace.
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "coordinator/http/api/api_reply.h"
#include "tests/support/short_memory.h"
#include "tests/support/test_support.h"

#define SAID_BYTES 16384u
#define DELTAS 2u

static const test_token_t tokens[] = {
    {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1, 1}, {"b", -2, 1}};
#define VOCAB_SIZE 5u

static const uint32_t ids[] = {3, 4};
static const uint64_t ends[] = {1, 2};
static const uint8_t origins[] = {0, 1};
static const float best[] = {-0.5F};
static const uint32_t top[] = {4};
static const or_token_logprob_t logprobs[] = {{3, -1, top, best, 1}, {4, -2, top, best, 1}};
static const uint32_t back[] = {1, 1}, accepted[] = {0};
static const or_draft_tree_t tree = {.tokens = ids, .back = back, .count = 2};

typedef struct {
    or_api_request_t request;
    or_api_prompt_t prompt;
    or_api_head_t head;
    or_api_choice_t choice;
    char said[SAID_BYTES];
} world_t;

static const struct {
    bool chat, logprobs, details, echo, usage;
} shapes[] = {
    {.echo = true, .usage = true},
    {.logprobs = true, .details = true, .usage = true},
    {.chat = true, .logprobs = true, .details = true},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static void begin(world_t *world, const or_vocab_t *vocab, size_t shape)
{
    *world = (world_t){.prompt = {.tokens = ids, .count = 2}};
    world->request = (or_api_request_t){.chat = shapes[shape].chat,
                                        .n = 1,
                                        .prompt_count = 1,
                                        .prompts = &world->prompt,
                                        .logprobs = shapes[shape].logprobs,
                                        .top_logprobs = shapes[shape].logprobs,
                                        .details = shapes[shape].details,
                                        .include_usage = shapes[shape].usage,
                                        .echo = shapes[shape].echo};
    world->head = (or_api_head_t){
        .request = &world->request, .vocab = vocab, .model = "tales", .number = 7, .created = 9};
    or_api_choice_init(&world->choice, &world->head, 0);
}

static or_generate_delta_t delta_of(uint32_t index)
{
    return (or_generate_delta_t){.text = (const uint8_t *)&"ab"[index],
                                 .text_bytes = 1,
                                 .text_offset = index,
                                 .tokens = &ids[index],
                                 .count = 1,
                                 .origins = &origins[index],
                                 .origin_count = 1,
                                 .token_ends = &ends[index],
                                 .token_end_count = 1,
                                 .logprobs = &logprobs[index],
                                 .logprob_count = 1,
                                 .tree = &tree,
                                 .tree_accepted = accepted,
                                 .tree_accepted_count = 1,
                                 .finish = index + 1 == DELTAS ? OR_FINISH_STOP : OR_FINISH_NONE,
                                 .arith_id = "canonical-2",
                                 .seed = 5};
}

// Says an event, or none; false if there is no more of them.
static bool say(world_t *world, char *data)
{
    if (data == NULL) {
        return false;
    }
    strcat(strcat(world->said, data), "\n");
    free(data);
    return true;
}

// All events until one could not be made; false if that is so.
static bool stream(world_t *world)
{
    bool whole = true;
    for (uint32_t i = 0; i < DELTAS && whole; i++) {
        const or_generate_delta_t delta = delta_of(i);
        json_t *chunks[OR_API_CHUNKS_MAX];
        uint32_t count;
        if (or_api_chunks(&world->head, &world->choice, &delta, chunks, &count) != OR_OK) {
            return false;
        }
        for (uint32_t at = 0; at < count; at++) {
            char *data = or_api_dump(chunks[at]);
            if (whole) {
                whole = say(world, data);
            } else {
                free(data);
            }
        }
    }
    return whole && say(world, or_api_dump(or_api_usage_chunk(&world->head, &world->choice, 1)));
}

static bool gather(world_t *world)
{
    size_t bytes;
    for (uint32_t i = 0; i < DELTAS; i++) {
        const or_generate_delta_t delta = delta_of(i);
        if (or_api_gather(&world->head, &world->choice, &delta) != OR_OK) {
            return false;
        }
    }
    return say(world, or_api_whole(&world->head, &world->choice, 1, &bytes));
}

// The work once, while the nth allocation fails (0: none does).
static bool do_short_of(world_t *world, bool (*work)(world_t *), uint64_t nth)
{
    short_memory_arm(nth);
    short_memory_watch(true);
    bool whole = work(world);
    short_memory_watch(false);
    (void)or_api_json_has_failed();
    or_api_choice_fini(&world->choice);
    return whole;
}

static void check(bool (*work)(world_t *))
{
    static world_t right, world;
    or_vocab_t *vocab;
    assert_int_equal(
        test_make_vocab(tokens, VOCAB_SIZE, TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS, &vocab), OR_OK);
    for (size_t shape = 0; shape < SHAPES; shape++) {
        begin(&right, vocab, shape);
        assert_true(do_short_of(&right, work, 0));
        uint64_t all = short_memory_counted();
        assert_true(all > 50); // libjansson's, too
        for (uint64_t nth = 1; nth <= all; nth++) {
            begin(&world, vocab, shape);
            bool whole = do_short_of(&world, work, nth);
            size_t length = strlen(world.said);
            if (whole ? strcmp(world.said, right.said) != 0
                      : strncmp(world.said, right.said, length) != 0) {
                fail_msg("shape %zu, allocation %d of %d: said %s", shape, (int)nth, (int)all,
                         world.said);
            }
        }
    }
    or_vocab_destroy(&vocab);
}

static void events_are_right_or_none(void **state)
{
    (void)state;
    check(stream);
}

static void whole_answers_are_right_or_none(void **state)
{
    (void)state;
    check(gather);
}

static void a_body_is_not_called_wrong_for_want_of_memory(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"stop\":[\"b\",\"c\"],\"n\":2}";
    json_t *root = NULL;
    for (uint64_t nth = 1; root == NULL; nth++) {
        or_api_problem_t problem;
        short_memory_arm(nth);
        short_memory_watch(true);
        root = or_api_body_parse((const uint8_t *)body, sizeof body - 1, &problem);
        short_memory_watch(false);
        assert_true(root != NULL || problem.status == 500);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_right_or_none),
        cmocka_unit_test(whole_answers_are_right_or_none),
        cmocka_unit_test(a_body_is_not_called_wrong_for_want_of_memory),
    };
    or_api_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
