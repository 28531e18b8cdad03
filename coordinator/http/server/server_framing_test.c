// Goal: a proxy in front of us and we cannot disagree about where a request ends or for whom it is.
// Method: raw bytes, each ambiguous in one way. Each is answered 400 and its connection closed, so that what follows it is
// never taken for a request; forms that are merely unusual are served.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/server/server_test_support.h"

#define HOST "Host: localhost\r\n"
#define GET "GET /echo HTTP/1.1\r\n"
#define POST "POST /echo HTTP/1.1\r\n" HOST
#define NEXT "GET /echo?q=smuggled HTTP/1.1\r\n" HOST "\r\n"

static int setup(void **state)
{
    world_t *world = calloc(1, sizeof *world);
    world->config = world_config();
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

// Refused, and nothing behind it is heard.
static void assert_refused(world_t *world, const char *request)
{
    char both[1024];
    unsigned handed = world->handed;
    snprintf(both, sizeof both, "%s%s", request, NEXT);
    client_t *client = client_open(world);
    client_send(world, client, both);
    if (!client_sees_end(world, client, 2000) || strncmp(client->text, "HTTP/1.1 400", 12) != 0 ||
        world->handed != handed) {
        fail_msg("'%s' to '%s'", client->text, request);
    }
    client_close(&client);
}

static void lengths_that_contradict_are_refused(void **state)
{
    static const char *const requests[] = {
        POST "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        POST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        POST "Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
        POST "Content-Length: 2, 2\r\n\r\n{}",
        POST "Content-Length: +2\r\n\r\n{}",
        POST "Content-Length: 0x2\r\n\r\n{}",
        POST "Content-Length: 2 \r\n\r\n{}",
        POST "Content-Length:\r\n\r\n{}",
        POST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        POST "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST "Transfer-Encoding: identity\r\n\r\n",
        POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST "Transfer-Encoding: \x0b"
             "chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        GET HOST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    };
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        assert_refused(*state, requests[i]);
    }
}

static void hosts_are_one_and_well_formed(void **state)
{
    static const char *const hosts[] = {
        "",
        HOST HOST,
        HOST "host: evil.example\r\n",
        "Host: localhost:.evil\r\n",
        "Host: localhost:80.evil\r\n",
        "Host: localhost:0\r\n",
        "Host: localhost:65536\r\n",
        "Host: localhost:999999\r\n",
        "Host: localhost:80:80\r\n",
        "Host: localhost, evil.example\r\n",
        "Host: user@localhost\r\n",
        "Host: localhost/evil\r\n",
        "Host: [::1\r\n",
        "Host: [::1]evil\r\n",
        "Host: []\r\n",
        "Host: local host\r\n",
    };
    for (unsigned i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char request[256];
        snprintf(request, sizeof request, GET "%s\r\n", hosts[i]);
        assert_refused(*state, request);
    }
    assert_non_null(strstr(ask(*state, GET "Host: localhost:\r\n\r\n"), "GET /echo"));
    assert_non_null(strstr(ask(*state, GET "Host: [::1]:65535\r\n\r\n"), "GET /echo"));
}

static void lines_end_with_cr_lf(void **state)
{
    static const char *const requests[] = {
        "GET /echo HTTP/1.1\nHost: localhost\r\n\r\n",
        GET "Host: localhost\n\r\n",
        GET "Host: localhost\r\n\n",
        GET "Host: localhost\n\n",
        GET "Host: localhost\r\r\n\r\n",
        GET "X-One: a\rX-Two: b\r\n" HOST "\r\n",
        GET "X-One: a\nX-Two: b\r\n" HOST "\r\n",
        GET "X-One: a\r\n folded\r\n" HOST "\r\n",
        GET HOST "X-One: a\r\n\tfolded\r\n\r\n",
        POST "Content-Length: 1\r\n 0\r\n\r\n0123456789",
        GET HOST "X-One : a\r\n\r\n",
        GET HOST "X-One\t: a\r\n\r\n",
        GET " " HOST "\r\n",
        GET HOST ": a\r\n\r\n",
        GET HOST "X(One): a\r\n\r\n",
        POST "Content-Length : 2\r\n\r\n{}",
        POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        GET HOST "Authorization: a\r\nAuthorization: b\r\n\r\n",
    };
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        assert_refused(*state, requests[i]);
    }
}

// NUL is a byte of a header's line that the library takes for its end.
static void a_nul_in_a_header_is_refused(void **state)
{
    world_t *world = *state;
    static const char request[] = GET HOST "X-One: a\0b\r\n\r\n" NEXT;
    client_t *client = client_open(world);
    client_send_bytes(world, client, request, sizeof request - 1);
    client_wait_closed(world, client, 2000);
    assert_ptr_equal(strstr(client->text, "HTTP/1.1 400"), client->text);
    assert_int_equal(world->handed, 0);
    client_close(&client);
}

static void whatever_follows_chunks_is_not_heard(void **state)
{
    world_t *world = *state;
    client_t *client = client_open(world);
    client_send(world, client,
                POST "Transfer-Encoding: chunked\r\n\r\n2;x=\n\r\n{}\r\n0\r\n\r\n" NEXT);
    client_wait_closed(world, client, 2000);
    assert_null(strstr(client->text, "smuggled"));
    client_close(&client);
}

// However headers are cut into segments, and behind other requests.
static void strict_requests_are_served_in_any_pieces(void **state)
{
    world_t *world = *state;
    static const char request[] = "POST /echo?q=1 HTTP/1.1\r\n" HOST
                                  "Accept:*/*\r\nCookie: a=b; c=d\r\nX-Empty:\r\nX-Blank: \r\n"
                                  "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    client_t *client = client_open(world);
    for (size_t i = 0; i < sizeof request - 1; i++) {
        char piece[2] = {request[i], '\0'};
        client_send(world, client, piece);
        world_spin(world, 0);
    }
    client_wait(world, client, "POST /echo q=1 owner= body=2:{}");
    for (unsigned i = 0; i < 3; i++) {
        client_ask(world, client, request, "body=2:{}");
    }
    client_forget(client);
    client_send(world, client, request);
    client_send(world, client, GET HOST "\r\n" NEXT);
    client_wait(world, client, "q=smuggled");
    client_close(&client);
    assert_int_equal(world->handed, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lengths_that_contradict_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_are_one_and_well_formed, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_end_with_cr_lf, setup, teardown),
        cmocka_unit_test_setup_teardown(a_nul_in_a_header_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(whatever_follows_chunks_is_not_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(strict_requests_are_served_in_any_pieces, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
