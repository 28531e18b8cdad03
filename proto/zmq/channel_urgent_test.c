// Goal: what urgent peers send is received before what others have sent, in order, even if some of it came before they
// were urgent; while the others are held they neither are received nor end a wait, and nothing of theirs is lost.
// Method: a hub and edges over real sockets; one edge has more frames on the way than the relay lets through at once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "proto/zmq/channel_zmq.h"
#include "tests/support/test_support.h"

#define PATIENCE_NS (10 * OR_NS_PER_S)
#define ARRIVAL_NS (50 * OR_NS_PER_MS)
#define CROWD 2000u // frames of who is not urgent
#define FEW 5u
#define BEFORE                                                                                     \
    12u // frames of who becomes urgent: not all of them are received before new ones are looked for
#define SOON 20u // frames at most before the urgent ones are looked for
#define RUN 32u  // urgent frames, after which it is another's turn
#define TURNS 4u // of the others, while that flood goes on
#define HOLD_NS (500 * OR_NS_PER_MS)

typedef struct {
    or_channel_t *hub, *crowd, *verifier, *inside;
    or_peer_t crowd_peer, verifier_peer, inside_peer;
    uint32_t crowd_next, verifier_next, inside_next; // the number of the next frame of each
} fixture_t;

static int64_t now(void)
{
    return or_clock_now(or_clock_monotonic());
}

static void pause_ns(int64_t ns)
{
    const struct timespec time = {.tv_sec = ns / OR_NS_PER_S, .tv_nsec = ns % OR_NS_PER_S};
    nanosleep(&time, NULL);
}

static void say(or_channel_t *edge, uint32_t first, uint32_t count)
{
    int64_t end = now() + PATIENCE_NS;
    for (uint32_t i = first; i < first + count;) {
        bool sent = or_channel_send(edge, OR_PEER_HUB, (const uint8_t *)&i, sizeof i) == OR_OK;
        i += sent;
        assert_true(sent || now() < end);
    }
}

// One frame, which is its sender's next.
static or_status_t hear_now(fixture_t *fixture, or_peer_t *from)
{
    const uint8_t *frame;
    size_t bytes;
    or_status_t status = or_channel_receive(fixture->hub, from, &frame, &bytes);
    if (status == OR_OK) {
        uint32_t *next = from->value == fixture->crowd_peer.value      ? &fixture->crowd_next
                         : from->value == fixture->verifier_peer.value ? &fixture->verifier_next
                                                                       : &fixture->inside_next;
        assert_int_equal(bytes, sizeof *next);
        assert_memory_equal(frame, next, sizeof *next);
        ++*next;
    }
    return status;
}

static or_peer_t hear(fixture_t *fixture)
{
    or_peer_t from;
    int64_t end = now() + PATIENCE_NS;
    while (hear_now(fixture, &from) != OR_OK) {
        assert_true(now() < end);
        (void)or_channel_wait(fixture->hub, OR_NS_PER_MS);
    }
    return from;
}

static or_channel_t *join(fixture_t *fixture, const char *bound, or_peer_t *peer)
{
    or_channel_t *edge = NULL;
    const uint8_t *frame;
    size_t bytes;
    int64_t end = now() + PATIENCE_NS;
    assert_int_equal(bound != NULL ? or_channel_zmq_connect(bound, NULL, &edge)
                                   : or_channel_zmq_connect_inside(fixture->hub, -1, &edge),
                     OR_OK);
    assert_int_equal(or_channel_send(edge, OR_PEER_HUB, (const uint8_t *)"hello", 5), OR_OK);
    while (or_channel_receive(fixture->hub, peer, &frame, &bytes) != OR_OK) {
        assert_true(now() < end);
        (void)or_channel_wait(fixture->hub, OR_NS_PER_MS);
    }
    return edge;
}

static int set_up(void **context)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    char bound[128];
    const or_channel_listen_t listen = {"tcp://127.0.0.1:*", false};
    assert_non_null(fixture);
    assert_int_equal(or_channel_zmq_bind(&listen, 1, NULL, bound, sizeof bound, &fixture->hub),
                     OR_OK);
    fixture->crowd = join(fixture, bound, &fixture->crowd_peer);
    fixture->verifier = join(fixture, bound, &fixture->verifier_peer);
    fixture->inside = join(fixture, NULL, &fixture->inside_peer);
    *context = fixture;
    return 0;
}

static int tear_down(void **context)
{
    fixture_t *fixture = *context;
    or_channel_destroy(&fixture->inside);
    or_channel_destroy(&fixture->verifier);
    or_channel_destroy(&fixture->crowd);
    or_channel_destroy(&fixture->hub);
    free(fixture);
    return 0;
}

// All of a small number of frames come together, at most so many others before them.
static void hear_few(fixture_t *fixture, uint32_t others_max)
{
    uint32_t before = 0;
    while (hear(fixture).value != fixture->verifier_peer.value) {
        before++;
    }
    assert_in_range(before, 0, others_max);
    for (uint32_t i = 1; i < FEW; i++) {
        assert_int_equal(hear(fixture).value, fixture->verifier_peer.value);
    }
}

