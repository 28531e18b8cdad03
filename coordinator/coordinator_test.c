// Goal: a request is served whatever drafters do; what a peer gets wrong costs that peer only, and
// is answered with a sentence.
// Method: the real coordinator on a network in memory. The test plays all its peers: a verifier
// that always writes token 5, a client, and drafters that are wrong in every way the wire allows.
#include "coordinator/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "proto/channel_memory.h"
#include "tests/support/test_support.h"

#define TARGET 4711u // the target file's fingerprint

typedef struct {
    or_channel_t *channel;
    or_link_t *link;
} edge_t;

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub_channel;
    or_link_t *hub;
    or_coordinator_t *coordinator;
    edge_t verifier, drafter, client;
    uint32_t trees;    // that reached the verifier
    uint32_t nodes;    // in them
    uint32_t prefixes; // that reached the drafter
    or_session_id_t session;
    or_prefix_t last; // the drafter's view: length, hash, round
    or_generate_delta_t end;
    char error[512];
    bool slow;           // the verifier does not answer
    uint32_t told_nodes; // that the drafter may build
    uint64_t order[8];   // requests as they ended
    uint32_t ended;
    uint32_t forged_hash;    // verdicts still to be sent with a wrong hash
    uint32_t refused_trees;  // trees still to be called invalid, twice each
    uint64_t drafter_secret; // private keys the drafter was told, or-ed
    char refusal[512];       // what the drafter was told with session 0
} world_t;

static void join(world_t *w, edge_t *edge, or_hello_t hello)
{
    hello.software = "test";
    hello.arith_id = hello.arith_id != NULL ? hello.arith_id : "";
    hello.owner = "";
    hello.model = "m.gguf";
    hello.context_max = 64;
    hello.nodes_max = 32;
    assert_int_equal(or_network_edge(w->network, &edge->channel), OR_OK);
    assert_int_equal(or_link_create(edge->channel, &w->clock.clock, &hello, 1000, &edge->link),
                     OR_OK);
}

static void leave(edge_t *edge)
{
    or_link_destroy(&edge->link);
    or_channel_destroy(&edge->channel);
}

static int setup(void **state)
{
    world_t *w = calloc(1, sizeof *w);
    const or_network_faults_t none = {0};
    or_coordinator_config_t config = or_coordinator_config_default();
    config.model_name = "target.gguf";
    config.verifier_timeout_ms = 5000;
    config.model_hash = TARGET;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &w->gguf), OR_OK);
    assert_int_equal(or_vocab_load(w->gguf, &w->vocab), OR_OK);
    or_virtual_clock_init(&w->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&w->clock, 1, &none, &w->network), OR_OK);
    assert_int_equal(or_network_hub(w->network, &w->hub_channel), OR_OK);
    assert_int_equal(or_link_create(w->hub_channel, &w->clock.clock, NULL, 1000, &w->hub), OR_OK);
    assert_int_equal(
        or_coordinator_create(&config, w->vocab, w->hub, &w->clock.clock, &w->coordinator), OR_OK);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_t *w = *state;
    leave(&w->client);
    leave(&w->drafter);
    leave(&w->verifier);
    or_coordinator_destroy(&w->coordinator);
    or_link_destroy(&w->hub);
    or_channel_destroy(&w->hub_channel);
    or_network_destroy(&w->network);
    or_vocab_destroy(&w->vocab);
    or_gguf_close(&w->gguf);
    free(w);
    return 0;
}

// The target writes 5, whatever the tree.
static void verifier_answers(world_t *w, const or_message_t *message)
{
    static const uint32_t five = 5;
    if (message->type != OR_MSG_DRAFT_TREE) {
        return;
    }
    const or_draft_tree_t *tree = &message->body.draft_tree;
    if (w->refused_trees > 0 && tree->count > 0) {
        w->refused_trees--;
        const or_message_t error = {
            .type = OR_MSG_ERROR,
            .session = message->session,
            .body.error = {.code = OR_WIRE_INVALID, .text = "no", .round = tree->round}};
        assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &error), OR_OK);
        assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &error), OR_OK);
        return;
    }
    w->trees++;
    w->nodes += tree->count;
    if (w->slow) {
        return;
    }
    const or_message_t verdict = {
        .type = OR_MSG_VERDICT,
        .session = message->session,
        .body.verdict = {.round = tree->round,
                         .base_length = tree->base_length,
                         .next = five,
                         .hash = or_prefix_hash(tree->base_hash, &five, 1) + (w->forged_hash > 0)},
    };
    w->forged_hash -= w->forged_hash > 0;
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &verdict), OR_OK);
}

