// Goal: whose bodies go where an owner has no room for another: the same owner's, and of these the one that stood still for longest.
// Method: two owners' bodies that stand still, in a small ledger; real connections.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/http/server/api_keys.h"
#include "coordinator/http/server/server_test_support.h"

#define ADA "sk-ada-0123456789"
#define BEN "sk-ben-0123456789"
#define KIB 1024u
#define MEMORY_BYTES (64 * KIB)
#define LITTLE 6000 // takes 8 KiB: a body's memory doubles as it comes
#define MUCH 15000  // takes 16 KiB

static int setup(void **state)
{
    static world_t world;
    world = (world_t){.config = world_config()};
    world.config.keys = world_keys(ADA " ada\n" BEN " ben\n");
    assert_int_equal(or_ledger_create(MEMORY_BYTES, MEMORY_BYTES, &world.config.ledger), OR_OK);
    world_open(&world);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    world_t *world = *state;
    world_close(world);
    or_ledger_destroy(&world->config.ledger);
    or_api_keys_destroy(&world->config.keys);
    return 0;
}

static uint64_t held_by_bodies(const world_t *world)
{
    or_ledger_usage_t usage;
    or_ledger_usage(world->config.ledger, &usage);
    return usage.bytes[OR_HELD_BODIES];
}

// One that has sent all of a body but its last byte, and stands still. Then all bodies take `held`.
static client_t *open_still(world_t *world, const char *key, int bytes, uint64_t held)
{
    static char request[256 + MUCH];
    int head = snprintf(request, 256,
                        "POST /echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        "Content-Length: %d\r\n\r\n",
                        key, bytes);
    memset(&request[head], 'x', (size_t)bytes - 1);
    client_t *client = client_open(world);
    client_send_bytes(world, client, request, (size_t)(head + bytes - 1));
    for (int i = 0; i < 500 && held_by_bodies(world) != held; i++) {
        world_spin(world, 10);
    }
    assert_int_equal(held_by_bodies(world), held);
    return client;
}

static void finish(world_t *world, client_t **client, const char *status)
{
    client_send(world, *client, "x");
    client_wait(world, *client, status);
    client_close(client);
}

// Ben's has stood still for longer than any of Ada's.
static void an_owner_s_oldest_body_makes_room(void **state)
{
    world_t *world = *state;
    client_t *ben = open_still(world, BEN, LITTLE, 8 * KIB);
    client_t *oldest = open_still(world, ADA, LITTLE, 16 * KIB);
    client_t *second = open_still(world, ADA, LITTLE, 24 * KIB);
    client_t *last = open_still(world, ADA, MUCH, 32 * KIB); // the oldest one's 8 KiB are free
    finish(world, &oldest, "HTTP/1.1 408");
    finish(world, &second, "HTTP/1.1 200");
    finish(world, &last, "HTTP/1.1 200");
    finish(world, &ben, "HTTP/1.1 200");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_owner_s_oldest_body_makes_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
