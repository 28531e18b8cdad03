#include "coordinator/http/api/api_request_test_support.h"

#include <string.h>

#include "common/text/text_test_support.h"
#include "tests/support/test_support.h"

static const test_token_t tokens[] = {
    {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1, 1}, {"b", -2, 1}};

int setup(void **state)
{
    static world_t world;
    world = (world_t){0};
    unsigned wish = TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS;
    assert_int_equal(test_make_vocab(tokens, VOCAB_SIZE, wish, &world.vocab), OR_OK);
    world.terms = (or_api_terms_t){.model = "tales.gguf", .vocab = world.vocab};
    *state = &world;
    return 0;
}

int teardown(void **state)
{
    world_t *world = *state;
    or_api_request_fini(&world->request);
    or_vocab_destroy(&world->vocab);
    return 0;
}

bool parse(world_t *world, bool chat, const char *body)
{
    or_api_request_fini(&world->request);
    world->problem = (or_api_problem_t){0};
    return or_api_request_parse(chat, (const uint8_t *)body, strlen(body), &world->terms,
                                &world->request, &world->problem);
}

void assert_refused(world_t *world, bool chat, const char *body, unsigned status, const char *param)
{
    assert_false(parse(world, chat, body));
    assert_int_equal(world->problem.status, status);
    assert_string_equal(world->problem.param, param);
    assert_true(strlen(world->problem.message) > 10);
}
