// Goal: a peer that does not use libzmq may claim an identity of any length: it harms nobody, and one of a usual length
// is heard.
// Method: ZMTP 3.1 by hand over a socket of the system's, up to the frame; the hub hears it or not, and goes on.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "proto/zmq/channel_zmq.h"
#include "tests/support/test_support.h"

#define LOOK_NS (10 * OR_NS_PER_MS)
#define LOOKS 50
#define GREETING_BYTES 64
#define IDENTITY_BYTES_MAX 255 // of who is heard

typedef struct {
    uint8_t bytes[70000];
    size_t length;
} buffer_t;

static void put(buffer_t *buffer, const void *bytes, size_t count)
{
    memcpy(buffer->bytes + buffer->length, bytes, count);
    buffer->length += count;
}

static void put_number(buffer_t *buffer, uint64_t number, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;) {
        const uint8_t byte = (uint8_t)(number >> (8 * i));
        put(buffer, &byte, 1);
    }
}

static void put_property(buffer_t *buffer, const char *name, const void *value, size_t bytes)
{
    put_number(buffer, strlen(name), 1);
    put(buffer, name, strlen(name));
    put_number(buffer, bytes, 4);
    put(buffer, value, bytes);
}

// The hub may have ended the connection already, of one whose identity is too long.
static void write_all(int fd, const void *bytes, size_t count, bool must)
{
    bool written = send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
    assert_true(written || !must);
}

// Greeting, READY with an identity of so many bytes, and a frame.
static void say_hello(int fd, size_t identity_bytes)
{
    bool heard = identity_bytes <= IDENTITY_BYTES_MAX;
    static buffer_t ready, all;
    static char identity[66000];
    static const char mechanism[20] = "NULL", filler[32];
    ready.length = all.length = 0;
    memset(identity, 'A', sizeof identity);
    put(&ready, "\5READY", 6);
    put_property(&ready, "Socket-Type", "DEALER", 6);
    put_property(&ready, "Identity", identity, identity_bytes);
    put(&all, "\xff\0\0\0\0\0\0\0\0\x7f\3\1", 12);
    put(&all, mechanism, sizeof mechanism);
    put(&all, filler, sizeof filler);
    put(&all, "\6", 1); // a long command
    put_number(&all, ready.length, 8);
    put(&all, ready.bytes, ready.length);
    write_all(fd, all.bytes, all.length, heard);
    for (ssize_t length = 0, more = 1; length <= GREETING_BYTES && more > 0; length += more) {
        more = read(fd, all.bytes, sizeof all.bytes); // its greeting, and its READY, before frames
    }
    write_all(fd, "\0\5hello", 7, heard);
}

static int connect_raw(const char *endpoint)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port =
                                            htons((uint16_t)atoi(strrchr(endpoint, ':') + 1)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool hears_hello(or_channel_t *hub)
{
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    for (int i = 0; i < LOOKS; i++) {
        if (or_channel_receive(hub, &from, &frame, &bytes) == OR_OK) {
            return bytes == 5 && memcmp(frame, "hello", 5) == 0;
        }
        or_channel_wait(hub, LOOK_NS);
    }
    return false;
}

static void long_identities_are_not_heard(void **state)
{
    (void)state;
    static const size_t lengths[] = {255, 256, 300, 65536, 255};
    const or_channel_listen_t listen = {"tcp://127.0.0.1:*", false};
    char endpoint[256];
    or_channel_t *hub;
    assert_int_equal(or_channel_zmq_bind(&listen, 1, NULL, endpoint, sizeof endpoint, &hub), OR_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int fd = connect_raw(endpoint);
        say_hello(fd, lengths[i]);
        assert_int_equal(hears_hello(hub), lengths[i] <= IDENTITY_BYTES_MAX);
        close(fd);
        or_channel_wait(hub, LOOK_NS);
    }
    or_channel_destroy(&hub);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_identities_are_not_heard)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
