// Goal: a text that is put aside, because its client is away or its key has written as much as it may, takes nobody's
// place, is neither ended nor kept busy by what the verifier says of it too late, and goes on in time.
// Method: the real coordinator with few places, keys of two owners of which one may write little, and a verifier that
// says late what was true once or is lost for a while; virtual minutes.
#include <stdio.h>

#include "coordinator/clients/parking_test_support.h"

#define A_MINUTE 20u // tokens of the slow key

enum { SLOW, FREE };
static const char *const keys[] = {"0000000000000000000000000000000000slow",
                                   "0000000000000000000000000000000000free"};

static int set_up_narrow(void **state)
{
    return parking_setup_sized(state, 1, 5);
}

static void authorize(or_keyring_t *ring, int key, uint32_t tokens_per_minute)
{
    or_key_grant_t grant = {.roles = OR_KEY_CLIENT, .tokens_per_minute = tokens_per_minute};
    snprintf(grant.key, sizeof grant.key, "00%s", keys[key]);
    snprintf(grant.name, sizeof grant.name, "key-%d", key);
    snprintf(grant.owner, sizeof grant.owner, "owner-%d", key);
    assert_int_equal(or_keyring_authorize(ring, &grant), OR_OK);
}

static int set_up_keys(void **state)
{
    int failed = parking_setup_sized(state, 2, 8);
    world_t *w = *state;
    w->config.keyring = open_test_keyring();
    authorize(w->config.keyring, SLOW, A_MINUTE);
    authorize(w->config.keyring, FREE, 0);
    begin_anew(w);
    return failed;
}

static int tear_down_keys(void **state)
{
    world_t *w = *state;
    or_keyring_t *keyring = w->config.keyring;
    int failed = world_teardown(state);
    close_test_keyring(&keyring);
    return failed;
}

static void enter_with_key(world_t *w, client_t *client, int key)
{
    char name[OR_KEY_BYTES];
    snprintf(name, sizeof name, "00%s", keys[key]);
    enter_as(w, client, name);
}

// Does the coordinator want to be called again at once, and again?
static void assert_rests(world_t *w)
{
    or_coordinator_turn(w->coordinator);
    assert_true(or_coordinator_turn(w->coordinator) > or_clock_now(&w->clock.clock));
}

// ---- said too late ----

static void say_error(world_t *w, or_session_id_t session, uint32_t code)
{
    const or_message_t message = {.type = OR_MSG_ERROR,
                                  .session = session,
                                  .body.error = {.code = code, .text = "late", .retry_ms = 1000}};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 3);
}

// Half written, its client away.
static void park_a_part(world_t *w, client_t *client)
{
    join_target(w);
    enter(w, client, "a");
    ask_for_a_part(w, client, 1);
    leave(&client->edge);
    run(w, SILENCE_MS);
    assert_int_equal(ask_stats(w)->parked, 1);
}

static void a_late_failure_does_not_end_a_parked_text(void **state)
{
    world_t *w = *state;
    client_t before = {0}, after = {0};
    park_a_part(w, &before);
    say_error(w, before.session, OR_WIRE_FAILED);
    assert_int_equal(ask_stats(w)->parked, 1);
    w->slow = false;
    enter(w, &after, "a");
    resume(w, &after, &before);
    run_hearing(w, &after, 50);
    assert_whole(&after);
    leave(&after.edge);
}

// It was to be opened again there; but first it waits for a place.
static void a_late_busy_does_not_keep_the_coordinator_busy(void **state)
{
    world_t *w = *state;
    client_t before = {0}, after = {0}, other = {0};
    park_a_part(w, &before);
    say_error(w, before.session, OR_WIRE_BUSY);
    enter(w, &other, "b");
    ask_for_a_part(w, &other, 2); // takes the only place
    enter(w, &after, "a");
    resume(w, &after, &before);
    run_hearing(w, &after, 1500);
    assert_int_equal(ask_stats(w)->waiting, 1);
    assert_rests(w);
    leave(&after.edge);
    leave(&other.edge);
}

// ---- a key at its limit ----

