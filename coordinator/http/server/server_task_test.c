// Goal: what takes long with a large body holds up nobody else, one such at a time, and whatever becomes of its client or of the
// server its memory comes back.
// Method: a handler whose tasks take as long as the test wants; real connections; a ledger.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "coordinator/http/server/server_test_support.h"

#define MIB ((uint64_t)1 << 20)
#define LARGE_BYTES 40000
#define SMALL_BYTES 400
#define LONG_MS 60000
#define ENDS 200
#define OWN_NICE 10
#define NICEST 19

static void *setup_world(world_t *world)
{
    *world = (world_t){.config = world_config()};
    assert_int_equal(or_ledger_create(16 * MIB, MIB, &world->config.ledger), OR_OK);
    world_open(world);
    return world;
}

static int setup(void **state)
{
    static world_t world;
    *state = setup_world(&world);
    return 0;
}

static void assert_nothing_is_held(const world_t *world)
{
    or_ledger_usage_t usage;
    or_ledger_usage(world->config.ledger, &usage);
    assert_int_equal(usage.bytes[OR_HELD_BODIES], 0);
}

static int teardown(void **state)
{
    world_t *world = *state;
    world_task_until(world, 0);
    world_close(world);
    assert_nothing_is_held(world);
    assert_int_equal(world->tasks_dropped, world->tasks_begun);
    or_ledger_destroy(&world->config.ledger);
    return 0;
}

static client_t *post(world_t *world, const char *path, int body_bytes)
{
    static char request[256 + LARGE_BYTES];
    int head =
        snprintf(request, 256, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
                 path, body_bytes);
    memset(&request[head], 'x', (size_t)body_bytes);
    client_t *client = client_open(world);
    client_send_bytes(world, client, request, (size_t)(head + body_bytes));
    return client;
}

static void small_bodies_are_worked_on_at_once(void **state)
{
    world_t *world = *state;
    client_t *client = post(world, "/task", SMALL_BYTES);
    client_wait(world, client, "400 bytes, at once");
    client_close(&client);
}

static void large_bodies_have_a_thread_of_their_own(void **state)
{
    world_t *world = *state;
    client_t *client = post(world, "/task", LARGE_BYTES);
    client_wait(world, client, "40000 bytes, on another thread");
    client_close(&client);
    world_spin(world, 20);
    assert_nothing_is_held(world);
}

static void others_pass_it(void **state)
{
    world_t *world = *state;
    world_task_until(world, LONG_MS);
    client_t *first = post(world, "/task", LARGE_BYTES),
             *second = post(world, "/task", LARGE_BYTES);
    world_wait(world, &world->handed, 1, 1000);
    client_t *small = post(world, "/task", SMALL_BYTES), *echo = post(world, "/echo", SMALL_BYTES);
    client_wait(world, echo, "body=400");
    client_wait(world, small, "400 bytes, at once");
    world_spin(world, 50);
    assert_int_equal(world->handed, 3); // the second one waits
    assert_int_equal(first->bytes + second->bytes, 0);
    world_task_until(world, 0);
    client_wait(world, first, "40000 bytes, on another thread");
    client_wait(world, second, "40000 bytes, on another thread");
    client_close(&first);
    client_close(&second);
    client_close(&small);
    client_close(&echo);
}

static void a_task_may_lead_to_another(void **state)
{
    world_t *world = *state;
    client_t *client = post(world, "/tasks", LARGE_BYTES);
    client_wait(world, client, "40000 bytes, on another thread");
    assert_int_equal(world->tasks_begun, 2);
    client_close(&client);
    client = post(world, "/tasks", SMALL_BYTES);
    client_wait(world, client, "400 bytes, at once");
    assert_int_equal(world->tasks_begun, 4);
    client_close(&client);
}

// A busy machine may bring a client's end late. What nobody takes stays for good.
static void wait_until_nothing_is_to_do(world_t *world)
{
    struct pollfd server = {.fd = or_http_server_fd(world->server), .events = POLLIN};
    world_spin(world, 5);
    for (unsigned i = 0; i < 200 && poll(&server, 1, 0) != 0; i++) {
        world_spin(world, 5);
    }
    assert_int_equal(poll(&server, 1, 0), 0);
}

// A turn just when the work is done finds nothing to do afterwards.
static void its_end_is_told_once(void **state)
{
    world_t *world = *state;
    for (unsigned i = 0; i < ENDS; i++) {
        client_t *client = post(world, "/task", LARGE_BYTES);
        while (world->tasks_dropped == i) {
            or_http_server_turn(world->server);
        }
        client_wait(world, client, "40000 bytes, on another thread");
        client_close(&client);
        wait_until_nothing_is_to_do(world);
    }
}

static void who_hangs_up_leaves_nothing(void **state)
{
    world_t *world = *state;
    world_task_until(world, LONG_MS);
    client_t *client = post(world, "/task", LARGE_BYTES);
    world_wait(world, &world->handed, 1, 1000);
    client_close(&client);
    world_wait(world, &world->cut, 1, 1000);
    assert_int_equal(world->tasks_dropped, 0);
    world_task_until(world, 0);
    world_wait(world, &world->tasks_dropped, 1, 1000);
    assert_int_equal(world->tasks_answered, 0);
    assert_nothing_is_held(world);
}

static void the_end_waits_for_it(void **state)
{
    world_t *world = *state;
    world_task_until(world, 100);
    client_t *client = post(world, "/task", LARGE_BYTES);
    world_wait(world, &world->handed, 1, 1000);
    world_close(world);
    assert_int_equal(world->tasks_dropped, 1);
    assert_int_equal(world->tasks_answered, 0);
    world_open(world);
    client_close(&client);
}

// Also of a process that is itself nice to others, as this one is from here on.
static void its_thread_steps_back(void **state)
{
    world_t *world = *state;
    int own = getpriority(PRIO_PROCESS, 0);
    own = own > OWN_NICE ? own : OWN_NICE;
    world_close(world);
    assert_int_equal(setpriority(PRIO_PROCESS, 0, own), 0);
    world_open(world);
    client_t *client = post(world, "/task", LARGE_BYTES);
    client_wait(world, client, "40000 bytes, on another thread");
    assert_true(world->task_nice > own || own == NICEST);
    client_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_bodies_are_worked_on_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(large_bodies_have_a_thread_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(others_pass_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_may_lead_to_another, setup, teardown),
        cmocka_unit_test_setup_teardown(its_end_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(who_hangs_up_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_waits_for_it, setup, teardown),
        cmocka_unit_test_setup_teardown(its_thread_steps_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
