// Goal: encrypted endpoints let in who is authorized and nobody else; nobody on the way reads, changes, repeats
// or reorders anything; those who try stall nobody. Plain endpoints of the same hub are as they were.
// Method: real sockets on loopback, with a wiretap between edge and hub where something is done to the bytes.
// What must not arrive is waited for while what must arrive does.
#include "proto/zmq/channel_zmq.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <zmq.h>

#include "proto/net/link.h"
#include "proto/net/padding.h"
#include "tests/support/test_support.h"
#include "tests/support/wiretap.h"

#define PATIENCE_NS (10 * OR_NS_PER_S)
#define A_WHILE_NS                                                                                 \
    (300 * OR_NS_PER_MS) // long enough for what is refused to have come if it were not
#define KEYS_MAX 4

typedef struct {
    or_key_pair_t server, alice, bob, eve;
    char admitted[KEYS_MAX][OR_KEY_BYTES]; // public keys; "": none
    or_channel_t *hub;
    char endpoint[128]; // encrypted
    char plain[128];    // not
    uint64_t asked;
} fixture_t;

static bool admit(void *context, const char *public_key)
{
    fixture_t *fixture = context;
    fixture->asked++;
    for (int i = 0; i < KEYS_MAX; i++) {
        if (strcmp(fixture->admitted[i], public_key) == 0) {
            return true;
        }
    }
    return false;
}

static void authorize(fixture_t *fixture, int place, const or_key_pair_t *pair)
{
    snprintf(fixture->admitted[place], OR_KEY_BYTES, "%s", pair != NULL ? pair->public_key : "");
}

static void listen_encrypted(fixture_t *fixture)
{
    const or_channel_listen_t listens[] = {{"tcp://127.0.0.1:*", true}, {fixture->plain, false}};
    const or_channel_server_t server = {&fixture->server, admit, fixture};
    assert_int_equal(or_channel_zmq_bind(listens, 2, &server, fixture->endpoint,
                                         sizeof fixture->endpoint, &fixture->hub),
                     OR_OK);
}

