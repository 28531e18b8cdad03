// Goal: what an honest drafter does at its worst never cuts it off, what a hostile one does soon does,
// and a flood is dropped before it is read; guesses that never help are asked for less and less.
// Method: the pure rules (conduct, usefulness, when to come back) on a virtual clock, at the rates and numbers
// that their headers promise.
#include "coordinator/peers/conduct.h"

#include "common/base/clock.h"
#include "common/decode/methods.h"
#include "coordinator/budget/usefulness.h"
#include "coordinator/clients/queue.h"
#include "coordinator/peers/standing.h"
#include "tests/support/test_support.h"

#define MINUTE_NS (60 * OR_NS_PER_S)

// Offences of a kind until the cut, `per_s` of them a second; 0: never within ten minutes.
static uint32_t offences_until_cut(or_offence_t offence, uint32_t per_s)
{
    or_standings_t standings = {0};
    for (uint32_t i = 1; i <= 600 * per_s; i++) {
        int64_t now = (int64_t)i * OR_NS_PER_S / per_s;
        if (or_standings_offend(&standings, "ada", offence, now) >= OR_CONDUCT_POINTS_MAX) {
            return i;
        }
    }
    return 0;
}

static void malice_is_cut_off_soon(void **state)
{
    (void)state;
    assert_in_range(offences_until_cut(OR_OFFENCE_MALFORMED, 10), 5, 20);
    assert_in_range(offences_until_cut(OR_OFFENCE_BAD_TREE, 10), 5, 20);
    assert_in_range(offences_until_cut(OR_OFFENCE_TWO_TREES, 10), 20, 100);
    assert_in_range(offences_until_cut(OR_OFFENCE_WRONG_HASH, 100), 100, 400);
    assert_in_range(offences_until_cut(OR_OFFENCE_NAGGING, 100), 200, 1000);
    assert_in_range(offences_until_cut(OR_OFFENCE_NO_SESSION, 100), 200, 1000);
    assert_in_range(offences_until_cut(OR_OFFENCE_FLOOD, 1000), 500, 2000);
}

// A mistake every few seconds for ten minutes: forgotten in time.
static void bad_luck_never_is(void **state)
{
    (void)state;
    assert_int_equal(offences_until_cut(OR_OFFENCE_WRONG_HASH, 1), 0);
    assert_int_equal(offences_until_cut(OR_OFFENCE_NAGGING, 4), 0);
    assert_int_equal(offences_until_cut(OR_OFFENCE_NO_SESSION, 4), 0);
    or_standings_t standings = {0};
    for (int i = 0; i < 256; i++) { // its coordinator was restarted while it drafted for so many
        double points = or_standings_offend(&standings, "ada", OR_OFFENCE_NO_SESSION, 0);
        assert_true(points < OR_CONDUCT_POINTS_MAX);
    }
}

static void offences_are_halved_every_minute(void **state)
{
    (void)state;
    or_standings_t standings = {0};
    for (int i = 0; i < 8; i++) {
        or_standings_offend(&standings, "ada", OR_OFFENCE_MALFORMED, 0);
    }
    double points = or_standings_offend(&standings, "ada", OR_OFFENCE_FLOOD, MINUTE_NS);
    assert_true(points > 400.9 && points < 401.1);
}

// 64 sessions with 200 rounds a second each, for a minute.
static void an_honest_drafter_at_full_speed_is_read(void **state)
{
    (void)state;
    or_conduct_t conduct;
    or_conduct_init(&conduct, 0);
    for (int64_t round = 0; round < 60 * 200; round++) {
        for (int session = 0; session < 64; session++) {
            assert_true(or_conduct_allows(&conduct, 2000, round * OR_NS_PER_S / 200));
        }
    }
    assert_true(or_conduct_allows(&conduct, 16u << 20, MINUTE_NS)); // a vocabulary
}