static void drafter_notes(world_t *w, const or_message_t *message)
{
    if (message->type == OR_MSG_OPEN_SESSION) {
        w->drafter_secret |= message->body.open_session.private_key;
        w->told_nodes = message->body.open_session.draft_nodes;
    }
    if (message->type == OR_MSG_PREFIX) {
        w->prefixes++;
        w->session = message->session;
        w->last = message->body.prefix;
    } else if (message->type == OR_MSG_ERROR && message->session.value == 0) {
        strncpy(w->refusal, message->body.error.text, sizeof w->refusal - 1);
    }
}

static void client_notes(world_t *w, const or_message_t *message)
{
    if (message->type == OR_MSG_GENERATE_DELTA &&
        message->body.generate_delta.finish != OR_FINISH_NONE) {
        w->end = message->body.generate_delta;
        if (w->ended < 8) {
            w->order[w->ended++] = w->end.request;
        }
        strncpy(w->error, w->end.error, sizeof w->error - 1);
    }
}

static void hear(world_t *w, edge_t *edge, void (*act)(world_t *, const or_message_t *))
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message = {0};
    while (edge->link != NULL && or_link_receive(edge->link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            act(w, &message);
            or_message_fini(&message);
        }
    }
    if (edge->link != NULL) {
        or_link_tick(edge->link);
    }
}

// Let `ms` virtual milliseconds pass.
static void run(world_t *w, uint32_t ms)
{
    for (uint32_t i = 0; i <= ms; i++) {
        for (int k = 0; k < 3; k++) {
            or_coordinator_turn(w->coordinator);
            hear(w, &w->verifier, verifier_answers);
            hear(w, &w->drafter, drafter_notes);
            hear(w, &w->client, client_notes);
        }
        w->clock.now_ns += OR_NS_PER_MS;
    }
}

static void join_usual(world_t *w)
{
    uint64_t hash = or_vocab_hash(w->vocab);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = hash, .model_hash = TARGET});
    join(w, &w->drafter, (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = hash});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
}

static void ask(world_t *w, or_generate_request_t request)
{
    static const uint32_t prompt[] = {1, 458, 1112};
    if (request.prompt_token_count == 0) {
        request.prompt_tokens = prompt;
        request.prompt_token_count = 3;
    }
    request.request = request.request != 0 ? request.request : 77;
    const or_message_t message = {.type = OR_MSG_GENERATE_REQUEST,
                                  .body.generate_request = request};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
}

static or_generate_request_t usual_request(uint32_t tokens)
{
    or_generate_request_t request = {.max_tokens = tokens,
                                     .sampling = or_sampling_default(),
                                     .has_seed = true,
                                     .draft_method = OR_DRAFT_COUPLED,
                                     .accept_rule = OR_ACCEPT_COUPLED,
                                     .draft_nodes = 8,
                                     .draft_depth = 8};
    request.sampling.temperature = 0;
    return request;
}

static void draft(world_t *w, uint64_t round, uint32_t base_length, uint64_t base_hash,
                  const uint32_t *tokens, const uint32_t *back, uint32_t count)
{
    const or_message_t message = {.type = OR_MSG_DRAFT_TREE,
                                  .session = w->session,
                                  .body.draft_tree = {.round = round,
                                                      .base_length = base_length,
                                                      .base_hash = base_hash,
                                                      .tokens = tokens,
                                                      .back = back,
                                                      .count = count}};
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &message), OR_OK);
}

static const uint32_t tokens[] = {5, 6, 7, 8, 9, 10, 11, 12, 13};
static const uint32_t chain[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

static void a_silent_drafter_is_bridged(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(4));
    run(w, 900);
    assert_int_equal(w->trees, 0); // it is given its second
    run(w, 300);
    assert_int_equal(w->trees, 4); // then nobody waits for it any more
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.plain_rounds, 4);
    assert_true(w->prefixes >= 2); // it was reminded
}

static void a_late_drafter_is_waited_for_once_it_speaks(void **state)
{
    world_t *w = *state;
    static const uint32_t five = 5;
    join_usual(w);
    w->slow = true;
    ask(w, usual_request(3));
    run(w, 1100); // the first round goes on without it
    assert_int_equal(w->trees, 1);
    draft(w, 1, w->last.count, w->last.hash, tokens, chain, 2); // too late, but a sign of life
    run(w, 5);
    w->slow = false;
    run(w, 950); // asked again, the verifier answers: the second round waits for a tree
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
    draft(w, 2, w->last.count + 1, or_prefix_hash(w->last.hash, &five, 1), tokens, chain, 2);
    run(w, 10);
    assert_int_equal(w->nodes, 2);
}

static void a_good_tree_reaches_the_verifier(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(1));
    run(w, 5);
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 8);
    run(w, 5);
    assert_int_equal(w->nodes, 8);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void a_tree_on_another_prefix_brings_the_prefix_again(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(1));
    run(w, 5);
    uint32_t before = w->prefixes;
    draft(w, w->last.round, w->last.count, w->last.hash + 1, tokens, chain, 2);
    draft(w, w->last.round + 5, w->last.count, w->last.hash, tokens, chain,
          2); // of the future: ignored
    run(w, 5);
    assert_int_equal(w->trees, 0);
    assert_int_equal(w->prefixes, before + 1);
}