static int set_up(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(or_key_pair_create(&fixture->server), OR_OK);
    assert_int_equal(or_key_pair_create(&fixture->alice), OR_OK);
    assert_int_equal(or_key_pair_create(&fixture->bob), OR_OK);
    assert_int_equal(or_key_pair_create(&fixture->eve), OR_OK);
    authorize(fixture, 0, &fixture->alice);
    authorize(fixture, 1, &fixture->bob);
    snprintf(fixture->plain, sizeof fixture->plain, "ipc:///tmp/outrider-zmq-test-%d",
             (int)getpid());
    listen_encrypted(fixture);
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

static or_channel_t *connect_to(const char *endpoint, const or_key_pair_t *own,
                                const or_key_pair_t *server)
{
    or_channel_t *edge = NULL;
    or_connect_keys_t keys = {.encrypted = own != NULL};
    if (own != NULL) {
        keys.own = *own;
        memcpy(keys.server_key, server->public_key, OR_KEY_BYTES);
    }
    assert_int_equal(or_channel_zmq_connect(endpoint, own != NULL ? &keys : NULL, &edge), OR_OK);
    return edge;
}

static or_channel_t *connect_as(const fixture_t *fixture, const or_key_pair_t *own)
{
    return connect_to(fixture->endpoint, own, &fixture->server);
}

static int64_t now(void)
{
    return or_clock_now(or_clock_monotonic());
}

static void say(or_channel_t *from, or_peer_t to, const char *text)
{
    assert_int_equal(or_channel_send(from, to, (const uint8_t *)text, strlen(text)), OR_OK);
}

// The next frame within `patience_ns`, as text; false if none came.
static bool hear(or_channel_t *at, int64_t patience_ns, or_peer_t *from, char *text,
                 size_t capacity)
{
    int64_t end = now() + patience_ns;
    do {
        const uint8_t *frame;
        size_t bytes;
        or_status_t status = or_channel_receive(at, from, &frame, &bytes);
        if (status == OR_OK) {
            snprintf(text, capacity, "%.*s", (int)bytes, (const char *)frame);
            return true;
        }
        assert_true(status == OR_ERR_AGAIN || status == OR_ERR_CANCELLED);
        if (status == OR_ERR_AGAIN) {
            (void)or_channel_wait(at, end - now());
        }
    } while (now() < end);
    return false;
}

static or_peer_t expect(or_channel_t *at, const char *text)
{
    char heard[256];
    or_peer_t from = {0};
    assert_true(hear(at, PATIENCE_NS, &from, heard, sizeof heard));
    assert_string_equal(heard, text);
    return from;
}

static void expect_nothing(or_channel_t *at)
{
    char heard[256];
    or_peer_t from;
    assert_false(hear(at, A_WHILE_NS, &from, heard, sizeof heard));
}

// Until the edge says why it has no connection; the hub must be served for that.
static void await_trouble(or_channel_t *hub, or_channel_t *edge, const char *words)
{
    int64_t end = now() + PATIENCE_NS;
    char heard[256];
    or_peer_t from;
    while (strstr(or_channel_zmq_trouble(edge), words) == NULL && now() < end) {
        assert_false(hear(hub, 10 * OR_NS_PER_MS, &from, heard, sizeof heard));
        (void)hear(edge, 0, &from, heard, sizeof heard);
    }
    if (strstr(or_channel_zmq_trouble(edge), words) == NULL) {
        fail_msg("'%s' is not in '%s'", words, or_channel_zmq_trouble(edge));
    }
}

// ZeroMQ gives the endpoint up once its own end has seen why: until then, frames wait in a queue. If the hub was first
// to end the connection, ZeroMQ connects anew before that. An endpoint that was given up is no full queue.
static void expect_unreachable(or_channel_t *hub, or_channel_t *edge)
{
    const uint8_t frame[] = "once more";
    int64_t end = now() + PATIENCE_NS;
    or_status_t status;
    do {
        status = or_channel_send(edge, OR_PEER_HUB, frame, sizeof frame);
        char heard[256];
        or_peer_t from;
        assert_false(hear(hub, 10 * OR_NS_PER_MS, &from, heard, sizeof heard));
    } while (status == OR_OK && now() < end);
    assert_int_equal(status, OR_ERR_UNREACHABLE);
}

static uint16_t port_of(const char *endpoint)
{
    return (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
}

// ---- who is let in ----

static void frames_go_both_ways_under_a_key(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *alice = connect_as(fixture, &fixture->alice);
    or_channel_t *bob = connect_as(fixture, &fixture->bob);
    say(alice, OR_PEER_HUB, "I am Alice");
    or_peer_t first = expect(fixture->hub, "I am Alice");
    say(bob, OR_PEER_HUB, "I am Bob");
    or_peer_t second = expect(fixture->hub, "I am Bob");
    assert_string_equal(or_channel_key_of(fixture->hub, first), fixture->alice.public_key);
    assert_string_equal(or_channel_key_of(fixture->hub, second), fixture->bob.public_key);
    assert_string_equal(or_channel_key_of(alice, OR_PEER_HUB), fixture->server.public_key);
    assert_false(or_channel_is_local(fixture->hub, first)); // over loopback, but it came with a key
    say(fixture->hub, first, "hello Alice");
    say(fixture->hub, second, "hello Bob");
    expect(alice, "hello Alice");
    expect(bob, "hello Bob");
    assert_string_equal(or_channel_zmq_trouble(alice), "");
    assert_int_equal(or_channel_connection(alice), 1);
    assert_int_equal(or_channel_zmq_refusals(fixture->hub), 0);
    or_channel_forget(fixture->hub, first);
    assert_string_equal(or_channel_key_of(fixture->hub, first), "");
    or_channel_destroy(&alice);
    or_channel_destroy(&bob);
}

static void a_key_that_is_not_authorized_stays_outside_until_it_is(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *eve = connect_as(fixture, &fixture->eve);
    say(eve, OR_PEER_HUB, "let me in");
    await_trouble(fixture->hub, eve, "does not know our key");
    assert_non_null(strstr(or_channel_zmq_trouble(eve), fixture->eve.public_key));
    assert_true(or_channel_zmq_refusals(fixture->hub) > 0);
    expect_nothing(fixture->hub);
    authorize(fixture, 2, &fixture->eve);
    int64_t end = now() + PATIENCE_NS;
    or_peer_t from;
    char heard[32] = "";
    while (!hear(fixture->hub, 20 * OR_NS_PER_MS, &from, heard, sizeof heard) && now() < end) {
        (void)hear(eve, 0, &from, heard, sizeof heard); // it goes on trying
        (void)or_channel_send(eve, OR_PEER_HUB, (const uint8_t *)"may I?", 6);
    }
    assert_string_equal(heard, "may I?");
    (void)hear(eve, 0, &from, heard, sizeof heard);
    assert_string_equal(or_channel_zmq_trouble(eve), "");
    or_channel_destroy(&eve);
}

static void who_does_not_encrypt_stays_outside(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *plain = connect_as(fixture, NULL);
    say(plain, OR_PEER_HUB, "in clear");
    await_trouble(fixture->hub, plain, "encrypts, and we do not");
    expect_nothing(fixture->hub);
    assert_true(or_channel_zmq_refusals(fixture->hub) > 0);
    expect_unreachable(fixture->hub, plain);
    or_channel_destroy(&plain);
}

static void a_key_tells_nothing_to_a_plain_endpoint(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *alice = connect_to(fixture->plain, &fixture->alice, &fixture->server);
    say(alice, OR_PEER_HUB, "a secret");
    // Which end notices first decides how it is said.
    await_trouble(fixture->hub, alice, "does not encrypt");
    expect_nothing(fixture->hub);
    or_channel_destroy(&alice);
}

static void another_server_key_is_no_server(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *alice = connect_to(fixture->endpoint, &fixture->alice, &fixture->bob);
    say(alice, OR_PEER_HUB, "is it you?");
    await_trouble(fixture->hub, alice, "another key than the one we expect");
    expect_nothing(fixture->hub);
    assert_true(or_channel_zmq_refusals(fixture->hub) > 0);
    or_channel_destroy(&alice);
}

static void plain_and_encrypted_endpoints_work_side_by_side(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *local = connect_to(fixture->plain, NULL, NULL);
    or_channel_t *alice = connect_as(fixture, &fixture->alice);
    for (int i = 0; i < 3; i++) {
        say(local, OR_PEER_HUB, "from here");
        or_peer_t here = expect(fixture->hub, "from here");
        say(alice, OR_PEER_HUB, "from afar");
        or_peer_t afar = expect(fixture->hub, "from afar");
        assert_string_equal(or_channel_key_of(fixture->hub, here), "");
        assert_true(or_channel_is_local(fixture->hub, here));
        assert_string_equal(or_channel_key_of(fixture->hub, afar), fixture->alice.public_key);
        say(fixture->hub, here, "to here");
        say(fixture->hub, afar, "to afar");
        expect(local, "to here");
        expect(alice, "to afar");
    }
    assert_int_equal(or_channel_zmq_refusals(fixture->hub), 0);
    or_channel_destroy(&local);
    or_channel_destroy(&alice);
}

static void skip_without_ipv6(void)
{
    const struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool there = fd >= 0 && bind(fd, (const struct sockaddr *)&here, sizeof here) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (!there) {
        skip();
    }
}

// A hub of this endpoint alone, `bound`.
static or_channel_t *listen_alone(fixture_t *fixture, const char *endpoint, bool encrypted,
                                  char *bound, size_t capacity)
{
    const or_channel_listen_t listen = {endpoint, encrypted};
    const or_channel_server_t server = {&fixture->server, admit, fixture};
    or_channel_t *hub = NULL;
    assert_int_equal(or_channel_zmq_bind(&listen, 1, &server, bound, capacity, &hub), OR_OK);
    return hub;
}

// A frame there and one back.
static or_peer_t talk(or_channel_t *hub, or_channel_t *edge)
{
    say(edge, OR_PEER_HUB, "to the hub");
    or_peer_t peer = expect(hub, "to the hub");
    say(hub, peer, "to the edge");
    expect(edge, "to the edge");
    return peer;
}

static void ipv6_is_as_good(void **context)
{
    fixture_t *fixture = *context;
    skip_without_ipv6();
    for (int encrypted = 0; encrypted < 2; encrypted++) {
        char bound[128];
        or_channel_t *hub =
            listen_alone(fixture, "tcp://[::1]:*", encrypted != 0, bound, sizeof bound);
        or_channel_t *edge =
            connect_to(bound, encrypted ? &fixture->alice : NULL, &fixture->server);
        or_peer_t peer = talk(hub, edge);
        assert_true(or_endpoint_is_loopback(bound));
        assert_int_equal(or_channel_is_local(hub, peer), !encrypted);
        assert_string_equal(or_channel_key_of(hub, peer),
                            encrypted ? fixture->alice.public_key : "");
        or_channel_destroy(&edge);
        or_channel_destroy(&hub);
    }
}

static void every_address_is_of_both_kinds(void **context)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]", "localhost"};
    char bound[128], endpoint[64];
    skip_without_ipv6();
    or_channel_t *hub = listen_alone(*context, "tcp://[::]:*", false, bound, sizeof bound);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        snprintf(endpoint, sizeof endpoint, "tcp://%s:%u", hosts[i], (unsigned)port_of(bound));
        or_channel_t *edge = connect_to(endpoint, NULL, NULL);
        assert_true(or_channel_is_local(hub, talk(hub, edge)));
        or_channel_destroy(&edge);
    }
    or_channel_destroy(&hub);
}

