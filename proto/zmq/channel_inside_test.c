// Goal: an edge inside the hub's process is one like any other, from another thread too; the hub knows it, and
// takes nobody from outside for it.
// Method: a hub with real endpoints; strangers of every kind that can come to them, those who speak old ZMTP by
// hand; many texts over an inside edge in a second thread, while the hub turns in the first.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "proto/net/requests.h"
#include "proto/zmq/channel_zmq.h"
#include "tests/support/test_support.h"

#define PATIENCE_NS (10 * OR_NS_PER_S)
#define FRAMES 100
#define SLOTS 40u
#define TEXTS 400u // in the second thread, in all
#define TOKENS 20u

typedef struct {
    or_key_pair_t server, alice;
    or_channel_t *hub;
    char encrypted[128], plain[128];
} fixture_t;

static bool admit(void *context, const char *public_key)
{
    (void)context;
    (void)public_key;
    return true;
}

static int set_up(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(or_key_pair_create(&fixture->server), OR_OK);
    assert_int_equal(or_key_pair_create(&fixture->alice), OR_OK);
    snprintf(fixture->plain, sizeof fixture->plain, "ipc:///tmp/outrider-inside-test-%d",
             (int)getpid());
    const or_channel_listen_t listens[] = {{"tcp://127.0.0.1:*", true}, {fixture->plain, false}};
    const or_channel_server_t server = {&fixture->server, admit, fixture};
    assert_int_equal(or_channel_zmq_bind(listens, 2, &server, fixture->encrypted,
                                         sizeof fixture->encrypted, &fixture->hub),
                     OR_OK);
    *context = fixture;
    return 0;
}

static int tear_down(void **context)
{
    fixture_t *fixture = *context;
    or_channel_destroy(&fixture->hub);
    unlink(fixture->plain + strlen("ipc://"));
    free(fixture);
    return 0;
}

static int64_t now(void)
{
    return or_clock_now(or_clock_monotonic());
}

static or_channel_t *connect_inside(fixture_t *fixture, int wake_fd)
{
    or_channel_t *edge = NULL;
    assert_int_equal(or_channel_zmq_connect_inside(fixture->hub, wake_fd, &edge), OR_OK);
    return edge;
}

static void say(or_channel_t *from, or_peer_t to, const char *text)
{
    assert_int_equal(or_channel_send(from, to, (const uint8_t *)text, strlen(text)), OR_OK);
}