// Each bad tree costs the drafter the session; the text goes on.
static void bad_trees_cost_their_sender_the_session(void **state)
{
    world_t *w = *state;
    static const uint32_t beyond[] = {4096};
    static const uint32_t zero[] = {0};
    static const uint32_t far[] = {2};
    const struct {
        const uint32_t *tokens, *back;
        uint32_t count;
    } bad[] = {{beyond, chain, 1}, {tokens, zero, 1}, {tokens, far, 1}, {tokens, chain, 9}};
    join_usual(w);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        w->trees = 0;
        w->nodes = 0;
        memset(&w->end, 0, sizeof w->end);
        or_generate_request_t request = usual_request(3);
        ask(w, request);
        run(w, 5);
        draft(w, w->last.round, w->last.count, w->last.hash, bad[i].tokens, bad[i].back,
              bad[i].count);
        run(w, 20); // well below the draft time-out: the session did not wait
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_int_equal(w->trees, 3);
        assert_int_equal(w->nodes, 0);
        const or_message_t forget = {
            .type = OR_MSG_CANCEL, .session = w->session, .body.cancel = {.reason = "done"}};
        assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &forget), OR_OK);
        run(w, 5);
    }
}

static void a_forged_verdict_ends_the_text_with_an_error(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->forged_hash = 1;
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->end.count, 0); // nothing of it was shown
}

static void a_tree_that_the_verifier_refuses_is_replaced_by_a_plain_step(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->refused_trees = 1;
    ask(w, usual_request(1));
    run(w, 5);
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 8);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->nodes, 0);
}

static void a_drafter_is_told_no_secret(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(1));
    run(w, 5);
    assert_true(w->prefixes > 0);
    assert_int_equal(w->drafter_secret, 0);
}

static void ignore(world_t *w, const or_message_t *message)
{
    (void)w;
    (void)message;
}

// An edge beside the usual three says Hello and is heard.
static void join_beside(world_t *w, edge_t *edge, or_hello_t hello)
{
    join(w, edge, hello);
    hear(w, edge, ignore);
    run(w, 5);
    hear(w, edge, ignore);
    assert_true(or_link_welcomed(edge->link));
}

// Drafters that cannot serve are not asked in turn for ever.
static void two_unfit_drafters_leave_a_plain_text(void **state)
{
    world_t *w = *state;
    edge_t second = {0};
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    join_usual(w);
    join_beside(w, &second,
                (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    ask(w, usual_request(4));
    for (int i = 0; i < 50 && w->end.finish == OR_FINISH_NONE; i++) {
        edge_t *edges[] = {&w->drafter, &second};
        for (int k = 0; k < 2; k++) {
            const or_message_t unfit = {
                .type = OR_MSG_ERROR,
                .session = w->session,
                .body.error = {.code = OR_WIRE_CONTEXT, .text = "too long for me"}};
            while (or_link_receive(edges[k]->link, &event, &from, &message) == OR_OK) {
                if (event == OR_LINK_MESSAGE) {
                    drafter_notes(w, &message);
                    or_message_fini(&message);
                }
            }
            or_link_tick(edges[k]->link);
            if (w->session.value != 0) {
                assert_int_equal(or_link_send(edges[k]->link, OR_PEER_HUB, &unfit), OR_OK);
            }
        }
        run(w, 1);
    }
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_true(w->end.stats.elapsed_us < 500 * 1000);
    leave(&second);
}

static void a_full_verifier_serves_in_order_of_arrival(void **state)
{
    world_t *w = *state;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET,
                      .sessions_max = 1});
    run(w, 5);
    for (uint64_t id = 1; id <= 5; id++) {
        or_generate_request_t request = usual_request(4);
        request.plain = true;
        request.request = id;
        ask(w, request);
        run(w, 1);
    }
    run(w, 100);
    assert_int_equal(w->ended, 5);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(w->order[id - 1], id);
    }
}

static void the_verifiers_limit_is_told_and_costs_no_drafter_its_session(void **state)
{
    world_t *w = *state;
    uint32_t many[40], back[40];
    static const uint32_t five = 5;
    for (uint32_t i = 0; i < 40; i++) {
        many[i] = 300 + i;
        back[i] = i + 1; // all children of the root
    }
    join_usual(w);
    or_generate_request_t request = usual_request(2);
    request.draft_nodes = 64;
    ask(w, request);
    run(w, 5);
    assert_int_equal(w->told_nodes, 32);
    draft(w, 1, w->last.count, w->last.hash, many, back, 40); // it was told by an earlier verifier
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 0); // a plain step instead
    draft(w, 2, w->last.count + 1, or_prefix_hash(w->last.hash, &five, 1), many, back, 30);
    run(w, 5);
    assert_int_equal(w->nodes, 30);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void another_target_is_refused(void **state)
{
    world_t *w = *state;
    join(w, &w->drafter, // the test's ear for refusals
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET + 1});
    run(w, 5);
    assert_non_null(strstr(w->refusal, "target.gguf"));
}

