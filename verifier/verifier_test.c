// Goal: the verifier answers a round once, repeats that answer, and lets nothing a peer sends
// change a text or kill the process.
// Method: the real role and model on a network in memory; the test plays the coordinator and sends
// what a correct, a confused and a hostile one would send. (Rules that use distributions:
// verifier_distributions_test.c.)
#include <string.h>

#include "verifier/verifier_test_support.h"

static const uint32_t two[] = {5, 6};
static const uint32_t other_two[] = {5, 7};
static const uint32_t chain[] = {1, 1};

static void a_round_is_judged_once_and_its_verdict_repeated(void **state)
{
    bench_t *b = *state;
    or_message_t first, again;
    greet_and_open(b, usual_terms());
    say(b, tree_of(1, two, chain, 2));
    assert_int_equal(hear(b, &first), OR_MSG_VERDICT);
    assert_int_equal(first.body.verdict.round, 1);
    assert_int_equal(first.body.verdict.base_length, 3);
    say(b, tree_of(1, two, chain, 2));
    assert_int_equal(hear(b, &again), OR_MSG_VERDICT);
    assert_int_equal(again.body.verdict.hash, first.body.verdict.hash);
    assert_int_equal(again.body.verdict.next, first.body.verdict.next);
    assert_int_equal(again.body.verdict.accepted_count, first.body.verdict.accepted_count);
    or_message_fini(&first);
    or_message_fini(&again);
    say(b, tree_of(1, other_two, chain, 2)); // a second, different tree
    expect_error(b, OR_WIRE_INVALID);
    say(b, tree_of(2, two, chain, 2)); // the next round, but still on the old prefix
    expect_error(b, OR_WIRE_NEED_PREFIX);
}

static void the_same_tokens_in_another_shape_are_another_tree(void **state)
{
    bench_t *b = *state;
    static const uint32_t bush[] = {1, 2};
    or_message_t message;
    greet_and_open(b, usual_terms());
    say(b, tree_of(1, two, chain, 2));
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    or_message_fini(&message);
    say(b, tree_of(1, two, bush, 2));
    expect_error(b, OR_WIRE_INVALID);
}

// A session at temperature 1 whose text is told otherwise goes on as one that never heard the first
// telling: cache and noise place.
static void a_text_told_otherwise_goes_on_as_if_it_had_always_been_so(void **state)
{
    bench_t *b = *state;
    static const uint32_t first[] = {1, 458, 1112, 731, 261, 631, 284};
    static const uint32_t second[] = {1, 2651, 4037, 13, 1673, 346};
    or_message_t said[2];
    or_open_session_t open = usual_terms();
    open.sampling.temperature = 1;
    open.noise_key = 99;
    hear(b, &said[0]);
    for (uint64_t id = 1; id <= 2; id++) {
        say(b, (or_message_t){
                   .type = OR_MSG_OPEN_SESSION, .session = {id}, .body.open_session = open});
        if (id == 1) {
            say(b, (or_message_t){.type = OR_MSG_PREFIX,
                                  .session = {id},
                                  .body.prefix = {.tokens = first,
                                                  .count = 7,
                                                  .hash = or_prefix_hash(0, first, 7),
                                                  .round = 1}});
            expect_silence(b); // time enough to fill the cache
        }
        say(b, (or_message_t){.type = OR_MSG_PREFIX,
                              .session = {id},
                              .body.prefix = {.tokens = second,
                                              .count = 6,
                                              .hash = or_prefix_hash(0, second, 6),
                                              .round = 2}});
        or_message_t tree = tree_of(2, NULL, NULL, 0);
        tree.session.value = id;
        tree.body.draft_tree.base_length = 6;
        tree.body.draft_tree.base_hash = or_prefix_hash(0, second, 6);
        say(b, tree);
        assert_int_equal(hear(b, &said[id - 1]), OR_MSG_VERDICT);
    }
    assert_int_equal(said[0].body.verdict.next, said[1].body.verdict.next);
    assert_int_equal(said[0].body.verdict.hash, said[1].body.verdict.hash);
    or_message_fini(&said[0]);
    or_message_fini(&said[1]);
}