static void an_ipv6_address_without_brackets_is_told_so(void **context)
{
    (void)context;
    or_channel_t *edge = NULL;
    assert_int_equal(or_channel_zmq_connect("tcp://::1:5577", NULL, &edge), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "tcp://[::1]:5577"));
}

// Its connection lives on, but the channel takes nothing from it once it has been forgotten.
static void a_revoked_key_that_was_forgotten_is_heard_no_more(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *alice = connect_as(fixture, &fixture->alice);
    or_channel_t *bob = connect_as(fixture, &fixture->bob);
    say(alice, OR_PEER_HUB, "one");
    or_peer_t before = expect(fixture->hub, "one");
    authorize(fixture, 0, NULL);
    or_channel_forget(fixture->hub, before);
    for (int i = 0; i < 200; i++) {
        say(alice, OR_PEER_HUB, "two");
    }
    expect_nothing(fixture->hub);
    assert_true(or_channel_zmq_refusals(fixture->hub) > 0);
    assert_int_equal(or_channel_send(fixture->hub, before, (const uint8_t *)"?", 1),
                     OR_ERR_UNREACHABLE);
    say(bob, OR_PEER_HUB, "still here");
    expect(fixture->hub, "still here");
    or_channel_t *again = connect_as(fixture, &fixture->alice); // nor does a new one help
    await_trouble(fixture->hub, again, "does not know our key");
    or_channel_destroy(&again);
    authorize(fixture, 0, &fixture->alice);
    say(alice, OR_PEER_HUB, "three");
    assert_int_not_equal(expect(fixture->hub, "three").value, before.value);
    or_channel_destroy(&alice);
    or_channel_destroy(&bob);
}

