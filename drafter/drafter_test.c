// Goal: a coordinator whose target has another vocabulary gets ours; a session that is restricted by a
// map is opened only once the right map is here, one that drafts strings (slrs) only once the target's
// vocabulary is, and questions about its strings are answered, or refused, one by one.
// Method: a drafter on the network in memory; the test is the coordinator, sends messages, good and
// bad, and looks at every answer.
#include "drafter/drafter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define STEP_NS OR_NS_PER_MS
#define STEPS 10 // more than an answer takes

static or_gguf_t *gguf, *target_gguf;
static or_vocab_t *vocab, *target;
static uint8_t *packed; // the target's
static size_t packed_bytes, unpacked_bytes;
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
    assert_int_equal(or_gguf_open(test_model("tales-6m-f16.gguf"), &target_gguf), OR_OK);
    assert_int_equal(or_vocab_load(target_gguf, &target), OR_OK);
    assert_int_equal(or_vocab_pack(target_gguf, &packed, &packed_bytes, &unpacked_bytes), OR_OK);
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
    free(packed);
    or_vocab_destroy(&target);
    or_gguf_close(&target_gguf);
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

// ---- strings (slrs) ----

static or_message_t open_strings(uint64_t session)
{
    or_message_t open = open_with(session, 0);
    or_open_session_t *body = &open.body.open_session;
    body->sampling.temperature = 1;
    body->accept_rule = OR_ACCEPT_SLRS;
    body->draft_method = OR_DRAFT_CHAIN;
    body->draft_key = 41;
    body->distribution_entries = OR_DISTRIBUTION_ENTRIES;
    body->vocab_method = OR_VOCAB_SLRS;
    body->target_hash = or_vocab_hash(target);
    return open;
}

static or_message_t target_vocabulary(uint64_t session)
{
    return (or_message_t){.type = OR_MSG_VOCABULARY,
                          .session = {session},
                          .body.vocabulary = {.hash = or_vocab_hash(target),
                                              .unpacked_bytes = (uint32_t)unpacked_bytes,
                                              .packed = packed,
                                              .packed_bytes = (uint32_t)packed_bytes}};
}

static void assert_asks_for_target(uint64_t session)
{
    or_message_t message;
    assert_true(receive(&message));
    assert_int_equal(message.type, OR_MSG_VOCAB_REQUEST);
    assert_int_equal(message.session.value, session);
    assert_int_equal(message.body.vocab_request.hash, or_vocab_hash(target));
    or_message_fini(&message);
    assert_silent();
}

static void cancel(uint64_t session)
{
    const or_message_t message = {.type = OR_MSG_CANCEL, .session = {session}};
    tell(&message);
    assert_silent();
}

// The first of these tests: no target is known yet.
static void a_session_of_strings_needs_the_targets_vocabulary(void **state)
{
    (void)state;
    const or_message_t open = open_strings(20);
    const or_message_t prefix = prefix_of(20);
    or_message_t wrong = target_vocabulary(20);
    for (int lost = 0; lost < 2; lost++) { // an answer that never came is asked for again
        tell(&open);
        assert_asks_for_target(20);
        tell(&prefix);
        assert_error(OR_WIRE_UNKNOWN_SESSION, 20);
    }
    wrong.body.vocabulary.packed_bytes /= 2;
    tell(&wrong);
    assert_error(OR_WIRE_REFUSED, 20);
    wrong = target_vocabulary(20);
    wrong.body.vocabulary.hash ^= 1;
    tell(&wrong);
    assert_error(OR_WIRE_REFUSED, 20);
    tell(&open); // none of them was kept
    assert_asks_for_target(20);
    const or_message_t right = target_vocabulary(20);
    for (int copy = 0; copy < 2; copy++) {
        tell(&right);
        assert_error(OR_WIRE_UNKNOWN_SESSION, 20); // and so it is opened again
    }
    tell(&open);
    assert_silent();
    cancel(20);
}

static void a_session_that_would_never_end_is_refused(void **state)
{
    (void)state;
    or_message_t vocabulary = target_vocabulary(21);
    or_message_t open = open_strings(21);
    or_message_t answer;
    open.body.open_session.distribution_entries = OR_DISTRIBUTION_ENTRIES_MAX;
    tell(&vocabulary);
    assert_error(OR_WIRE_UNKNOWN_SESSION, 21);
    tell(&open);
    assert_true(receive(&answer));
    assert_int_equal(answer.type, OR_MSG_ERROR);
    assert_int_equal(answer.body.error.code, OR_WIRE_REFUSED);
    assert_non_null(strstr(answer.body.error.text, "model rows for one answer, 4096 are the most"));
    or_message_fini(&answer);
    assert_silent();
}

// The chain for round 1 of a fresh session; to be freed.
static or_message_t draft_strings(uint64_t session)
{
    const or_message_t vocabulary = target_vocabulary(session);
    const or_message_t open = open_strings(session);
    const or_message_t prefix = prefix_of(session);
    or_message_t tree;
    tell(&vocabulary);
    assert_error(OR_WIRE_UNKNOWN_SESSION, session);
    tell(&open);
    tell(&prefix);
    assert_true(receive(&tree));
    assert_int_equal(tree.type, OR_MSG_DRAFT_TREE);
    const or_draft_tree_t *body = &tree.body.draft_tree;
    assert_true(body->count > 0);
    assert_int_equal(body->psi_count, body->count);
    for (uint32_t i = 0; i < body->count; i++) {
        assert_true(body->tokens[i] <= or_vocab_size(target));
        assert_true(body->psi[i] > 0 || body->tokens[i] == or_vocab_size(target));
    }
    return tree;
}

