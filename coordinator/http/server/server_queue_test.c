// Goal: however many requests are whole at the same time, a turn takes no longer than one of them, and those of one owner do not
// hold up another's.
// Method: a handler that takes its time; connections whose last bytes lie in their sockets before the server has a turn.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator/http/server/api_keys.h"
#include "coordinator/http/server/server_test_support.h"

#define ADA "sk-ada-0123456789"
#define BEN "sk-ben-0123456789"
#define CLIENTS 16u
#define BODY_BYTES 3000

static int setup(void **state)
{
    static world_t world;
    world = (world_t){.config = world_config()};
    world.config.keys = world_keys(ADA " ada\n" BEN " ben\n");
    world_open(&world);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    world_t *world = *state;
    world_close(world);
    or_api_keys_destroy(&world->config.keys);
    return 0;
}

// One that has sent all of a request but its last byte.
static client_t *open_nearly_whole(world_t *world, const char *key)
{
    char request[256 + BODY_BYTES];
    int head = snprintf(request, 256,
                        "POST /busy HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        "Content-Length: %d\r\n\r\n",
                        key, BODY_BYTES);
    memset(&request[head], 'x', BODY_BYTES - 1);
    client_t *client = client_open(world);
    client_send_bytes(world, client, request, (size_t)head + BODY_BYTES - 1);
    return client;
}

static void send_last(const client_t *client)
{
    assert_int_equal(send(client->fd, "x", 1, MSG_NOSIGNAL), 1);
}

// Ada's, and Ben's behind them.
static void open_all(world_t *world, client_t *clients[CLIENTS + 1])
{
    for (uint32_t i = 0; i <= CLIENTS; i++) {
        clients[i] = open_nearly_whole(world, i < CLIENTS ? ADA : BEN);
    }
    world_spin(world, 20);
    assert_int_equal(world->handed, 0);
    for (uint32_t i = 0; i <= CLIENTS; i++) {
        send_last(clients[i]);
    }
}

static void close_all(client_t *clients[CLIENTS + 1])
{
    for (uint32_t i = 0; i <= CLIENTS; i++) {
        client_close(&clients[i]);
    }
}

static void a_turn_handles_one_that_takes_long(void **state)
{
    world_t *world = *state;
    client_t *clients[CLIENTS + 1];
    open_all(world, clients);
    for (unsigned before = 0; before <= CLIENTS; before = world->handed) {
        (void)or_http_server_turn(world->server);
        assert_true(world->handed <= before + 1);
    }
    for (uint32_t i = 0; i <= CLIENTS; i++) {
        client_wait(world, clients[i], "200 OK");
    }
    close_all(clients);
}

static void who_asks_for_little_waits_for_one(void **state)
{
    world_t *world = *state;
    client_t *clients[CLIENTS + 1];
    open_all(world, clients);
    client_wait(world, clients[CLIENTS], "200 OK");
    assert_true(world->handed <= 4);
    close_all(clients); // whoever waits is handled or forgotten
    world_spin(world, 200);
    assert_int_equal(world->finished + world->cut, world->handed);
}

// Nothing is left of those that wait when the server ends.
static void the_end_ends_those_that_wait(void **state)
{
    world_t *world = *state;
    client_t *clients[CLIENTS + 1];
    open_all(world, clients);
    (void)or_http_server_turn(world->server);
    assert_true(world->handed <= 1);
    world_close(world);
    world_open(world);
    close_all(clients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_turn_handles_one_that_takes_long, setup, teardown),
        cmocka_unit_test_setup_teardown(who_asks_for_little_waits_for_one, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_ends_those_that_wait, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