// A socket that chooses its identity itself, as ours never do.
static void *raw_dealer(void *zmq, const char *endpoint, const char *identity,
                        const or_key_pair_t *own, const or_key_pair_t *server)
{
    const int linger = 0;
    void *socket = zmq_socket(zmq, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_ROUTING_ID, identity, strlen(identity)), 0);
    if (own != NULL) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server->public_key, OR_KEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, own->public_key, OR_KEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, own->secret_key, OR_KEY_BYTES);
    }
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    return socket;
}

// The hub has not noticed that the first is gone when the second comes under its name.
static void who_takes_an_identity_does_not_become_its_owner(void **context)
{
    fixture_t *fixture = *context;
    void *zmq = zmq_ctx_new();
    void *local = raw_dealer(zmq, fixture->plain, "me", NULL, NULL);
    assert_int_equal(zmq_send(local, "local", 5, 0), 5);
    or_peer_t first = expect(fixture->hub, "local");
    assert_true(or_channel_is_local(fixture->hub, first));
    zmq_close(local);
    or_peer_t before = first;
    const or_key_pair_t *keys[] = {&fixture->alice, &fixture->bob};
    for (int i = 0; i < 2; i++) {
        void *next = raw_dealer(zmq, fixture->endpoint, "me", keys[i], &fixture->server);
        // ROUTER turns an identity away while it has another of that name.
        or_peer_t from = {0};
        char heard[16] = "";
        for (int try = 0; try < 50 && heard[0] == '\0'; try++) {
            zmq_send(next, "taken", 5, ZMQ_DONTWAIT);
            if (!hear(fixture->hub, 100 * OR_NS_PER_MS, &from, heard, sizeof heard)) {
                zmq_close(next);
                next = raw_dealer(zmq, fixture->endpoint, "me", keys[i], &fixture->server);
            }
        }
        assert_string_equal(heard, "taken");
        assert_int_not_equal(from.value, before.value);
        assert_false(or_channel_is_local(fixture->hub, from));
        assert_string_equal(or_channel_key_of(fixture->hub, from), keys[i]->public_key);
        before = from;
        zmq_close(next);
        while (hear(fixture->hub, 0, &from, heard, sizeof heard)) {
        }
    }
    zmq_ctx_term(zmq);
}

