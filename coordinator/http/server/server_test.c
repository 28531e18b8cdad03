// Goal: whatever clients do, each call is answered once or ends once, in time, and costs bounded memory.
// Method: real sockets and the server in one thread; well-behaved clients, rude ones, and those that go away.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator/http/server/server_test_support.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define POST(path, body, length)                                                                   \
    "POST " path " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " length "\r\n\r\n" body

static int setup(void **state)
{
    world_t *world = calloc(1, sizeof *world);
    world->config = world_config();
    world->config.body_bytes_max = 100000;
    world_open(world);
    *state = world;
    return 0;
}

static int setup_impatient(void **state)
{
    world_t *world = calloc(1, sizeof *world);
    world->config = world_config();
    world->config.request_timeout_s = 1;
    world->config.stream_bytes_max = 65536;
    world_open(world);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

// ---- clients as they should be ----

static void answers_are_whole(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client, GET("/echo?q=a%20b&x=1"), "GET /echo q=a b owner= body=0:");
    client_ask(world, client, POST("/echo", "hello", "5"), "POST /echo q= owner= body=5:hello");
    client_ask(world, client, GET("/nowhere"), "\"message\":\"there is no /nowhere\"");
    assert_non_null(strstr(client->text, "HTTP/1.1 404"));
    assert_non_null(strstr(client->text, "\"type\":\"invalid_request_error\",\"param\":null,"
                                         "\"code\":\"not_found\""));
    client_ask(world, client, GET("/echo"), "GET /echo"); // the connection lives on
    assert_int_equal(world->handed, 4);
    client_close(&client);
    world_wait(world, &world->finished, 4, 1000);
    assert_int_equal(world->answered, 4);
    assert_int_equal(world->cut, 0);
}

static void headers_are_there(void **state)
{
    world_t *world = *state;
    const char *answer =
        ask(world, "GET /page HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: abc-1\r\n\r\n");
    assert_non_null(strstr(answer, "X-Request-Id: abc-1\r\n"));
    assert_non_null(strstr(answer, "Content-Type: text/html"));
    assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff"));
    assert_non_null(strstr(answer, "default-src 'self'"));
    assert_non_null(strstr(answer, "Cache-Control: no-store"));
    assert_null(strstr(answer, "Access-Control"));
    // One that is no name: another is made.
    answer = ask(world, "GET /echo HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\x01\r\n\r\n");
    assert_null(strstr(answer, "X-Request-Id: a b"));
    assert_non_null(strstr(answer, "X-Request-Id: "));
}

static void head_has_no_body(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client, "HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\n");
    assert_non_null(strstr(client->text, "HTTP/1.1 200"));
    assert_null(strstr(client->text, "/echo q="));
    client_ask(world, client, "HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\n");
    world_wait(world, &world->finished, 2, 1000);
    assert_null(world->kept);
    client_close(&client);
}

static void old_clients_are_served(void **state)
{
    world_t *world = *state;
    assert_non_null(strstr(ask(world, "GET /echo HTTP/1.0\r\n\r\n"), "GET /echo"));
    // A stream is then what comes until the connection is closed.
    client_t *client = client_open(world);
    client_send(world, client, "GET /stream HTTP/1.0\r\n\r\n");
    client_wait(world, client, "\r\n\r\n");
    assert_null(strstr(client->text, "chunked"));
    assert_true(or_http_write(world->kept, "data: 1\n\n", 9));
    client_wait(world, client, "\r\n\r\ndata: 1\n\n");
    or_http_end(world->kept);
    client_wait_closed(world, client, 1000);
    client_close(&client);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_send(world, client,
                GET("/echo?q=1") GET("/later") GET("/echo?q=2") POST("/echo", "xyz", "3"));
    client_wait(world, client, "q=1");
    world_spin(world, 50);
    assert_null(strstr(client->text, "q=2"));
    or_http_reply(world->kept, 200, "text/plain", "in between", 10);
    client_wait(world, client, "body=3:xyz");
    assert_true(strstr(client->text, "in between") < strstr(client->text, "q=2"));
    client_close(&client);
}

static void bodies_come_in_chunks_and_after_a_question(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client,
               "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
               "body=7:abcdefg");
    client_wait_closed(world, client, 1000);
    client_close(&client);
    client = client_open(world);
    client_ask(world, client,
               "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
               "Expect: 100-continue\r\n\r\n",
               "100 Continue");
    client_ask(world, client, "late", "body=4:late");
    client_close(&client);
}

