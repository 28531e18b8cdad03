// Goal: drafters with another vocabulary cost time and never a token: guesses that the target does not
// have are passed over, and a judgement that waits for psi goes on where it was, whatever is repeated,
// lost, spoilt or taken away meanwhile.
// Method: the real role and model on a network in memory; the test plays coordinator and drafter. At
// temperature 0 the text must be that of plain steps, and next to it; of two tokens to choose from psi
// leaves one.
#include <math.h>

#include "proto/session/draft_check.h"
#include "verifier/verifier_test_support.h"

#define VOCAB 4096 // the model's
#define NEVER 5    // a token that it never writes here

static const uint32_t chain[] = {1, 1, 1, 1};
static const uint32_t no_token[] = {NEVER};
static const double ones[] = {1, 1, 1, 1}, zero[] = {0};

static or_open_session_t slrs_terms(float temperature)
{
    or_open_session_t open = usual_terms();
    open.draft_method = OR_DRAFT_CHAIN;
    open.accept_rule = OR_ACCEPT_SLRS;
    open.sampling.temperature = temperature;
    open.private_key = 12345;
    open.outside_ids = 1;
    return open;
}

// The text of temperature 0, all but surely, and yet a distribution of two tokens: of one, none is asked for.
static or_open_session_t cold_terms(void)
{
    or_open_session_t open = slrs_terms(1e-6F);
    open.sampling.top_k = 2;
    return open;
}

static or_message_t guesses(uint64_t round, const uint32_t *tokens, const double *psi,
                            uint32_t count)
{
    or_message_t message = tree_of(round, tokens, chain, count);
    message.body.draft_tree.psi = psi;
    message.body.draft_tree.psi_count = count;
    return message;
}

static or_message_t reply_of(uint64_t round, uint32_t node, const uint32_t *tokens,
                             const double *psi, uint32_t count)
{
    return (or_message_t){
        .type = OR_MSG_PSI_REPLY,
        .body.psi_reply = {
            .round = round, .node = node, .tokens = tokens, .psi = psi, .count = count}};
}

// Receive the request of session 7's round behind the prompt; return how many tokens are asked for, and the first
// two.
static uint32_t hear_request(bench_t *b, uint64_t round, uint32_t node, uint32_t tokens[2])
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_PSI_REQUEST);
    const or_psi_request_t *request = &message.body.psi_request;
    uint32_t count = request->count;
    assert_int_equal(message.session.value, 7);
    assert_int_equal(request->round, round);
    assert_int_equal(request->node, node);
    assert_int_equal(request->base_length, PROMPT);
    assert_int_equal(request->base_hash, or_prefix_hash(0, prompt, PROMPT));
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || request->tokens[i] > request->tokens[i - 1]);
        if (i < 2) {
            tokens[i] = request->tokens[i];
        }
    }
    or_message_fini(&message);
    return count;
}

// The verdict's hash.
static uint64_t hear_verdict(bench_t *b, uint64_t round, uint32_t accepted, uint32_t next)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    const or_verdict_t *verdict = &message.body.verdict;
    assert_int_equal(message.session.value, 7);
    assert_int_equal(verdict->round, round);
    assert_int_equal(verdict->accepted_count, accepted);
    assert_int_equal(verdict->next, next);
    uint64_t hash = verdict->hash;
    or_message_fini(&message);
    return hash;
}

// Session 7 waits at the root, next to temperature 0, for psi of the plain text's first token.
static void wait_at_root(bench_t *b, uint32_t *text, uint32_t count)
{
    uint32_t asked[2];
    greet_and_open(b, cold_terms());
    decode_plainly(b, count, text);
    say(b, guesses(1, no_token, ones, 1));
    assert_int_equal(hear_request(b, 1, 0, asked), 2);
    assert_true(asked[0] == text[0] || asked[1] == text[0]);
}

// Session 7 goes on after a verdict of round 1 as plain decoding does: from text[at] on.
static void go_on(bench_t *b, uint64_t round, uint64_t hash, const uint32_t *text, uint32_t at)
{
    or_message_t message = guesses(round, text + at, ones, 2);
    message.body.draft_tree.base_length = PROMPT + at;
    message.body.draft_tree.base_hash = hash;
    say(b, message);
    hear_verdict(b, round, 2, text[at + 2]);
}

// ---- psi ----