// ZMTP 3.0 by hand: greeting, READY with a property that ZeroMQ hands on as it is, one message.
static int forge(const char *path, const char *property, const char *value, const char *text)
{
    uint8_t bytes[512] = {0xFF, [9] = 0x7F, [10] = 3, 0, 'N', 'U', 'L', 'L'};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    uint8_t *at = bytes + 64;
    *at++ = 4; // a command
    uint8_t *length = at++;
    at += sprintf((char *)at, "%cREADY%cSocket-Type%c%c%c%cDEALER", 5, 11, 0, 0, 0, 6);
    *at++ = (uint8_t)strlen(property);
    at += sprintf((char *)at, "%s%c%c%c%c%s", property, 0, 0, 0, (int)strlen(value), value);
    *length = (uint8_t)(at - length - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, bytes, (size_t)(at - bytes), MSG_NOSIGNAL), at - bytes);
    // It must be ready, too: its greeting, and READY of some length.
    assert_int_equal(recv(fd, bytes, 64, MSG_WAITALL), 64);
    assert_int_equal(recv(fd, bytes, 2, MSG_WAITALL), 2);
    assert_int_equal(recv(fd, bytes + 2, bytes[1], MSG_WAITALL), bytes[1]);
    int frame = snprintf((char *)bytes, sizeof bytes, "%c%c%s", 0, (int)strlen(text), text);
    assert_int_equal(send(fd, bytes, (size_t)frame, MSG_NOSIGNAL), frame);
    return fd;
}

static void a_key_that_is_only_claimed_is_none(void **context)
{
    fixture_t *fixture = *context;
    const char *path = fixture->plain + strlen("ipc://");
    int fd = forge(path, "User-Id", fixture->alice.public_key, "I am Alice");
    or_peer_t peer = expect(fixture->hub, "I am Alice");
    assert_string_equal(or_channel_key_of(fixture->hub, peer), "");
    close(fd);
    // A hub that encrypts nothing has nobody to ask.
    or_channel_t *plain = NULL;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/outrider-zmq-plain-%d", (int)getpid());
    const or_channel_listen_t listen = {.endpoint = endpoint};
    assert_int_equal(or_channel_zmq_bind(&listen, 1, NULL, NULL, 0, &plain), OR_OK);
    fd = forge(endpoint + strlen("ipc://"), "User-Id", fixture->alice.public_key, "or so");
    peer = expect(plain, "or so");
    assert_string_equal(or_channel_key_of(plain, peer), "");
    close(fd);
    or_channel_destroy(&plain);
    unlink(endpoint + strlen("ipc://"));
}

// ---- what is done to bytes on the way ----

typedef struct {
    wiretap_t *tap;
    or_channel_t *edge;
} tapped_t;

static tapped_t connect_tapped(const fixture_t *fixture, const or_key_pair_t *own)
{
    char endpoint[64];
    tapped_t tapped = {.tap = wiretap_open(port_of(fixture->endpoint))};
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", wiretap_port(tapped.tap));
    tapped.edge = connect_to(endpoint, own, &fixture->server);
    return tapped;
}

static void close_tapped(tapped_t *tapped)
{
    or_channel_destroy(&tapped->edge);
    wiretap_close(&tapped->tap);
}

static void what_is_overheard_is_not_understood(void **context)
{
    fixture_t *fixture = *context;
    static const char secret[] = "the quick brown fox jumps over the lazy dog";
    const or_key_pair_t *pairs[] = {&fixture->alice, NULL};
    for (int i = 0; i < 2; i++) { // the second shows that the tap would have it
        or_channel_t *hub = fixture->hub;
        tapped_t tapped;
        if (pairs[i] == NULL) {
            char bound[64];
            const or_channel_listen_t plain = {.endpoint = "tcp://127.0.0.1:*"};
            assert_int_equal(or_channel_zmq_bind(&plain, 1, NULL, bound, sizeof bound, &hub),
                             OR_OK);
            fixture_t other = *fixture;
            snprintf(other.endpoint, sizeof other.endpoint, "%s", bound);
            tapped = connect_tapped(&other, NULL);
        } else {
            tapped = connect_tapped(fixture, pairs[i]);
        }
        say(tapped.edge, OR_PEER_HUB, secret);
        or_peer_t peer = expect(hub, secret);
        say(hub, peer, secret);
        expect(tapped.edge, secret);
        for (int back = 0; back < 2; back++) {
            size_t bytes;
            uint8_t *seen = wiretap_recorded(tapped.tap, back, &bytes);
            assert_true(bytes > sizeof secret);
            assert_int_equal(memmem(seen, bytes, "quick", 5) != NULL, pairs[i] == NULL);
            free(seen);
        }
        close_tapped(&tapped);
        if (hub != fixture->hub) {
            or_channel_destroy(&hub);
        }
    }
}

