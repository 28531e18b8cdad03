// Goal: both transports keep the promises of channel.h.
// Method: one list of tests, run over the network in memory, over ZeroMQ on loopback, and over that encrypted;
// what differs (time, crashes) is behind the fixture. Messages are awaited, never slept for.
#include "proto/net/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/wire/message.h"
#include "proto/zmq/channel_zmq.h"
#include "tests/support/memory_network.h"
#include "tests/support/test_support.h"

#define EDGES 2
#define PATIENCE_NS (5 * OR_NS_PER_S)

typedef struct {
    or_channel_t *hub;
    or_channel_t *edges[EDGES];
    or_network_t *network; // NULL: ZeroMQ
    or_virtual_clock_t clock;
} fixture_t;

static int set_up_memory(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    const or_network_faults_t faults = {.delay_min_ns = 1000, .delay_max_ns = 1000};
    or_virtual_clock_init(&fixture->clock, 0);
    assert_int_equal(or_network_create(&fixture->clock, 1, &faults, &fixture->network), OR_OK);
    assert_int_equal(or_network_hub(fixture->network, &fixture->hub), OR_OK);
    for (int i = 0; i < EDGES; i++) {
        assert_int_equal(or_network_edge(fixture->network, &fixture->edges[i]), OR_OK);
    }
    *context = fixture;
    return 0;
}

static or_status_t listen_on(const char *endpoint, char *bound, size_t capacity, or_channel_t **hub)
{
    const or_channel_listen_t listen = {.endpoint = endpoint};
    return or_channel_zmq_bind(&listen, 1, NULL, bound, capacity, hub);
}

static int set_up_zmq(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    char endpoint[128];
    assert_int_equal(listen_on("tcp://127.0.0.1:*", endpoint, sizeof endpoint, &fixture->hub),
                     OR_OK);
    for (int i = 0; i < EDGES; i++) {
        assert_int_equal(or_channel_zmq_connect(endpoint, NULL, &fixture->edges[i]), OR_OK);
    }
    *context = fixture;
    return 0;
}

static bool admit_all(void *context, const char *public_key)
{
    (void)context;
    (void)public_key;
    return true;
}

static int set_up_curve(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    char endpoint[128];
    or_key_pair_t own;
    assert_int_equal(or_key_pair_create(&own), OR_OK);
    const or_channel_listen_t listen = {"tcp://127.0.0.1:*", true};
    const or_channel_server_t server = {&own, admit_all, NULL};
    assert_int_equal(
        or_channel_zmq_bind(&listen, 1, &server, endpoint, sizeof endpoint, &fixture->hub), OR_OK);
    for (int i = 0; i < EDGES; i++) {
        or_connect_keys_t keys = {.encrypted = true};
        memcpy(keys.server_key, own.public_key, sizeof keys.server_key);
        assert_int_equal(or_key_pair_create(&keys.own), OR_OK);
        assert_int_equal(or_channel_zmq_connect(endpoint, &keys, &fixture->edges[i]), OR_OK);
    }
    *context = fixture;
    return 0;
}

static int tear_down(void **context)
{
    fixture_t *fixture = *context;
    for (int i = 0; i < EDGES; i++) {
        or_channel_destroy(&fixture->edges[i]);
    }
    or_channel_destroy(&fixture->hub);
    if (fixture->network != NULL) {
        or_network_destroy(&fixture->network);
    }
    free(fixture);
    return 0;
}

// Wait for a frame and receive it; the virtual clock moves to where the next one lands.
static or_status_t await(fixture_t *fixture, or_channel_t *at, or_peer_t *from,
                         const uint8_t **frame, size_t *bytes)
{
    if (fixture->network != NULL) {
        int64_t next = or_network_next_ns(fixture->network);
        if (next != OR_TIME_NEVER && next > fixture->clock.now_ns) {
            fixture->clock.now_ns = next;
        }
    }
    or_status_t status = or_channel_wait(at, PATIENCE_NS);
    return status == OR_OK ? or_channel_receive(at, from, frame, bytes) : status;
}

static void send_text(or_channel_t *from, or_peer_t to, const char *text)
{
    assert_int_equal(or_channel_send(from, to, (const uint8_t *)text, strlen(text)), OR_OK);
}

