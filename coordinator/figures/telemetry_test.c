// Goal: the page says what happened, under vLLM's names and in base units; nothing is counted twice or lost.
// Method: small stories of texts and rounds, told to a telemetry; then single lines of its page.
#include "coordinator/figures/telemetry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

static or_telemetry_t *telemetry;
static const or_stats_t no_stats;

static int start(void **state)
{
    (void)state;
    return or_telemetry_create("tales \xFF", &telemetry) == OR_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    or_telemetry_destroy(&telemetry);
    return telemetry == NULL ? 0 : -1;
}

// The page, until the next one.
static const char *render(const or_stats_t *stats)
{
    static char page[256 << 10];
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(or_telemetry_render(telemetry, stats, &text, &length), OR_OK);
    assert_true(length < sizeof page);
    memcpy(page, text, length + 1);
    free(text);
    return page;
}

// The number of the series "name" or "name{label=...": NULL if the page has none.
static const char *find(const char *page, const char *name, const char *labels)
{
    static char line[256];
    snprintf(line, sizeof line, "\noutrider:%s{model_name=\"tales ?\"%s%s} ", name,
             labels[0] != '\0' ? "," : "", labels);
    const char *found = strstr(page, line);
    return found != NULL ? found + strlen(line) : NULL;
}

static void assert_series(const or_stats_t *stats, const char *name, const char *labels,
                          double expected)
{
    const char *number = find(render(stats), name, labels);
    if (number == NULL) {
        fail_msg("the page has no %s{%s}", name, labels);
    }
    double difference = strtod(number, NULL) - expected;
    if (difference > 1e-9 || difference < -1e-9) {
        fail_msg("%s{%s} is %.20s, not %g", name, labels, number, expected);
    }
}

static void a_text_is_counted_from_its_arrival_to_its_end(void **state)
{
    (void)state;
    or_telemetry_begun(telemetry, 0.4);
    or_telemetry_prompt(telemetry, 100, 32);
    or_telemetry_first_tokens(telemetry, 1, 0.05);
    or_telemetry_tokens(telemetry, 4, 0.02);
    or_telemetry_tokens(telemetry, 1, 0.3);
    or_telemetry_finished(telemetry, OR_FINISH_LENGTH, 6, 1.25);
    const or_stats_t *s = &no_stats;
    assert_series(s, "request_queue_time_seconds_bucket", "le=\"0.3\"", 0);
    assert_series(s, "request_queue_time_seconds_bucket", "le=\"0.5\"", 1);
    assert_series(s, "prompt_tokens_total", "", 100);
    assert_series(s, "prefix_cache_queries_total", "", 100);
    assert_series(s, "prefix_cache_hits_total", "", 32);
    assert_series(s, "request_prompt_tokens_sum", "", 100);
    assert_series(s, "generation_tokens_total", "", 6);
    assert_series(s, "request_generation_tokens_sum", "", 6);
    assert_series(s, "time_to_first_token_seconds_sum", "", 0.05);
    assert_series(s, "time_to_first_token_seconds_count", "", 1);
    assert_series(s, "inter_token_latency_seconds_count", "", 5); // each but the first
    assert_series(s, "inter_token_latency_seconds_sum", "", 0.32);
    assert_series(s, "inter_token_latency_seconds_bucket", "le=\"0.005\"", 4);
    assert_series(s, "e2e_request_latency_seconds_sum", "", 1.25);
    assert_series(s, "request_success_total", "finished_reason=\"length\"", 1);
    assert_series(s, "request_success_total", "finished_reason=\"stop\"", 0);
}

static void every_end_has_vllms_name(void **state)
{
    (void)state;
    static const struct {
        uint32_t finish;
        const char *label;
    } ends[] = {{OR_FINISH_STOP, "finished_reason=\"stop\""},
                {OR_FINISH_LENGTH, "finished_reason=\"length\""},
                {OR_FINISH_CANCELLED, "finished_reason=\"abort\""},
                {OR_FINISH_ERROR, "finished_reason=\"error\""}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        or_telemetry_finished(telemetry, ends[i].finish, 0, 0);
        assert_series(&no_stats, "request_success_total", ends[i].label, 1);
    }
}