static void a_late_prefix_does_not_turn_the_text_back(void **state)
{
    bench_t *b = *state;
    or_message_t message;
    greet_and_open(b, usual_terms());
    say(b, tree_of(1, two, chain, 2));
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    uint64_t hash = message.body.verdict.hash;
    uint32_t length = 3 + message.body.verdict.accepted_count + 1;
    or_message_fini(&message);
    say(b, (or_message_t){.type = OR_MSG_PREFIX,
                          .body.prefix = {.tokens = prompt,
                                          .count = 3,
                                          .hash = or_prefix_hash(0, prompt, 3),
                                          .round = 1}});
    or_message_t next = tree_of(2, NULL, NULL, 0);
    next.body.draft_tree.base_length = length;
    next.body.draft_tree.base_hash = hash;
    say(b, next);
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_equal(message.body.verdict.base_length, length);
    or_message_fini(&message);
}

static void what_does_not_fit_is_answered_and_changes_nothing(void **state)
{
    bench_t *b = *state;
    static const uint32_t too_far[] = {1, 3};
    static const uint32_t zero[] = {0, 1};
    static const uint32_t beyond[] = {5, 4096};
    static const uint32_t twins[] = {5, 5};
    static const uint32_t siblings[] = {1, 2};
    uint32_t deep_tokens[33], deep_back[33];
    or_message_t message;
    greet_and_open(b, usual_terms());
    or_message_t wrong = tree_of(1, two, chain, 2);
    wrong.body.draft_tree.base_hash++;
    say(b, wrong);
    expect_error(b, OR_WIRE_NEED_PREFIX);
    say(b, tree_of(1, two, too_far, 2));
    expect_error(b, OR_WIRE_INVALID);
    say(b, tree_of(1, two, zero, 2));
    expect_error(b, OR_WIRE_INVALID);
    say(b, tree_of(1, beyond, chain, 2));
    expect_error(b, OR_WIRE_INVALID);
    say(b, tree_of(1, twins, siblings, 2));
    expect_error(b, OR_WIRE_INVALID);
    for (uint32_t i = 0; i < 33; i++) {
        deep_tokens[i] = 5;
        deep_back[i] = 1;
    }
    say(b, tree_of(1, deep_tokens, deep_back, 33)); // more nodes than this verifier takes
    expect_error(b, OR_WIRE_INVALID);
    uint32_t most[BENCH_CONTEXT - 3];
    for (uint32_t i = 0; i < BENCH_CONTEXT - 3; i++) {
        most[i] = 300 + i;
    }
    or_message_t longest = {.type = OR_MSG_PREFIX,
                            .session = {8},
                            .body.prefix = {.tokens = most,
                                            .count = BENCH_CONTEXT - 3,
                                            .hash = or_prefix_hash(0, most, BENCH_CONTEXT - 3),
                                            .round = 1}};
    or_message_t beyond_context = tree_of(1, deep_tokens, deep_back, 4);
    beyond_context.session.value = 8;
    beyond_context.body.draft_tree.base_length = BENCH_CONTEXT - 3;
    beyond_context.body.draft_tree.base_hash = longest.body.prefix.hash;
    say(b, (or_message_t){
               .type = OR_MSG_OPEN_SESSION, .session = {8}, .body.open_session = usual_terms()});
    say(b, longest);
    say(b, beyond_context); // a node would lie behind the last position
    expect_error(b, OR_WIRE_INVALID);
    beyond_context.body.draft_tree.count = 3;
    say(b, beyond_context); // the last one on it
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    or_message_fini(&message);
    or_message_t lost = tree_of(1, two, chain, 2);
    lost.session.value = 99;
    say(b, lost);
    expect_error(b, OR_WIRE_UNKNOWN_SESSION);
    say(b, (or_message_t){.type = OR_MSG_GENERATE_REQUEST});
    expect_error(b, OR_WIRE_INVALID);
    say(b, tree_of(1, two, chain, 2)); // after all that, the right tree is judged
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    or_message_fini(&message);
}

