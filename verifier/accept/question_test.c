// Goal: of a drafter's answer only what was asked for, and what can be, is taken; until then the
// question stays open, and the distribution it keeps is the one it was given.
// Method: a distribution in a sampler's order; good answers, and every way of spoiling one.
#include "verifier/accept/question.h"

#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"

#define VOCAB 8
#define NODE 3
#define GUESS 5

static const int32_t ids[] = {6, 1, 5, 2};
static const double weights[] = {1, 0.5, 0.25,
                                 0}; // what underflows is still one of the distribution's

static int setup(void **state)
{
    static or_question_t question;
    int32_t given[4];
    double shares[4];
    memcpy(given, ids, sizeof given);
    memcpy(shares, weights, sizeof shares);
    const or_distribution_t dist = {.ids = given, .weights = shares, .count = 4};
    if (or_question_init(&question, VOCAB) != OR_OK) {
        return -1;
    }
    or_question_ask(&question, NODE, &dist);
    memset(given, -1, sizeof given); // it is a copy
    memset(shares, -1, sizeof shares);
    *state = &question;
    return 0;
}

static int teardown(void **state)
{
    or_question_fini(*state);
    return 0;
}

static or_status_t answer(or_question_t *question, const uint32_t *tokens, const double *psi,
                          uint32_t count)
{
    const or_psi_reply_t reply = {.node = NODE, .tokens = tokens, .psi = psi, .count = count};
    return or_question_answer(question, &reply, GUESS, 0.25);
}

static void the_distribution_is_kept_in_order(void **state)
{
    const or_question_t *question = *state;
    static const int32_t in_order[] = {1, 2, 5, 6};
    static const double theirs[] = {0.5, 0, 0.25, 1};
    or_distribution_t dist = or_question_distribution(question);
    or_psi_request_t request = or_question_request(question);
    assert_int_equal(question->state, OR_QUESTION_ASKED);
    assert_int_equal(dist.count, 4);
    assert_memory_equal(dist.ids, in_order, sizeof in_order);
    assert_memory_equal(dist.weights, theirs, sizeof theirs);
    assert_int_equal(request.node, NODE);
    assert_int_equal(request.count, 4);
    assert_memory_equal(request.tokens, in_order, sizeof in_order);
}

static void a_whole_vocabulary_is_not_listed(void **state)
{
    or_question_t *question = *state;
    static const int32_t all[VOCAB] = {7, 6, 5, 4, 3, 2, 1, 0};
    static const double even[VOCAB] = {1, 1, 1, 1, 1, 1, 1, 1};
    or_question_ask(question, 0, &(or_distribution_t){.ids = all, .weights = even, .count = VOCAB});
    assert_int_equal(or_question_request(question).count, 0);
    assert_int_equal(or_question_distribution(question).count, VOCAB);
}

static void what_an_answer_leaves_out_is_0(void **state)
{
    or_question_t *question = *state;
    static const uint32_t tokens[] = {2, 5};
    static const double psi[] = {0.75, 0.25}, spread[] = {0, 0.75, 0.25, 0};
    assert_int_equal(answer(question, tokens, psi, 2), OR_OK);
    assert_int_equal(question->state, OR_QUESTION_ANSWERED);
    assert_memory_equal(question->psi, spread, sizeof spread);
}

// The guess may be none of the target's: then there is nothing to compare.
static void a_guess_outside_the_distribution_is_not_looked_for(void **state)
{
    or_question_t *question = *state;
    const or_psi_reply_t nothing = {.node = NODE};
    assert_int_equal(or_question_answer(question, &nothing, VOCAB, 0), OR_OK);
    assert_int_equal(question->state, OR_QUESTION_ANSWERED);
}

static void a_spoilt_answer_leaves_the_question_open(void **state)
{
    or_question_t *question = *state;
    static const struct {
        uint32_t tokens[3];
        double psi[3];
        const char *reason;
    } spoilt[] = {
        {{1, 6, 5}, {0.1, 0.1, 0.25}, "ascend"},
        {{1, 5, 5}, {0.1, 0.25, 0.25}, "ascend"},
        {{1, 3, 5}, {0.1, 0.1, 0.25}, "token 3 was not asked for"},
        {{1, 5, 8}, {0.1, 0.25, 0.1}, "token 8 was not asked for"},
        {{1, 5, UINT32_MAX}, {0.1, 0.25, 0.1}, "was not asked for"},
        {{1, 5, 6}, {-0.1, 0.25, 0.1}, "no probability"},
        {{1, 5, 6}, {1.1, 0.25, 0.1}, "no probability"},
        {{1, 5, 6}, {NAN, 0.25, 0.1}, "no probability"},
        {{1, 5, 6}, {INFINITY, 0.25, 0.1}, "no probability"},
        {{1, 5, 6}, {0.5, 0.25, 0.25001}, "adds up"},
        {{1, 5, 6}, {0.1, 0.25000000000000006, 0.1}, "guessed with"}, // one bit
        {{1, 2, 6}, {0.1, 0.25, 0.1}, "guessed with"},                // the guess is left out
    };
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        assert_int_equal(answer(question, spoilt[i].tokens, spoilt[i].psi, 3), OR_ERR_INVALID);
        if (strstr(or_error_text(), spoilt[i].reason) == NULL) {
            fail_msg("'%s' does not say '%s'", or_error_text(), spoilt[i].reason);
        }
        assert_int_equal(question->state, OR_QUESTION_ASKED);
    }
    static const uint32_t tokens[] = {1, 5, 6};
    static const double psi[] = {0.5, 0.25, 0.25};
    const or_psi_reply_t elsewhere = {.node = NODE + 1, .tokens = tokens, .psi = psi, .count = 3};
    assert_int_equal(or_question_answer(question, &elsewhere, GUESS, 0.25), OR_ERR_INVALID);
    assert_int_equal(answer(question, tokens, psi, 3), OR_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_distribution_is_kept_in_order),
        TEST(a_whole_vocabulary_is_not_listed),
        TEST(what_an_answer_leaves_out_is_0),
        TEST(a_guess_outside_the_distribution_is_not_looked_for),
        TEST(a_spoilt_answer_leaves_the_question_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