// Send recorded bytes over a connection of its own, at the pace at which they are answered.
static void replay(uint16_t port, const uint8_t *bytes, size_t count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    const struct timeval patience = {.tv_usec = 100000};
    uint8_t answer[4096];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    // The greeting, HELLO and the rest are answered one by one; then all that is left.
    const size_t steps[] = {64, 64 + 202, count};
    size_t sent = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && sent < count; i++) {
        size_t until = steps[i] < count ? steps[i] : count;
        if (send(fd, bytes + sent, until - sent, MSG_NOSIGNAL) < 0) {
            break;
        }
        sent = until;
        if (recv(fd, answer, sizeof answer, 0) == 0) {
            break;
        }
    }
    close(fd);
}

static void a_recorded_conversation_reaches_nobody_again(void **context)
{
    fixture_t *fixture = *context;
    tapped_t tapped = connect_tapped(fixture, &fixture->alice);
    say(tapped.edge, OR_PEER_HUB, "pay a hundred");
    or_peer_t alice = expect(fixture->hub, "pay a hundred");
    size_t bytes;
    uint8_t *recorded = wiretap_recorded(tapped.tap, 0, &bytes);
    uint64_t refusals = or_channel_zmq_refusals(fixture->hub);
    replay(port_of(fixture->endpoint), recorded, bytes);
    expect_nothing(fixture->hub);
    assert_true(or_channel_zmq_refusals(fixture->hub) > refusals);
    say(tapped.edge, OR_PEER_HUB, "and others go on");
    assert_int_equal(expect(fixture->hub, "and others go on").value, alice.value);
    free(recorded);
    close_tapped(&tapped);
}

// Numbered frames, one at a time; what arrives is whole, and in order.
static int tell_numbers(fixture_t *fixture, tapped_t *tapped, int first, int count,
                        void (*meddle)(wiretap_t *))
{
    char text[32];
    int arrived = 0, last = -1;
    for (int i = first; i < first + count; i++) {
        or_peer_t from;
        char heard[64];
        int number;
        snprintf(text, sizeof text, "number %d of many", i);
        if (i == first + 2) {
            meddle(tapped->tap);
        }
        say(tapped->edge, OR_PEER_HUB, text);
        while (hear(fixture->hub, 20 * OR_NS_PER_MS, &from, heard, sizeof heard)) {
            assert_int_equal(sscanf(heard, "number %d of many", &number), 1);
            snprintf(text, sizeof text, "number %d of many", number);
            assert_string_equal(heard, text);
            assert_true(number > last);
            last = number;
            arrived++;
        }
        (void)or_channel_wait(tapped->edge, 0);
        or_channel_receive(tapped->edge, &from, &(const uint8_t *){NULL}, &(size_t){0});
    }
    return arrived;
}

static void flip(wiretap_t *tap)
{
    wiretap_flip(tap, false);
}

static void meddling_ends_the_connection_and_changes_nothing(void **context)
{
    fixture_t *fixture = *context;
    void (*const meddlers[])(wiretap_t *) = {flip, wiretap_swap};
    for (int i = 0; i < 2; i++) {
        tapped_t tapped = connect_tapped(fixture, &fixture->alice);
        say(tapped.edge, OR_PEER_HUB, "number 0 of many");
        expect(fixture->hub, "number 0 of many");
        assert_int_equal(wiretap_connections(tapped.tap), 1);
        int arrived = tell_numbers(fixture, &tapped, 1, 40, meddlers[i]);
        assert_true(wiretap_connections(tapped.tap) >= 2);
        assert_int_equal(or_channel_connection(tapped.edge), 2);
        assert_in_range(arrived, 30, 39); // what was meddled with, and what was on the way then
        close_tapped(&tapped);
    }
}

// ZeroMQ gives up an endpoint whose bytes make no sense to it: whoever can change one bit could silence an edge.
static void an_edge_that_heard_nonsense_comes_back(void **context)
{
    fixture_t *fixture = *context;
    tapped_t tapped = connect_tapped(fixture, &fixture->alice);
    say(tapped.edge, OR_PEER_HUB, "here");
    or_peer_t before = expect(fixture->hub, "here"), from;
    char heard[64];
    wiretap_flip(tapped.tap, true);
    say(fixture->hub, before, "changed on the way");
    int64_t begun = now();
    while (or_channel_connection(tapped.edge) != 2 && now() - begun < PATIENCE_NS) {
        assert_false(hear(tapped.edge, 10 * OR_NS_PER_MS, &from, heard, sizeof heard));
        assert_false(hear(fixture->hub, 0, &from, heard, sizeof heard));
    }
    assert_int_equal(or_channel_connection(tapped.edge), 2);
    say(tapped.edge, OR_PEER_HUB, "here again");
    say(fixture->hub, expect(fixture->hub, "here again"), "welcome back");
    expect(tapped.edge, "welcome back");
    close_tapped(&tapped);
}