static void rounds_are_counted_by_what_they_brought(void **state)
{
    (void)state;
    const or_telemetry_round_t plain = {.source = OR_SOURCE_PLAIN};
    const or_telemetry_round_t drafted = {.source = OR_SOURCE_DRAFTER,
                                          .nodes = 16,
                                          .depth = 4,
                                          .accepted = 2,
                                          .path_nodes = 12,
                                          .link_bytes = 700,
                                          .ahead = true,
                                          .hit = true};
    or_telemetry_round(telemetry, &plain);
    or_telemetry_round(telemetry, &drafted);
    or_telemetry_round(telemetry, &drafted);
    const or_stats_t *s = &no_stats;
    assert_series(s, "verifier_calls_total", "", 3);
    assert_series(s, "tokens_per_call_sum", "", 7);
    assert_series(s, "tokens_per_call_count", "", 3);
    assert_series(s, "spec_decode_num_drafts_total", "", 2);
    assert_series(s, "spec_decode_num_draft_tokens_total", "", 32);
    assert_series(s, "spec_decode_num_accepted_tokens_total", "", 4);
    assert_series(s, "spec_decode_num_accepted_tokens_per_pos_total", "position=\"0\"", 2);
    assert_series(s, "spec_decode_num_accepted_tokens_per_pos_total", "position=\"1\"", 2);
    assert_null(find(render(s), "spec_decode_num_accepted_tokens_per_pos_total", "position=\"2\""));
    assert_series(s, "drafts_at_depth_total", "position=\"3\"", 2);
    assert_null(find(render(s), "drafts_at_depth_total", "position=\"4\""));
    assert_series(s, "wasted_nodes_total", "", 28);
    assert_series(s, "unseen_nodes_total", "", 8);
    assert_series(s, "drafter_link_bytes_total", "", 1400);
    assert_series(s, "draft_ahead_rounds_total", "", 2);
    assert_series(s, "draft_ahead_hits_total", "", 2);
    assert_series(s, "rounds_total", "source=\"plain\"", 1);
    assert_series(s, "rounds_total", "source=\"lookup\"", 0);
    assert_series(s, "rounds_total", "source=\"drafter\"", 2);
}

static void assert_parts(double draft, double network, double verify, double accept, double other)
{
    const char *const names[] = {"draft", "network", "verify", "accept", "other"};
    const double expected[] = {draft, network, verify, accept, other};
    for (int i = 0; i < 5; i++) {
        char label[32];
        snprintf(label, sizeof label, "part=\"%s\"", names[i]);
        assert_series(&no_stats, "round_seconds_total", label, expected[i]);
    }
}

static void the_parts_of_a_round_are_its_whole_time(void **state)
{
    (void)state;
    or_telemetry_round_t round = {.source = OR_SOURCE_DRAFTER,
                                  .round_us = 100000,
                                  .draft_us = 20000,
                                  .link_us = 30000,
                                  .verify_us = 40000,
                                  .accept_us = 1000};
    or_telemetry_round(telemetry, &round);
    assert_parts(0.02, 0.03, 0.04, 0.001, 0.009);
    round.hidden_us = 35000; // 15 of 50 ms were waited for: drafting, as far as it goes
    or_telemetry_round(telemetry, &round);
    assert_parts(0.035, 0.03, 0.08, 0.002, 0.053);
    round.hidden_us = 80000; // more than there was
    or_telemetry_round(telemetry, &round);
    assert_parts(0.035, 0.03, 0.12, 0.003, 0.112);
    assert_series(&no_stats, "round_trip_seconds_total", "", 0.15);
    assert_series(&no_stats, "round_trip_hidden_seconds_total", "", 0.085);
    round = (or_telemetry_round_t){.round_us = 10000, .verify_us = 40000};
    or_telemetry_round(telemetry, &round); // what is longer than the round is cut
    assert_parts(0.035, 0.03, 0.13, 0.003, 0.112);
}

static void events_are_counted_by_kind_from_zero(void **state)
{
    (void)state;
    assert_series(&no_stats, "events_total", "kind=\"" OR_EVENT_FAILOVER "\"", 0);
    or_telemetry_event(telemetry, OR_EVENT_FAILOVER);
    assert_series(&no_stats, "events_total", "kind=\"" OR_EVENT_FAILOVER "\"", 1);
}

