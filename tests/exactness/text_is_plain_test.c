// Goal: the exactness promise. The text with drafters and trees is the text without them, token
// for token, at temperature 0 and above.
// Method: run all roles in one process on a quiet network in memory. Compare every text with a
// plain decoding (plain.h) that knows neither trees nor messages. At temperature 0 compare it
// also with reference.json, which an independent implementation computed.
#include "tests/simulation/cluster.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/decode/methods.h"
#include "common/text/tokenizer.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define TOKENS 64
#define PROMPTS 6
#define SHARE 5u // the gate takes one in so many of the seeds
#define GAP 0.01 // below it, another order of sums may choose differently

static sim_model_t target, draft, target_two_threads, target_again;

typedef struct {
    char text[512];
    int32_t ids[64];
    uint32_t id_count;
    int32_t greedy[TOKENS];
    uint32_t certain; // greedy tokens before the first gap under GAP
} prompt_t;

static prompt_t prompts[PROMPTS];

static void read_prompt(const json_t *entry, prompt_t *prompt)
{
    const json_t *ids = json_object_get(entry, "ids");
    const json_t *greedy = json_object_get(entry, "greedy");
    const json_t *gaps = json_object_get(entry, "gaps");
    strncpy(prompt->text, json_string_value(json_object_get(entry, "text")),
            sizeof prompt->text - 1);
    prompt->id_count = (uint32_t)json_array_size(ids);
    for (uint32_t i = 0; i < prompt->id_count; i++) {
        prompt->ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    }
    for (uint32_t i = 0; i < TOKENS; i++) {
        prompt->greedy[i] = (int32_t)json_integer_value(json_array_get(greedy, i));
        if (prompt->certain == i && json_number_value(json_array_get(gaps, i)) >= GAP) {
            prompt->certain++;
        }
    }
}

static void load_prompts(void)
{
    json_error_t error;
    json_t *root = json_load_file("tests/oracles/data/reference.json", 0, &error);
    assert_non_null(root);
    json_t *list = json_object_get(json_object_get(json_object_get(root, "models"), "tales-6m-f16"),
                                   "prompts");
    assert_int_equal(json_array_size(list), PROMPTS);
    memset(prompts, 0, sizeof prompts);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        read_prompt(json_array_get(list, i), &prompts[i]);
    }
    json_decref(root);
}

static int setup(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64,
                   &target_again); // a drafter that is the target itself
    sim_model_load(test_model("tales-6m-f16.gguf"), 2, 64, &target_two_threads);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &draft);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&draft);
    sim_model_free(&target_two_threads);
    sim_model_free(&target_again);
    sim_model_free(&target);
    return 0;
}

static sim_result_t generate(const sim_model_t *with_target, const sim_model_t *with_draft,
                             const or_generate_request_t *request)
{
    const sim_config_t config = {.seed = 1, .target = with_target, .draft = with_draft};
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, request, 60, NULL, NULL, &result);
    sim_destroy(sim);
    if (result.finish == OR_FINISH_NONE || result.finish == OR_FINISH_ERROR) {
        fail_msg("no text: %s", result.error);
    }
    return result;
}

static or_generate_request_t request_for(const prompt_t *prompt)
{
    or_generate_request_t request = sim_request(prompt->text, TOKENS);
    request.ignore_end = true; // the reference never stops
    return request;
}

static void assert_greedy(const prompt_t *prompt, const or_generate_request_t *request,
                          const sim_result_t *result)
{
    assert_int_equal(result->count, TOKENS);
    for (uint32_t i = 0; i < prompt->certain; i++) {
        if (result->tokens[i] != prompt->greedy[i]) {
            fail_msg("'%s', %u nodes, depth %u: token %u is %d, the reference has %d", prompt->text,
                     request->draft_nodes, request->draft_depth, i, result->tokens[i],
                     prompt->greedy[i]);
        }
    }
}

static void temperature_0_is_the_reference_with_any_tree(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {1, 4, 16, 64, 768};
    load_prompts();
    for (uint32_t p = 0; p < PROMPTS; p++) {
        or_generate_request_t request = request_for(&prompts[p]);
        request.plain = true;
        sim_result_t plain = generate(&target, NULL, &request);
        assert_greedy(&prompts[p], &request, &plain);
        assert_int_equal(plain.stats.target_calls, TOKENS);
        request.plain = false;
        for (uint32_t n = 0; n < sizeof nodes / sizeof *nodes; n++) {
            if (nodes[n] == 768 && p > 0) {
                continue; // large trees are slow: once is enough
            }
            request.draft_nodes = nodes[n];
            sim_result_t result = generate(&target, &draft, &request);
            assert_greedy(&prompts[p], &request, &result);
            assert_memory_equal(result.tokens, plain.tokens, sizeof(int32_t) * TOKENS);
        }
    }
}

static void temperature_0_is_the_same_at_any_depth_method_rule_and_thread_count(void **state)
{
    (void)state;
    load_prompts();
    or_generate_request_t request = request_for(&prompts[1]);
    request.plain = true;
    sim_result_t plain = generate(&target, NULL, &request);
    request.plain = false;
    for (uint32_t depth = 2; depth <= 16; depth++) {
        request.draft_depth = depth;
        request.draft_method = depth % 2 == 0 ? OR_DRAFT_COUPLED : OR_DRAFT_CHAIN;
        request.accept_rule = depth % 3 == 0 ? OR_ACCEPT_GREEDY : OR_ACCEPT_COUPLED;
        const sim_model_t *with = depth % 4 == 0 ? &target_two_threads : &target;
        sim_result_t result = generate(with, &draft, &request);
        assert_memory_equal(result.tokens, plain.tokens, sizeof(int32_t) * TOKENS);
    }
}