// Two places, and two texts of a key that may write them only slowly.
static void fill_with_slow_texts(world_t *w, client_t *slow, uint32_t texts, uint32_t wanted)
{
    join_target(w);
    enter_with_key(w, slow, SLOW);
    for (uint32_t id = 1; id <= texts; id++) {
        ask_for(w, slow, id, wanted);
    }
    run_hearing(w, slow, 50);
}

static void who_may_write_is_not_kept_out_by_who_may_not(void **state)
{
    world_t *w = *state;
    client_t slow = {0}, other = {0};
    fill_with_slow_texts(w, &slow, 2, 100);
    enter_with_key(w, &other, FREE);
    ask_for(w, &other, 3, WANTED);
    run_hearing(w, &other, 10000);
    assert_whole(&other);
    leave(&slow.edge);
    leave(&other.edge);
}

// Nor is it pushed aside by its own kind: that would only cost it its cache.
static void nobody_steps_aside_for_who_may_not_write_either(void **state)
{
    world_t *w = *state;
    client_t slow = {0};
    fill_with_slow_texts(w, &slow, 4, 100);
    run_hearing(w, &slow, 60000);
    assert_int_equal(w->verifier_cancels, 0);
    assert_int_equal(w->verifier_opens, 2);
    assert_rests(w);
    leave(&slow.edge);
}

static void a_text_that_stepped_aside_goes_on_in_time(void **state)
{
    world_t *w = *state;
    client_t slow = {0}, other = {0};
    fill_with_slow_texts(w, &slow, 2, A_MINUTE + 4); // the second one is to be written from empty
    enter_with_key(w, &other, FREE);
    ask_for(w, &other, 3, WANTED);
    int64_t started = w->clock.now_ns;
    while (w->clock.now_ns - started < 150 * OR_NS_PER_S && slow.finish == OR_FINISH_NONE) {
        run_hearing(w, &slow, 100);
    }
    assert_int_equal(slow.finish, OR_FINISH_LENGTH);
    assert_int_equal(slow.count, A_MINUTE + 4);
    leave(&slow.edge);
    leave(&other.edge);
}

static void replace_verifier(world_t *w)
{
    const or_message_t good_bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = "test"}};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &good_bye), OR_OK);
    run(w, 5);
    leave(&w->verifier);
    leave(&w->client);
    join_target(w);
}

// While the verifier is away it waits for that, too; when it is back, for its key alone.
static void a_verifier_that_was_away_does_not_make_it_later(void **state)
{
    world_t *w = *state;
    client_t slow = {0}, other = {0};
    fill_with_slow_texts(w, &slow, 1, A_MINUTE + 1); // the last one 3 s after the others
    assert_int_equal(slow.count, A_MINUTE);
    int64_t held_up = w->clock.now_ns;
    enter_with_key(w, &other, FREE);
    w->slow = true;
    for (uint32_t id = 2; id <= 4; id++) {
        ask_for(w, &other, id, WANTED);
    }
    run_hearing(w, &slow, 1100);
    assert_int_equal(w->verifier_cancels, 1); // it has stepped aside
    w->slow = false;
    replace_verifier(w);
    while (w->clock.now_ns - held_up < 60 * OR_NS_PER_S && slow.finish == OR_FINISH_NONE) {
        run_hearing(w, &slow, 100);
    }
    assert_int_equal(slow.finish, OR_FINISH_LENGTH);
    assert_in_range((w->clock.now_ns - held_up) / OR_NS_PER_MS, 2500, 4000);
    leave(&slow.edge);
    leave(&other.edge);
}

#define NARROW(test) cmocka_unit_test_setup_teardown(test, set_up_narrow, world_teardown)
#define KEYED(test) cmocka_unit_test_setup_teardown(test, set_up_keys, tear_down_keys)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        NARROW(a_late_failure_does_not_end_a_parked_text),
        NARROW(a_late_busy_does_not_keep_the_coordinator_busy),
        KEYED(who_may_write_is_not_kept_out_by_who_may_not),
        KEYED(nobody_steps_aside_for_who_may_not_write_either),
        KEYED(a_text_that_stepped_aside_goes_on_in_time),
        KEYED(a_verifier_that_was_away_does_not_make_it_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