static void an_answer_decides_what_is_left(void **state)
{
    bench_t *b = *state;
    uint32_t asked[2];
    or_open_session_t open = slrs_terms(1);
    open.sampling.top_k = 2;
    greet_and_open(b, open);
    for (uint32_t taken = 0; taken < 2; taken++) {
        say(b, guesses(1 + taken, no_token, ones, 1));
        assert_int_equal(hear_request(b, 1 + taken, 0, asked), 2);
        say(b, reply_of(1 + taken, 0, &asked[taken], ones, 1)); // all of one: the other is left
        hear_verdict(b, 1 + taken, 0, asked[1 - taken]);
        const uint32_t back[] = {prompt[0], prompt[1], prompt[2]}; // the text is turned back
        say(b, (or_message_t){.type = OR_MSG_PREFIX,
                              .body.prefix = {.tokens = back,
                                              .count = PROMPT,
                                              .hash = or_prefix_hash(0, prompt, PROMPT),
                                              .round = 2 + taken}});
    }
}

// At temperature 0 there is one token to draw, whatever psi is.
static void the_only_token_needs_no_answer(void **state)
{
    bench_t *b = *state;
    uint32_t text[3];
    greet_and_open(b, slrs_terms(0));
    decode_plainly(b, 3, text);
    say(b, guesses(1, no_token, ones, 1));
    hear_verdict(b, 1, 0, text[0]);
}

static void a_distribution_of_the_whole_vocabulary_is_asked_for_as_any(void **state)
{
    bench_t *b = *state;
    uint32_t asked[2];
    or_message_t message;
    greet_and_open(b, slrs_terms(1));
    say(b, guesses(1, no_token, ones, 1));
    assert_int_equal(hear_request(b, 1, 0, asked), 0);
    say(b, reply_of(1, 0, no_token, (double[]){0.999}, 1)); // it travelled with 1
    expect_refusal(b, "guessed with");
    say(b, reply_of(1, 0, no_token, ones, 1));
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_not_equal(message.body.verdict.next, NEVER);
    or_message_fini(&message);
}

// The first guess is accepted, the second is not; what was computed of the first is kept, or computed
// again where another session took the pages.
static void the_accepted_path_survives_the_wait(void **state)
{
    bench_t *b = *state;
    uint32_t text[6], many[40], asked[2];
    or_message_t message;
    greet_and_open(b, cold_terms());
    decode_plainly(b, 6, text);
    const uint32_t tokens[] = {text[0], NEVER};
    static const double psi[] = {0.5, 0.25};
    say(b, guesses(1, tokens, psi, 2));
    assert_int_equal(hear_request(b, 1, 1, asked), 2);
    assert_true(asked[0] == text[1] || asked[1] == text[1]);
    for (uint32_t i = 0; i < 40; i++) {
        many[i] = 300 + i;
    }
    b->clock.now_ns += 2 * OR_NS_PER_S; // so long that its pages may be taken
    say(b, (or_message_t){
               .type = OR_MSG_OPEN_SESSION, .session = {20}, .body.open_session = usual_terms()});
    say(b, (or_message_t){.type = OR_MSG_PREFIX,
                          .session = {20},
                          .body.prefix = {.tokens = many,
                                          .count = 40,
                                          .hash = or_prefix_hash(0, many, 40),
                                          .round = 100}});
    or_message_t step = tree_of(100, NULL, NULL, 0);
    step.session.value = 20;
    step.body.draft_tree.base_length = 40;
    step.body.draft_tree.base_hash = or_prefix_hash(0, many, 40);
    say(b, step);
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT); // others are served meanwhile
    assert_int_equal(message.session.value, 20);
    or_message_fini(&message);
    say(b, reply_of(1, 1, NULL, NULL, 0));
    uint64_t hash = hear_verdict(b, 1, 1, text[1]);
    assert_int_equal(hash, or_prefix_hash(or_prefix_hash(0, prompt, PROMPT), text, 2));
    go_on(b, 2, hash, text, 2);
}

static void what_is_repeated_changes_nothing(void **state)
{
    bench_t *b = *state;
    uint32_t text[4], asked[2];
    wait_at_root(b, text, 4);
    expect_silence(b); // the coordinator owns patience
    say(b, guesses(1, no_token, ones, 1));
    assert_int_equal(hear_request(b, 1, 0, asked), 2);
    assert_true(asked[0] == text[0] || asked[1] == text[0]);
    say(b, (or_message_t){.type = OR_MSG_PREFIX, // late
                          .body.prefix = {.tokens = prompt,
                                          .count = PROMPT,
                                          .hash = or_prefix_hash(0, prompt, PROMPT),
                                          .round = 1}});
    expect_silence(b);
    say(b, reply_of(1, 0, text, zero, 1));
    say(b, reply_of(1, 0, text, zero, 1));
    uint64_t hash = hear_verdict(b, 1, 0, text[0]);
    expect_silence(b);
    say(b, reply_of(1, 0, text, ones, 1));
    expect_silence(b);
    say(b, guesses(1, no_token, ones, 1));
    assert_int_equal(hear_verdict(b, 1, 0, text[0]), hash);
    go_on(b, 2, hash, text, 1);
}