// About what follows `node` of the chain that stands on the usual prefix; no tokens: all.
static or_message_t question(uint64_t session, uint32_t node, const uint32_t *tokens,
                             uint32_t count)
{
    const or_message_t prefix = prefix_of(session);
    return (or_message_t){.type = OR_MSG_PSI_REQUEST,
                          .session = {session},
                          .body.psi_request = {.round = 1,
                                               .base_length = prefix.body.prefix.count,
                                               .base_hash = prefix.body.prefix.hash,
                                               .node = node,
                                               .tokens = tokens,
                                               .count = count}};
}

// The answer; to be freed.
static or_message_t answer_to(const or_message_t *request)
{
    or_message_t answer;
    tell(request);
    assert_true(receive(&answer));
    assert_int_equal(answer.type, OR_MSG_PSI_REPLY);
    assert_int_equal(answer.session.value, request->session.value);
    assert_int_equal(answer.body.psi_reply.round, request->body.psi_request.round);
    assert_int_equal(answer.body.psi_reply.node, request->body.psi_request.node);
    assert_silent();
    return answer;
}

static double psi_of(const or_psi_reply_t *reply, uint32_t token)
{
    for (uint32_t i = 0; i < reply->count; i++) {
        if (reply->tokens[i] == token) {
            return reply->psi[i];
        }
    }
    return 0;
}

static void assert_same_reply(const or_psi_reply_t *a, const or_psi_reply_t *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->tokens, b->tokens, a->count * sizeof *a->tokens);
    assert_memory_equal(a->psi, b->psi, a->count * sizeof *a->psi);
}

static void questions_about_strings_are_answered(void **state)
{
    (void)state;
    or_message_t tree = draft_strings(22);
    const or_draft_tree_t *chain = &tree.body.draft_tree;
    for (uint32_t node = 0; node < chain->count; node++) {
        uint32_t token = chain->tokens[node];
        const or_message_t all = question(22, node, NULL, 0);
        or_message_t first = answer_to(&all);
        or_message_t again = answer_to(&all);
        assert_same_reply(&first.body.psi_reply, &again.body.psi_reply);
        assert_true(first.body.psi_reply.count > 0);
        if (token < or_vocab_size(target)) {
            const or_message_t one = question(22, node, &token, 1);
            or_message_t answer = answer_to(&one);
            double psi = chain->psi[node];
            assert_int_equal(answer.body.psi_reply.count, 1);
            assert_int_equal(answer.body.psi_reply.tokens[0], token);
            assert_true(fabs(answer.body.psi_reply.psi[0] - psi) <= 1e-14 * psi);
            assert_true(fabs(psi_of(&first.body.psi_reply, token) - psi) <= 1e-14 * psi);
            or_message_fini(&answer);
        }
        or_message_fini(&again);
        or_message_fini(&first);
    }
    or_message_fini(&tree);
    cancel(22);
}

static void wrong_questions_cost_nothing(void **state)
{
    (void)state;
    or_message_t tree = draft_strings(23);
    const uint32_t size = or_vocab_size(target), count = tree.body.draft_tree.count;
    const uint32_t beyond[] = {7, size}, negative[] = {UINT32_MAX}, falling[] = {9, 8},
                   repeated[] = {8, 8};
    const or_message_t good = question(23, 0, NULL, 0);
    or_message_t first = answer_to(&good);
    const or_message_t senseless[] = {
        question(23, count, NULL, 0),        question(23, UINT32_MAX, NULL, 0),
        question(23, 0, beyond, 2),          question(23, 0, negative, 1),
        question(23, count - 1, falling, 2), question(23, 0, repeated, 2),
    };
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        tell(&senseless[i]);
        assert_error(OR_WIRE_INVALID, 23);
    }
    or_message_t stale = good;
    stale.body.psi_request.round = 0; // nobody waits for it any more
    tell(&stale);
    assert_silent();
    or_message_t early = good, elsewhere = good, longer = good;
    early.body.psi_request.round = 2;
    elsewhere.body.psi_request.base_hash ^= 1;
    longer.body.psi_request.base_length++;
    const or_message_t *astray[] = {&early, &elsewhere, &longer};
    for (size_t i = 0; i < sizeof astray / sizeof *astray; i++) {
        tell(astray[i]);
        assert_error(OR_WIRE_NEED_PREFIX, 23);
    }
    or_message_t again = answer_to(&good); // the chain is what it was
    assert_same_reply(&first.body.psi_reply, &again.body.psi_reply);
    or_message_fini(&again);
    or_message_fini(&first);
    or_message_fini(&tree);
    cancel(23);
    tell(&good);
    assert_error(OR_WIRE_UNKNOWN_SESSION, 23);
}

static void who_drafts_no_strings_is_not_asked(void **state)
{
    (void)state;
    const or_message_t map = map_without(12);
    const or_message_t open = open_with(24, map.body.vocab_map.map_hash);
    const or_message_t prefix = prefix_of(24);
    const or_message_t all = question(24, 0, NULL, 0);
    or_message_t tree;
    tell(&map);
    tell(&open);
    tell(&prefix);
    assert_true(receive(&tree));
    or_message_fini(&tree);
    tell(&all);
    assert_error(OR_WIRE_INVALID, 24);
    cancel(24);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vocabulary_is_sent_to_who_asks),
        cmocka_unit_test(a_wrong_map_is_asked_for_again),
        cmocka_unit_test(a_session_is_opened_when_its_map_is_here),
        cmocka_unit_test(foreign_ids_are_refused),
        cmocka_unit_test(a_session_of_strings_needs_the_targets_vocabulary),
        cmocka_unit_test(a_session_that_would_never_end_is_refused),
        cmocka_unit_test(questions_about_strings_are_answered),
        cmocka_unit_test(wrong_questions_cost_nothing),
        cmocka_unit_test(who_drafts_no_strings_is_not_asked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
