// Goal: the text is the target's own, whatever the network does and whichever process crashes, and a run
// replays from its seed.
// Method: run all roles in one process on a virtual clock. Frames are lost, repeated, delayed and so reordered.
// Drafter, verifier and, if it has a journal, coordinator are killed and restarted at moments drawn from the
// seed. Every text is compared with a plain decoding that knows no network.
#include "tests/simulation/cluster.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/decode/methods.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define TOKENS 32
#define LIMIT_S 600
#define PROMPT "There was once a king who"

static sim_model_t target, draft;
static sim_model_t second_target; // the target's file in a drafter of its own

static int setup(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &draft);
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &second_target);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&second_target);
    sim_model_free(&draft);
    sim_model_free(&target);
    return 0;
}

static or_generate_request_t request_of(uint64_t seed)
{
    or_generate_request_t request = sim_request(PROMPT, TOKENS);
    request.sampling.temperature = seed % 3 == 0 ? 0.0F : 1.0F;
    request.seed = seed;
    return request;
}

static void a_quiet_network_gives_the_plain_text_in_fewer_calls(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        const sim_config_t config = {.seed = seed, .target = &target, .draft = &draft};
        or_generate_request_t request = request_of(seed);
        sim_result_t result;
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, NULL, NULL, &result);
        sim_destroy(sim);
        assert_plain_text(&target, &request, &result);
        assert_int_equal(result.stats.plain_rounds, 0);
        assert_int_equal(result.stats.resyncs, 0);
        assert_true(result.stats.target_calls < result.count);
        assert_true(result.stats.wire_bytes > 0);
    }
}

static const or_network_faults_t rough = {
    .lose = 0.1, .repeat = 0.1, .delay_min_ns = OR_NS_PER_MS, .delay_max_ns = 200 * OR_NS_PER_MS};

static void a_rough_network_changes_nothing(void **state)
{
    (void)state;
    uint64_t base = test_seed();
    for (uint64_t seed = base; seed < base + test_runs(25); seed++) {
        const sim_config_t config = {
            .seed = seed, .faults = rough, .target = &target, .draft = &draft};
        or_generate_request_t request = request_of(seed);
        sim_result_t result;
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, NULL, NULL, &result);
        sim_destroy(sim);
        assert_plain_text(&target, &request, &result);
    }
}

// The kills and restarts of one run: at most `left` of them, at moments drawn from the seed.
typedef struct {
    uint64_t random;
    uint32_t roles; // that may be hit: the first so many
    uint32_t left;
    int64_t next_ns;
    bool down;
    sim_role_t role;
} mischief_t;

// How long the role that was hit stays down, at most. A client waits 10 s for its first Welcome (proto/net/patience.h), so a
// coordinator that has not answered yet comes back soon enough for all of its outages to fit into that.
static uint64_t outage_max_ms(const mischief_t *m, const sim_result_t *so_far)
{
    return m->role == SIM_COORDINATOR && so_far->count == 0 ? 800 : 5000;
}

static void make_mischief(sim_t *sim, void *context, const sim_result_t *so_far)
{
    mischief_t *m = context;
    if (sim_now_ns(sim) < m->next_ns) {
        return;
    }
    if (m->down) {
        sim_start(sim, m->role);
        m->down = false;
        m->next_ns = sim_now_ns(sim) + (int64_t)test_below(&m->random, 600) * OR_NS_PER_MS;
    } else if (m->left > 0) {
        m->left--;
        m->role = (sim_role_t)test_below(&m->random, m->roles);
        sim_crash(sim, m->role);
        m->down = true;
        m->next_ns = sim_now_ns(sim) +
                     (int64_t)test_below(&m->random, outage_max_ms(m, so_far)) * OR_NS_PER_MS;
    }
}

static sim_result_t crash_cluster(const sim_config_t *config, const or_generate_request_t *request)
{
    sim_result_t result;
    sim_t *sim = sim_create(config);
    mischief_t mischief = {.random = config->seed,
                           .roles = config->journal != NULL  ? 4
                                    : config->second != NULL ? 3
                                                             : 2,
                           .left = 6,
                           .next_ns = sim_now_ns(sim) + 500 * OR_NS_PER_MS};
    sim_generate(sim, request, LIMIT_S, make_mischief, &mischief, &result);
    sim_destroy(sim);
    return result;
}

static sim_result_t run_with_crashes(uint64_t seed, const or_generate_request_t *request)
{
    const sim_config_t config = {.seed = seed, .faults = rough, .target = &target, .draft = &draft};
    return crash_cluster(&config, request);
}

static void crashes_of_drafter_and_verifier_change_nothing(void **state)
{
    (void)state;
    uint64_t base = test_seed();
    for (uint64_t seed = base; seed < base + test_runs(25); seed++) {
        or_generate_request_t request = request_of(seed);
        sim_result_t result = run_with_crashes(seed, &request);
        assert_plain_text(&target, &request, &result);
    }
}