// ---- an edge that loses its connection ----

static void a_cut_connection_is_noticed_and_made_again(void **context)
{
    fixture_t *fixture = *context;
    tapped_t tapped = connect_tapped(fixture, &fixture->alice);
    say(tapped.edge, OR_PEER_HUB, "before");
    or_peer_t before = expect(fixture->hub, "before");
    say(fixture->hub, before, "answer");
    expect(tapped.edge, "answer");
    assert_int_equal(or_channel_connection(tapped.edge), 1);
    wiretap_cut(tapped.tap);
    int64_t cut_ns = now();
    bool woken = false;
    while (!woken && now() - cut_ns < PATIENCE_NS) {
        (void)or_channel_wait(fixture->hub, 0); // who comes must be let in
        woken = or_channel_wait(tapped.edge, 5 * OR_NS_PER_MS) == OR_OK;
    }
    assert_true(woken);
    assert_int_equal(or_channel_connection(tapped.edge), 2);
    say(tapped.edge, OR_PEER_HUB, "after");
    assert_int_not_equal(expect(fixture->hub, "after").value, before.value);
    close_tapped(&tapped);
}

// ---- links over it ----

// Time stands still for the links: what they do after their start is due to a connection, never to a heartbeat.
typedef struct {
    or_virtual_clock_t clock;
    or_link_t *hub, *edge;
    int welcomes, hellos;
} links_t;

static void turn(or_link_t *link, links_t *links)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    or_link_wait(link, links->clock.now_ns + OR_NS_PER_MS);
    while (or_link_receive(link, &event, &from, &message) == OR_OK) {
        if (event != OR_LINK_MESSAGE) {
            continue;
        }
        links->welcomes += message.type == OR_MSG_WELCOME;
        if (message.type == OR_MSG_HELLO) {
            const or_message_t welcome = {.type = OR_MSG_WELCOME,
                                          .body.welcome.software = "a test"};
            links->hellos++;
            assert_int_equal(or_link_send(link, from, &welcome), OR_OK);
        }
        or_message_fini(&message);
    }
    or_link_tick(link);
}

static void link_both(fixture_t *fixture, or_channel_t *edge, links_t *links)
{
    *links = (links_t){0};
    or_virtual_clock_init(&links->clock, OR_NS_PER_S);
    const or_hello_t hello = {
        .role = OR_ROLE_DRAFTER, .software = "test", .model = "none", .arith_id = "", .owner = ""};
    const or_clock_t *clock = &links->clock.clock;
    assert_int_equal(or_link_create(fixture->hub, clock, NULL, 1000, &links->hub), OR_OK);
    assert_int_equal(or_link_create(edge, clock, &hello, 1000, &links->edge), OR_OK);
}

static void turn_until_welcome(links_t *links, int welcomes)
{
    int64_t end = now() + PATIENCE_NS;
    while (links->welcomes < welcomes && now() < end) {
        turn(links->hub, links);
        turn(links->edge, links);
    }
    assert_int_equal(links->welcomes, welcomes);
    assert_true(or_link_welcomed(links->edge));
}

static void close_links(links_t *links)
{
    or_link_destroy(&links->edge);
    or_link_destroy(&links->hub);
}

// It does not wait for the next heartbeat.
static void a_link_greets_anew_on_a_new_connection(void **context)
{
    fixture_t *fixture = *context;
    tapped_t tapped = connect_tapped(fixture, &fixture->alice);
    links_t links;
    link_both(fixture, tapped.edge, &links);
    turn_until_welcome(&links, 1);
    assert_int_equal(links.hellos, 1);
    wiretap_cut(tapped.tap);
    turn_until_welcome(&links, 2);
    assert_int_equal(links.hellos, 2);
    close_links(&links);
    close_tapped(&tapped);
}

static void encrypted_links_are_padded_unless_told_otherwise(void **context)
{
    fixture_t *fixture = *context;
    for (int padded = 1; padded >= 0; padded--) {
        tapped_t tapped = connect_tapped(fixture, &fixture->alice);
        links_t links;
        link_both(fixture, tapped.edge, &links);
        or_link_set_padding(links.edge, padded);
        or_link_set_padding(links.hub, padded);
        assert_string_equal(or_link_key_of(links.edge, OR_PEER_HUB), fixture->server.public_key);
        turn_until_welcome(&links, 1);
        uint64_t bytes = or_link_bytes(links.edge, OR_PEER_HUB);
        assert_int_equal(bytes, padded ? 2 * OR_PADDING_LEAST : bytes); // Hello and Welcome
        assert_true(padded || bytes < 2 * OR_PADDING_LEAST);
        close_links(&links);
        close_tapped(&tapped);
    }
}

