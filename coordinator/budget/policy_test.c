// Goal: auto is never slower than not drafting at all, and nearly always as fast as the best of waiting always
// and waiting never, wherever the link, the target, the drafter and the text are; it notices when they change;
// no measurement makes its numbers senseless; fixed does what was asked for.
// Method: a small world of events (policy_test_world.h) over a grid, everything in virtual time; steps in it;
// random and extreme measurements.
#include "coordinator/budget/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "coordinator/budget/policy_model.h"
#include "coordinator/budget/policy_test_world.h"
#include "tests/support/test_support.h"

#define MS (double)OR_NS_PER_MS
#define TOKENS 2000.0 // that plain decoding writes in a cell, at least
#define SECONDS_MIN 6.0
#define WARM_S 2        // until then it may still learn
#define ROW_SHARE 0.004 // of a plain round, that a guess adds

// A cell is good if it reaches this part of the best budget's speed. So many of all cells must be, and the worst cell must
// reach WORST.
#define AS_GOOD 0.97
#define CELLS_AS_GOOD 0.82
#define WORST 0.80
#define PLAIN_KEPT 0.95 // of plain decoding, in every cell

static world_config_t world_of(double trip_ms, double plain_ms, double pass_ms, double acceptance)
{
    return (world_config_t){.numbers = {.trip_ns = trip_ms * MS,
                                        .plain_ns = plain_ms * MS,
                                        .row_ns = ROW_SHARE * plain_ms * MS,
                                        .pass_ns = pass_ms * MS,
                                        .acceptance = acceptance},
                            .kind = OR_POLICY_AUTO,
                            .most = {.nodes = 16, .depth = 16, .ahead = 4},
                            .late_is_good = true,
                            .seed = 7};
}

// Tokens a second, in the long run.
static double rate_of(world_config_t config)
{
    world_t *world = world_create(&config);
    double seconds = fmax(TOKENS * config.numbers.plain_ns / 1e9, SECONDS_MIN);
    int64_t begin_ns = (1 + WARM_S) * OR_NS_PER_S;
    world_run(world, begin_ns);
    double tokens = world_run(world, begin_ns + (int64_t)(seconds * 1e9));
    world_destroy(&world);
    return tokens / seconds;
}

typedef struct {
    uint32_t cells, as_good;
    double worst;
} score_t;

static void try_cell(world_config_t config, score_t *score)
{
    const world_conduct_t fixed[] = {WORLD_POLICY, WORLD_WAIT_NEVER};
    double plain = 1e9 / config.numbers.plain_ns;
    double best = plain;
    double automatic = rate_of(config);
    config.kind = OR_POLICY_FIXED;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        config.conduct = fixed[i];
        best = fmax(best, rate_of(config));
    }
    score->cells++;
    score->as_good += automatic >= AS_GOOD * best;
    score->worst = fmin(score->worst, automatic / best);
    if (automatic < WORST * best || automatic < PLAIN_KEPT * plain) {
        fail_msg("trip %g ms, plain %g ms, pass %g ms, acceptance %g, %u nodes, ahead %u: %g, "
                 "plain %g, best %g",
                 config.numbers.trip_ns / MS, config.numbers.plain_ns / MS,
                 config.numbers.pass_ns / MS, config.numbers.acceptance, config.most.nodes,
                 config.most.ahead, automatic, plain, best);
    }
}

static void try_grid(uint32_t nodes, uint32_t ahead)
{
    static const double trips[] = {0, 15, 50, 100, 200};
    static const double plains[] = {1, 40, 200};
    static const double passes[] = {0.2, 10};
    static const double acceptances[] = {0.1, 0.5, 0.85};
    score_t score = {.worst = 1};
    for (size_t i = 0; i < 5 * 3 * 2 * 3; i += test_share(3)) {
        world_config_t config =
            world_of(trips[i % 5], plains[i / 5 % 3], passes[i / 15 % 2], acceptances[i / 30]);
        config.most.nodes = nodes;
        config.most.ahead = ahead;
        config.late_is_good = ahead > 0;
        try_cell(config, &score);
    }
    printf("%u nodes, ahead %u: %u of %u cells as good as the best, the worst %.2f of it\n", nodes,
           ahead, score.as_good, score.cells, score.worst);
    assert_true(score.as_good >= CELLS_AS_GOOD * score.cells);
}

static void auto_is_nearly_as_good_as_the_best(void **state)
{
    (void)state;
    for (uint32_t nodes = 16; nodes <= 64; nodes *= 4) {
        try_grid(nodes, 0);
        try_grid(nodes, 4);
    }
}

// ---- changes ----