// Distributions travel with these trees, and are repeated with them.
static void crashes_change_nothing_for_drawn_trees(void **state)
{
    (void)state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
    } pairs[] = {{OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE},
                 {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND},
                 {OR_DRAFT_CHAIN, OR_ACCEPT_SPS},
                 {OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE}};
    uint64_t base = test_seed();
    for (uint64_t seed = base; seed < base + test_runs(12); seed++) {
        or_generate_request_t request = request_of(seed);
        request.sampling.temperature = 0;
        request.draft_method = pairs[seed % 4].method;
        request.accept_rule = pairs[seed % 4].rule;
        sim_result_t result = run_with_crashes(seed, &request);
        assert_plain_text(&target, &request, &result);
    }
}

// naive draws by a key of its own, so its text is the one it writes alone.
static void crashes_change_nothing_for_naive_text(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 1 + test_runs(6); seed++) {
        const sim_config_t config = {.seed = seed, .target = &target};
        or_generate_request_t request = request_of(seed);
        sim_result_t alone;
        request.sampling.temperature = 1;
        request.draft_method = OR_DRAFT_RSD_S;
        request.accept_rule = OR_ACCEPT_NAIVE;
        request.plain = true;
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, NULL, NULL, &alone);
        sim_destroy(sim);
        request.plain = false;
        sim_result_t result = run_with_crashes(seed, &request);
        assert_int_equal(result.count, alone.count);
        assert_memory_equal(result.tokens, alone.tokens, alone.count * sizeof *alone.tokens);
    }
}

// ---- the coordinator, too ----

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

// The committed tokens are in the journal: clients find the next coordinator, and the text goes on
// there.
static void crashes_of_anybody_change_nothing(void **state)
{
    (void)state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_COUPLED, OR_ACCEPT_GREEDY};
    uint64_t base = test_seed();
    uint64_t resumed = 0;
    for (uint64_t seed = base; seed < base + test_runs(12); seed++) {
        char folder[] = "/tmp/outrider-simulation-XXXXXX";
        char journal[64];
        assert_non_null(mkdtemp(folder));
        snprintf(journal, sizeof journal, "%s/journal", folder);
        const sim_config_t config = {.seed = seed,
                                     .faults = rough,
                                     .target = &target,
                                     .draft = &draft,
                                     .second = seed % 2 == 0 ? &second_target : NULL,
                                     .journal = journal};
        or_generate_request_t request = request_of(seed);
        request.accept_rule = rules[seed % 2];
        request.sampling.temperature = seed % 2 == 0 ? request.sampling.temperature : 0;
        sim_result_t result = crash_cluster(&config, &request);
        nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        assert_plain_text(&target, &request, &result);
        resumed += result.stats.resumes;
    }
    assert_true(resumed > 0);
}

// The second drafter has the target's own model, so its guesses at a low temperature are right.
static void several_drafters_write_the_plain_text_in_fewer_calls(void **state)
{
    (void)state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_COUPLED,
                                             OR_ACCEPT_NAIVE};
    static const uint32_t shape[] = {4, 4};
    for (uint64_t seed = 0; seed < 6; seed++) {
        or_generate_request_t request = request_of(seed);
        request.sampling.temperature = 0;
        request.draft_method = OR_DRAFT_MULTI;
        request.accept_rule = rules[seed % 3];
        request.draft_shape = shape;
        request.draft_shape_count = 2;
        request.has_draft_temperature = true;
        request.draft_temperature = 0.1F;
        sim_result_t results[2];
        for (int i = 0; i < 2; i++) {
            const sim_config_t config = {.seed = seed,
                                         .target = &target,
                                         .draft = &draft,
                                         .second = i == 0 ? NULL : &second_target};
            sim_t *sim = sim_create(&config);
            sim_generate(sim, &request, LIMIT_S, NULL, NULL, &results[i]);
            sim_destroy(sim);
            assert_plain_text(&target, &request, &results[i]);
            assert_int_equal(results[i].stats.plain_rounds, 0);
            assert_int_equal(results[i].stats.resyncs, 0);
        }
        assert_true(results[1].stats.target_calls < results[0].stats.target_calls);
    }
}

static void crashes_change_nothing_for_several_drafters(void **state)
{
    (void)state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_COUPLED,
                                             OR_ACCEPT_NAIVE, OR_ACCEPT_GREEDY};
    uint64_t base = test_seed();
    for (uint64_t seed = base; seed < base + test_runs(16); seed++) {
        const sim_config_t config = {.seed = seed,
                                     .faults = rough,
                                     .target = &target,
                                     .draft = &draft,
                                     .second = seed % 2 == 0 ? &draft : &second_target};
        or_generate_request_t request = request_of(seed);
        request.sampling.temperature = 0;
        request.draft_method = OR_DRAFT_MULTI;
        request.accept_rule = rules[seed % 4];
        sim_result_t result = crash_cluster(&config, &request);
        assert_plain_text(&target, &request, &result);
    }
}