static void a_flood_is_dropped_but_for_its_share(void **state)
{
    (void)state;
    or_conduct_t conduct;
    or_conduct_init(&conduct, 0);
    uint32_t read = 0;
    for (int64_t i = 0; i < 1000000; i++) { // 200,000 a second
        read += or_conduct_allows(&conduct, 100, i * OR_NS_PER_S / 200000);
    }
    assert_in_range(read, 5 * 16384, 7 * 16384);
    or_conduct_init(&conduct, 0);
    read = 0;
    for (int64_t i = 0; i < 100; i++) { // 1.6 GB in a second
        read += or_conduct_allows(&conduct, 16u << 20, i * OR_NS_PER_S / 100);
    }
    assert_in_range(read, 3, 8);
    assert_true(or_conduct_allows(&conduct, 100, 2 * OR_NS_PER_S)); // and it recovers
}

static void useless_guesses_are_halved_then_dropped(void **state)
{
    (void)state;
    or_usefulness_t usefulness = {0};
    uint32_t least = 16;
    for (uint32_t i = 1; i <= OR_FRUITLESS_ROUNDS_MAX; i++) {
        or_usefulness_judged(&usefulness, 0, 0, 0);
        uint32_t nodes = or_usefulness_nodes(&usefulness, 16, true);
        assert_true(nodes <= least && nodes > 0);
        assert_int_equal(or_usefulness_of(&usefulness, 0),
                         i == OR_FRUITLESS_ROUNDS_MAX ? OR_USE_FRUITLESS : OR_USE_GOOD);
        assert_int_equal(or_usefulness_nodes(&usefulness, 16, false), 16);
        assert_int_equal(or_usefulness_nodes(&usefulness, 1, true), 1);
        least = nodes;
    }
    or_usefulness_judged(&usefulness, 1, 0, 0);
    assert_int_equal(or_usefulness_nodes(&usefulness, 16, true), 16);
    for (uint32_t i = 0; i < OR_FRUITLESS_A_STEP; i++) {
        or_usefulness_judged(&usefulness, 0, 0, 0);
    }
    assert_int_equal(or_usefulness_nodes(&usefulness, 16, true), 8);
}

// Rounds until a drafter leaves that is waited for so long, and of which `accepted` nodes are taken in
// every `each`-th round; 0: it stays for a thousand.
static uint32_t rounds_served(double record, int64_t waited_ms, int64_t verify_ms,
                              uint32_t accepted, uint32_t each)
{
    or_usefulness_t usefulness = {.record = record};
    for (uint32_t round = 1; round <= 1000; round++) {
        or_usefulness_judged(&usefulness, round % each == 0 ? accepted : 0,
                             waited_ms * OR_NS_PER_MS, verify_ms * OR_NS_PER_MS);
        if (or_usefulness_of(&usefulness, verify_ms * OR_NS_PER_MS) != OR_USE_GOOD) {
            return round;
        }
    }
    return 0;
}

static void who_takes_more_time_than_it_saves_leaves(void **state)
{
    (void)state;
    assert_int_equal(rounds_served(0, 950, 2, 0, 1), 4); // just in time, with nothing
    assert_int_equal(rounds_served(0, 950, 2, 1, 1), 4); // or with a node, for 2 ms
    assert_int_equal(rounds_served(0, 950, 2, 1, 2), 4); // nor does silence between hide it
    assert_int_equal(rounds_served(3, 950, 2, 0, 1), 1); // known for it
    assert_int_equal(rounds_served(100, 15, 40, 3, 3),
                     0); // however well known, if it is good again
    assert_in_range(rounds_served(0, 30, 5, 2, 1), 140, 170);
    assert_int_equal(rounds_served(0, 30, 5, 6, 1), 0);     // a slow link that just pays
    assert_int_equal(rounds_served(0, 300, 1000, 1, 3), 0); // a slow target, and one round in three
    assert_int_equal(rounds_served(0, 900, 2000, 6, 10), 0); // long runs of bad luck
}

static void a_record_is_forgotten(void **state)
{
    (void)state;
    or_record_t record = {0};
    int64_t half_life_ns = (int64_t)(OR_RECORD_HALF_LIFE_S * (double)OR_NS_PER_S);
    for (int i = 0; i < 4; i++) {
        or_record_add(&record, OR_RECORD_REST, 1000);
    }
    assert_true(or_record_rests(&record, 1000) == 4);
    double later = or_record_rests(&record, 1000 + half_life_ns);
    assert_true(later > 1.999 && later < 2.001);
    or_record_add(&record, OR_RECORD_REST, 1000 + half_life_ns);
    assert_true(record.rests > 2.999 && record.rests < 3.001);
}

