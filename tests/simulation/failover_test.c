// Goal: drafters may come and go at any time. The text goes on within a heartbeat, the next drafter takes over,
// and no token changes.
// Method: run all roles in one process on a virtual clock. Two drafters are killed and started in turn, at
// moments drawn from the seed, with every way of drafting ahead. Each text is compared with a plain decoding, and
// the client's longest wait for the next token with the heartbeat.
#include "tests/simulation/cluster.h"

#include <string.h>

#include "common/decode/methods.h"
#include "proto/net/link.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define TOKENS 48
#define LIMIT_S 600
#define PROMPT "There was once a king who"
#define SLACK_NS (200 * OR_NS_PER_MS) // the network's delays, there and back

static sim_model_t target, draft, second;

static int setup(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &draft);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &second);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&second);
    sim_model_free(&draft);
    sim_model_free(&target);
    return 0;
}

// One drafter is down at any time, in turn. The client's longest wait is recorded.
typedef struct {
    uint64_t random;
    bool second_is_up;
    uint32_t swaps;
    int64_t next_ns;
    uint32_t seen; // tokens
    int64_t seen_ns, longest_ns;
} relay_t;

static void note_wait(relay_t *relay, const sim_t *sim, const sim_result_t *so_far)
{
    int64_t now = sim_now_ns(sim);
    if (relay->seen > 0 && now - relay->seen_ns > relay->longest_ns) {
        relay->longest_ns = now - relay->seen_ns;
    }
    if (so_far->count != relay->seen) {
        relay->seen = so_far->count;
        relay->seen_ns = now;
    }
}

static void swap_drafters(sim_t *sim, void *context, const sim_result_t *so_far)
{
    relay_t *relay = context;
    note_wait(relay, sim, so_far);
    if (sim_now_ns(sim) < relay->next_ns) {
        return;
    }
    sim_crash(sim, relay->second_is_up ? SIM_SECOND_DRAFTER : SIM_DRAFTER);
    sim_start(sim, relay->second_is_up ? SIM_DRAFTER : SIM_SECOND_DRAFTER);
    relay->second_is_up = !relay->second_is_up;
    relay->swaps++;
    relay->next_ns =
        sim_now_ns(sim) + (100 + (int64_t)test_below(&relay->random, 1500)) * OR_NS_PER_MS;
}

static or_generate_request_t request_of(uint64_t seed)
{
    or_generate_request_t request = sim_request(PROMPT, TOKENS);
    request.sampling.temperature = seed % 3 == 0 ? 0.0F : 1.0F;
    request.seed = seed;
    request.draft_ahead = (uint32_t)(seed % 4);
    request.draft_policy = seed % 8 < 4 ? OR_POLICY_FIXED : OR_POLICY_AUTO;
    return request;
}

// The delay makes a text take long enough to be disturbed.
static const or_network_faults_t slow = {.delay_min_ns = 30 * OR_NS_PER_MS,
                                         .delay_max_ns = 50 * OR_NS_PER_MS};

static void drafters_in_turn_change_no_token(void **state)
{
    (void)state;
    uint64_t base = test_seed() & ~UINT64_C(7);
    uint64_t failovers = 0;
    for (uint64_t seed = base; seed < base + test_runs(16); seed++) {
        const sim_config_t config = {
            .seed = seed, .faults = slow, .target = &target, .draft = &draft, .second = &second};
        or_generate_request_t request = request_of(seed);
        relay_t relay = {.random = seed, .next_ns = OR_NS_PER_S + 300 * OR_NS_PER_MS};
        sim_result_t result;
        sim_t *sim = sim_create(&config);
        sim_crash(sim, SIM_SECOND_DRAFTER);
        sim_generate(sim, &request, LIMIT_S, swap_drafters, &relay, &result);
        sim_destroy(sim);
        assert_plain_text(&target, &request, &result);
        if (relay.longest_ns > OR_LINK_HEARTBEAT_MS * OR_NS_PER_MS + SLACK_NS) {
            fail_msg("seed %llu, %u ahead: no token for %lld ms", (unsigned long long)seed,
                     request.draft_ahead, (long long)(relay.longest_ns / OR_NS_PER_MS));
        }
        failovers += result.stats.failovers;
    }
    assert_true(failovers > 0);
}

// Both drafters are there. When the one that serves dies, the other takes over and goes on
// guessing.
typedef struct {
    bool done;
} strike_t;

static void kill_first(sim_t *sim, void *context, const sim_result_t *so_far)
{
    strike_t *strike = context;
    if (!strike->done && so_far->count >= TOKENS / 4) {
        sim_crash(sim, SIM_DRAFTER);
        strike->done = true;
    }
}