static void a_spoilt_answer_is_refused_and_the_right_one_taken(void **state)
{
    bench_t *b = *state;
    uint32_t text[4];
    static const double nan[] = {NAN}, psi[] = {0.5};
    wait_at_root(b, text, 4);
    say(b, reply_of(1, 1, text, psi, 1));
    expect_refusal(b, "node 0 was asked for");
    say(b, reply_of(1, 0, no_token, psi, 1));
    expect_refusal(b, "not asked for");
    say(b, reply_of(1, 0, text, nan, 1));
    expect_refusal(b, "no probability");
    say(b, guesses(1, text, ones, 1)); // another tree
    expect_refusal(b, "another tree");
    say(b, guesses(1, no_token, (double[]){0.5}, 1)); // the same with another psi
    expect_refusal(b, "another tree");
    say(b, reply_of(2, 0, text, psi, 1)); // of a round that is not
    expect_silence(b);
    say(b, reply_of(1, 0, text, psi, 1));
    go_on(b, 2, hear_verdict(b, 1, 0, text[0]), text, 1);
}

// The coordinator gave the round up: the answer comes too late, and the text goes on from where it was.
static void a_round_that_is_given_up_leaves_nothing_behind(void **state)
{
    bench_t *b = *state;
    uint32_t text[4];
    uint64_t base = or_prefix_hash(0, prompt, PROMPT);
    wait_at_root(b, text, 4);
    say(b, tree_of(2, NULL, NULL, 0)); // a plain step instead
    uint64_t hash = hear_verdict(b, 2, 0, text[0]);
    say(b, reply_of(1, 0, text, ones, 1));
    expect_silence(b);
    go_on(b, 3, hash, text, 1);
    say(b, (or_message_t){
               .type = OR_MSG_PREFIX,
               .body.prefix = {.tokens = prompt, .count = PROMPT, .hash = base, .round = 4}});
    or_message_t again = guesses(4, no_token, ones, 1);
    say(b, again);
    hear_request(b, 4, 0, (uint32_t[2]){0});
    say(b, (or_message_t){
               .type = OR_MSG_PREFIX, // for a later round, of the same text
               .body.prefix = {.tokens = prompt, .count = PROMPT, .hash = base, .round = 5}});
    say(b, reply_of(4, 0, text, ones, 1));
    expect_silence(b);
    say(b, guesses(5, text, ones, 2));
    hear_verdict(b, 5, 2, text[2]);
}

// Each round runs the root's row, and none may leave it behind: there are only so many positions.
static void many_rounds_may_be_given_up(void **state)
{
    bench_t *b = *state;
    uint32_t text[3], asked[2];
    wait_at_root(b, text, 3);
    for (uint64_t round = 2; round < 2 + BENCH_CONTEXT; round++) {
        say(b, guesses(round, no_token, ones, 1));
        assert_int_equal(hear_request(b, round, 0, asked), 2);
        assert_true(asked[0] == text[0] || asked[1] == text[0]);
    }
    say(b, guesses(2 + BENCH_CONTEXT, text, ones, 2));
    hear_verdict(b, 2 + BENCH_CONTEXT, 2, text[2]);
}

static void a_tree_that_is_none_ends_the_wait_of_the_one_before(void **state)
{
    bench_t *b = *state;
    uint32_t text[4];
    static const uint32_t beyond[] = {VOCAB + 1};
    wait_at_root(b, text, 4);
    say(b, guesses(2, beyond, ones, 1));
    expect_refusal(b, "token");
    say(b, reply_of(1, 0, text, ones, 1));
    expect_silence(b);
    say(b, guesses(2, text, ones, 2));
    hear_verdict(b, 2, 2, text[2]);
}

static void a_cancelled_session_waits_for_nothing(void **state)
{
    bench_t *b = *state;
    uint32_t text[4];
    wait_at_root(b, text, 4);
    say(b, (or_message_t){.type = OR_MSG_CANCEL, .body.cancel = {.reason = "enough"}});
    say(b, reply_of(1, 0, text, ones, 1));
    expect_silence(b);
    say(b, guesses(1, no_token, ones, 1));
    expect_error(b, OR_WIRE_UNKNOWN_SESSION);
}

