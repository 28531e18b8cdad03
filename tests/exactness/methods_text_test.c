// Goal: the exactness promise holds for every method and every weight type. At temperature 0 the text is
// plain decoding's with every legal pair of method and rule. Coupled text is the same at any temperature.
// Under the ratio rules the text of all processes together has the target's distribution.
// Method: run all roles in one process on a quiet network in memory. Compare texts with plain.h token for
// token. Compare distributions by a chi-square test over the first three tokens of many seeds. The
// drafter differs from the target in its temperature, or there are two that differ in their models.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/text/tokenizer.h"
#include "tests/exactness/text_distribution.h"
#include "tests/simulation/plain.h"
#include "tests/support/requantize.h"
#include "tests/support/test_support.h"

#define TOKENS 40
#define FLAT 3.0F // draft temperatures; the target's is 1
#define SHARP 0.2F

static const char prompt_text[] = "Once upon a time";

static const struct {
    or_tensor_type_t type;
    const char *name;
} types[] = {{OR_TENSOR_F32, "F32"},    {OR_TENSOR_F16, "F16"},   {OR_TENSOR_BF16, "BF16"},
             {OR_TENSOR_Q8_0, "Q8_0"},  {OR_TENSOR_Q4_0, "Q4_0"}, {OR_TENSOR_Q4_1, "Q4_1"},
             {OR_TENSOR_Q5_0, "Q5_0"},  {OR_TENSOR_Q5_1, "Q5_1"}, {OR_TENSOR_IQ4_NL, "IQ4_NL"},
             {OR_TENSOR_Q2_K, "Q2_K"},  {OR_TENSOR_Q3_K, "Q3_K"}, {OR_TENSOR_Q4_K, "Q4_K"},
             {OR_TENSOR_Q5_K, "Q5_K"},  {OR_TENSOR_Q6_K, "Q6_K"}, {OR_TENSOR_IQ4_XS, "IQ4_XS"},
             {OR_TENSOR_MXFP4, "MXFP4"}};
#define TYPES (sizeof types / sizeof *types)
#define TYPES_WITH_ALL_PAIRS 5u
#define OTHERS_SHARE 3u // each of the other types meets one in so many of the pairs
#define SHARE 5u        // the gate takes one in so many of all that, and of the seeds

static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN,  OR_DRAFT_KSEQ,
                                            OR_DRAFT_MULTI,   OR_DRAFT_MCSD,   OR_DRAFT_RSD_C,
                                            OR_DRAFT_RSD_S,   OR_DRAFT_DYSPEC, OR_DRAFT_DYSPEC_T,
                                            OR_DRAFT_SEQUOIA, OR_DRAFT_TOPK,   OR_DRAFT_NGRAM};
static const or_accept_rule_t rules[] = {
    OR_ACCEPT_COUPLED,   OR_ACCEPT_GREEDY, OR_ACCEPT_NAIVE, OR_ACCEPT_SPS,   OR_ACCEPT_MULTI_ROUND,
    OR_ACCEPT_RECURSIVE, OR_ACCEPT_KSEQ,   OR_ACCEPT_OTM,   OR_ACCEPT_BLOCK, OR_ACCEPT_TRAVERSAL};

static sim_model_t targets[TYPES];
static sim_model_t small;       // the drafter
static sim_model_t small_again; // its target, in the distribution test
static int32_t prompt[64];
static uint32_t prompt_count;

static void load_as(or_tensor_type_t type, sim_model_t *model)
{
    char *path = test_requantize(test_model("tales-6m-f16.gguf"), type);
    sim_model_load(path, 1, 64, model);
    free(path);
}

static int setup(void **state)
{
    (void)state;
    int32_t *ids;
    size_t count;
    for (size_t i = 0; i < TYPES; i++) {
        load_as(types[i].type, &targets[i]);
    }
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 256, &small);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 256, &small_again);
    assert_int_equal(
        or_tokenize(small.vocab, prompt_text, strlen(prompt_text), OR_TOKENIZE_BOS, &ids, &count),
        OR_OK);
    memcpy(prompt, ids, count * sizeof *ids);
    prompt_count = (uint32_t)count;
    free(ids);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&small_again);
    sim_model_free(&small);
    for (size_t i = 0; i < TYPES; i++) {
        sim_model_free(&targets[i]);
    }
    return 0;
}

static void assert_text(const sim_model_t *target, const char *name,
                        const or_generate_request_t *request, const int32_t *expected,
                        uint32_t count)
{
    const sim_config_t config = {
        .seed = 1, .target = target, .draft = request->plain ? NULL : &small};
    sim_result_t result;
    sim_t *sim = sim_create(&config);
    sim_generate(sim, request, 60, NULL, NULL, &result);
    sim_destroy(sim);
    if (result.count != count || memcmp(result.tokens, expected, count * sizeof *expected) != 0) {
        fail_msg("%s, method %s, rule %s, seed %llu: the text differs from plain decoding (%s)",
                 name, or_draft_method_name(request->draft_method),
                 or_accept_rule_name(request->accept_rule), (unsigned long long)request->seed,
                 result.error);
    }
    if (!request->plain) {
        assert_int_equal(result.stats.plain_rounds, 0); // the trees were judged, none was refused
    }
}