static void hear_the_rest(fixture_t *fixture)
{
    while (fixture->crowd_next < CROWD) {
        (void)hear(fixture);
    }
}

static void urgent_frames_come_first(void **context)
{
    fixture_t *fixture = *context;
    or_channel_set_urgent(fixture->hub, fixture->verifier_peer, true);
    say(fixture->crowd, 0, CROWD / 2);
    pause_ns(ARRIVAL_NS);
    (void)hear(fixture); // the crowd's are out of the socket
    say(fixture->verifier, 0, FEW);
    pause_ns(ARRIVAL_NS);
    hear_few(fixture, SOON);
    or_channel_set_urgent(fixture->hub, fixture->verifier_peer, false);
    say(fixture->crowd, CROWD / 2, CROWD / 2);
    hear_the_rest(fixture);
}

static void what_came_before_is_not_overtaken(void **context)
{
    fixture_t *fixture = *context;
    say(fixture->crowd, 0, CROWD);
    pause_ns(ARRIVAL_NS);
    (void)hear(fixture);
    say(fixture->verifier, 0, BEFORE);
    pause_ns(ARRIVAL_NS);
    for (uint32_t i = 0; i < SOON && fixture->verifier_next == 0; i++) {
        (void)hear(fixture); // the others of them wait in the queue
    }
    or_channel_set_urgent(fixture->hub, fixture->verifier_peer, true);
    say(fixture->verifier, BEFORE, FEW);
    pause_ns(ARRIVAL_NS);
    while (fixture->verifier_next < BEFORE + FEW) {
        (void)hear(fixture); // each is its sender's next
    }
    assert_in_range(fixture->crowd_next, 1, CROWD / 2);
    hear_the_rest(fixture);
}

static void who_is_held_waits(void **context)
{
    fixture_t *fixture = *context;
    or_peer_t from;
    or_channel_set_urgent(fixture->hub, fixture->verifier_peer, true);
    say(fixture->crowd, 0, CROWD);
    say(fixture->inside, 0, FEW);
    pause_ns(ARRIVAL_NS);
    (void)hear(fixture);
    uint32_t before = fixture->crowd_next + fixture->inside_next;
    int64_t begin = now();
    or_channel_hold(fixture->hub, begin + HOLD_NS);
    assert_int_equal(hear_now(fixture, &from), OR_ERR_AGAIN);
    say(fixture->verifier, 0, FEW);
    for (uint32_t i = 0; i < FEW;) { // and they end the wait
        i += hear_now(fixture, &from) == OR_OK;
        (void)or_channel_wait(fixture->hub, OR_NS_PER_MS);
    }
    assert_int_equal(fixture->verifier_next, FEW);
    assert_int_equal(fixture->crowd_next + fixture->inside_next, before);
    while (now() < begin + HOLD_NS - OR_NS_PER_MS) {
        assert_int_equal(hear_now(fixture, &from), OR_ERR_AGAIN);
        (void)or_channel_wait(fixture->hub, PATIENCE_NS);
    }
    assert_true(now() >= begin + HOLD_NS - OR_NS_PER_MS);
    assert_true(now() < begin + PATIENCE_NS);
    hear_the_rest(fixture);
    while (fixture->inside_next < FEW) {
        (void)hear(fixture);
    }
}

// Return once others may be heard again, however many frames of theirs came before.
static void a_wait_lasts_as_long_as_the_hold(void **context)
{
    fixture_t *fixture = *context;
    or_peer_t from;
    say(fixture->crowd, 0, FEW);
    pause_ns(ARRIVAL_NS);
    (void)hear(fixture);
    or_channel_hold(fixture->hub, now() + HOLD_NS);
    say(fixture->crowd, FEW, CROWD - FEW);
    assert_int_equal(or_channel_wait(fixture->hub, PATIENCE_NS), OR_OK);
    assert_int_equal(hear_now(fixture, &from), OR_OK);
    hear_the_rest(fixture);
}

static void an_urgent_flood_leaves_others_a_turn(void **context)
{
    fixture_t *fixture = *context;
    or_channel_set_urgent(fixture->hub, fixture->crowd_peer, true);
    say(fixture->crowd, 0, CROWD / 2);
    pause_ns(ARRIVAL_NS);
    (void)hear(fixture); // now the relay lets more of it through than the others need turns for
    say(fixture->verifier, 0, TURNS / 2);
    say(fixture->inside, 0, TURNS / 2);
    pause_ns(ARRIVAL_NS);
    while (fixture->verifier_next + fixture->inside_next < TURNS) {
        (void)hear(fixture);
    }
    assert_in_range(fixture->crowd_next, 1, (TURNS + 1) * RUN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(urgent_frames_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_came_before_is_not_overtaken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_held_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wait_lasts_as_long_as_the_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_urgent_flood_leaves_others_a_turn, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