// Return the sender.
static or_peer_t await_text(fixture_t *fixture, or_channel_t *at, const char *text)
{
    or_peer_t from = {0};
    const uint8_t *frame = NULL;
    size_t bytes = 0;
    assert_int_equal(await(fixture, at, &from, &frame, &bytes), OR_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(frame, text, bytes);
    return from;
}

static void frames_go_both_ways(void **context)
{
    fixture_t *fixture = *context;
    send_text(fixture->edges[0], OR_PEER_HUB, "up");
    or_peer_t peer = await_text(fixture, fixture->hub, "up");
    send_text(fixture->hub, peer, "down");
    or_peer_t hub = await_text(fixture, fixture->edges[0], "down");
    assert_int_equal(hub.value, OR_PEER_HUB.value);
}

static void peers_are_told_apart(void **context)
{
    fixture_t *fixture = *context;
    send_text(fixture->edges[0], OR_PEER_HUB, "one");
    or_peer_t one = await_text(fixture, fixture->hub, "one");
    send_text(fixture->edges[1], OR_PEER_HUB, "two");
    or_peer_t two = await_text(fixture, fixture->hub, "two");
    assert_int_not_equal(one.value, two.value);
    send_text(fixture->edges[0], OR_PEER_HUB, "again");
    assert_int_equal(await_text(fixture, fixture->hub, "again").value, one.value);
    send_text(fixture->hub, two, "to two");
    await_text(fixture, fixture->edges[1], "to two");
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_channel_receive(fixture->edges[0], &from, &frame, &bytes), OR_ERR_AGAIN);
}

static void frames_keep_their_order(void **context) // where no fault or delay says otherwise
{
    fixture_t *fixture = *context;
    char text[32];
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "frame %d", i);
        send_text(fixture->edges[0], OR_PEER_HUB, text);
    }
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "frame %d", i);
        await_text(fixture, fixture->hub, text);
    }
}

static void frames_may_be_empty_or_large(void **context)
{
    fixture_t *fixture = *context;
    uint8_t *large = malloc(OR_FRAME_BYTES_MAX + 1);
    assert_non_null(large);
    memset(large, 0x5A, OR_FRAME_BYTES_MAX + 1);
    send_text(fixture->edges[0], OR_PEER_HUB, "");
    await_text(fixture, fixture->hub, "");
    or_channel_t *edge = fixture->edges[0];
    assert_int_equal(or_channel_send(edge, OR_PEER_HUB, large, OR_FRAME_BYTES_MAX), OR_OK);
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    assert_int_equal(await(fixture, fixture->hub, &from, &frame, &bytes), OR_OK);
    assert_int_equal(bytes, OR_FRAME_BYTES_MAX);
    assert_memory_equal(frame, large, bytes);
    assert_int_equal(or_channel_send(edge, OR_PEER_HUB, large, OR_FRAME_BYTES_MAX + 1),
                     OR_ERR_INVALID);
    free(large);
}

static void a_full_queue_is_said_not_hidden(void **context)
{
    fixture_t *fixture = *context;
    static uint8_t frame[16384]; // large, so that the system's own buffers fill as well
    or_status_t status = OR_OK;
    for (int i = 0; i < 20000 && status == OR_OK; i++) {
        status = or_channel_send(fixture->edges[0], OR_PEER_HUB, frame, sizeof frame);
    }
    assert_int_equal(status, OR_ERR_FULL);
    or_peer_t from;
    const uint8_t *received;
    size_t bytes;
    assert_int_equal(await(fixture, fixture->hub, &from, &received, &bytes), OR_OK);
}

static void nothing_there_is_again_and_a_timeout(void **context)
{
    fixture_t *fixture = *context;
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_channel_receive(fixture->hub, &from, &frame, &bytes), OR_ERR_AGAIN);
    assert_int_equal(or_channel_receive(fixture->edges[0], &from, &frame, &bytes), OR_ERR_AGAIN);
    assert_int_equal(or_channel_wait(fixture->hub, 0), OR_ERR_TIMEOUT);
    int64_t start = or_clock_now(or_clock_monotonic());
    assert_int_equal(or_channel_wait(fixture->edges[0], 20 * OR_NS_PER_MS), OR_ERR_TIMEOUT);
    int64_t waited = or_clock_now(or_clock_monotonic()) - start;
    assert_true(fixture->network != NULL || waited >= 19 * OR_NS_PER_MS);
}