typedef struct {
    double trip_ms, plain_ms, pass_ms, acceptance;
    double to_trip_ms, to_plain_ms, to_acceptance;
} step_t;

// Tokens a second while `measured_s` pass, once it has had `learns_s` since all changed after `before_s`.
static double rate_after_change(const world_config_t *before, const world_config_t *after,
                                int64_t before_s, int64_t learns_s, int64_t measured_s)
{
    const int64_t changed_s = 1 + before_s, learnt_s = changed_s + learns_s; // it begins at 1 s
    world_t *world = world_create(before);
    world_run(world, changed_s * OR_NS_PER_S);
    world_set(world, &after->numbers);
    world_run(world, learnt_s * OR_NS_PER_S);
    double tokens = world_run(world, (learnt_s + measured_s) * OR_NS_PER_S);
    world_destroy(&world);
    return tokens / (double)measured_s;
}

static void it_notices_what_changes(void **state)
{
    (void)state;
    static const step_t steps[] = {
        {0, 40, 2, 0.7, 200, 40, 0.7}, // the link gets long
        {200, 40, 2, 0.7, 0, 40, 0.7}, // or short
        {50, 40, 2, 0.9, 50, 40, 0.1}, // the text gets hard
        {15, 200, 2, 0.7, 15, 5, 0.7}, // the target gets fast
        {15, 5, 2, 0.7, 15, 200, 0.7}, // or slow
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const step_t *step = &steps[i];
        const world_config_t config =
            world_of(step->trip_ms, step->plain_ms, step->pass_ms, step->acceptance);
        const world_config_t after =
            world_of(step->to_trip_ms, step->to_plain_ms, step->pass_ms, step->to_acceptance);
        double rate = rate_after_change(&config, &after, 10, 2, 20);
        if (rate < 0.85 * rate_of(after)) {
            fail_msg("step %zu: %g after two seconds, %g in the long run", i, rate, rate_of(after));
        }
    }
}

// Half a minute in which nothing was accepted has taught that guesses are worth nothing. Tries must find out that they are now,
// whatever a guess costs.
static void a_text_that_gets_easy_is_drafted_again(void **state)
{
    (void)state;
    static const double row_shares[] = {ROW_SHARE, 0.02, 0.05}, trips_ms[] = {0.1, 15};
    for (uint32_t i = 0; i < 12; i++) {
        world_config_t hard = world_of(trips_ms[i / 3 % 2], 40, 1, 0.02);
        hard.numbers.row_ns = row_shares[i % 3] * hard.numbers.plain_ns;
        hard.most.ahead = i < 6 ? 4 : 0;
        hard.late_is_good = i < 6;
        world_config_t easy = hard;
        easy.numbers.acceptance = 0.85;
        double rate = rate_after_change(&hard, &easy, 30, 30, 30);
        if (rate < 0.75 * rate_of(easy)) {
            fail_msg("%g ms away, a row %g of a round, %u ahead: %g, and %g where it always was",
                     trips_ms[i / 3 % 2], row_shares[i % 3], hard.most.ahead, rate, rate_of(easy));
        }
    }
}

static void what_never_pays_is_tried_now_and_then(void **state)
{
    (void)state;
    world_config_t config = world_of(200, 1, 2, 0.3);
    world_t *world = world_create(&config);
    world_run(world, 21 * OR_NS_PER_S);
    double tokens = world_run(world, 121 * OR_NS_PER_S);
    const or_policy_t *policy = world_policy(world);
    assert_true(tokens > 0.98 * 100 * 1000);          // trying costs less than 2 percent,
    assert_true(world_tries(world) > 3);              // but it is tried,
    assert_true(policy->plain > policy->rounds - 50); // in few rounds
    world_destroy(&world);
}

static void the_same_measurements_give_the_same_choices(void **state)
{
    (void)state;
    world_config_t config = world_of(50, 40, 2, 0.7);
    config.numbers.jitter = 0.3;
    world_t *one = world_create(&config);
    world_t *other = world_create(&config);
    assert_true(world_run(one, 60 * OR_NS_PER_S) == world_run(other, 60 * OR_NS_PER_S));
    assert_memory_equal(world_policy(one), world_policy(other), sizeof(or_policy_t));
    world_destroy(&one);
    world_destroy(&other);
}

// ---- single steps ----

static or_policy_t make_policy(or_draft_policy_t kind, uint32_t ahead)
{
    or_policy_t policy;
    const or_policy_terms_of_session_t terms = {.kind = kind,
                                                .most = {.nodes = 16, .depth = 8, .ahead = ahead},
                                                .lookup = true,
                                                .late_is_good = ahead > 0};
    or_policy_init(&policy, &terms);
    return policy;
}

