// Goal: a flood of one client's messages takes a quarter of the hub's time at most while texts are written, and all of it while
// none are; what is asked for too often gets no answer.
// Method: the real coordinator on a network in memory; a clock on which each look takes time, and a channel that keeps what is
// held. Nothing is measured.
#include "coordinator/coordinator_test_support.h"

#define LOOK_NS (OR_NS_PER_MS / 50)
#define FLOOD 400u // messages: more than a turn takes
#define ANSWERS 32u
#define ANSWERS_PER_S 8u

static int64_t held_until_ns;

static void note_hold(or_channel_t *channel, int64_t until_ns)
{
    (void)channel;
    held_until_ns = until_ns;
}

static int64_t look(const or_clock_t *clock)
{
    or_virtual_clock_t *virtual = (or_virtual_clock_t *)clock;
    return virtual->now_ns += LOOK_NS;
}

static void ask_figures(edge_t *edge, uint32_t times)
{
    const or_message_t question = {.type = OR_MSG_STATS_REQUEST};
    for (uint32_t i = 0; i < times; i++) {
        assert_int_equal(or_link_send(edge->link, OR_PEER_HUB, &question), OR_OK);
    }
}

// One turn of the hub that finds a flood. Return how long others wait after it for each nanosecond that it took.
static double turn_in_a_flood(world_t *w)
{
    or_channel_ops_t ops = *w->hub_channel->ops;
    const or_channel_ops_t *usual = w->hub_channel->ops;
    const or_clock_t clock = w->clock.clock;
    run(w, 1000); // what was held is over
    ask_figures(&w->client, FLOOD);
    ops.hold = note_hold;
    w->hub_channel->ops = &ops;
    w->clock.clock.now_ns = look;
    held_until_ns = 0;
    int64_t begin = w->clock.now_ns;
    or_coordinator_turn(w->coordinator);
    double took = (double)(w->clock.now_ns - begin);
    double held = held_until_ns != 0 ? (double)(held_until_ns - begin) - took : 0;
    w->hub_channel->ops = usual;
    w->clock.clock = clock;
    return held / took;
}

static void texts_get_three_quarters_of_the_time(void **state)
{
    world_t *w = *state;
    join_usual(w);
    assert_true(turn_in_a_flood(w) == 0); // nobody is kept waiting
    w->slow = true;
    ask(w, usual_request(50));
    run(w, 5);
    double held = turn_in_a_flood(w);
    if (held < 2.5 || held > 3.5) {
        fail_msg("held %g times as long as the turn took", held);
    }
}

static void who_asks_too_often_gets_no_answer(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask_figures(&w->client, FLOOD);
    run(w, 1);
    assert_int_equal(w->stats_count, ANSWERS);
    run(w, 1000);
    ask_figures(&w->client, FLOOD);
    run(w, 1);
    assert_int_equal(w->stats_count, ANSWERS + ANSWERS_PER_S);
    for (uint32_t i = 0; i < 60; i++) { // a page a second is always drawn
        run(w, 1000);
        ask_figures(&w->client, 1);
        run(w, 1);
        assert_int_equal(w->stats_count, ANSWERS + ANSWERS_PER_S + i + 1);
    }
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_get_three_quarters_of_the_time, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(who_asks_too_often_gets_no_answer, world_setup,
                                        world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
