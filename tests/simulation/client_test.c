// Goal: a client that was told to come back leaves nothing behind that was admitted after all, and says
// when it has the end of its text, so that the coordinator may forget it.
// Method: the real client on a network in memory, the test as its coordinator.
#include <string.h>

#include "launch/client.h"
#include "proto/channel_memory.h"
#include "tests/support/test_support.h"

typedef struct {
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *channel;
    or_link_t *hub;
    or_client_t *client;
    or_peer_t peer;
    uint64_t requests[4]; // numbers, as they came
    uint32_t request_count;
    uint64_t cancelled[4]; // sessions
    uint32_t cancel_count;
    uint32_t ends; // the client gave out
} world_t;

static int set_up(void **state)
{
    static world_t world;
    world_t *w = &world;
    const or_network_faults_t none = {0};
    const or_client_config_t config = {.busy_wait_s = 60};
    const or_generate_request_t request = {.prompt = (const uint8_t *)"a", .prompt_bytes = 1};
    memset(w, 0, sizeof *w);
    or_virtual_clock_init(&w->clock, OR_NS_PER_S);
    or_channel_t *edge;
    assert_int_equal(or_network_create(&w->clock, 1, &none, &w->network), OR_OK);
    assert_int_equal(or_network_hub(w->network, &w->channel), OR_OK);
    assert_int_equal(or_link_create(w->channel, &w->clock.clock, NULL, 1000, &w->hub), OR_OK);
    assert_int_equal(or_network_edge(w->network, &edge), OR_OK);
    assert_int_equal(
        or_client_create_on(edge, &w->clock.clock, "memory", &config, &request, &w->client), OR_OK);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_t *w = *state;
    or_client_destroy(&w->client);
    or_link_destroy(&w->hub);
    or_channel_destroy(&w->channel);
    or_network_destroy(&w->network);
    return 0;
}

static void take(world_t *w, or_peer_t from, const or_message_t *message)
{
    w->peer = from;
    if (message->type == OR_MSG_HELLO) {
        const or_message_t welcome = {.type = OR_MSG_WELCOME,
                                      .body.welcome = {.software = "test",
                                                       .heartbeat_ms = 1000,
                                                       .owner = "",
                                                       .model = "",
                                                       .arith_id = ""}};
        assert_int_equal(or_link_send(w->hub, from, &welcome), OR_OK);
    } else if (message->type == OR_MSG_GENERATE_REQUEST) {
        assert_true(w->request_count < 4);
        w->requests[w->request_count++] = message->body.generate_request.request;
    } else if (message->type == OR_MSG_CANCEL) {
        assert_true(w->cancel_count < 4);
        w->cancelled[w->cancel_count++] = message->session.value;
    }
}

static void run(world_t *w, uint32_t ms)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    for (uint32_t i = 0; i <= ms; i++) {
        while (or_link_receive(w->hub, &event, &from, &message) == OR_OK) {
            if (event == OR_LINK_MESSAGE) {
                take(w, from, &message);
                or_message_fini(&message);
            }
        }
        or_link_tick(w->hub);
        if (or_client_next(w->client, w->clock.now_ns, &message) == OR_OK) {
            w->ends += message.body.generate_delta.finish != OR_FINISH_NONE;
            or_message_fini(&message);
        }
        w->clock.now_ns += OR_NS_PER_MS;
    }
}

// Session 0 has no place.
static void answer(world_t *w, uint64_t request, uint64_t session, uint32_t finish)
{
    const or_message_t delta = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = {session},
        .body.generate_delta = {.request = request,
                                .finish = finish,
                                .error = session == 0 ? "busy" : "",
                                .error_code = session == 0 ? OR_WIRE_BUSY : 0,
                                .retry_ms = session == 0 ? 500 : 0,
                                .arith_id = "",
                                .note = "",
                                .vocab_map = "",
                                .vocab_why = ""}};
    assert_int_equal(or_link_send(w->hub, w->peer, &delta), OR_OK);
    run(w, 3);
}

// The network repeated its request; one copy found no place, the other did.
static void what_was_admitted_after_all_is_cancelled(void **state)
{
    world_t *w = *state;
    run(w, 5);
    assert_int_equal(w->request_count, 1);
    answer(w, w->requests[0], 0, OR_FINISH_ERROR);
    run(w, 600);
    assert_int_equal(w->request_count, 2);
    assert_true(w->requests[1] != w->requests[0]);
    answer(w, w->requests[0], 41, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, 1);
    assert_int_equal(w->cancelled[0], 41);
    answer(w, w->requests[0], 41, OR_FINISH_CANCELLED); // the answer to that
    answer(w, w->requests[1], 43, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, 1);
    answer(w, w->requests[1], 43, OR_FINISH_LENGTH);
    assert_int_equal(w->ends, 1);
}

static void an_end_that_arrived_is_acknowledged(void **state)
{
    world_t *w = *state;
    run(w, 5);
    answer(w, w->requests[0], 41, OR_FINISH_NONE);
    assert_int_equal(w->cancel_count, 0);
    answer(w, w->requests[0], 41, OR_FINISH_LENGTH);
    assert_int_equal(w->ends, 1);
    assert_int_equal(w->cancel_count, 1);
    assert_int_equal(w->cancelled[0], 41);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_admitted_after_all_is_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_arrived_is_acknowledged, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