static void bad_prefixes_are_refused(void **state)
{
    bench_t *b = *state;
    uint32_t many[BENCH_CONTEXT + 1] = {0};
    static const uint32_t beyond[] = {1, 4096};
    greet_and_open(b, usual_terms());
    or_message_t prefix = {.type = OR_MSG_PREFIX,
                           .body.prefix = {.start = 9, .tokens = prompt, .count = 3, .round = 2}};
    say(b, prefix);
    expect_error(b, OR_WIRE_NEED_PREFIX);
    prefix.body.prefix.start = 0;
    say(b, prefix); // the hash is wrong
    expect_error(b, OR_WIRE_NEED_PREFIX);
    prefix.body.prefix = (or_prefix_t){
        .tokens = beyond, .count = 2, .hash = or_prefix_hash(0, beyond, 2), .round = 2};
    say(b, prefix);
    expect_error(b, OR_WIRE_INVALID);
    prefix.body.prefix = (or_prefix_t){.tokens = many,
                                       .count = BENCH_CONTEXT + 1,
                                       .hash = or_prefix_hash(0, many, BENCH_CONTEXT + 1),
                                       .round = 2};
    say(b, prefix);
    expect_error(b, OR_WIRE_CONTEXT);
}

static void bad_terms_are_refused_with_the_reason(void **state)
{
    bench_t *b = *state;
    or_message_t message;
    hear(b, &message);
    or_message_t open = {.type = OR_MSG_OPEN_SESSION, .body.open_session = usual_terms()};
    open.body.open_session.accept_rule = 99;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
    open.body.open_session = usual_terms();
    open.body.open_session.accept_rule = OR_ACCEPT_GREEDY;
    open.body.open_session.sampling.temperature = 1;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
    open.body.open_session = usual_terms();
    open.body.open_session.sampling.top_p = -1;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
    open.body.open_session = usual_terms();
    open.body.open_session.constraint = (const uint8_t *)"json";
    open.body.open_session.constraint_bytes = 4;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
}

// They are kept as long as the session is.
static void terms_longer_than_any_of_ours_are_refused(void **state)
{
    bench_t *b = *state;
    or_message_t message;
    static char owner[OR_OWNER_BYTES + 1];
    static const uint32_t many[64];
    hear(b, &message);
    memset(owner, 'o', OR_OWNER_BYTES);
    or_message_t open = {.type = OR_MSG_OPEN_SESSION, .body.open_session = usual_terms()};
    open.body.open_session.owner = owner;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
    open.body.open_session = usual_terms();
    open.body.open_session.stop_ids = many;
    open.body.open_session.stop_count = OR_STOP_IDS_MAX + 1;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
    open.body.open_session = usual_terms();
    open.body.open_session.draft_shape = many;
    open.body.open_session.draft_shape_count = 64;
    say(b, open);
    expect_error(b, OR_WIRE_REFUSED);
    owner[OR_OWNER_BYTES - 1] = '\0';
    open.body.open_session = usual_terms();
    open.body.open_session.owner = owner;
    say(b, open);
    expect_silence(b);
}

static void more_sessions_than_places_replace_the_oldest_idle_one(void **state)
{
    bench_t *b = *state;
    greet_and_open(b, usual_terms());
    expect_silence(b);
    for (uint64_t id = 100; id < 110; id++) {
        b->clock.now_ns += OR_NS_PER_MS;
        say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION,
                              .session = {id},
                              .body.open_session = usual_terms()});
        expect_silence(b);
    }
    say(b, tree_of(1, two, chain, 2)); // session 7 is long gone; its coordinator is told
    expect_error(b, OR_WIRE_UNKNOWN_SESSION);
}

// Session 8, with a text of its own.
static void open_second(bench_t *b)
{
    static const uint32_t other_prompt[PROMPT] = {1, 1112, 458};
    or_message_t tree = tree_of(1, two, chain, 2);
    const or_message_t open = {
        .type = OR_MSG_OPEN_SESSION, .session = {8}, .body.open_session = usual_terms()};
    const or_message_t prefix = {.type = OR_MSG_PREFIX,
                                 .session = {8},
                                 .body.prefix = {.tokens = other_prompt,
                                                 .count = PROMPT,
                                                 .hash = or_prefix_hash(0, other_prompt, PROMPT),
                                                 .round = 1}};
    tree.session.value = 8;
    tree.body.draft_tree.base_hash = prefix.body.prefix.hash;
    say(b, open);
    say(b, prefix);
    say(b, tree);
}