static void open_session(bench_t *b, uint64_t id, or_open_session_t terms)
{
    b->clock.now_ns += OR_NS_PER_MS;
    say(b,
        (or_message_t){.type = OR_MSG_OPEN_SESSION, .session = {id}, .body.open_session = terms});
    say(b, (or_message_t){.type = OR_MSG_PREFIX,
                          .session = {id},
                          .body.prefix = {.tokens = prompt,
                                          .count = PROMPT,
                                          .hash = or_prefix_hash(0, prompt, PROMPT),
                                          .round = 1}});
}

static or_message_t wrong_guess_of(uint64_t id)
{
    or_message_t message = guesses(1, no_token, ones, 1);
    message.session.value = id;
    return message;
}

// Waits for psi, or knows no such session; and that for session `id`.
static void hear_of(bench_t *b, uint64_t id, or_message_type_t type)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), type);
    assert_int_equal(message.session.value, id);
    or_message_fini(&message);
}

// A session at rest gives its place first, then the one that has waited longest for psi. A session whose tree is
// in the queue never gives its own.
static void waiting_for_psi_pins_no_place(void **state)
{
    bench_t *b = *state;
    greet_and_open(b, cold_terms());
    say(b, wrong_guess_of(7));
    hear_of(b, 7, OR_MSG_PSI_REQUEST);
    open_session(b, 8, cold_terms());
    expect_silence(b);
    open_session(b, 9, cold_terms()); // for 8, which is at rest
    say(b, wrong_guess_of(9));
    hear_of(b, 9, OR_MSG_PSI_REQUEST);
    say(b, wrong_guess_of(8));
    hear_of(b, 8, OR_MSG_ERROR);
    open_session(b, 10, cold_terms()); // for 7, whose answer never came
    expect_silence(b);
    say(b, wrong_guess_of(9));
    hear_of(b, 9, OR_MSG_PSI_REQUEST); // still waits
    say(b, wrong_guess_of(7));
    hear_of(b, 7, OR_MSG_ERROR);
    say(b, wrong_guess_of(10));
    open_session(b, 11, cold_terms()); // for 9: the tree of 10 is in the queue
    hear_of(b, 10, OR_MSG_PSI_REQUEST);
    say(b, wrong_guess_of(9));
    hear_of(b, 9, OR_MSG_ERROR);
}

static void trees_in_the_queue_keep_their_places(void **state)
{
    bench_t *b = *state;
    or_message_t message;
    greet_and_open(b, cold_terms());
    open_session(b, 8, cold_terms());
    expect_silence(b);
    say(b, wrong_guess_of(7));
    say(b, wrong_guess_of(8));
    open_session(b, 9, cold_terms());
    assert_int_equal(hear(b, &message), OR_MSG_ERROR);
    assert_int_equal(message.body.error.code, OR_WIRE_BUSY);
    assert_true(message.body.error.retry_ms > 0);
    or_message_fini(&message);
    hear_of(b, 8, OR_MSG_PSI_REQUEST); // it has computed less: 7's prompt was its own
    hear_of(b, 7, OR_MSG_PSI_REQUEST);
}

static void a_reply_without_a_request_is_ignored(void **state)
{
    bench_t *b = *state;
    uint32_t text[4];
    greet_and_open(b, usual_terms());
    say(b, reply_of(1, 0, no_token, ones, 1)); // not even a rule that could ask
    expect_silence(b);
    decode_plainly(b, 4, text);
    say(b, tree_of(1, text, chain, 2));
    hear_verdict(b, 1, 2, text[2]);
}

// ---- guesses that the target does not have ----

// root ─┬─ outside        row_of   none
//       ├─ text[0] ── text[1] ── outside
//       └─ outside
static void outside_guesses_are_passed_over(void **state)
{
    bench_t *b = *state;
    static const uint32_t back[] = {1, 2, 1, 1, 5};
    uint32_t text[6];
    or_open_session_t open = usual_terms();
    open.outside_ids = 2;
    greet_and_open(b, open);
    decode_plainly(b, 6, text);
    const uint32_t tokens[] = {VOCAB, text[0], text[1], VOCAB + 1, VOCAB + 1};
    or_message_t message;
    say(b, tree_of(1, tokens, back, 5));
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_equal(message.body.verdict.accepted_count, 2);
    assert_int_equal(message.body.verdict.accepted[0], 2);
    assert_int_equal(message.body.verdict.accepted[1], 3);
    assert_int_equal(message.body.verdict.next, text[2]);
    or_message_t next = tree_of(2, text + 3, chain, 2);
    next.body.draft_tree.base_length = PROMPT + 3;
    next.body.draft_tree.base_hash = message.body.verdict.hash;
    or_message_fini(&message);
    say(b, next);
    hear_verdict(b, 2, 2, text[5]);
}

