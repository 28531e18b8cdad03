// Goal: what passes through the relay comes whole, in order and to the end, however much more it is than the relay lets
// wait, encrypted or not; last words get out.
// Method: a hub and an edge over real sockets of every kind; frames whose bytes follow from their number.
#include "proto/zmq/relay/zmq_relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "common/base/clock.h"
#include "proto/zmq/channel_zmq.h"
#include "tests/support/test_support.h"

#define PATIENCE_NS (20 * OR_NS_PER_S)
#define FRAMES 600
#define LARGEST (100u << 10)
#define WORDS 500

typedef struct {
    or_key_pair_t server, own;
    char path[128];
    or_channel_t *hub, *edge;
} fixture_t;

typedef enum { PLAIN_TCP, PLAIN_PATH, ENCRYPTED, KINDS } kind_t;

static bool admit(void *context, const char *public_key)
{
    (void)context;
    (void)public_key;
    return true;
}

static void open_pair(fixture_t *fixture, kind_t kind)
{
    char bound[128];
    assert_int_equal(or_key_pair_create(&fixture->server), OR_OK);
    assert_int_equal(or_key_pair_create(&fixture->own), OR_OK);
    snprintf(fixture->path, sizeof fixture->path, "ipc:///tmp/outrider-relay-test-%d",
             (int)getpid());
    const char *endpoint = kind == PLAIN_PATH ? fixture->path : "tcp://127.0.0.1:*";
    const or_channel_listen_t listen = {endpoint, kind == ENCRYPTED};
    const or_channel_server_t server = {&fixture->server, admit, NULL};
    assert_int_equal(or_channel_zmq_bind(&listen, 1, &server, bound, sizeof bound, &fixture->hub),
                     OR_OK);
    or_connect_keys_t keys = {.encrypted = kind == ENCRYPTED, .own = fixture->own};
    memcpy(keys.server_key, fixture->server.public_key, OR_KEY_BYTES);
    assert_int_equal(or_channel_zmq_connect(bound, &keys, &fixture->edge), OR_OK);
}

static void close_pair(fixture_t *fixture)
{
    or_channel_destroy(&fixture->edge);
    or_channel_destroy(&fixture->hub);
}

static int64_t now(void)
{
    return or_clock_now(or_clock_monotonic());
}

static uint8_t frame_bytes[LARGEST];

// Frame `number`; its size. Every fourth is tiny.
static size_t make_frame(uint32_t number)
{
    uint64_t state = number + 1;
    size_t bytes = 4 + (number % 4 == 0 ? 0 : test_random(&state) % (LARGEST - 4));
    memset(frame_bytes, (int)number, bytes);
    memcpy(frame_bytes, &number, sizeof number);
    return bytes;
}

// Send as many more frames as the queue takes.
static void send_some(or_channel_t *from, or_peer_t to, uint32_t *sent)
{
    or_status_t status = OR_OK;
    while (*sent < FRAMES && status == OR_OK) {
        size_t bytes = make_frame(*sent);
        status = or_channel_send(from, to, frame_bytes, bytes);
        *sent += status == OR_OK;
    }
}

static bool receive_one(or_channel_t *at, or_peer_t *from, uint32_t *received)
{
    const uint8_t *frame;
    size_t bytes;
    if (or_channel_receive(at, from, &frame, &bytes) != OR_OK) {
        return false;
    }
    assert_int_equal(bytes, make_frame(*received));
    assert_memory_equal(frame, frame_bytes, bytes);
    ++*received;
    return true;
}

static void pass_many(kind_t kind)
{
    fixture_t fixture = {.hub = NULL};
    or_peer_t peer = {0}, hub = OR_PEER_HUB;
    uint32_t to_hub = 0, to_edge = 0, at_hub = 0, at_edge = 0;
    open_pair(&fixture, kind);
    int64_t end = now() + PATIENCE_NS;
    while ((at_hub < FRAMES || at_edge < FRAMES) && now() < end) {
        send_some(fixture.edge, hub, &to_hub);
        bool moved = receive_one(fixture.hub, &peer, &at_hub);
        if (peer.value != 0) {
            send_some(fixture.hub, peer, &to_edge);
        }
        moved |= receive_one(fixture.edge, &hub, &at_edge);
        if (!moved) {
            (void)or_channel_wait(fixture.hub, OR_NS_PER_MS);
        }
    }
    assert_int_equal(at_hub, FRAMES);
    assert_int_equal(at_edge, FRAMES);
    close_pair(&fixture);
}

static void much_more_than_may_wait_passes_both_ways(void **context)
{
    (void)context;
    for (kind_t kind = 0; kind < KINDS; kind++) {
        pass_many(kind);
    }
}

static void say(or_channel_t *from, or_peer_t to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(or_channel_send(from, to, (const uint8_t *)&i, sizeof i), OR_OK);
    }
}

static void hear(or_channel_t *at, or_peer_t *from, uint32_t count)
{
    int64_t end = now() + PATIENCE_NS;
    for (uint32_t i = 0; i < count;) {
        const uint8_t *frame;
        size_t bytes;
        if (or_channel_receive(at, from, &frame, &bytes) == OR_OK) {
            assert_int_equal(bytes, sizeof i);
            assert_memory_equal(frame, &i, sizeof i);
            i++;
        } else {
            assert_true(now() < end);
            (void)or_channel_wait(at, OR_NS_PER_MS);
        }
    }
}

static void last_words_get_out_and_in(void **context)
{
    (void)context;
    for (kind_t kind = 0; kind < KINDS; kind++) {
        fixture_t fixture = {.hub = NULL};
        or_peer_t peer, hub;
        open_pair(&fixture, kind);
        say(fixture.edge, OR_PEER_HUB, 1);
        hear(fixture.hub, &peer, 1);
        say(fixture.hub, peer, WORDS);
        or_channel_destroy(&fixture.hub);
        hear(fixture.edge, &hub, WORDS);
        close_pair(&fixture);
        open_pair(&fixture, kind);
        say(fixture.edge, OR_PEER_HUB, 1);
        hear(fixture.hub, &peer, 1); // the connection is made
        say(fixture.edge, OR_PEER_HUB, WORDS);
        or_channel_destroy(&fixture.edge);
        hear(fixture.hub, &peer, WORDS);
        close_pair(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(much_more_than_may_wait_passes_both_ways),
        cmocka_unit_test(last_words_get_out_and_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