static void a_run_replays_from_its_seed(void **state)
{
    (void)state;
    or_generate_request_t request = request_of(7);
    sim_result_t first = run_with_crashes(7, &request);
    sim_result_t second = run_with_crashes(7, &request);
    assert_int_equal(first.stats.target_calls, second.stats.target_calls);
    assert_int_equal(first.stats.drafted, second.stats.drafted);
    assert_int_equal(first.stats.resyncs, second.stats.resyncs);
    assert_int_equal(first.stats.elapsed_us, second.stats.elapsed_us);
}

static void kill_for_good(sim_t *sim, void *context, const sim_result_t *so_far)
{
    if (so_far->count > 4) {
        sim_crash(sim, *(sim_role_t *)context);
    }
}

static void a_drafter_lost_for_good_is_bridged_by_plain_decoding(void **state)
{
    (void)state;
    sim_role_t role = SIM_DRAFTER;
    const sim_config_t config = {.seed = 1, .target = &target, .draft = &draft};
    or_generate_request_t request = request_of(1);
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, &request, LIMIT_S, kill_for_good, &role, &result);
    sim_destroy(sim);
    assert_plain_text(&target, &request, &result);
    assert_true(result.stats.plain_rounds > 0);
    assert_true(result.stats.elapsed_us < 5 * 1000 * 1000);
}

static void a_verifier_lost_for_good_is_a_clear_error(void **state)
{
    (void)state;
    sim_role_t role = SIM_VERIFIER;
    const sim_config_t config = {.seed = 1, .target = &target, .draft = &draft};
    or_generate_request_t request = request_of(1);
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, &request, LIMIT_S, kill_for_good, &role, &result);
    sim_destroy(sim);
    assert_int_equal(result.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(result.error, "verifier"));
}

#define CROWD 10 // clients; the simulated verifier takes 4 sessions at a time

// There are hardly any pages, so every pass takes another session's, in the target and in the
// draft model.
static void a_crowd_on_few_pages_gets_the_same_texts(void **state)
{
    (void)state;
    sim_model_t tight_target, tight_draft;
    or_generate_request_t requests[CROWD];
    static sim_result_t results[CROWD];
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 3, &tight_target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 3, &tight_draft);
    for (uint32_t i = 0; i < CROWD; i++) {
        requests[i] = request_of(i);
        requests[i].plain = i % 5 == 4;
    }
    const sim_config_t config = {.seed = 1, .target = &tight_target, .draft = &tight_draft};
    sim_t *sim = sim_create(&config);
    sim_generate_all(sim, requests, CROWD, LIMIT_S, results);
    sim_destroy(sim);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_plain_text(&target, &requests[i], &results[i]);
        assert_int_equal(results[i].stats.plain_rounds, 0); // and drafted for
        assert_int_equal(results[i].stats.resyncs,
                         0); // they wait for a place, nobody is thrown out of one
    }
    sim_model_free(&tight_draft);
    sim_model_free(&tight_target);
}

static void a_plain_request_needs_no_drafter(void **state)
{
    (void)state;
    const sim_config_t config = {.seed = 1, .faults = rough, .target = &target};
    or_generate_request_t request = request_of(1);
    request.plain = true;
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, &request, LIMIT_S, NULL, NULL, &result);
    sim_destroy(sim);
    assert_plain_text(&target, &request, &result);
    assert_int_equal(result.stats.target_calls, result.count);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_network_gives_the_plain_text_in_fewer_calls),
        cmocka_unit_test(a_rough_network_changes_nothing),
        cmocka_unit_test(crashes_of_drafter_and_verifier_change_nothing),
        cmocka_unit_test(crashes_of_anybody_change_nothing),
        cmocka_unit_test(crashes_change_nothing_for_drawn_trees),
        cmocka_unit_test(crashes_change_nothing_for_naive_text),
        cmocka_unit_test(several_drafters_write_the_plain_text_in_fewer_calls),
        cmocka_unit_test(crashes_change_nothing_for_several_drafters),
        cmocka_unit_test(a_run_replays_from_its_seed),
        cmocka_unit_test(a_drafter_lost_for_good_is_bridged_by_plain_decoding),
        cmocka_unit_test(a_verifier_lost_for_good_is_a_clear_error),
        cmocka_unit_test(a_crowd_on_few_pages_gets_the_same_texts),
        cmocka_unit_test(a_plain_request_needs_no_drafter),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