static void streams_come_as_they_are_written(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client, POST("/stream", "{}", "2"), "text/event-stream");
    assert_non_null(strstr(client->text, "X-Accel-Buffering: no"));
    for (int i = 0; i < 20; i++) {
        char event[32];
        int length = snprintf(event, sizeof event, "data: %d\n\n", i);
        assert_true(or_http_write(world->kept, event, (size_t)length));
        client_wait(world, client, event);
    }
    or_http_end(world->kept);
    client_wait(world, client, "\r\n0\r\n\r\n");
    world_wait(world, &world->finished, 1, 1000);
    client_ask(world, client, GET("/echo"), "GET /echo"); // and the connection is kept
    client_close(&client);
}

// ---- clients that go away ----

static void hang_ups_are_noticed(void **state)
{
    static const char *const requests[] = {GET("/stream"), GET("/later")};
    world_t *world = *state;
    for (unsigned i = 0; i < 4; i++) {
        client_t *client = client_open(world);
        client_send(world, client, requests[i % 2]);
        world_wait(world, &world->handed, i + 1, 1000);
        world_spin(world, 20);
        assert_non_null(world->kept);
        if (i >= 2) { // at once, without a farewell
            struct linger linger = {.l_onoff = 1};
            setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        client_close(&client);
        world_wait(world, &world->cut, i + 1, 900);
        assert_null(world->kept);
    }
}

static void who_only_stops_sending_gets_the_stream(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client, GET("/stream"), "\r\n\r\n");
    shutdown(client->fd, SHUT_WR);
    client_wait(world, client, ":\n\n"); // the question whether it is there
    world_spin(world, 100);
    assert_non_null(world->kept);
    assert_true(or_http_write(world->kept, "data: all the same\n\n", 20));
    client_wait(world, client, "all the same");
    // A hang-up is noticed now, too.
    client_close(&client);
    assert_true(or_http_write(world->kept, "data: more\n\n", 12));
    world_wait(world, &world->cut, 1, 900);
}

static void a_slow_reader_is_dropped(void **state)
{
    world_t *world = *state;
    static char event[8192];
    memset(event, 'x', sizeof event);
    client_t *client = client_open(world);
    client_ask(world, client, GET("/stream"), "\r\n\r\n");
    size_t written = 0;
    while (world->kept != NULL && written < ((size_t)64 << 20) &&
           or_http_write(world->kept, event, sizeof event)) {
        written += sizeof event;
        world_spin(world, 0);
        or_http_server_turn(world->server);
    }
    assert_in_range(written, 65536 - sizeof event, (size_t)32 << 20);
    assert_non_null(world->kept); // until `over`
    assert_false(or_http_write(world->kept, "x", 1));
    world_wait(world, &world->cut, 1, 900);
    client_close(&client);
}

static void who_dawdles_is_cut(void **state)
{
    world_t *world = *state;
    static const char *const beginnings[] = {
        "", "GET /echo HTTP/1.1\r\nHost: localhost\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"};
    for (unsigned i = 0; i < 3; i++) {
        client_t *client = client_open(world);
        client_send(world, client, beginnings[i]);
        for (unsigned k = 0; k < 12 && !client->closed; k++) { // never silent for long
            client_send(world, client, "x");
            world_spin(world, 100);
        }
        client_wait_closed(world, client, 1500);
        client_close(&client);
    }
    // A stream is no request: it may take longer.
    client_t *client = client_open(world);
    client_ask(world, client, GET("/stream"), "\r\n\r\n");
    world_spin(world, 1500);
    assert_true(or_http_write(world->kept, "data: 1\n\n", 9));
    client_wait(world, client, "data: 1");
    client_close(&client);
    assert_int_equal(world->handed, 1);
}

// ---- clients that send too much, or nonsense ----

static const char *request_with_headers(unsigned count, const char *each)
{
    static char request[100000];
    char *at = request + sprintf(request, "GET /echo HTTP/1.1\r\nHost: localhost\r\n");
    for (unsigned i = 0; i < count; i++) {
        at += sprintf(at, "X-Header-%03u: %s\r\n", i, each);
    }
    strcpy(at, "\r\n");
    return request;
}

