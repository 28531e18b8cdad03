// Goal: the verifier answers a round once, repeats that answer, and lets nothing a peer sends
// change a text or kill the process.
// Method: the real role and model on a network in memory; the test plays the coordinator and sends
// what a correct, a confused and a hostile one would send.
#include "verifier/verifier.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/decode/token_tree.h"
#include "proto/channel_memory.h"
#include "tests/support/test_support.h"

#define CONTEXT 64

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub_channel, *channel;
    or_link_t *hub, *link;
    or_verifier_t *verifier;
    or_peer_t peer;
} bench_t;

static const or_verifier_config_t shape = {.nodes_max = 32, .sessions_max = 2};

static int setup(void **state)
{
    bench_t *b = calloc(1, sizeof *b);
    const or_model_options_t options = {.threads = 1, .context_max = CONTEXT};
    const or_network_faults_t none = {0};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &b->gguf), OR_OK);
    assert_int_equal(or_vocab_load(b->gguf, &b->vocab), OR_OK);
    assert_int_equal(or_model_load(b->gguf, &options, &b->model), OR_OK);
    or_virtual_clock_init(&b->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&b->clock, 1, &none, &b->network), OR_OK);
    assert_int_equal(or_network_hub(b->network, &b->hub_channel), OR_OK);
    assert_int_equal(or_network_edge(b->network, &b->channel), OR_OK);
    or_hello_t hello = or_verifier_hello(&shape, b->gguf, b->model, b->vocab);
    assert_int_equal(or_link_create(b->hub_channel, &b->clock.clock, NULL, 1000, &b->hub), OR_OK);
    assert_int_equal(or_link_create(b->channel, &b->clock.clock, &hello, 1000, &b->link), OR_OK);
    assert_int_equal(
        or_verifier_create(&shape, b->model, b->vocab, b->link, &b->clock.clock, &b->verifier),
        OR_OK);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench_t *b = *state;
    or_verifier_destroy(&b->verifier);
    or_link_destroy(&b->link);
    or_link_destroy(&b->hub);
    or_channel_destroy(&b->channel);
    or_channel_destroy(&b->hub_channel);
    or_network_destroy(&b->network);
    or_model_destroy(&b->model);
    or_vocab_destroy(&b->vocab);
    or_gguf_close(&b->gguf);
    free(b);
    return 0;
}

// Run until the verifier says something other than a greeting; OR_MSG_HEARTBEAT stands for silence.
// The caller finis *message.
static or_message_type_t hear(bench_t *b, or_message_t *message)
{
    for (int i = 0; i < 100; i++) {
        or_link_event_t event;
        or_verifier_turn(b->verifier);
        or_link_tick(b->hub);
        while (or_link_receive(b->hub, &event, &b->peer, message) == OR_OK) {
            if (event == OR_LINK_MESSAGE && message->type != OR_MSG_HELLO) {
                return message->type;
            }
            or_message_fini(message);
        }
    }
    memset(message, 0, sizeof *message);
    return OR_MSG_HEARTBEAT;
}

static void say(bench_t *b, or_message_t message)
{
    message.session.value = message.session.value == 0 ? 7 : message.session.value;
    assert_int_equal(or_link_send(b->hub, b->peer, &message), OR_OK);
}

static or_open_session_t usual_terms(void)
{
    or_open_session_t open = {.sampling = or_sampling_default(),
                              .accept_rule = OR_ACCEPT_COUPLED,
                              .draft_method = OR_DRAFT_COUPLED,
                              .draft_nodes = 16,
                              .draft_depth = 8,
                              .draft_temperature = 1,
                              .prompt_length = 3};
    open.sampling.temperature = 0;
    return open;
}

static const uint32_t prompt[] = {1, 458, 1112};

static void greet_and_open(bench_t *b)
{
    or_message_t message;
    hear(b, &message); // Hello: now the hub knows the peer
    say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .body.open_session = usual_terms()});
    say(b, (or_message_t){.type = OR_MSG_PREFIX,
                          .body.prefix = {.tokens = prompt,
                                          .count = 3,
                                          .hash = or_prefix_hash(0, prompt, 3),
                                          .round = 1}});
}

static or_message_t tree_of(uint64_t round, const uint32_t *tokens, const uint32_t *back,
                            uint32_t count)
{
    return (or_message_t){.type = OR_MSG_DRAFT_TREE,
                          .body.draft_tree = {.round = round,
                                              .base_length = 3,
                                              .base_hash = or_prefix_hash(0, prompt, 3),
                                              .tokens = tokens,
                                              .back = back,
                                              .count = count}};
}

static void expect_error(bench_t *b, or_wire_error_t code)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_ERROR);
    assert_int_equal(message.body.error.code, code);
    assert_true(strlen(message.body.error.text) > 0);
    or_message_fini(&message);
}

static void expect_silence(bench_t *b)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_HEARTBEAT);
}

static const uint32_t two[] = {5, 6};
static const uint32_t other_two[] = {5, 7};
static const uint32_t chain[] = {1, 1};

static void a_round_is_judged_once_and_its_verdict_repeated(void **state)
{
    bench_t *b = *state;
    or_message_t first, again;
    greet_and_open(b);
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
    greet_and_open(b);
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
    greet_and_open(b);
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
    greet_and_open(b);
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
    uint32_t most[CONTEXT - 3];
    for (uint32_t i = 0; i < CONTEXT - 3; i++) {
        most[i] = 300 + i;
    }
    or_message_t longest = {.type = OR_MSG_PREFIX,
                            .session = {8},
                            .body.prefix = {.tokens = most,
                                            .count = CONTEXT - 3,
                                            .hash = or_prefix_hash(0, most, CONTEXT - 3),
                                            .round = 1}};
    or_message_t beyond_context = tree_of(1, deep_tokens, deep_back, 4);
    beyond_context.session.value = 8;
    beyond_context.body.draft_tree.base_length = CONTEXT - 3;
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
    uint32_t many[CONTEXT + 1] = {0};
    static const uint32_t beyond[] = {1, 4096};
    greet_and_open(b);
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
                                       .count = CONTEXT + 1,
                                       .hash = or_prefix_hash(0, many, CONTEXT + 1),
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

static void more_sessions_than_places_replace_the_oldest_idle_one(void **state)
{
    bench_t *b = *state;
    greet_and_open(b);
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

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_round_is_judged_once_and_its_verdict_repeated, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_same_tokens_in_another_shape_are_another_tree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_text_told_otherwise_goes_on_as_if_it_had_always_been_so,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_late_prefix_does_not_turn_the_text_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_answered_and_changes_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(bad_prefixes_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_terms_are_refused_with_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(more_sessions_than_places_replace_the_oldest_idle_one,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_ends_the_process, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