static void temperature_0_is_plain_decoding_for_every_pair_and_weight_type(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        int32_t expected[TOKENS];
        or_generate_request_t request = sim_request(prompt_text, TOKENS);
        uint32_t count = plain_decode(targets[t].model, targets[t].vocab, prompt, prompt_count,
                                      &request.sampling, 0, TOKENS, expected);
        size_t share =
            t < TYPES_WITH_ALL_PAIRS ? test_share(SHARE) : OTHERS_SHARE * test_share(SHARE);
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
                request.draft_method = methods[m];
                request.accept_rule = rules[r];
                request.seed = t + 10 * m + 100 * r;
                bool met = (m + r + t) % share == 0;
                if (met && or_methods_check(methods[m], rules[r], 0) == OR_OK) {
                    assert_text(&targets[t], types[t].name, &request, expected, count);
                }
            }
        }
    }
}

static void coupled_text_is_plain_decodings_for_every_weight_type(void **state)
{
    (void)state;
    const uint32_t share = test_share(SHARE), runs = test_runs(8);
    for (size_t t = 0; t < TYPES; t++) {
        uint64_t first = t % share < runs ? t % share : 0; // each type has one
        assert_true(first < runs);
        for (uint64_t seed = first; seed < runs; seed += share) {
            int32_t expected[TOKENS];
            or_generate_request_t request = sim_request(prompt_text, TOKENS);
            request.sampling.temperature = 1;
            request.seed = seed;
            request.draft_method = methods[seed % (sizeof methods / sizeof *methods)];
            uint32_t count = plain_decode(targets[t].model, targets[t].vocab, prompt, prompt_count,
                                          &request.sampling, seed, TOKENS, expected);
            assert_text(&targets[t], types[t].name, &request, expected, count);
        }
    }
}

// naive is coupled under a private key, so its text is its own plain decoding's.
static void naive_text_does_not_depend_on_the_tree(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        const sim_config_t config = {.seed = 1, .target = &targets[1]};
        sim_result_t plain;
        or_generate_request_t request = sim_request(prompt_text, TOKENS);
        request.sampling.temperature = 1;
        request.seed = seed;
        request.accept_rule = OR_ACCEPT_NAIVE;
        request.draft_method = OR_DRAFT_RSD_S;
        request.plain = true;
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, 60, NULL, NULL, &plain);
        sim_destroy(sim);
        request.plain = false;
        assert_text(&targets[1], "F16", &request, plain.tokens, plain.count);
    }
}

typedef struct {
    or_draft_method_t method;
    or_accept_rule_t rule;
    float draft_temperature;
    uint32_t levels;
    uint32_t shape[2];
} distribution_case_t;

// `second` is another drafter's model; NULL: there is none.
static void check_dist(const distribution_case_t *of, const sim_model_t *second, uint32_t seeds)
{
    const text_distribution_t dist = text_dist_of(&small, prompt_text);
    const sim_config_t config = {
        .seed = 1, .target = &small_again, .draft = &small, .second = second};
    char what[64];
    or_generate_request_t drafting = sim_request(prompt_text, TOKENS);
    drafting.has_draft_temperature = true;
    drafting.draft_temperature = of->draft_temperature;
    drafting.draft_method = of->method;
    drafting.accept_rule = of->rule;
    drafting.draft_shape = of->shape;
    drafting.draft_shape_count = of->levels;
    drafting.draft_nodes = drafting.draft_depth = 2;
    snprintf(what, sizeof what, "%s, %s", or_draft_method_name(of->method),
             or_accept_rule_name(of->rule));
    text_dist_check(&dist, &config, &drafting, prompt_text, seeds, what);
}

// A draft flatter than the target mostly leaves one token in the residual; a sharper one leaves
// several.
static void all_processes_together_write_the_targets_distribution(void **state)
{
    (void)state;
    static const distribution_case_t cases[] = {
        {OR_DRAFT_CHAIN, OR_ACCEPT_SPS, FLAT, 0, {0}},
        {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, FLAT, 2, {2, 2}},
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, FLAT, 2, {2, 2}},
        {OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, FLAT, 2, {2, 2}},
        {OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE, FLAT, 2, {2, 2}},
        {OR_DRAFT_RSD_C, OR_ACCEPT_COUPLED, FLAT, 2, {2, 2}},
        {OR_DRAFT_CHAIN, OR_ACCEPT_SPS, SHARP, 0, {0}},
        {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, SHARP, 1, {2}},
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, SHARP, 1, {2}},
    };
    uint32_t seeds = test_runs(2000 / test_share(SHARE));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_dist(&cases[i], NULL, seeds);
    }
}

// The second drafter has another model than the first, or the same one. The same model must not
// make them draw alike.
static void two_drafters_together_write_the_targets_distribution(void **state)
{
    (void)state;
    static const struct {
        distribution_case_t of;
        const sim_model_t *second;
    } cases[] = {
        {{OR_DRAFT_MULTI, OR_ACCEPT_MULTI_ROUND, FLAT, 2, {3, 2}}, &targets[1]},
        {{OR_DRAFT_MULTI, OR_ACCEPT_MULTI_ROUND, SHARP, 2, {2, 2}}, &targets[1]},
        {{OR_DRAFT_MULTI, OR_ACCEPT_MULTI_ROUND, FLAT, 2, {2, 2}}, &small},
        {{OR_DRAFT_MULTI, OR_ACCEPT_NAIVE, FLAT, 2, {2, 2}}, &targets[1]},
    };
    uint32_t seeds = test_runs(1000 / test_share(SHARE));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_dist(&cases[i].of, cases[i].second, seeds);
    }
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_is_plain_decoding_for_every_pair_and_weight_type),
        cmocka_unit_test(coupled_text_is_plain_decodings_for_every_weight_type),
        cmocka_unit_test(naive_text_does_not_depend_on_the_tree),
        cmocka_unit_test(all_processes_together_write_the_targets_distribution),
        cmocka_unit_test(two_drafters_together_write_the_targets_distribution),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