static void fixed_waits_for_what_was_asked_for(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(OR_POLICY_FIXED, 1);
    or_policy_state_t here = {.ready = 3, .lookup = 5, .awaited = true, .asked_ns = 5};
    assert_true(or_policy_choose(&policy, &here, 10).until_ns == OR_TIME_NEVER);
    here.ready = 16;
    or_policy_choice_t choice = or_policy_choose(&policy, &here, 10);
    assert_true(choice.until_ns == 0 && choice.source == OR_SOURCE_DRAFTER);
    here = (or_policy_state_t){.lookup = 5};
    choice = or_policy_choose(&policy, &here, 10);
    assert_true(choice.until_ns == 0 && choice.source == OR_SOURCE_PLAIN); // nothing of its own
    policy = make_policy(OR_POLICY_FIXED, 2); // with several rounds in flight a part is enough
    here = (or_policy_state_t){.ready = 1, .awaited = true};
    assert_true(or_policy_choose(&policy, &here, 10).until_ns == 0);
    for (int i = 0; i < 100; i++) {
        const or_policy_round_t round = {.round_ns = 1000, .nodes = 16};
        or_policy_judged(&policy, &round);
        const or_budget_t budget = or_policy_budget(&policy, i);
        assert_true(budget.nodes == 16 && budget.depth == 8 && budget.ahead == 2);
    }
}

static void lookups_are_used_while_they_help(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(OR_POLICY_AUTO, 4);
    const or_policy_state_t alone = {.lookup = 8};
    or_policy_round_t round = {.source = OR_SOURCE_LOOKUP, .nodes = 8, .round_ns = 20000000};
    assert_int_equal(or_policy_choose(&policy, &alone, 1).source, OR_SOURCE_LOOKUP);
    for (int i = 0; i < 60; i++) { // a guess costs something, and none is right
        or_policy_judged(&policy, &round);
        or_policy_judged(&policy, &(or_policy_round_t){.round_ns = 10000000});
    }
    assert_int_equal(or_policy_choose(&policy, &alone, 1).source, OR_SOURCE_PLAIN);
    round.accepted = 4;
    for (int i = 0; i < 60; i++) {
        or_policy_judged(&policy, &round);
        or_policy_judged(&policy, &(or_policy_round_t){.round_ns = 10000000});
    }
    assert_int_equal(or_policy_choose(&policy, &alone, 1).source, OR_SOURCE_LOOKUP);
}

// 0 stands for what is not known, which would leave the figure out of dashboards where guesses cost nothing.
static void guesses_that_cost_nothing_have_a_cost_that_is_known(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(OR_POLICY_AUTO, 4);
    for (uint32_t i = 0; i < 20; i++) {
        or_policy_judged(&policy, &(or_policy_round_t){.round_ns = 10000000});
        assert_true((or_policy_terms(&policy).row_us > 0) == (i > 0));
        or_policy_judged(
            &policy,
            &(or_policy_round_t){.source = OR_SOURCE_DRAFTER, .nodes = 8, .round_ns = 9000000});
        assert_in_range(1e6 * or_policy_terms(&policy).row_us, 1, 1000);
    }
}

// What a pass of 1, 2 ... rows costs is no straight line. Milliseconds of 300M parameters on two cores with AVX2.
#define ROWS_MAX 17u
static const double pass_ms[2][ROWS_MAX] = {
    {30, 33, 36, 40, 43, 48, 57, 68, 74, 80, 86, 91, 97, 102, 108, 114, 120}, // F16
    {10, 16, 18, 21, 23, 26, 28, 31, 35, 38, 41, 44, 47, 50, 53, 56, 59},     // Q8_0
};

static double tokens_of(uint32_t nodes)
{
    return 1 + log1p(nodes);
}