static void the_verifiers_figures_are_in_base_units(void **state)
{
    (void)state;
    const or_stats_t stats = {.model_us = 2500000,
                              .passes = 7,
                              .pages = 8,
                              .pages_free = 2,
                              .waiting = 3,
                              .refused = 4,
                              .drafters = 2,
                              .page_bytes = UINT64_C(5) << 32};
    assert_series(&stats, "verifier_model_seconds_total", "", 2.5);
    assert_series(&stats, "verifier_passes_total", "", 7);
    assert_series(&stats, "kv_cache_usage_perc", "", 0.75);
    assert_series(&stats, "num_requests_waiting", "", 3);
    assert_series(&stats, "refused_total", "", 4);
    assert_series(&stats, "drafters", "", 2);
    assert_series(&stats, "verifier_page_bytes", "", 5.0 * 4294967296.0);
    assert_series(&no_stats, "kv_cache_usage_perc", "", 0); // no verifier: nothing in use
}

static void policy_terms_are_means_of_what_is_known(void **state)
{
    (void)state;
    const or_policy_terms_t policies[] = {
        {.source = OR_SOURCE_DRAFTER, .nodes = 8, .draft_ms = 2, .row_us = 5},
        {.source = OR_SOURCE_DRAFTER, .nodes = 24, .draft_ms = 4},
        {.source = OR_SOURCE_PLAIN, .draft_ms = 6}};
    const or_stats_t stats = {.policies = policies, .policy_count = 3};
    assert_series(&stats, "num_requests_running", "", 3);
    assert_series(&stats, "sessions", "source=\"drafter\"", 2);
    assert_series(&stats, "sessions", "source=\"lookup\"", 0);
    assert_series(&stats, "sessions", "source=\"plain\"", 1);
    assert_series(&stats, "policy_nodes", "", 16);
    assert_series(&stats, "policy_draft_seconds", "", 0.004);
    assert_series(&stats, "policy_row_seconds", "", 5e-6);
    assert_null(find(render(&stats), "policy_hit_rate", ""));
    assert_null(find(render(&no_stats), "policy_nodes", ""));
    assert_series(&no_stats, "sessions", "source=\"drafter\"", 0);
}

static void peers_come_and_go(void **state)
{
    (void)state;
    or_peer_figures_t peers[] = {
        {.number = 4,
         .role = OR_ROLE_DRAFTER,
         .model = "small\"\n\xC3.gguf",
         .round_trip_ms = 20,
         .nodes = 100,
         .accepted = 30,
         .model_us = 1500},
        {.number = 9, .role = OR_ROLE_VERIFIER, .model = "large", .pages = 5}};
    or_stats_t stats = {.peers = peers, .peer_count = 2};
    const char *drafter = "peer=\"4 drafter small\\\"??.gguf\"";
    assert_series(&stats, "peer_nodes_total", drafter, 100);
    assert_series(&stats, "peer_accepted_total", drafter, 30);
    assert_series(&stats, "peer_model_seconds_total", drafter, 0.0015);
    assert_series(&stats, "peer_round_trip_seconds", drafter, 0.02);
    assert_series(&stats, "peer_pages", "peer=\"9 verifier large\"", 5);
    assert_null(find(render(&stats), "peer_nodes_total", "peer=\"9 verifier large\""));
    stats.peers++;
    stats.peer_count = 1;
    assert_null(find(render(&stats), "peer_model_seconds_total", drafter));
    assert_series(&stats, "peer_pages", "peer=\"9 verifier large\"", 5);
}

// One series at a time, whatever the reason's figures are.
static void the_choice_is_shown_without_its_reason(void **state)
{
    (void)state;
    or_stats_t stats = {.choice = "guesses: 12 tokens/s with 1 texts at a time, plain decoding 5"};
    assert_series(&stats, "draft_choice_info", "choice=\"guesses\"", 1);
    stats.choice = "plain decoding: 13 tokens/s with 1 texts at a time, guesses 6";
    assert_series(&stats, "draft_choice_info", "choice=\"plain decoding\"", 1);
    assert_null(find(render(&stats), "draft_choice_info", "choice=\"guesses\""));
    assert_null(strstr(render(&no_stats), "draft_choice_info{"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
        TEST(a_text_is_counted_from_its_arrival_to_its_end),
        TEST(every_end_has_vllms_name),
        TEST(rounds_are_counted_by_what_they_brought),
        TEST(the_parts_of_a_round_are_its_whole_time),
        TEST(events_are_counted_by_kind_from_zero),
        TEST(the_verifiers_figures_are_in_base_units),
        TEST(policy_terms_are_means_of_what_is_known),
        TEST(peers_come_and_go),
        TEST(the_choice_is_shown_without_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