static void a_thousand_headers_are_refused(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client, request_with_headers(101, "a"), "\"headers_too_large\"");
    assert_non_null(strstr(client->text, "HTTP/1.1 431"));
    client_ask(world, client, request_with_headers(150, "some value that it has"),
               "\"headers_too_large\"");
    client_ask(world, client, request_with_headers(80, "a"), "GET /echo");
    client_close(&client);
    static char endless[20000];
    memset(endless, 'x', sizeof endless - 1);
    client = client_open(world);
    client_ask(world, client, request_with_headers(1, endless), "\"headers_too_large\"");
    client_close(&client);
    // Beyond all bounds it is the library that says so.
    client = client_open(world);
    client_ask(world, client, request_with_headers(1000, "a"), " 431 ");
    client_close(&client);
    // Allowed headers are answered: as many as there may be, and as large.
    static char value[140];
    memset(value, 'x', sizeof value - 1);
    client = client_open(world);
    client_ask(world, client, request_with_headers(98, value), "GET /echo");
    client_close(&client);
    assert_int_equal(world->handed, 2);
}

static void large_bodies_are_refused(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client,
               "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nabc",
               "\"request_too_large\"");
    assert_non_null(strstr(client->text, "HTTP/1.1 413"));
    client_wait_closed(world, client, 1000); // the rest is not read
    client_close(&client);
    // One that sends all before it reads is not cut off meanwhile.
    static char large[1 << 20];
    memset(large, 'z', sizeof large - 1);
    client = client_open(world);
    client_send(world, client,
                "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048575\r\n\r\n");
    client_ask(world, client, large, "\"request_too_large\"");
    client_ask(world, client, GET("/echo"), "GET /echo"); // and its connection is kept
    client_close(&client);
    // Without a length it shows on the way.
    static char chunk[20001 + 10];
    int head = sprintf(chunk, "%x\r\n", 20000);
    memset(chunk + head, 'y', 20000);
    strcpy(chunk + head + 20000, "\r\n");
    client = client_open(world);
    client_send(world, client,
                "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 6; i++) {
        client_send(world, client, chunk);
    }
    client_ask(world, client, "0\r\n\r\n", "\"request_too_large\"");
    client_wait_closed(world, client, 1000); // nothing comes behind chunks
    client_close(&client);
    // One that never ends is cut.
    client = client_open(world);
    client_send(world, client,
                "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 15; i++) {
        client_send(world, client, chunk);
    }
    client_wait_closed(world, client, 1000);
    client_close(&client);
    assert_int_equal(world->handed, 1);
}

static void nonsense_is_no_request(void **state)
{
    static const char *const nonsense[] = {
        "\r\n\r\n\r\n",
        "garbage\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01\x01\xfc",
        "GET\r\n\r\n",
        "GET /echo HTTP/9.9\r\n\r\n",
        "GET /echo HTTP/1.1\r\n\r\n", // no Host
        "GET /echo HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\nabcde",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc",
    };
    world_t *world = *state;
    for (unsigned i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        const char *answer = ask(world, nonsense[i]);
        assert_true(answer[0] == '\0' || strstr(answer, "HTTP/1.1 4") == answer ||
                    strstr(answer, "HTTP/1.1 505") == answer);
    }
    assert_int_equal(world->handed, 0);
    uint64_t seed = test_seed();
    for (unsigned i = 0; i < 200; i++) {
        char noise[300] = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
        size_t begin = test_below(&seed, strlen(noise) + 1);
        for (size_t k = begin; k < sizeof noise - 1; k++) {
            noise[k] = (char)(1 + test_below(&seed, 255));
        }
        ask(world, noise);
    }
    assert_non_null(strstr(ask(world, GET("/echo")), "GET /echo"));
}

// ---- the end, and many ----

// A request that is let in, and is not whole.
#define PART "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n12"

// Connections that sent nothing, or a part of the headers, held all places for 30 s, again and again.
static void strangers_make_room(void **state)
{
    (void)state;
    world_t world = {.config = world_config()};
    world.config.connections_max = 32;
    world_open(&world);
    client_t *known = client_open(&world), *idle[200];
    client_send(&world, known, PART);
    world_spin(&world, 20);
    for (unsigned i = 0; i < 200; i++) {
        idle[i] = client_open(&world);
        client_send(&world, idle[i], i % 2 ? "GET /echo HTTP/1.1\r\nHost: localh" : "");
        if (i % 50 == 49) {
            ask(&world, GET("/echo"));
        }
    }
    assert_int_equal(world.handed, 4);
    client_ask(&world, known, "34", "POST /echo");
    assert_true(client_sees_end(&world, idle[0], 1000));
    assert_false(client_sees_end(&world, idle[199], 50));
    for (unsigned i = 0; i < 200; i++) {
        client_close(&idle[i]);
    }
    client_close(&known);
    world_close(&world);
}

