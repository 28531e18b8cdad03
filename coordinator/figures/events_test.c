// Goal: an operator who looks now and then misses no event, and a flood of one kind hides no other.
// Method: note more than the ring holds, ask from every number; repeat one kind at once and a second later.
#include "coordinator/figures/events.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

static or_events_t events;
static or_event_t out[OR_EVENTS_MAX];

static int start(void **state)
{
    (void)state;
    memset(&events, 0, sizeof events);
    return 0;
}

// Make all notes older by so much time.
static void pass(uint64_t ms)
{
    for (uint32_t i = 0; i < OR_EVENTS_MAX; i++) {
        events.items[i].time_ms -= ms;
    }
}

static void the_latest_are_there_oldest_first(void **state)
{
    (void)state;
    for (uint64_t session = 1; session <= 300; session++) {
        or_events_note(&events, OR_EVENT_FAILOVER, session, "text %u", (unsigned)session);
    }
    assert_int_equal(or_events_after(&events, 0, out), OR_EVENTS_MAX);
    for (uint32_t i = 0; i < OR_EVENTS_MAX; i++) {
        char text[32];
        snprintf(text, sizeof text, "text %u", 300 - OR_EVENTS_MAX + 1 + i);
        assert_int_equal(out[i].number, 300 - OR_EVENTS_MAX + 1 + i);
        assert_int_equal(out[i].session, out[i].number);
        assert_string_equal(out[i].kind, OR_EVENT_FAILOVER);
        assert_string_equal(out[i].text, text);
        assert_true(out[i].time_ms > UINT64_C(1600000000000));
    }
}

static void only_later_ones_are_told_again(void **state)
{
    (void)state;
    assert_int_equal(or_events_after(&events, 0, out), 0);
    for (uint64_t session = 1; session <= 5; session++) {
        or_events_note(&events, OR_EVENT_FAILED, session, "x");
    }
    assert_int_equal(or_events_after(&events, 3, out), 2);
    assert_int_equal(out[0].number, 4);
    assert_int_equal(or_events_after(&events, 5, out), 0);
    assert_int_equal(or_events_after(&events, UINT64_MAX, out), 0);
}

static void one_kind_within_a_second_is_one_event(void **state)
{
    (void)state;
    or_events_note(&events, OR_EVENT_DRAFTER_JOINED, 0, "joined");
    for (int i = 0; i < 1000; i++) {
        or_events_note(&events, OR_EVENT_REFUSED, 0, "refused %d", i);
        or_events_note(&events, OR_EVENT_BUSY, 0, "busy %d", i);
    }
    assert_int_equal(or_events_after(&events, 0, out), 3);
    assert_string_equal(out[0].text, "joined");
    assert_string_equal(out[1].text, "refused 999");
    assert_string_equal(out[2].text, "busy 999");
    assert_int_equal(out[1].number, 2000); // who has seen an earlier one is told of this one
    assert_int_equal(out[2].number, 2001);
    pass(1000);
    or_events_note(&events, OR_EVENT_REFUSED, 0, "later");
    assert_int_equal(or_events_after(&events, 2001, out), 1);
    assert_int_equal(or_events_after(&events, 0, out), 4);
}

static void a_full_ring_loses_none_to_a_flood(void **state)
{
    (void)state;
    for (uint64_t session = 1; session < OR_EVENTS_MAX; session++) {
        or_events_note(&events, OR_EVENT_FAILED, session, "session %u", (unsigned)session);
    }
    for (int i = 0; i < 500; i++) {
        or_events_note(&events, OR_EVENT_REFUSED, 0, "refused %d", i);
        or_events_note(&events, OR_EVENT_FAILED, 1000, "between");
        or_events_note(&events, OR_EVENT_REFUSED, 0, "refused %d again", i);
        or_event_t *last = &out[or_events_after(&events, 0, out) - 1];
        char text[32];
        snprintf(text, sizeof text, "refused %d again", i);
        assert_string_equal(last->text, text);
        assert_string_equal(last[-1].text, "between");
        uint32_t refused = 0;
        for (uint32_t k = 0; k < OR_EVENTS_MAX; k++) {
            refused += strcmp(out[k].kind, OR_EVENT_REFUSED) == 0;
            assert_true(k == 0 || out[k].number > out[k - 1].number);
        }
        assert_int_equal(refused, 1);
    }
}

static void events_of_sessions_are_told_apart(void **state)
{
    (void)state;
    or_events_note(&events, OR_EVENT_FAILED, 1, "one");
    or_events_note(&events, OR_EVENT_FAILED, 2, "two");
    or_events_note(&events, OR_EVENT_FAILED, 0, "none");
    assert_int_equal(or_events_after(&events, 0, out), 3);
}

static void a_text_is_cut_and_fit_to_be_shown(void **state)
{
    (void)state;
    char text[2 * OR_EVENT_TEXT_BYTES + 1] = "";
    for (uint32_t i = 0; i < OR_EVENT_TEXT_BYTES; i++) {
        memcpy(text + 2 * i, "\xC3\xA9", 2); // the cut goes through the middle of one
    }
    or_events_note(&events, OR_EVENT_CUT_OFF, 0, "\n%s", text);
    assert_int_equal(or_events_after(&events, 0, out), 1);
    assert_int_equal(strlen(out[0].text), OR_EVENT_TEXT_BYTES - 1);
    assert_memory_equal(out[0].text, "?\xC3\xA9", 3);
    or_events_note(&events, OR_EVENT_BUSY, 0, "%s", text);
    assert_int_equal(or_events_after(&events, 1, out), 1);
    assert_int_equal(out[0].text[OR_EVENT_TEXT_BYTES - 2], '?');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_latest_are_there_oldest_first, start),
        cmocka_unit_test_setup(only_later_ones_are_told_again, start),
        cmocka_unit_test_setup(one_kind_within_a_second_is_one_event, start),
        cmocka_unit_test_setup(a_full_ring_loses_none_to_a_flood, start),
        cmocka_unit_test_setup(events_of_sessions_are_told_apart, start),
        cmocka_unit_test_setup(a_text_is_cut_and_fit_to_be_shown, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