// The newer of two verifiers serves; when it goes the older one does, unless it computes otherwise.
static void the_verifier_that_is_left_serves(void **state)
{
    world_t *w = *state;
    edge_t newer = {0};
    or_hello_t hello = {
        .role = OR_ROLE_VERIFIER, .vocab_hash = or_vocab_hash(w->vocab), .model_hash = TARGET};
    join_usual(w);
    join_beside(w, &newer, hello);
    leave(&newer);
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void a_text_is_not_continued_with_other_arithmetic(void **state)
{
    world_t *w = *state;
    edge_t newer = {0};
    or_hello_t hello = {.role = OR_ROLE_VERIFIER,
                        .arith_id = "another",
                        .vocab_hash = or_vocab_hash(w->vocab),
                        .model_hash = TARGET};
    join_usual(w);
    ask(w, usual_request(3));
    run(w, 5); // it waits for the drafter's tree
    join_beside(w, &newer, hello);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "arithmetic"));
    leave(&newer);
}

static void a_coordinator_that_stops_says_so(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(3));
    run(w, 5);
    or_coordinator_shutdown(w->coordinator);
    run(w, 5);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "shutting down"));
}

static void another_vocabulary_is_refused_with_advice(void **state)
{
    world_t *w = *state;
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = 1, .vocab_size = 1024});
    run(w, 5);
    assert_non_null(strstr(w->refusal, "vocabulary"));
    assert_non_null(strstr(w->refusal, "target.gguf"));
}

static void without_a_verifier_a_request_ends_with_advice(void **state)
{
    world_t *w = *state;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    ask(w, usual_request(1));
    run(w, 6000);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "outrider-verifier"));
}

static void bad_requests_are_answered(void **state)
{
    world_t *w = *state;
    uint32_t many[80];
    static const uint32_t beyond[] = {4096};
    for (uint32_t i = 0; i < 80; i++) {
        many[i] = 5;
    }
    or_generate_request_t bad[6];
    for (int i = 0; i < 6; i++) {
        bad[i] = usual_request(4);
    }
    bad[0].prompt_tokens = many; // longer than the context of 64
    bad[0].prompt_token_count = 80;
    bad[1].prompt_tokens = beyond;
    bad[1].prompt_token_count = 1;
    bad[2].sampling.top_p = 7;
    bad[3].draft_nodes = 100000;
    bad[4].draft_method = 42;
    bad[5].accept_rule = OR_ACCEPT_GREEDY;
    bad[5].sampling.temperature = 1;
    join_usual(w);
    for (int i = 0; i < 6; i++) {
        memset(&w->end, 0, sizeof w->end);
        ask(w, bad[i]);
        run(w, 10);
        assert_int_equal(w->end.finish, OR_FINISH_ERROR);
        assert_true(strlen(w->error) > 10);
        leave(&w->client); // the next request comes from a new client
        join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
        run(w, 10);
    }
}

static void a_repeated_request_is_the_same_request(void **state)
{
    world_t *w = *state;
    join_usual(w);
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    ask(w, request);
    run(w, 20);
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->trees, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.offset, 0); // told again from the beginning
    assert_int_equal(w->end.count, 3);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_silent_drafter_is_bridged),
        TEST(a_late_drafter_is_waited_for_once_it_speaks),
        TEST(a_good_tree_reaches_the_verifier),
        TEST(a_tree_on_another_prefix_brings_the_prefix_again),
        TEST(bad_trees_cost_their_sender_the_session),
        TEST(a_forged_verdict_ends_the_text_with_an_error),
        TEST(a_tree_that_the_verifier_refuses_is_replaced_by_a_plain_step),
        TEST(a_drafter_is_told_no_secret),
        TEST(two_unfit_drafters_leave_a_plain_text),
        TEST(a_full_verifier_serves_in_order_of_arrival),
        TEST(the_verifiers_limit_is_told_and_costs_no_drafter_its_session),
        TEST(another_target_is_refused),
        TEST(the_verifier_that_is_left_serves),
        TEST(a_text_is_not_continued_with_other_arithmetic),
        TEST(a_coordinator_that_stops_says_so),
        TEST(another_vocabulary_is_refused_with_advice),
        TEST(without_a_verifier_a_request_ends_with_advice),
        TEST(bad_requests_are_answered),
        TEST(a_repeated_request_is_the_same_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