static void where_there_are_many_they_are_not_kept(void **state)
{
    (void)state;
    world_t world = {.config = world_config()};
    world.config.connections_max = 16;
    world_open(&world);
    client_t *clients[20];
    for (unsigned i = 0; i < 20; i++) {
        clients[i] = client_open(&world);
        client_send(&world, clients[i], PART);
    }
    client_ask(&world, clients[0], "34", "Connection: close");
    client_wait_closed(&world, clients[0], 1000);
    // Connections beyond the limit wait until others go.
    client_send(&world, clients[19], "34");
    world_spin(&world, 50);
    assert_int_equal(world.handed, 1);
    for (unsigned i = 0; i < 19; i++) {
        client_close(&clients[i]);
    }
    client_wait(&world, clients[19], "POST /echo");
    client_close(&clients[19]);
    world_spin(&world, 50);
    clients[0] = client_open(&world);
    client_ask(&world, clients[0], GET("/echo"), "GET /echo");
    assert_null(strstr(clients[0]->text, "Connection: close"));
    client_close(&clients[0]);
    world_close(&world);
}

static void the_end_ends_all_calls(void **state)
{
    world_t *world = *state;
    client_t *clients[6];
    for (unsigned i = 0; i < 6; i++) {
        clients[i] = client_open(world);
        client_send(world, clients[i],
                    i == 5  ? "POST /echo HTT"
                    : i % 2 ? GET("/later")
                            : GET("/stream"));
    }
    world_wait(world, &world->handed, 5, 1000);
    assert_true(or_http_write(world->kept, "data: unsent\n\n", 14));
    world_close(world);
    assert_int_equal(world->cut, 5);
    for (unsigned i = 0; i < 6; i++) {
        client_close(&clients[i]);
    }
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void two_thousand_idle_connections_are_cheap(void **state)
{
    enum { COUNT = 2000 };
    world_t *world = *state;
    static client_t *clients[COUNT];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * COUNT + 64) {
        skip(); // the system allows no more
    }
    size_t before = resident_bytes();
    for (unsigned i = 0; i < COUNT; i++) {
        clients[i] = client_open(world);
        client_send(world, clients[i], GET("/stream"));
    }
    world_wait(world, &world->handed, COUNT, 5000);
    size_t each = (resident_bytes() - before) / COUNT - sizeof(client_t);
    print_message("%u streams: %zu bytes each\n", (unsigned)COUNT, each);
    assert_true(each < 57344); // most of it is the library's buffer
    for (unsigned i = 0; i < COUNT; i++) {
        client_close(&clients[i]);
    }
    world_wait(world, &world->cut, COUNT, 5000);
}

// The server's end of a client's connection.
static int server_end_of(const client_t *client)
{
    struct sockaddr_in own, peer;
    socklen_t bytes = sizeof own;
    assert_int_equal(getsockname(client->fd, (struct sockaddr *)&own, &bytes), 0);
    for (int fd = 0; fd < 256; fd++) {
        bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == own.sin_port) {
            return fd;
        }
    }
    return -1;
}

// The socket is closed in the moment in which another thread asks something of it. AddressSanitizer tells.
static void events_of_closed_connections_are_not_heard(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_ask(world, client, GET("/echo"), "GET");
    int copy = dup(server_end_of(client));
    assert_true(copy >= 0);
    client_ask(world, client, "GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
               "GET");
    client_wait_closed(world, client, 5000);
    client_close(&client);
    world_spin(world, 50);
    close(copy);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_IMPATIENT(name) cmocka_unit_test_setup_teardown(name, setup_impatient, teardown)
    const struct CMUnitTest tests[] = {
        TEST(answers_are_whole),
        TEST(headers_are_there),
        TEST(head_has_no_body),
        TEST(old_clients_are_served),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(bodies_come_in_chunks_and_after_a_question),
        TEST(streams_come_as_they_are_written),
        TEST(hang_ups_are_noticed),
        TEST(who_only_stops_sending_gets_the_stream),
        TEST_IMPATIENT(a_slow_reader_is_dropped),
        TEST_IMPATIENT(who_dawdles_is_cut),
        TEST(a_thousand_headers_are_refused),
        TEST(large_bodies_are_refused),
        TEST(nonsense_is_no_request),
        cmocka_unit_test(strangers_make_room),
        cmocka_unit_test(where_there_are_many_they_are_not_kept),
        TEST(events_of_closed_connections_are_not_heard),
        TEST(the_end_ends_all_calls),
        TEST(two_thousand_idle_connections_are_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