// On the target's CPUs it begins with few guesses and finds the number that brings the most tokens in the time.
static void find_the_size(const double *costs_ms)
{
    or_policy_t policy = make_policy(OR_POLICY_AUTO, 0);
    int64_t now = OR_NS_PER_S;
    double owed = 0, tokens = 0, best = 0;
    or_policy_limit(&policy, OR_WAY_DRAFTED, 1, true);
    assert_int_equal(policy.budget.nodes, 4);
    for (uint32_t nodes = 1; nodes <= 16; nodes++) {
        best = fmax(best, tokens_of(nodes) / (costs_ms[nodes] + 1));
    }
    for (int i = 0; i < 60; i++) {
        const or_policy_state_t here = {.ready = policy.budget.nodes, .asked_ns = now};
        bool plain = or_policy_choose(&policy, &here, now).source == OR_SOURCE_PLAIN;
        uint32_t nodes = plain ? 0 : policy.budget.nodes;
        owed += plain ? 1 : tokens_of(nodes);
        uint32_t came = (uint32_t)owed;
        owed -= came;
        tokens += came;
        const or_policy_round_t round = {.source = plain ? OR_SOURCE_PLAIN : OR_SOURCE_DRAFTER,
                                         .nodes = nodes,
                                         .accepted = came > 0 ? came - 1 : 0,
                                         .first_right = came > 1,
                                         .round_ns = (int64_t)(costs_ms[nodes] * MS)};
        now += round.round_ns + (int64_t)MS;
        or_policy_judged(&policy, &round);
        or_policy_heard(&policy, (int64_t)MS, 1000, nodes);
        or_policy_budget(&policy, now);
    }
    double rate = tokens / ((double)(now - OR_NS_PER_S) / MS);
    if (rate < 0.95 * best) {
        fail_msg("%.3f of the best, %u guesses at the end", rate / best, policy.budget.nodes);
    }
}

static void it_finds_the_size_that_pays(void **state)
{
    (void)state;
    find_the_size(pass_ms[0]);
    find_the_size(pass_ms[1]);
}

// A first round of a size that was held up says nothing of other sizes, nor of plain rounds.
static void a_slow_first_round_is_no_change(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(OR_POLICY_AUTO, 0);
    or_policy_round_t round = {.first_right = true};
    for (uint32_t i = 0; i < 40; i++) {
        round.nodes = i % 2 * 4;
        round.source = round.nodes > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN;
        round.round_ns = (round.nodes > 0 ? 14 : 10) * OR_NS_PER_MS;
        or_policy_judged(&policy, &round);
    }
    for (uint32_t i = 0; i < 8; i++) {
        round.nodes = 8;
        round.source = OR_SOURCE_DRAFTER;
        round.round_ns = (i == 0 ? 160 : 16) * OR_NS_PER_MS;
        or_policy_judged(&policy, &round);
    }
    or_policy_terms_t terms = or_policy_terms(&policy);
    assert_true(terms.plain_ms > 9 && terms.plain_ms < 11);
    assert_true(or_policy_round_ns(&policy, 8) < 20.0 * (double)OR_NS_PER_MS);
}

// A text whose first round had guesses and read its prompt, among others since: it tries few guesses and not all, for what
// one costs was never seen.
static void untimed_guesses_are_not_free(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(OR_POLICY_AUTO, 0);
    or_policy_limit(&policy, OR_WAY_DRAFTED, 1, true);
    uint32_t few = policy.budget.nodes;
    or_policy_heard(&policy, 4 * OR_NS_PER_MS, 3000, few);
    or_policy_round_t round = {.source = OR_SOURCE_DRAFTER,
                               .nodes = few,
                               .accepted = 2,
                               .first_right = true,
                               .round_ns = 60 * OR_NS_PER_MS,
                               .prefill = true};
    or_policy_judged(&policy, &round);
    or_policy_limit(&policy, OR_WAY_PLAIN, 4, true);
    for (uint32_t i = 0; i < 20; i++) {
        round = (or_policy_round_t){.round_ns = 25 * OR_NS_PER_MS};
        or_policy_judged(&policy, &round);
    }
    or_policy_t alone = policy;
    or_policy_limit(&alone, OR_WAY_DRAFTED, 1, true);
    assert_in_range(few, 1, 8);
    assert_int_equal(alone.budget.nodes, few);
    or_policy_limit(&policy, OR_WAY_DRAFTED, 4, true); // each has its share of these few
    assert_int_equal(policy.budget.nodes, 1);
}

// A round of that many guesses, of which one was right, in such a time.
static void judge_round(or_policy_t *policy, uint32_t nodes, int64_t ms)
{
    or_policy_heard(policy, 2 * OR_NS_PER_MS, 1000, nodes);
    const or_policy_round_t round = {.source = nodes > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN,
                                     .nodes = nodes,
                                     .accepted = nodes > 0,
                                     .first_right = nodes > 0,
                                     .round_ns = ms * OR_NS_PER_MS};
    or_policy_judged(policy, &round);
}

