// Goal: a bad line costs time and nothing else: no token, no session. When a cut line is mended the text goes
// on within two round trips and the time of the replay.
// Method: run all roles on a virtual clock with lines that lose, jitter, crawl and stall. Then cut lines
// during texts, 200 times in all; the line, the moment and the length come from a seed. Every text is compared
// with plain decoding.

#include "tests/simulation/cluster.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define MS OR_NS_PER_MS
#define PROMPT "There was once a king who"
#define TOKENS 160
#define LIMIT_S 7200
#define STEP_MS 40
#define RTT_MS 50
#define CUTS 60 // 200 under the label `long`
#define STALLS 30

static sim_model_t target, draft;

static int setup(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &draft);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&draft);
    sim_model_free(&target);
    return 0;
}

// Requests are synchronous, draft ahead, have several rounds in flight, and use what the policy
// finds, in turn.
static or_generate_request_t request_of(uint64_t seed)
{
    static const uint32_t ahead[] = {0, 1, 2, 4};
    or_generate_request_t request = sim_request(PROMPT, TOKENS);
    request.sampling.temperature = seed % 3 == 0 ? 0.0F : 1.0F;
    request.seed = seed;
    request.ignore_end = true;
    request.draft_ahead = ahead[seed % 4];
    request.draft_policy = seed % 4 == 3 ? OR_POLICY_AUTO : OR_POLICY_FIXED;
    return request;
}

// Put client and drafter at the end of the line, and the verifier beside the coordinator.
static sim_config_t config_of(uint64_t seed, const or_network_line_t *line,
                              const or_network_line_t *site)
{
    return (sim_config_t){
        .seed = seed,
        .lines = {[SIM_CLIENT] = line, [SIM_DRAFTER] = line, [SIM_VERIFIER] = site},
        .target = &target,
        .draft = &draft,
        .target_step_us = STEP_MS * 1000,
        .draft_step_us = 2000};
}

// ---- bad lines ----

// Each frame has 66 bytes around it: Ethernet, IP, TCP with time stamps.
static const struct {
    const char *name;
    or_network_line_t line;
} bad_lines[] = {
    {"a good line", {.one_way_ns = RTT_MS * MS / 2}},
    {"1 % loss", {.one_way_ns = RTT_MS * MS / 2, .lose = 0.01, .repair_ns = 250 * MS}},
    {"5 % loss", {.one_way_ns = RTT_MS * MS / 2, .lose = 0.05, .repair_ns = 250 * MS}},
    {"30 % jitter", {.one_way_ns = RTT_MS * MS / 2, .jitter = 0.3}},
    {"64 kbit/s", {.one_way_ns = RTT_MS * MS / 2, .bytes_per_s = 8000, .frame_overhead = 66}},
};

static void every_text_survives_a_bad_line(void **state)
{
    (void)state;
    static sim_result_t result;
    for (uint32_t i = 0; i < sizeof bad_lines / sizeof *bad_lines; i++) {
        const or_network_line_t *line = &bad_lines[i].line;
        print_message("%s, tokens/s:", bad_lines[i].name);
        for (uint64_t seed = 0; seed < 4; seed++) {
            or_generate_request_t request = request_of(seed);
            const sim_config_t config = config_of(seed, line, line);
            sim_t *sim = sim_create(&config);
            sim_generate(sim, &request, LIMIT_S, NULL, NULL, &result);
            sim_destroy(sim);
            assert_plain_text(&target, &request, &result);
            double seconds = (double)(result.last_ns - result.first_ns) / (double)OR_NS_PER_S;
            print_message(" %.2f", (result.count - result.first_count) / seconds);
            assert_true(seconds < 60);
        }
        print_message("\n");
    }
}

// ---- lines that are cut, or stand still ----

static const char *const role_names[SIM_ROLES] = {
    [SIM_VERIFIER] = "verifier", [SIM_DRAFTER] = "drafter", [SIM_CLIENT] = "client"};

// Cut one line after the other, as long as there is text. Times are of the virtual clock.
typedef struct {
    uint64_t random;
    uint32_t left; // cuts
    bool stalls;   // rather than cuts
    bool down;
    sim_role_t role;
    int64_t next_ns;
    // The time of a mend whose first new token has not come.
    int64_t mended_ns; // 0: none
    uint32_t had;      // tokens then
    // The longest recovery, and the sum of all.
    int64_t worst_ns[SIM_ROLES], sum_ns[SIM_ROLES];
    uint32_t recoveries[SIM_ROLES];
} mischief_t;