// The next frame, which is `text`.
static or_peer_t expect(or_channel_t *at, const char *text)
{
    const uint8_t *frame;
    size_t bytes;
    or_peer_t from = {0};
    int64_t end = now() + PATIENCE_NS;
    or_status_t status = OR_ERR_AGAIN;
    while (status == OR_ERR_AGAIN && now() < end) {
        status = or_channel_receive(at, &from, &frame, &bytes);
        if (status == OR_ERR_AGAIN) {
            (void)or_channel_wait(at, end - now());
        }
    }
    assert_int_equal(status, OR_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(frame, text, bytes);
    return from;
}

// ---- one of us ----

static void frames_go_both_ways_inside(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *edge = connect_inside(fixture, -1);
    or_channel_t *other = connect_inside(fixture, -1);
    assert_int_equal(or_channel_connection(edge), 1);
    say(edge, OR_PEER_HUB, "one");
    or_peer_t peer = expect(fixture->hub, "one");
    assert_true(or_channel_is_inside(fixture->hub, peer));
    assert_true(or_channel_is_local(fixture->hub, peer));
    assert_string_equal(or_channel_key_of(fixture->hub, peer), "");
    say(other, OR_PEER_HUB, "two");
    or_peer_t another = expect(fixture->hub, "two");
    assert_int_not_equal(another.value, peer.value);
    say(fixture->hub, another, "to the second");
    say(fixture->hub, peer, "to the first");
    assert_int_equal(expect(edge, "to the first").value, OR_PEER_HUB.value);
    assert_int_equal(expect(other, "to the second").value, OR_PEER_HUB.value);
    assert_false(or_channel_is_inside(edge, OR_PEER_HUB));
    assert_string_equal(or_channel_zmq_trouble(edge), "");
    or_channel_destroy(&edge);
    or_channel_destroy(&other);
    assert_false(or_channel_is_inside(fixture->hub, (or_peer_t){12345}));
}

static void who_has_left_is_unreachable(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *edge = connect_inside(fixture, -1);
    say(edge, OR_PEER_HUB, "one");
    or_peer_t peer = expect(fixture->hub, "one");
    or_channel_destroy(&edge);
    or_status_t status = OR_OK;
    for (int i = 0; i < 1000 && status == OR_OK; i++) {
        status = or_channel_send(fixture->hub, peer, (const uint8_t *)"x", 1);
        (void)or_channel_wait(fixture->hub, OR_NS_PER_MS);
    }
    assert_int_equal(status, OR_ERR_UNREACHABLE);
    assert_false(or_channel_is_inside(fixture->hub, peer));
}

static void a_descriptor_ends_the_wait(void **context)
{
    fixture_t *fixture = *context;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    or_channel_t *edge = connect_inside(fixture, ends[0]);
    assert_int_equal(or_channel_wait(edge, 10 * OR_NS_PER_MS), OR_ERR_TIMEOUT);
    assert_int_equal(write(ends[1], "x", 1), 1);
    int64_t begin = now();
    assert_int_equal(or_channel_wait(edge, PATIENCE_NS), OR_OK);
    assert_true(now() - begin < PATIENCE_NS / 2);
    or_channel_destroy(&edge);
    close(ends[0]);
    close(ends[1]);
}

// ---- strangers ----

static void expect_stranger(fixture_t *fixture, const char *text, bool local)
{
    or_peer_t peer = expect(fixture->hub, text);
    assert_false(or_channel_is_inside(fixture->hub, peer));
    assert_int_equal(or_channel_is_local(fixture->hub, peer), local);
}

static void edges_outside_are_not_inside(void **context)
{
    fixture_t *fixture = *context;
    or_connect_keys_t keys = {.own = fixture->alice, .encrypted = true};
    memcpy(keys.server_key, fixture->server.public_key, OR_KEY_BYTES);
    or_channel_t *alice = NULL, *plain = NULL;
    assert_int_equal(or_channel_zmq_connect(fixture->encrypted, &keys, &alice), OR_OK);
    assert_int_equal(or_channel_zmq_connect(fixture->plain, NULL, &plain), OR_OK);
    say(alice, OR_PEER_HUB, "under a key");
    expect_stranger(fixture, "under a key", false);
    say(plain, OR_PEER_HUB, "over a path");
    expect_stranger(fixture, "over a path", true);
    or_channel_destroy(&alice);
    or_channel_destroy(&plain);
}

// A stranger with an inside edge's name neither is one nor comes between it and the hub.
static void a_name_makes_nobody_an_insider(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *edge = connect_inside(fixture, -1);
    say(edge, OR_PEER_HUB, "me");
    or_peer_t peer = expect(fixture->hub, "me");
    void *zmq = zmq_ctx_new();
    static const char *const names[] = {"outrider.inside", "inproc://outrider.inside", "1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int linger = 0;
        void *dealer = zmq_socket(zmq, ZMQ_DEALER);
        zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt(dealer, ZMQ_ROUTING_ID, names[i], strlen(names[i]));
        assert_int_equal(zmq_connect(dealer, fixture->plain), 0);
        assert_int_equal(zmq_send(dealer, names[i], strlen(names[i]), 0), (int)strlen(names[i]));
        expect_stranger(fixture, names[i], true);
        zmq_close(dealer);
    }
    // There is a place of this name in every process that has a hub, and in no other.
    void *dealer = zmq_socket(zmq, ZMQ_DEALER);
    assert_int_equal(zmq_connect(dealer, "inproc://outrider.inside"), 0); // waits for one here
    zmq_close(dealer);
    zmq_ctx_term(zmq);
    say(fixture->hub, peer, "you");
    expect(edge, "you");
    or_channel_destroy(&edge);
}

static int connect_path(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", endpoint + strlen("ipc://"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void put(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

// ZeroMQ would report nothing of peers that speak these, and their frames could not be counted, so they are cut off.
static void old_protocols_are_refused(void **context)
{
    fixture_t *fixture = *context;
    // ZMTP 1.0: no greeting; an identity of no bytes, and a frame. Lengths count the flags.
    static const uint8_t zmtp1[] = {1, 0, 4, 0, 'o', 'l', 'd'};
    // ZMTP 2.0: signature, revision 1, DEALER; an identity of no bytes, and a frame.
    static const uint8_t zmtp2[] = {0xFF, 0, 0, 0, 0, 0, 0,   0,   1,  0x7F,
                                    1,    5, 0, 0, 0, 3, 'n', 'e', 'w'};
    const struct {
        const uint8_t *bytes;
        size_t count;
    } olds[] = {{zmtp1, sizeof zmtp1}, {zmtp2, sizeof zmtp2}};
    for (size_t i = 0; i < 2; i++) {
        uint8_t heard[256];
        int fd = connect_path(fixture->plain);
        put(fd, olds[i].bytes, olds[i].count);
        ssize_t got;
        while ((got = recv(fd, heard, sizeof heard, 0)) > 0) { // libzmq's greeting, perhaps
        }
        close(fd);
    }
    const uint8_t *frame;
    size_t bytes;
    or_peer_t from;
    assert_int_equal(or_channel_receive(fixture->hub, &from, &frame, &bytes), OR_ERR_AGAIN);
}

static void neither_side_waits_for_the_crowd_of_the_other(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *inside = connect_inside(fixture, -1), *outside = NULL;
    assert_int_equal(or_channel_zmq_connect(fixture->plain, NULL, &outside), OR_OK);
    say(outside, OR_PEER_HUB, "hello");
    expect_stranger(fixture, "hello", true);
    for (int i = 0; i < FRAMES; i++) {
        say(inside, OR_PEER_HUB, "in");
        say(outside, OR_PEER_HUB, "out");
    }
    const struct timespec pause = {.tv_nsec = 200000000};
    nanosleep(&pause, NULL); // until what was sent from outside has come
    int heard[2] = {0};
    while (heard[0] + heard[1] < 2 * FRAMES) {
        const uint8_t *frame;
        size_t bytes;
        or_peer_t from;
        if (or_channel_receive(fixture->hub, &from, &frame, &bytes) == OR_OK) {
            bool in = or_channel_is_inside(fixture->hub, from);
            assert_int_equal(bytes, in ? 2 : 3);
            heard[in]++;
        } else {
            assert_int_equal(or_channel_wait(fixture->hub, PATIENCE_NS), OR_OK);
        }
        assert_true(heard[1] == FRAMES || heard[0] <= heard[1] + 1);
    }
    or_channel_destroy(&inside);
    or_channel_destroy(&outside);
}

// ---- two threads ----

typedef struct {
    or_channel_t *edge;
    int done_fd;
    uint32_t ended, wrong;
} reader_t;

static or_generate_request_t make_request(uint32_t number)
{
    return (or_generate_request_t){.prompt = (const uint8_t *)"x",
                                   .prompt_bytes = 1,
                                   .has_seed = true,
                                   .seed = number,
                                   .max_tokens = TOKENS,
                                   .owner = "ada"};
}

// Checks by counting: cmocka's are for the main thread.
static void read_texts(reader_t *reader, or_requests_t *requests)
{
    uint32_t at[SLOTS] = {0}, number[SLOTS] = {0}, begun = 0;
    int64_t end = now() + PATIENCE_NS;
    while (reader->ended < TEXTS && now() < end) {
        or_message_t message;
        uint32_t slot;
        for (slot = 0; slot < SLOTS && begun < TEXTS; slot++) {
            if (or_requests_is_idle(requests, slot)) {
                const or_generate_request_t request = make_request(number[slot] = ++begun);
                at[slot] = 0;
                or_requests_begin(requests, slot, &request);
            }
        }
        if (or_requests_next(requests, end, &slot, &message) != OR_OK) {
            continue;
        }
        const or_generate_delta_t *delta = &message.body.generate_delta;
        for (uint32_t i = 0; i < delta->count; i++) {
            reader->wrong += delta->tokens[i] != 100 * number[slot] + at[slot]++;
        }
        reader->ended += delta->finish == OR_FINISH_LENGTH && at[slot] == TOKENS;
        or_message_fini(&message);
    }
}

static void *read_in_a_thread(void *argument)
{
    reader_t *reader = argument;
    or_requests_t *requests;
    const or_requests_config_t config = {.no_padding = true};
    if (or_requests_create(reader->edge, or_clock_monotonic(), &config, SLOTS, &requests) ==
        OR_OK) {
        read_texts(reader, requests);
        or_requests_destroy(&requests);
    }
    (void)write(reader->done_fd, "x", 1);
    return NULL;
}

static void answer(or_link_t *hub, or_peer_t client, const or_message_t *message)
{
    static uint64_t session;
    const or_generate_request_t *request = &message->body.generate_request;
    or_message_t reply = {.type = OR_MSG_WELCOME, .body.welcome = {.heartbeat_ms = 1000}};
    if (message->type == OR_MSG_HELLO) {
        assert_int_equal(or_link_send(hub, client, &reply), OR_OK);
    }
    if (message->type != OR_MSG_GENERATE_REQUEST) {
        return;
    }
    assert_true(or_link_is_inside(hub, client));
    reply = (or_message_t){.type = OR_MSG_GENERATE_DELTA, .session = {++session}};
    for (uint32_t i = 0; i < request->max_tokens; i++) {
        uint32_t token = (uint32_t)(100 * request->seed) + i;
        reply.body.generate_delta = (or_generate_delta_t){
            .request = request->request,
            .offset = i,
            .tokens = &token,
            .count = 1,
            .finish = i + 1 < request->max_tokens ? OR_FINISH_NONE : OR_FINISH_LENGTH};
        assert_int_equal(or_link_send(hub, client, &reply), OR_OK);
    }
}

static bool is_readable(int fd)
{
    zmq_pollitem_t item = {.fd = fd, .events = ZMQ_POLLIN};
    return zmq_poll(&item, 1, 0) > 0;
}

static void texts_are_read_in_another_thread(void **context)
{
    fixture_t *fixture = *context;
    int ends[2];
    pthread_t thread;
    or_link_t *hub;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(or_link_create(fixture->hub, or_clock_monotonic(), NULL, 1000, &hub), OR_OK);
    reader_t reader = {.edge = connect_inside(fixture, -1), .done_fd = ends[1]};
    assert_int_equal(pthread_create(&thread, NULL, read_in_a_thread, &reader), 0);
    while (!is_readable(ends[0])) {
        or_link_event_t event;
        or_message_t message;
        or_peer_t from;
        while (or_link_receive(hub, &event, &from, &message) == OR_OK) {
            if (event == OR_LINK_MESSAGE) {
                answer(hub, from, &message);
                or_message_fini(&message);
            }
        }
        or_link_tick(hub);
        or_link_wait(hub, now() + 10 * OR_NS_PER_MS);
    }
    pthread_join(thread, NULL);
    assert_int_equal(reader.wrong, 0);
    assert_int_equal(reader.ended, TEXTS);
    or_link_destroy(&hub);
    close(ends[0]);
    close(ends[1]);
}

#define WITH_HUB(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HUB(frames_go_both_ways_inside),
        WITH_HUB(who_has_left_is_unreachable),
        WITH_HUB(a_descriptor_ends_the_wait),
        WITH_HUB(edges_outside_are_not_inside),
        WITH_HUB(a_name_makes_nobody_an_insider),
        WITH_HUB(old_protocols_are_refused),
        WITH_HUB(neither_side_waits_for_the_crowd_of_the_other),
        WITH_HUB(texts_are_read_in_another_thread),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