// A few rows cost as little as one, and more of them much more; so that guesses were free says nothing of many.
static void several_texts_take_more_guesses_by_steps(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(OR_POLICY_AUTO, 0);
    or_policy_limit(&policy, OR_WAY_PLAIN, 4, true);
    for (uint32_t i = 0; i < 8; i++) {
        judge_round(&policy, 0, 10);
    }
    or_policy_limit(&policy, OR_WAY_DRAFTED, 4, true);
    assert_int_equal(policy.budget.nodes, 1);
    for (uint32_t nodes = 1; nodes <= 4; nodes *= 2) {
        for (uint32_t i = 0; i < 8; i++) {
            judge_round(&policy, nodes, 10);
        }
        or_budget_t budget = or_policy_budget(&policy, 20 * OR_NS_PER_S);
        assert_in_range(budget.nodes, nodes, 2 * nodes);
        assert_true(nodes > 1 || budget.nodes == 2);
        policy.budget.nodes = 2 * nodes;
    }
    or_policy_t other =
        make_policy(OR_POLICY_AUTO, 0); // what four texts have tried is shared by eight
    or_policy_inherit(&other, &policy);
    or_policy_limit(&other, OR_WAY_DRAFTED, 8, true);
    assert_in_range(other.budget.nodes, 1, 2);
}

static void assert_sensible(or_policy_t *policy, int64_t now)
{
    or_policy_terms_t terms = or_policy_terms(policy);
    const float all[] = {terms.round_trip_ms, terms.draft_ms,   terms.plain_ms,
                         terms.verify_ms,     terms.row_us,     terms.queue_ms,
                         terms.batch,         terms.acceptance, terms.block_efficiency,
                         terms.hit_rate,      terms.plain_rate, terms.draft_rate};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(isfinite(all[i]) && all[i] >= 0);
    }
    or_budget_t budget = or_policy_budget(policy, now);
    assert_true(budget.nodes <= 16 && budget.depth <= 8 && budget.ahead <= 4);
}

static void no_measurement_makes_it_senseless(void **state)
{
    (void)state;
    static const int64_t times[] = {0, 1, -1, INT64_MIN, INT64_MAX, 40000000, 3, 1000000000};
    static const double batches[] = {0, -1, 1, 3, 1e300, (double)NAN, (double)INFINITY};
    uint64_t random = test_seed();
    for (int run = 0; run < 200; run++) {
        or_policy_t policy = make_policy(OR_POLICY_AUTO, (uint32_t)(run % 5));
        int64_t now = OR_NS_PER_S;
        for (int i = 0; i < 200; i++) {
            const or_policy_round_t round = {
                .source = (or_guess_source_t)test_below(&random, 3),
                .nodes = (uint32_t)(test_random(&random) >> test_below(&random, 64)),
                .accepted = (uint32_t)(test_random(&random) >> test_below(&random, 64)),
                .first_right = test_below(&random, 2) == 0,
                .round_ns = times[test_below(&random, 8)],
                .forward_us = (uint32_t)test_random(&random),
                .prefill = test_below(&random, 4) == 0};
            const or_policy_state_t here = {.ready = (uint32_t)test_below(&random, 40),
                                            .lookup = (uint32_t)test_below(&random, 40),
                                            .awaited = test_below(&random, 2) == 0,
                                            .asked_ns =
                                                now - (int64_t)test_below(&random, 1000000)};
            or_policy_judged(&policy, &round);
            or_policy_heard(&policy, times[test_below(&random, 8)], (uint32_t)test_random(&random),
                            (uint32_t)test_random(&random));
            or_policy_ahead(&policy, test_below(&random, 2) == 0);
            or_policy_load(&policy, batches[test_below(&random, 7)]);
            or_policy_choice_t choice = or_policy_choose(&policy, &here, now);
            assert_true(choice.until_ns == 0 || choice.until_ns > now);
            assert_true(choice.until_ns == 0 || here.awaited);
            assert_sensible(&policy, now);
            now += (int64_t)test_below(&random, 3) * OR_NS_PER_S;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_nearly_as_good_as_the_best),
        cmocka_unit_test(it_notices_what_changes),
        cmocka_unit_test(a_text_that_gets_easy_is_drafted_again),
        cmocka_unit_test(what_never_pays_is_tried_now_and_then),
        cmocka_unit_test(the_same_measurements_give_the_same_choices),
        cmocka_unit_test(fixed_waits_for_what_was_asked_for),
        cmocka_unit_test(lookups_are_used_while_they_help),
        cmocka_unit_test(it_finds_the_size_that_pays),
        cmocka_unit_test(a_slow_first_round_is_no_change),
        cmocka_unit_test(untimed_guesses_are_not_free),
        cmocka_unit_test(several_texts_take_more_guesses_by_steps),
        cmocka_unit_test(guesses_that_cost_nothing_have_a_cost_that_is_known),
        cmocka_unit_test(no_measurement_makes_it_senseless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