static void expect_verdict(bench_t *b, uint64_t session, uint32_t forward_ms)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_equal(message.session.value, session);
    assert_int_equal(message.body.verdict.forward_us, forward_ms * 1000);
    or_message_fini(&message);
}

// The pass is begun by the prompt, and what comes while it lasts is in it; the next one lasts as long.
static void a_slow_target_answers_in_its_time_and_takes_along_what_came(void **state)
{
    bench_t *b = *state;
    greet_and_open(b, usual_terms());
    int64_t began_ns = b->clock.now_ns;
    expect_silence(b);
    assert_int_equal(or_verifier_turn(b->verifier), began_ns + BENCH_STEP_MS * OR_NS_PER_MS);
    b->clock.now_ns += 30 * OR_NS_PER_MS;
    say(b, tree_of(1, two, chain, 2));
    open_second(b);
    expect_silence(b);
    b->clock.now_ns = began_ns + BENCH_STEP_MS * OR_NS_PER_MS - 1;
    expect_silence(b);
    b->clock.now_ns++;
    expect_verdict(b, 7, BENCH_STEP_MS);
    expect_verdict(b, 8, BENCH_STEP_MS);
    expect_silence(b);
}

static void a_refusal_ends_the_process(void **state)
{
    bench_t *b = *state;
    or_message_t message;
    hear(b, &message);
    assert_null(or_verifier_refused(b->verifier));
    assert_int_equal(
        or_link_send_error(b->hub, b->peer, (or_session_id_t){0}, OR_WIRE_REFUSED, "not you"),
        OR_OK);
    hear(b, &message);
    assert_string_equal(or_verifier_refused(b->verifier), "not you");
}

// A session with a text that needs all the pages there are.
static void open_long(bench_t *b, uint64_t id)
{
    uint32_t text[BENCH_CONTEXT - 8];
    const uint32_t count = sizeof text / sizeof *text;
    or_message_t open = {.type = OR_MSG_OPEN_SESSION, .session = {id}};
    or_message_t prefix = {.type = OR_MSG_PREFIX, .session = {id}};
    for (uint32_t i = 0; i < count; i++) {
        text[i] = i == 0 ? 1 : 100 * (uint32_t)id + i;
    }
    open.body.open_session = usual_terms();
    prefix.body.prefix = (or_prefix_t){
        .tokens = text, .count = count, .hash = or_prefix_hash(0, text, count), .round = 1};
    say(b, open);
    say(b, prefix);
    expect_silence(b);
}

static void who_is_short_of_pages_does_not_keep_the_processor_busy(void **state)
{
    bench_t *b = *state;
    expect_silence(b); // but for its greeting
    open_long(b, 7);
    open_long(b, 8); // has no page until the first one has been idle for a while
    int64_t due = or_verifier_turn(b->verifier);
    assert_true(due > or_clock_now(&b->clock.clock));
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_round_is_judged_once_and_its_verdict_repeated),
        TEST(the_same_tokens_in_another_shape_are_another_tree),
        TEST(a_text_told_otherwise_goes_on_as_if_it_had_always_been_so),
        TEST(a_late_prefix_does_not_turn_the_text_back),
        TEST(what_does_not_fit_is_answered_and_changes_nothing),
        TEST(bad_prefixes_are_refused),
        TEST(bad_terms_are_refused_with_the_reason),
        TEST(terms_longer_than_any_of_ours_are_refused),
        TEST(more_sessions_than_places_replace_the_oldest_idle_one),
        TEST(a_refusal_ends_the_process),
        cmocka_unit_test_setup_teardown(a_slow_target_answers_in_its_time_and_takes_along_what_came,
                                        bench_setup_slow, bench_teardown),
        {"who_is_short_of_pages_does_not_keep_the_processor_busy",
         who_is_short_of_pages_does_not_keep_the_processor_busy, bench_setup_scarce, bench_teardown,
         NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
