// Goal: a coordinator whose target has another vocabulary gets ours, and a session that is restricted
// by a map is opened only once the right map is here.
// Method: a drafter on the network in memory; the test is the coordinator, sends messages, good and
// bad, and looks at every answer.
#include "drafter/drafter.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "proto/channel_memory.h"
#include "tests/support/test_support.h"

#define STEP_NS OR_NS_PER_MS
#define STEPS 10 // more than an answer takes

static or_gguf_t *gguf;
static or_vocab_t *vocab;
static or_model_t *model;
static uint32_t vocab_size;
static int32_t *to;

static or_virtual_clock_t virtual;
static or_network_t *network;
static or_channel_t *hub_channel, *edge_channel;
static or_link_t *hub, *edge;
static or_drafter_t *drafter;
static or_peer_t peer;

static void read_model(void)
{
    const or_model_options_t options = {.threads = 1, .pages_max = 64};
    assert_int_equal(or_gguf_open(test_model("tales-bpe-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    vocab_size = or_vocab_size(vocab);
    to = malloc(vocab_size * sizeof *to);
    assert_non_null(to);
}

// The next message from the drafter that is no greeting; false if none comes.
static bool receive(or_message_t *message)
{
    for (int step = 0; step < STEPS; step++) {
        or_link_event_t event;
        or_drafter_turn(drafter);
        while (or_link_receive(hub, &event, &peer, message) == OR_OK) {
            assert_int_equal(event, OR_LINK_MESSAGE);
            if (message->type != OR_MSG_HELLO) {
                return true;
            }
            const or_message_t welcome = {.type = OR_MSG_WELCOME,
                                          .body.welcome = {.heartbeat_ms = OR_LINK_HEARTBEAT_MS}};
            assert_int_equal(or_link_send(hub, peer, &welcome), OR_OK);
            or_message_fini(message);
        }
        virtual.now_ns += STEP_NS;
    }
    return false;
}

static int setup(void **state)
{
    (void)state;
    static const or_network_faults_t no_faults = {0};
    or_message_t message;
    read_model();
    or_virtual_clock_init(&virtual, OR_NS_PER_S);
    const or_drafter_config_t config = {.nodes_max = 64, .sessions_max = 2, .gguf = gguf};
    const or_hello_t hello = or_drafter_hello(&config, gguf, model, vocab);
    const or_clock_t *clock = &virtual.clock;
    assert_int_equal(or_network_create(&virtual, 1, &no_faults, &network), OR_OK);
    assert_int_equal(or_network_hub(network, &hub_channel), OR_OK);
    assert_int_equal(or_network_edge(network, &edge_channel), OR_OK);
    assert_int_equal(or_link_create(hub_channel, clock, NULL, OR_LINK_HEARTBEAT_MS, &hub), OR_OK);
    assert_int_equal(or_link_create(edge_channel, clock, &hello, OR_LINK_HEARTBEAT_MS, &edge),
                     OR_OK);
    assert_int_equal(or_drafter_create(&config, model, vocab, edge, clock, &drafter), OR_OK);
    assert_false(receive(&message));
    assert_true(or_link_welcomed(edge));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    or_drafter_destroy(&drafter);
    or_link_destroy(&edge);
    or_link_destroy(&hub);
    or_channel_destroy(&edge_channel);
    or_channel_destroy(&hub_channel);
    or_network_destroy(&network);
    free(to);
    or_model_destroy(&model);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

static void tell(const or_message_t *message)
{
    assert_int_equal(or_link_send(hub, peer, message), OR_OK);
}

static void assert_silent(void)
{
    or_message_t message;
    assert_false(receive(&message));
}

static void assert_error(uint32_t code, uint64_t session)
{
    or_message_t message;
    assert_true(receive(&message));
    assert_int_equal(message.type, OR_MSG_ERROR);
    assert_int_equal(message.body.error.code, code);
    assert_int_equal(message.session.value, session);
    assert_true(strlen(message.body.error.text) > 10); // a sentence
    or_message_fini(&message);
    assert_silent();
}

// ---- the vocabulary ----

static void the_vocabulary_is_sent_to_who_asks(void **state)
{
    (void)state;
    or_message_t request = {.type = OR_MSG_VOCAB_REQUEST,
                            .body.vocab_request = {or_vocab_hash(vocab)}};
    for (int i = 0; i < 2; i++) { // packed, and as it was kept
        or_message_t answer;
        or_vocab_t *sent;
        tell(&request);
        assert_true(receive(&answer));
        assert_int_equal(answer.type, OR_MSG_VOCABULARY);
        const or_vocabulary_t *body = &answer.body.vocabulary;
        assert_int_equal(body->hash, or_vocab_hash(vocab));
        assert_int_equal(
            or_vocab_unpack(body->packed, body->packed_bytes, body->unpacked_bytes, &sent), OR_OK);
        assert_int_equal(or_vocab_hash(sent), or_vocab_hash(vocab));
        assert_int_equal(or_vocab_size(sent), vocab_size);
        or_vocab_destroy(&sent);
        or_message_fini(&answer);
        assert_silent();
    }
    request.body.vocab_request.hash++;
    tell(&request);
    assert_error(OR_WIRE_INVALID, 0);
}

// ---- maps ----

// A map without token `lacking`; valid until the next call.
static or_message_t map_without(uint32_t lacking)
{
    for (uint32_t i = 0; i < vocab_size; i++) {
        to[i] = i == lacking ? OR_TOKEN_NONE : (int32_t)i;
    }
    return (or_message_t){.type = OR_MSG_VOCAB_MAP,
                          .body.vocab_map = {.from_hash = or_vocab_hash(vocab),
                                             .to_hash = 7,
                                             .to = to,
                                             .count = vocab_size,
                                             .map_hash = or_vocab_map_hash(to, vocab_size)}};
}

static or_message_t open_with(uint64_t session, uint64_t map_hash)
{
    return (or_message_t){.type = OR_MSG_OPEN_SESSION,
                          .session = {session},
                          .body.open_session = {.sampling = or_sampling_default(),
                                                .accept_rule = OR_ACCEPT_COUPLED,
                                                .draft_method = OR_DRAFT_COUPLED,
                                                .draft_nodes = 4,
                                                .draft_depth = 4,
                                                .draft_temperature = 1,
                                                .vocab_method = OR_VOCAB_TLI,
                                                .map_hash = map_hash}};
}

static or_message_t prefix_of(uint64_t session)
{
    static const uint32_t tokens[] = {5, 300, 301};
    return (or_message_t){
        .type = OR_MSG_PREFIX,
        .session = {session},
        .body.prefix = {
            .tokens = tokens, .count = 3, .hash = or_prefix_hash(0, tokens, 3), .round = 1}};
}

static void a_wrong_map_is_asked_for_again(void **state)
{
    (void)state;
    or_message_t map = map_without(9);
    map.body.vocab_map.map_hash++;
    tell(&map);
    assert_error(OR_WIRE_NEED_MAP, 0);
    map = map_without(9);
    map.body.vocab_map.from_hash++;
    tell(&map);
    assert_error(OR_WIRE_INVALID, 0);
    map = map_without(9);
    const or_message_t open = open_with(1, map.body.vocab_map.map_hash);
    tell(&open); // none of them was kept
    assert_error(OR_WIRE_NEED_MAP, 1);
}

static void a_session_is_opened_when_its_map_is_here(void **state)
{
    (void)state;
    or_message_t tree;
    const or_message_t map = map_without(10);
    const or_message_t open = open_with(1, map.body.vocab_map.map_hash);
    const or_message_t prefix = prefix_of(1);
    tell(&open);
    assert_error(OR_WIRE_NEED_MAP, 1);
    tell(&prefix);
    assert_error(OR_WIRE_UNKNOWN_SESSION, 1);
    tell(&map);
    assert_silent();
    tell(&open);
    assert_silent();
    tell(&prefix);
    assert_true(receive(&tree));
    assert_int_equal(tree.type, OR_MSG_DRAFT_TREE);
    assert_int_equal(tree.session.value, 1);
    assert_true(tree.body.draft_tree.count > 0);
    or_message_fini(&tree);
    assert_silent();
    const or_message_t none = open_with(2, 0);
    tell(&none);
    assert_error(OR_WIRE_REFUSED, 2);
}

// A peer's ids are checked, whatever they are.
static void foreign_ids_are_refused(void **state)
{
    (void)state;
    const or_message_t map = map_without(11);
    const or_message_t open = open_with(3, map.body.vocab_map.map_hash);
    static const uint32_t wrong[] = {1024, 4096, INT32_MAX, UINT32_MAX};
    tell(&map);
    tell(&open);
    assert_silent();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        or_message_t prefix = prefix_of(3);
        assert_true(wrong[i] >= vocab_size);
        prefix.body.prefix.tokens = &wrong[i];
        prefix.body.prefix.count = 1;
        prefix.body.prefix.hash = or_prefix_hash(0, &wrong[i], 1);
        tell(&prefix);
        assert_error(OR_WIRE_INVALID, 3);
    }
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vocabulary_is_sent_to_who_asks),
        cmocka_unit_test(a_wrong_map_is_asked_for_again),
        cmocka_unit_test(a_session_is_opened_when_its_map_is_here),
        cmocka_unit_test(foreign_ids_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
