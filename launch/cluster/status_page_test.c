// Goal: the page of `outrider status` says what it said in every release: people read it, and so do their scripts.
// Method: pages of made-up figures against the text to the letter.
#include "launch/cluster/status_page.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "tests/support/test_support.h"

static void assert_page(const or_stats_t *stats, int64_t now_ns, or_status_before_t *before,
                        const char *expected)
{
    char *page = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&page, &length);
    assert_non_null(out);
    or_status_page(out, "tcp://hub:5577", stats, now_ns, before);
    fclose(out);
    assert_string_equal(page, expected);
    free(page);
}

static const or_stats_t busy = {
    .rounds = 1001,
    .nodes = 20020,
    .accepted = 3003,
    .passes = 905,
    .batched = 1810,
    .prefill_rows = 8008,
    .reused_rows = 909,
    .evictions = 10,
    .sessions = 12,
    .pages = 130,
    .pages_free = 14,
    .pages_shared = 15,
    .page_positions = 16,
    .page_bytes = 170000,
    .ranks = 2,
    .stages = 1,
    .experts_needed = 1200,
    .experts_found = 900,
    .experts_read = 301,
    .resyncs = 20,
    .waiting = 21,
    .drafters = 22,
    .verifiers = 1,
    .busy = 24,
    .cut_off = 25,
    .cancelled = 26,
    .model = "large.gguf",
    .choice = "guesses: 90 tokens/s with 1 texts at a time, plain decoding 50",
    .started = 28,
    .parked = 29,
    .resumed = 30,
    .failovers = 31,
    .refused = 5000000000};

static void every_figure_is_in_its_place(void **state)
{
    (void)state;
    const or_policy_terms_t sessions[] = {{.session = 0xabcdef,
                                           .automatic = true,
                                           .source = OR_SOURCE_DRAFTER,
                                           .nodes = 8,
                                           .depth = 4,
                                           .ahead = 2,
                                           .round_trip_ms = 1.5f,
                                           .draft_ms = 2.25f,
                                           .plain_ms = 3.125f,
                                           .verify_ms = 4.75f,
                                           .acceptance = .8125f,
                                           .block_efficiency = 2.9375f,
                                           .hit_rate = .4375f,
                                           .plain_rate = 100.5f,
                                           .draft_rate = 200.25f},
                                          {.session = 2}};
    const or_peer_figures_t peers[] = {{.number = 1,
                                        .role = OR_ROLE_VERIFIER,
                                        .model = "large.gguf",
                                        .owner = "",
                                        .state = "serving",
                                        .sessions = 2},
                                       {.number = 2,
                                        .role = OR_ROLE_DRAFTER,
                                        .model = "small.gguf",
                                        .owner = "alice",
                                        .state = "late",
                                        .sessions = 3,
                                        .round_trip_ms = 12.5f,
                                        .nodes = 70,
                                        .accepted = 17}};
    or_stats_t stats = busy;
    stats.policies = sessions;
    stats.policy_count = 2;
    stats.peers = peers;
    stats.peer_count = 2;
    or_status_before_t before = {
        .rounds = 801, .accepted = 2803, .passes = 805, .at_ns = OR_NS_PER_S};
    assert_page(
        &stats, 3 * OR_NS_PER_S, &before,
        "service    tcp://hub:5577\n"
        "target     large.gguf, on 2 ranks x 1 stage\n"
        "sessions   12 at the verifier, 21 waiting; 28 requests taken so far\n"
        "drafters   22\n"
        "choice     guesses: 90 tokens/s with 1 texts at a time, plain decoding 50\n"
        "now        200.0 tokens/s, 2.00 a target call, 50.0 forward passes/s\n"
        "batch      2.00 sessions a forward pass, over 905 passes\n"
        "guesses    3003 of 20020 accepted, in 1001 rounds\n"
        "cache      130 pages of 16 positions: 116 used (those of finished texts are kept for "
        "reuse until needed), 14 free, 15 shared; 22.1 MB a rank\n"
        "prefixes   8008 positions computed, 909 taken from others; 10 evictions\n"
        "experts    900 of 1200 found in memory, 301 read from disk\n"
        "turned     24 requests told to come back, 26 cancelled; 25 drafters cut off; 20 replays\n"
        "trouble    29 requests parked, 30 resumed; 31 drafters took over from another; "
        "5000000000 refused for a key or a token\n"
        "\n"
        "peer role      model                        owner        state                    "
        "sessions  link ms     taken\n"
        "1    verifier  large.gguf                   -            serving                  "
        "       2      0.0         -\n"
        "2    drafter   small.gguf                   alice        late                     "
        "       3     12.5    24.3 %\n"
        "\n"
        "session          policy source   nodes depth ahead  link ms draft ms plain ms  tree ms "
        "1st ok tokens   hit  plain/s  draft/s\n"
        "abcdef           auto   drafter      8     4     2      1.5      2.2      3.1      4.8 "
        "  0.81   2.94  0.44    100.5    200.2\n"
        "2                fixed  plain        0     0     0      0.0      0.0      0.0      0.0 "
        "  0.00   0.00  0.00      0.0      0.0\n");
    assert_int_equal(before.rounds, stats.rounds);
}

static void without_a_verifier_little_is_said(void **state)
{
    (void)state;
    const or_stats_t stats = {.model = "large.gguf"};
    or_status_before_t before = {0};
    assert_page(&stats, 5, &before,
                "service    tcp://hub:5577\n"
                "target     large.gguf; not ready: no verifier is connected\n"
                "sessions   0 at the verifier, 0 waiting; 0 requests taken so far\n"
                "drafters   0\n"
                "turned     0 requests told to come back, 0 cancelled; 0 drafters cut off; 0 "
                "replays\n"
                "trouble    0 requests parked, 0 resumed; 0 drafters took over from another; 0 "
                "refused for a key or a token\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_is_in_its_place),
        cmocka_unit_test(without_a_verifier_little_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