static void assert_same_as_plain(const prompt_t *prompt, const or_generate_request_t *request,
                                 const sim_model_t *with, const int32_t *expected, uint32_t count)
{
    sim_result_t result = generate(&target, with, request);
    if (result.count != count || memcmp(result.tokens, expected, count * sizeof *expected) != 0) {
        fail_msg("'%s' seed %llu, %s drafter, method %s, %u nodes, %u ahead, policy %s: the text "
                 "differs from plain decoding",
                 prompt->text, (unsigned long long)request->seed, with == &draft ? "small" : "self",
                 or_draft_method_name(request->draft_method), request->draft_nodes,
                 request->draft_ahead, or_draft_policy_name(request->draft_policy));
    }
    if (with == &target_again && count > 2) {
        // The drafter knows the target's noise and its logits, so its first guess is
        // right.
        assert_true(result.stats.target_calls < count);
    }
}

// Check that the text is plain decoding's with either drafter and a tree of `nodes`.
static void check_seed(const or_sampling_t *sampling, uint64_t seed, uint32_t nodes,
                       uint32_t method)
{
    const prompt_t *prompt = &prompts[seed % PROMPTS];
    int32_t expected[TOKENS];
    or_generate_request_t request = sim_request(prompt->text, TOKENS);
    request.sampling = *sampling;
    request.seed = seed;
    request.draft_nodes = nodes;
    request.draft_method = method;
    uint32_t count = plain_decode(target.model, target.vocab, prompt->ids, prompt->id_count,
                                  sampling, seed, TOKENS, expected);
    assert_same_as_plain(prompt, &request, &draft, expected, count);
    assert_same_as_plain(prompt, &request, &target_again, expected, count);
    request.plain = true;
    assert_same_as_plain(prompt, &request, NULL, expected, count);
}

static void temperature_1_is_the_same_text_for_many_seeds(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {16, 4, 64, 1};
    load_prompts();
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 1;
    for (uint64_t seed = 0; seed < test_runs(100 / test_share(SHARE)); seed++) {
        check_seed(&sampling, seed, nodes[seed % 4],
                   seed % 5 == 4 ? OR_DRAFT_CHAIN : OR_DRAFT_COUPLED);
    }
}

static void filters_and_penalties_are_the_same_text(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {16, 64, 4};
    load_prompts();
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 0.8F;
    sampling.top_p = 0.95F;
    sampling.repeat_penalty = 1.1F;
    for (uint64_t seed = 0; seed < test_runs(20 / test_share(SHARE)); seed++) {
        check_seed(&sampling, seed, nodes[seed % 3], OR_DRAFT_COUPLED);
    }
}

// Drafters work ahead under either policy: guesses come at any time, for texts that were or will be.
static void drafting_ahead_is_the_same_text(void **state)
{
    (void)state;
    static const uint32_t aheads[] = {1, 2, 4};
    static const uint32_t nodes[] = {16, 4, 64};
    load_prompts();
    or_sampling_t sampling = or_sampling_default();
    for (uint64_t seed = 0; seed < test_runs(12 / test_share(3)); seed++) {
        const prompt_t *prompt = &prompts[seed % PROMPTS];
        int32_t expected[TOKENS];
        sampling.temperature = seed % 3 == 0 ? 0.0F : 1.0F;
        uint32_t count = plain_decode(target.model, target.vocab, prompt->ids, prompt->id_count,
                                      &sampling, seed, TOKENS, expected);
        or_generate_request_t request = sim_request(prompt->text, TOKENS);
        request.sampling = sampling;
        request.seed = seed;
        request.draft_method = seed % 4 == 3 ? OR_DRAFT_TOPK : OR_DRAFT_COUPLED;
        request.accept_rule =
            seed % 12 == 3 ? OR_ACCEPT_GREEDY : OR_ACCEPT_COUPLED; // at temperature 0
        for (uint32_t i = 0; i < 6; i++) {
            request.draft_ahead = aheads[i % 3];
            request.draft_nodes = nodes[(seed + i) % 3];
            request.draft_policy = i < 3 ? OR_POLICY_FIXED : OR_POLICY_AUTO;
            assert_same_as_plain(prompt, &request, &draft, expected, count);
        }
    }
}

// Return the tokens per target call over the reference prompts, with `seeds` seeds each.
static double block_efficiency(float temperature, uint32_t nodes, uint64_t seeds)
{
    uint64_t tokens = 0;
    uint64_t calls = 0;
    for (uint32_t p = 0; p < PROMPTS; p++) {
        for (uint64_t seed = 0; seed < seeds; seed++) {
            or_generate_request_t request = request_for(&prompts[p]);
            request.sampling.temperature = temperature;
            request.seed = 100 * seed + p;
            request.draft_nodes = nodes;
            sim_result_t result = generate(&target, &draft, &request);
            tokens += result.count;
            calls += result.stats.target_calls;
        }
    }
    return (double)tokens / (double)calls;
}

static void a_target_call_yields_several_tokens(void **state)
{
    (void)state;
    load_prompts();
    double cold = block_efficiency(0, 16, 1);
    double warm = block_efficiency(1, 16, 4);
    print_message(
        "tokens per target call, 16 nodes: %.2f at temperature 0, %.2f at temperature 1\n", cold,
        warm);
    assert_true(cold >= 2.5);
    assert_true(warm >= 3.0);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_is_the_reference_with_any_tree),
        cmocka_unit_test(temperature_0_is_the_same_at_any_depth_method_rule_and_thread_count),
        cmocka_unit_test(temperature_1_is_the_same_text_for_many_seeds),
        cmocka_unit_test(filters_and_penalties_are_the_same_text),
        cmocka_unit_test(drafting_ahead_is_the_same_text),
        cmocka_unit_test(a_target_call_yields_several_tokens),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