static void the_other_drafter_goes_on(void **state)
{
    (void)state;
    for (uint32_t ahead = 0; ahead <= 2; ahead++) {
        const sim_config_t config = {
            .seed = 1, .faults = slow, .target = &target, .draft = &draft, .second = &second};
        or_generate_request_t request = request_of(6);
        strike_t strike = {0};
        sim_result_t result;
        request.draft_ahead = ahead;
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, kill_first, &strike, &result);
        sim_destroy(sim);
        assert_plain_text(&target, &request, &result);
        assert_true(strike.done);
        assert_int_equal(result.stats.failovers, 1);
        assert_true(result.stats.target_calls < result.count * 3 / 4);
    }
}

// Guesses arrive whose parents were lost, came twice, or came after them.
static void lost_and_reordered_guesses_change_no_token(void **state)
{
    (void)state;
    static const or_network_faults_t rough = {.lose = 0.1,
                                              .repeat = 0.1,
                                              .delay_min_ns = OR_NS_PER_MS,
                                              .delay_max_ns = 200 * OR_NS_PER_MS};
    uint64_t base = test_seed() & ~UINT64_C(7);
    for (uint64_t seed = base; seed < base + test_runs(8); seed++) {
        const sim_config_t config = {
            .seed = seed, .faults = rough, .target = &target, .draft = &draft};
        or_generate_request_t request = request_of(seed);
        sim_result_t result;
        request.draft_ahead = 1 + (uint32_t)(seed % 4);
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, NULL, NULL, &result);
        sim_destroy(sim);
        assert_plain_text(&target, &request, &result);
    }
}

// Both drafters are cut off and come back in the other order, so that each gets the other's part of
// the shape.
typedef struct {
    uint32_t step;
    int64_t next_ns;
} exchange_t;

static void exchange_drafters(sim_t *sim, void *context, const sim_result_t *so_far)
{
    exchange_t *exchange = context;
    int64_t now = sim_now_ns(sim);
    if (exchange->step == 0 && so_far->count >= TOKENS / 8) {
        sim_cut(sim, SIM_DRAFTER);
        sim_cut(sim, SIM_SECOND_DRAFTER);
        exchange->next_ns = now + 12 * OR_NS_PER_S; // their silence is noticed
    } else if (exchange->step == 1 && now >= exchange->next_ns) {
        sim_mend(sim, SIM_SECOND_DRAFTER);
        exchange->next_ns = now + OR_NS_PER_S;
    } else if (exchange->step == 2 && now >= exchange->next_ns) {
        sim_mend(sim, SIM_DRAFTER);
    } else {
        return;
    }
    exchange->step++;
}

static void drafters_that_change_places_are_not_dismissed(void **state)
{
    (void)state;
    static const uint32_t shape[] = {3};
    const sim_config_t config = {.seed = 1,
                                 .faults = slow,
                                 .target = &target,
                                 .draft = &draft,
                                 .second = &second,
                                 .target_step_us = 600000}; // the text outlives the cut
    or_generate_request_t request = request_of(1);
    request.draft_ahead = 0;
    request.draft_policy = OR_POLICY_FIXED;
    request.draft_method = OR_DRAFT_MULTI;
    request.draft_nodes = 15;
    request.draft_depth = 5;
    request.draft_shape = shape;
    request.draft_shape_count = 1;
    request.ignore_end = true;
    exchange_t exchange = {0};
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, &request, LIMIT_S, exchange_drafters, &exchange, &result);
    sim_destroy(sim);
    assert_plain_text(&target, &request, &result);
    assert_int_equal(exchange.step, 3);
    assert_null(strstr(result.note, "dismissed"));
}

// Frames that take no time arrive at a drafter that is at work.
static void a_network_without_delay_lets_time_pass(void **state)
{
    (void)state;
    const sim_config_t config = {.seed = 1,
                                 .target = &target,
                                 .draft = &draft,
                                 .target_step_us = 5000,
                                 .draft_step_us = 2000};
    or_generate_request_t request = request_of(2);
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, &request, LIMIT_S, NULL, NULL, &result);
    sim_destroy(sim);
    assert_plain_text(&target, &request, &result);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafters_in_turn_change_no_token),
        cmocka_unit_test(the_other_drafter_goes_on),
        cmocka_unit_test(lost_and_reordered_guesses_change_no_token),
        cmocka_unit_test(drafters_that_change_places_are_not_dismissed),
        cmocka_unit_test(a_network_without_delay_lets_time_pass),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
