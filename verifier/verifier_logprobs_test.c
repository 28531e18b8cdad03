// Goal: a session that asks for log-probabilities gets them with every verdict, the same ones whether its tokens were
// guessed or not, and writes the same text as one that does not ask; the first verdict says what was reused.
// Method: the real role and model on a network in memory; the test plays the coordinator.
#include <string.h>

#include "verifier/verifier_test_support.h"

#define STEPS 3u
#define BEST 2u

static const uint32_t chain[] = {1, 1, 1, 1};

static or_open_session_t asking(uint32_t logprobs)
{
    or_open_session_t open = usual_terms();
    open.logprobs = logprobs;
    return open;
}

static void expect_entry(const or_token_logprob_t *entry, uint32_t token)
{
    assert_int_equal(entry->token, token);
    assert_int_equal(entry->top_count, BEST);
    assert_int_equal(entry->top_tokens[0], token); // temperature 0 takes the best
    assert_true(entry->top_logprobs[0] == entry->logprob);
    assert_true(entry->logprob < 0 && entry->top_logprobs[1] <= entry->logprob);
}

static void they_come_with_the_verdict_and_do_not_depend_on_guesses(void **state)
{
    bench_t *b = *state;
    uint32_t text[STEPS];
    or_message_t guessed, plain;
    greet_and_open(b, asking(BEST + 1));
    decode_plainly(b, STEPS, text);
    say(b, tree_of(1, text, chain, STEPS - 1));
    assert_int_equal(hear(b, &guessed), OR_MSG_VERDICT);
    const or_verdict_t *verdict = &guessed.body.verdict;
    assert_int_equal(verdict->accepted_count, STEPS - 1);
    assert_int_equal(verdict->logprob_count, STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        expect_entry(&verdict->logprobs[i], text[i]);
    }
    // Another session gets the same first token by a plain step.
    or_message_t open = {.type = OR_MSG_OPEN_SESSION, .session = {8}};
    open.body.open_session = asking(BEST + 1);
    open.body.open_session.prompt_length = PROMPT;
    say(b, open);
    or_message_t prefix = {.type = OR_MSG_PREFIX, .session = {8}};
    prefix.body.prefix = (or_prefix_t){
        .tokens = prompt, .count = PROMPT, .hash = or_prefix_hash(0, prompt, PROMPT), .round = 1};
    say(b, prefix);
    or_message_t step = tree_of(1, NULL, NULL, 0);
    step.session.value = 8;
    say(b, step);
    assert_int_equal(hear(b, &plain), OR_MSG_VERDICT);
    const or_token_logprob_t *a = &verdict->logprobs[0], *c = &plain.body.verdict.logprobs[0];
    assert_int_equal(plain.body.verdict.logprob_count, 1);
    assert_memory_equal(&a->logprob, &c->logprob, sizeof a->logprob);
    assert_memory_equal(a->top_tokens, c->top_tokens, BEST * sizeof *a->top_tokens);
    assert_memory_equal(a->top_logprobs, c->top_logprobs, BEST * sizeof *a->top_logprobs);
    assert_true(plain.body.verdict.reused > 0); // of session 7's prompt
    assert_true(plain.body.verdict.reused < PROMPT);
    or_message_fini(&plain);
    or_message_fini(&guessed);
}

static void none_are_sent_unasked(void **state)
{
    bench_t *b = *state;
    or_message_t message;
    greet_and_open(b, asking(0));
    say(b, tree_of(1, NULL, NULL, 0));
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_equal(message.body.verdict.logprob_count, 0);
    or_message_fini(&message);
}

// The session is refused, for a reason that has these words.
static void expect_no(bench_t *b, const char *reason)
{
    or_message_t answer;
    assert_int_equal(hear(b, &answer), OR_MSG_ERROR);
    assert_int_equal(answer.body.error.code, OR_WIRE_REFUSED);
    assert_non_null(strstr(answer.body.error.text, reason));
    or_message_fini(&answer);
}

static void too_many_are_refused(void **state)
{
    bench_t *b = *state;
    or_message_t open = {.type = OR_MSG_OPEN_SESSION, .session = {9}};
    greet_and_open(b, usual_terms());
    open.body.open_session = asking(OR_LOGPROBS_MAX + 2);
    say(b, open);
    expect_no(b, "20 are possible");
}

static void slrs_has_none(void **state)
{
    bench_t *b = *state;
    or_message_t open = {.type = OR_MSG_OPEN_SESSION, .session = {9}};
    greet_and_open(b, usual_terms());
    open.body.open_session = asking(1);
    open.body.open_session.accept_rule = OR_ACCEPT_SLRS;
    open.body.open_session.draft_method = OR_DRAFT_CHAIN;
    say(b, open);
    expect_no(b, "slrs has no log-probabilities");
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, bench_setup, bench_teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        WITH_BENCH(they_come_with_the_verdict_and_do_not_depend_on_guesses),
        WITH_BENCH(none_are_sent_unasked),
        WITH_BENCH(too_many_are_refused),
        WITH_BENCH(slrs_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