// A crowd of 256 that comes back twice, then one request every 2 ms; a flood gets no more than that.
static void a_client_has_its_share_of_requests(void **state)
{
    (void)state;
    or_conduct_t conduct;
    or_conduct_init(&conduct, 0);
    uint32_t read = 0;
    for (int i = 0; i < 1024; i++) {
        assert_true(or_conduct_allows_request(&conduct, 0));
    }
    assert_false(or_conduct_allows_request(&conduct, 0));
    for (int64_t i = 0; i < 100000; i++) { // 10,000 a second
        read += or_conduct_allows_request(&conduct, i * OR_NS_PER_S / 10000);
    }
    assert_in_range(read, 4999, 5001);
}

// A few pages at once, then one a second; and requests for texts are none of them.
static void a_client_has_its_share_of_questions(void **state)
{
    (void)state;
    or_conduct_t conduct;
    or_conduct_init(&conduct, 0);
    uint32_t answered = 0;
    for (int64_t i = 0; i < 100000; i++) { // 10,000 a second
        answered += or_conduct_allows_question(&conduct, i * OR_NS_PER_S / 10000);
    }
    assert_in_range(answered, 32 + 79, 32 + 81);
    assert_true(or_conduct_allows_request(&conduct, 10 * OR_NS_PER_S));
    for (int64_t second = 12; second < 1000; second++) {
        assert_true(or_conduct_allows_question(&conduct, second * OR_NS_PER_S));
    }
}

static void fixed_shapes_are_not_cut(void **state)
{
    (void)state;
    static const or_draft_method_t fixed[] = {OR_DRAFT_RSD_C, OR_DRAFT_RSD_S, OR_DRAFT_MCSD,
                                              OR_DRAFT_KSEQ,  OR_DRAFT_MULTI, OR_DRAFT_SEQUOIA};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        assert_false(or_usefulness_can_cut(fixed[i], OR_ACCEPT_NAIVE));
    }
    assert_true(or_usefulness_can_cut(OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED));
    assert_true(or_usefulness_can_cut(OR_DRAFT_CHAIN, OR_ACCEPT_SPS));
    assert_false(or_usefulness_can_cut(OR_DRAFT_CHAIN, OR_ACCEPT_SLRS));
}

static void the_pause_grows_with_the_queue_and_has_bounds(void **state)
{
    (void)state;
    or_queue_t queue = {0};
    assert_int_equal(or_queue_retry_ms(&queue, 0, 4), OR_RETRY_MS_MIN);
    or_queue_note_served(&queue, 4000 * 1000);
    assert_int_equal(or_queue_retry_ms(&queue, 3, 4), 4000);
    assert_int_equal(or_queue_retry_ms(&queue, 7, 4), 8000);
    assert_int_equal(or_queue_retry_ms(&queue, 7, 0), OR_RETRY_MS_MAX);
    assert_int_equal(or_queue_retry_ms(&queue, UINT32_MAX, 1), OR_RETRY_MS_MAX);
    for (int i = 0; i < 100; i++) {
        or_queue_note_served(&queue, 1000 * 1000);
    }
    assert_in_range(or_queue_retry_ms(&queue, 3, 4), 999, 1001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malice_is_cut_off_soon),
        cmocka_unit_test(bad_luck_never_is),
        cmocka_unit_test(offences_are_halved_every_minute),
        cmocka_unit_test(an_honest_drafter_at_full_speed_is_read),
        cmocka_unit_test(a_flood_is_dropped_but_for_its_share),
        cmocka_unit_test(useless_guesses_are_halved_then_dropped),
        cmocka_unit_test(fixed_shapes_are_not_cut),
        cmocka_unit_test(who_takes_more_time_than_it_saves_leaves),
        cmocka_unit_test(a_record_is_forgotten),
        cmocka_unit_test(a_client_has_its_share_of_requests),
        cmocka_unit_test(a_client_has_its_share_of_questions),
        cmocka_unit_test(the_pause_grows_with_the_queue_and_has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
