// Goal: who asked for drafting that costs more time than it saves is told so when the text ends, and nobody else.
// Method: the real coordinator; the test as a target with steps of 40 ms and a drafter that is often right,
// at once or after the delay of a long line.
#include <string.h>

#include "coordinator/coordinator_test_support.h"

#define WANTED 60
#define STEP_MS 40

// A text of WANTED tokens with one guess in each round, right in every other, `trip_ms` after it was asked for.
static void write_text(world_t *w, or_draft_policy_t policy, uint32_t trip_ms)
{
    or_generate_request_t request = usual_request(WANTED);
    request.ignore_end = true;
    request.draft_nodes = 1;
    request.draft_policy = policy;
    join_usual(w);
    w->judges = true;
    w->step_ms = STEP_MS;
    ask(w, request);
    for (uint64_t round = 0; w->ended == 0;) {
        run(w, 1);
        if (w->heard[0].round > round) {
            round = w->heard[0].round;
            run(w, trip_ms);
            const uint32_t word = word_at(w->heard[0].length + round % 2), back = 1;
            draft(w, round, w->heard[0].length, w->heard[0].hash, &word, &back, 1);
        }
    }
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void a_line_that_is_too_long_is_named(void **state)
{
    world_t *w = *state;
    write_text(w, OR_POLICY_FIXED, 100);
    assert_non_null(strstr(w->advice, "round trip to the drafter 10"));
    assert_non_null(strstr(w->advice, "a plain step 4"));
    assert_non_null(strstr(w->advice, "--draft-policy auto"));
    assert_string_equal(w->note, "");
}

static void a_short_line_is_not(void **state)
{
    world_t *w = *state;
    write_text(w, OR_POLICY_FIXED, 0);
    assert_string_equal(w->advice, "");
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_named, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(a_short_line_is_not, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