static void strike(sim_t *sim, mischief_t *m)
{
    static const sim_role_t roles[] = {SIM_CLIENT, SIM_DRAFTER, SIM_VERIFIER};
    int64_t now = sim_now_ns(sim);
    // Lengths are equally many of each order of magnitude: 0.1 to 60 s.
    static const uint32_t scales_ms[] = {100, 1000, 10000};
    uint32_t scale = scales_ms[test_below(&m->random, 3)];
    int64_t lasts_ms = scale + (int64_t)test_below(&m->random, scale == 10000 ? 50000 : 9 * scale);
    m->role = roles[test_below(&m->random, 3)];
    m->left--;
    m->down = true;
    m->next_ns = now + lasts_ms * MS;
    if (m->stalls) {
        sim_stall(sim, m->role, m->next_ns);
    } else {
        sim_cut(sim, m->role);
    }
}

static void recover(sim_t *sim, mischief_t *m, const sim_result_t *so_far)
{
    int64_t now = sim_now_ns(sim);
    m->down = false;
    m->mended_ns = now;
    m->had = so_far->count;
    m->next_ns = now + (200 + (int64_t)test_below(&m->random, 1500)) * MS;
    if (!m->stalls) {
        sim_mend(sim, m->role);
    }
}

static void make_mischief(sim_t *sim, void *context, const sim_result_t *so_far)
{
    mischief_t *m = context;
    int64_t now = sim_now_ns(sim);
    if (m->mended_ns > 0 && so_far->count > m->had) {
        int64_t took_ns = now - m->mended_ns;
        m->recoveries[m->role]++;
        m->sum_ns[m->role] += took_ns;
        m->worst_ns[m->role] = took_ns > m->worst_ns[m->role] ? took_ns : m->worst_ns[m->role];
        m->mended_ns = 0;
    }
    if (now < m->next_ns || so_far->finish != OR_FINISH_NONE) {
        return;
    }
    if (m->down) {
        recover(sim, m, so_far);
    } else if (m->left > 0 && m->mended_ns == 0 && so_far->count > 0) {
        strike(sim, m); // a text that has begun: before, a client may give up
    }
}

static void write_texts_through(mischief_t *m, uint64_t base)
{
    const or_network_line_t line = {.one_way_ns = RTT_MS * MS / 2}, site = {.one_way_ns = MS / 20};
    static sim_result_t result;
    for (uint64_t seed = base; m->left > 0; seed++) {
        or_generate_request_t request = request_of(seed);
        const sim_config_t config = config_of(seed, &line, &site);
        sim_t *sim = sim_create(&config);
        m->down = false;
        m->mended_ns = 0;
        m->next_ns = sim_now_ns(sim) + (int64_t)test_below(&m->random, 1000) * MS;
        sim_generate(sim, &request, LIMIT_S, make_mischief, m, &result);
        sim_destroy(sim);
        assert_plain_text(&target, &request, &result);
    }
    for (int role = 0; role < SIM_ROLES; role++) {
        if (m->recoveries[role] > 0) {
            print_message("%s's line: %u times, next token after %.0f ms, at worst %.0f ms\n",
                          role_names[role], m->recoveries[role],
                          (double)m->sum_ns[role] / m->recoveries[role] / 1e6,
                          (double)m->worst_ns[role] / 1e6);
        }
    }
}

// A recovery takes two round trips, a pass for the prefix that is replayed, and the round that brings the
// token: its trip to the drafter, its tree and its pass.
#define RECOVERY_MS (2 * RTT_MS + STEP_MS + (RTT_MS + 40 + STEP_MS))

static void cuts_cost_time_and_no_text(void **state)
{
    (void)state;
    mischief_t mischief = {.random = test_seed(), .left = test_runs(CUTS)};
    write_texts_through(&mischief, mischief.random % 1000);
    for (int role = 0; role < SIM_ROLES; role++) {
        assert_in_range(mischief.worst_ns[role], 0, RECOVERY_MS * MS);
    }
}

static void stalls_cost_time_and_no_text(void **state)
{
    (void)state;
    mischief_t mischief = {.random = test_seed(), .left = test_runs(STALLS), .stalls = true};
    write_texts_through(&mischief, mischief.random % 1000);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_survives_a_bad_line),
        cmocka_unit_test(cuts_cost_time_and_no_text),
        cmocka_unit_test(stalls_cost_time_and_no_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