static void unknown_peers_are_unreachable(void **context)
{
    fixture_t *fixture = *context;
    const uint8_t byte = 0;
    or_peer_t nobody = {12345};
    assert_int_equal(or_channel_send(fixture->hub, nobody, &byte, 1), OR_ERR_UNREACHABLE);
    assert_int_equal(or_channel_send(fixture->edges[0], nobody, &byte, 1), OR_ERR_UNREACHABLE);
}

static void peers_that_left_become_unreachable(void **context)
{
    fixture_t *fixture = *context;
    send_text(fixture->edges[0], OR_PEER_HUB, "hi");
    or_peer_t peer = await_text(fixture, fixture->hub, "hi");
    or_channel_destroy(&fixture->edges[0]);
    const uint8_t byte = 0;
    or_status_t status = OR_OK;
    for (int i = 0; i < 500 && status == OR_OK; i++) {
        or_channel_wait(fixture->hub, 10 * OR_NS_PER_MS);
        status = or_channel_send(fixture->hub, peer, &byte, 1);
    }
    assert_int_equal(status, OR_ERR_UNREACHABLE);
    assert_int_equal(or_channel_send(fixture->hub, peer, &byte, 1), OR_ERR_UNREACHABLE);
    send_text(fixture->edges[1], OR_PEER_HUB, "still here");
    assert_int_not_equal(await_text(fixture, fixture->hub, "still here").value, peer.value);
}

static void a_forgotten_peer_is_a_new_one(void **context)
{
    fixture_t *fixture = *context;
    send_text(fixture->edges[0], OR_PEER_HUB, "first");
    or_peer_t before = await_text(fixture, fixture->hub, "first");
    or_channel_forget(fixture->hub, before);
    or_channel_forget(fixture->hub, before); // harmless
    const uint8_t byte = 0;
    assert_int_equal(or_channel_send(fixture->hub, before, &byte, 1), OR_ERR_UNREACHABLE);
    send_text(fixture->edges[0], OR_PEER_HUB, "second");
    or_peer_t after = await_text(fixture, fixture->hub, "second");
    assert_int_not_equal(before.value, after.value);
    send_text(fixture->hub, after, "answer");
    await_text(fixture, fixture->edges[0], "answer");
}

static void a_port_in_use_is_a_sentence(void **context)
{
    (void)context;
    char endpoint[128];
    or_channel_t *first = NULL, *second = NULL;
    assert_int_equal(listen_on("tcp://127.0.0.1:*", endpoint, sizeof endpoint, &first), OR_OK);
    assert_int_equal(listen_on(endpoint, NULL, 0, &second), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), endpoint));
    assert_non_null(strstr(or_error_text(), "already in use"));
    assert_null(second);
    or_channel_destroy(&first);
    assert_int_equal(listen_on("nonsense", NULL, 0, &second), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "not an endpoint"));
    assert_int_equal(or_channel_zmq_connect("nonsense", NULL, &second), OR_ERR_INVALID);
}

static void a_late_hub_is_found(void **context)
{
    (void)context;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/outrider-channel-test-%d", (int)getpid());
    const char *path = strchr(endpoint, '/') + 2;
    or_channel_t *hub = NULL, *edge = NULL;
    assert_int_equal(or_channel_zmq_connect(endpoint, NULL, &edge), OR_OK);
    send_text(edge, OR_PEER_HUB, "early");
    assert_int_equal(or_channel_wait(edge, 100 * OR_NS_PER_MS), OR_ERR_TIMEOUT);
    assert_int_equal(listen_on(endpoint, NULL, 0, &hub), OR_OK);
    fixture_t fixture = {.hub = hub};
    await_text(&fixture, hub, "early");
    or_channel_destroy(&edge);
    or_channel_destroy(&hub);
    unlink(path);
}