static void plain_links_are_not_padded(void **context)
{
    fixture_t *fixture = *context;
    or_channel_t *local = connect_to(fixture->plain, NULL, NULL);
    links_t links;
    link_both(fixture, local, &links);
    turn_until_welcome(&links, 1);
    assert_true(or_link_bytes(links.edge, OR_PEER_HUB) < 2 * OR_PADDING_LEAST);
    close_links(&links);
    or_channel_destroy(&local);
}

// ---- a crowd at the door ----

#define CROWD 100

// Sockets that never say who they are, sockets that talk nonsense, and keys that nobody knows.
static void a_crowd_at_the_door_stalls_nobody(void **context)
{
    fixture_t *fixture = *context;
    int fds[CROWD];
    or_channel_t *strangers[8];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port_of(fixture->endpoint))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    or_channel_t *alice = connect_as(fixture, &fixture->alice);
    say(alice, OR_PEER_HUB, "first");
    or_peer_t peer = expect(fixture->hub, "first");
    for (int i = 0; i < CROWD; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof address), 0);
        if (i % 2 == 0) {
            (void)send(fds[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
        }
    }
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        strangers[i] = connect_as(fixture, &fixture->eve);
        say(strangers[i], OR_PEER_HUB, "let me in");
    }
    int64_t slowest = 0, all = 0;
    for (int i = 0; i < 200; i++) {
        int64_t begun = now();
        say(alice, OR_PEER_HUB, "ping");
        expect(fixture->hub, "ping");
        say(fixture->hub, peer, "pong");
        expect(alice, "pong");
        int64_t took = now() - begun;
        slowest = took > slowest ? took : slowest;
        all += took;
    }
    print_message("slowest round trip in a crowd: %.1f ms\n", (double)slowest / 1e6);
    assert_true(all < 2 * PATIENCE_NS); // twenty times what they take on a busy machine
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        or_channel_destroy(&strangers[i]);
    }
    for (int i = 0; i < CROWD; i++) {
        close(fds[i]);
    }
    or_channel_destroy(&alice);
}

// The cost of a handshake is a figure to look at; the test checks that they all succeed.
static void handshakes_are_cheap_enough(void **context)
{
    fixture_t *fixture = *context;
    int64_t begun = now();
    for (int i = 0; i < CROWD; i++) {
        or_channel_t *alice = connect_as(fixture, &fixture->alice);
        say(alice, OR_PEER_HUB, "here");
        or_channel_forget(fixture->hub, expect(fixture->hub, "here"));
        or_channel_destroy(&alice);
    }
    print_message("%d handshakes: %.2f ms each, both sides\n", CROWD,
                  (double)(now() - begun) / 1e6 / CROWD);
    assert_int_equal(or_channel_zmq_refusals(fixture->hub), 0);
}

#define WITH_HUB(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HUB(frames_go_both_ways_under_a_key),
        WITH_HUB(a_key_that_is_not_authorized_stays_outside_until_it_is),
        WITH_HUB(who_does_not_encrypt_stays_outside),
        WITH_HUB(a_key_tells_nothing_to_a_plain_endpoint),
        WITH_HUB(another_server_key_is_no_server),
        WITH_HUB(plain_and_encrypted_endpoints_work_side_by_side),
        WITH_HUB(ipv6_is_as_good),
        WITH_HUB(every_address_is_of_both_kinds),
        WITH_HUB(an_ipv6_address_without_brackets_is_told_so),
        WITH_HUB(a_revoked_key_that_was_forgotten_is_heard_no_more),
        WITH_HUB(who_takes_an_identity_does_not_become_its_owner),
        WITH_HUB(a_key_that_is_only_claimed_is_none),
        WITH_HUB(what_is_overheard_is_not_understood),
        WITH_HUB(a_recorded_conversation_reaches_nobody_again),
        WITH_HUB(meddling_ends_the_connection_and_changes_nothing),
        WITH_HUB(an_edge_that_heard_nonsense_comes_back),
        WITH_HUB(a_cut_connection_is_noticed_and_made_again),
        WITH_HUB(a_link_greets_anew_on_a_new_connection),
        WITH_HUB(encrypted_links_are_padded_unless_told_otherwise),
        WITH_HUB(plain_links_are_not_padded),
        WITH_HUB(a_crowd_at_the_door_stalls_nobody),
        WITH_HUB(handshakes_are_cheap_enough),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