static void outside_guesses_of_a_distribution_are_rejected(void **state)
{
    bench_t *b = *state;
    static const uint32_t back[] = {1, 2, 3}, zeros[] = {0, 0, 0}, order[] = {0, 1, 2};
    static const uint32_t weights[] = {1, 30000, 35535};
    uint32_t text[3];
    or_open_session_t open = usual_terms();
    open.draft_method = OR_DRAFT_MCSD;
    open.accept_rule = OR_ACCEPT_MULTI_ROUND;
    open.outside_ids = 9;
    greet_and_open(b, open);
    decode_plainly(b, 3, text);
    const uint32_t dist_tokens[] = {text[0], VOCAB, VOCAB + 8};
    const or_reduced_distribution_t dist = {dist_tokens, weights, 3};
    const uint32_t tokens[] = {VOCAB + 8, VOCAB + 8, text[0]};
    or_message_t message = tree_of(1, tokens, back, 3);
    or_draft_tree_t *tree = &message.body.draft_tree;
    tree->dist_index = zeros;
    tree->draw_order = order;
    tree->dist_index_count = tree->draw_order_count = 3;
    tree->dists = &dist;
    tree->dist_count = 1;
    say(b, message);
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_equal(message.body.verdict.accepted_count, 1);
    assert_int_equal(message.body.verdict.accepted[0], 3);
    assert_int_equal(message.body.verdict.next, text[1]);
    or_message_fini(&message);
}

// A part of the drafter's text that is no token leads to a question for psi, as after any rejection.
static void outside_text_is_rejected(void **state)
{
    bench_t *b = *state;
    static const uint32_t outside[] = {VOCAB};
    uint32_t text[4], asked[2];
    greet_and_open(b, cold_terms());
    decode_plainly(b, 4, text);
    say(b, guesses(1, outside, zero, 1));
    assert_int_equal(hear_request(b, 1, 0, asked), 2);
    say(b, reply_of(1, 0, text, (double[]){0.75}, 1));
    go_on(b, 2, hear_verdict(b, 1, 0, text[0]), text, 1);
}

static void what_is_further_outside_is_refused(void **state)
{
    bench_t *b = *state;
    static const uint32_t outside[] = {VOCAB, NEVER}, beyond[] = {VOCAB + 1};
    or_open_session_t open = cold_terms();
    or_message_t message;
    greet_and_open(b, open);
    say(b, guesses(1, outside, (double[]){0, 1}, 2));
    expect_refusal(b, "follows node 1");
    say(b, guesses(1, beyond, zero, 1));
    expect_refusal(b, "token");
    say(b, guesses(1, no_token, zero, 1));
    expect_refusal(b, "psi 0");
    say(b, tree_of(1, no_token, chain, 1));
    expect_refusal(b, "needs the psi");
    open.outside_ids = OR_OUTSIDE_IDS_MAX + 1;
    say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .session = {8}, .body.open_session = open});
    expect_error(b, OR_WIRE_REFUSED);
    open.outside_ids = OR_OUTSIDE_IDS_MAX;
    say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .session = {8}, .body.open_session = open});
    expect_silence(b);
    say(b, tree_of(1, NULL, NULL, 0));
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    or_message_fini(&message);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_decides_what_is_left),
        TEST(the_only_token_needs_no_answer),
        TEST(a_distribution_of_the_whole_vocabulary_is_asked_for_as_any),
        TEST(the_accepted_path_survives_the_wait),
        {"the_accepted_path_survives_the_loss_of_its_pages", the_accepted_path_survives_the_wait,
         bench_setup_scarce, bench_teardown, NULL},
        TEST(what_is_repeated_changes_nothing),
        TEST(a_spoilt_answer_is_refused_and_the_right_one_taken),
        TEST(a_round_that_is_given_up_leaves_nothing_behind),
        TEST(many_rounds_may_be_given_up),
        TEST(a_tree_that_is_none_ends_the_wait_of_the_one_before),
        TEST(a_cancelled_session_waits_for_nothing),
        TEST(waiting_for_psi_pins_no_place),
        TEST(trees_in_the_queue_keep_their_places),
        TEST(a_reply_without_a_request_is_ignored),
        TEST(outside_guesses_are_passed_over),
        TEST(outside_guesses_of_a_distribution_are_rejected),
        TEST(outside_text_is_rejected),
        TEST(what_is_further_outside_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