// Send `frames` numbered frames under faults and count how many arrive, how many twice, how many out of order.
// Returns the network's own fingerprint of all arrivals.
static uint64_t fates(uint64_t seed, int frames, int *arrived, int *late)
{
    const or_network_faults_t faults = {
        .lose = 0.3, .repeat = 0.1, .delay_min_ns = 0, .delay_max_ns = 10 * OR_NS_PER_MS};
    fixture_t fixture = {0};
    or_virtual_clock_init(&fixture.clock, 0);
    assert_int_equal(or_network_create(&fixture.clock, seed, &faults, &fixture.network), OR_OK);
    assert_int_equal(or_network_hub(fixture.network, &fixture.hub), OR_OK);
    assert_int_equal(or_network_edge(fixture.network, &fixture.edges[0]), OR_OK);
    for (uint32_t i = 0; i < (uint32_t)frames; i++) {
        assert_int_equal(
            or_channel_send(fixture.edges[0], OR_PEER_HUB, (const uint8_t *)&i, sizeof i), OR_OK);
    }
    uint64_t fingerprint = 0;
    uint32_t highest = 0, number;
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    *arrived = *late = 0;
    while (await(&fixture, fixture.hub, &from, &frame, &bytes) == OR_OK) {
        memcpy(&number, frame, sizeof number);
        fingerprint = or_prefix_hash(fingerprint, &number, 1);
        *arrived += 1;
        *late += number < highest;
        highest = number > highest ? number : highest;
    }
    or_channel_destroy(&fixture.edges[0]);
    or_channel_destroy(&fixture.hub);
    or_network_destroy(&fixture.network);
    return fingerprint;
}

static void faults_come_from_the_seed(void **context)
{
    (void)context;
    int arrived, late;
    uint64_t first = fates(7, 900, &arrived, &late);
    assert_in_range(arrived, 600, 790); // 900 * 0.7 * 1.1 = 693, sigma 16
    assert_true(late > 100);
    assert_true(fates(7, 900, &arrived, &late) == first);
    assert_true(fates(8, 900, &arrived, &late) != first);
}

static void a_crashed_hub_loses_what_is_in_flight(void **context)
{
    fixture_t *fixture = *context;
    send_text(fixture->edges[0], OR_PEER_HUB, "hello");
    or_peer_t before = await_text(fixture, fixture->hub, "hello");
    send_text(fixture->hub, before, "lost");
    send_text(fixture->edges[0], OR_PEER_HUB, "lost too");
    or_channel_destroy(&fixture->hub);
    assert_int_equal(or_network_next_ns(fixture->network), OR_TIME_NEVER);
    send_text(fixture->edges[0], OR_PEER_HUB, "nobody is there");
    assert_int_equal(or_network_hub(fixture->network, &fixture->hub), OR_OK);
    or_channel_t *second;
    assert_int_equal(or_network_hub(fixture->network, &second), OR_ERR_INVALID);
    send_text(fixture->edges[0], OR_PEER_HUB, "again");
    assert_int_not_equal(await_text(fixture, fixture->hub, "again").value, before.value);
}

// Every test of the contract, over both transports, and encrypted.
// clang-format off
#define ALL(test)                                                                                  \
    {#test " (memory)", test, set_up_memory, tear_down, NULL},                                     \
    {#test " (zmq)", test, set_up_zmq, tear_down, NULL},                                           \
    {#test " (zmq, encrypted)", test, set_up_curve, tear_down, NULL}
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL(frames_go_both_ways),
        ALL(peers_are_told_apart),
        ALL(frames_keep_their_order),
        ALL(frames_may_be_empty_or_large),
        ALL(a_full_queue_is_said_not_hidden),
        ALL(nothing_there_is_again_and_a_timeout),
        ALL(unknown_peers_are_unreachable),
        ALL(peers_that_left_become_unreachable),
        ALL(a_forgotten_peer_is_a_new_one),
        cmocka_unit_test(a_port_in_use_is_a_sentence),
        cmocka_unit_test(a_late_hub_is_found),
        cmocka_unit_test(faults_come_from_the_seed),
        cmocka_unit_test_setup_teardown(a_crashed_hub_loses_what_is_in_flight, set_up_memory,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
