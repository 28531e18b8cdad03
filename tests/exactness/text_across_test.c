// Goal: the exactness promise holds across vocabularies. Whatever the drafter's vocabulary and however it
// meets the target's, the text is plain decoding's at temperature 0 and, coupled, for any seed. A drafter that
// differs only in its ids drafts exactly as well as one that does not. The text of tli, union and slrs under
// ratio rules has the target's distribution. All this also holds on a network that loses, repeats and delays,
// with a drafter that crashes.
// Method: run all roles in one process (cluster.h). The drafters are byte-level BPE of 1,024 tokens,
// SentencePiece of 512, and the small model with its ids permuted and padded (permute.h). Compare texts with
// plain.h token for token and byte for byte, figures number for number, and distributions by chi-square
// (text_distribution.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "tests/exactness/text_distribution.h"
#include "tests/simulation/plain.h"
#include "tests/support/permute.h"
#include "tests/support/test_support.h"

#define TOKENS 40
#define PADDING 61u
#define LIMIT_S 600
#define SHARE 5u  // the gate takes one in so many of the seeds
#define FLAT 3.0F // draft temperature of the distribution test; the target's is 1
#define DIST_PROMPT "One day, a big" // behind it the drafters guess tokens that the target lacks

static const char *const prompts[] = {"Once upon a time", "The little robot said, \"", "Tom and"};
#define PROMPTS (sizeof prompts / sizeof *prompts)

typedef struct {
    const char *name;
    sim_model_t model;
} drafter_t;

enum { BPE, STORIES, PERMUTED, PADDED, BOTH, DRAFTERS };
static drafter_t drafters[DRAFTERS] = {[BPE] = {.name = "tales-bpe-1m"},
                                       [STORIES] = {.name = "stories260K"},
                                       [PERMUTED] = {.name = "tales-1m, permuted"},
                                       [PADDED] = {.name = "tales-1m, padded"},
                                       [BOTH] = {.name = "tales-1m, permuted and padded"}};
static sim_model_t target, small; // small: the drafter with the target's own vocabulary

static const or_vocab_method_t vocab_methods[] = {OR_VOCAB_TLI, OR_VOCAB_UNION, OR_VOCAB_SLEM,
                                                  OR_VOCAB_AUTO};
#define VOCAB_METHODS (sizeof vocab_methods / sizeof *vocab_methods)

static void load_made(uint32_t which, char *path)
{
    sim_model_load(path, 1, 256, &drafters[which].model);
    free(path);
}

static int setup(void **state)
{
    const char *original = test_model("tales-1m-f16.gguf");
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(original, 1, 256, &small);
    sim_model_load(test_model("tales-bpe-1m-f16.gguf"), 1, 256, &drafters[BPE].model);
    load_made(PERMUTED, test_permute(original, 3, 0));
    load_made(PADDED, test_pad(original, PADDING));
    load_made(BOTH, test_permute(original, 4, PADDING));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < DRAFTERS; i++) {
        sim_model_free(&drafters[i].model);
    }
    sim_model_free(&small);
    sim_model_free(&target);
    return 0;
}

// The drafter from the data folder is loaded by the first test that needs it, which is skipped without.
static const sim_model_t *model_of(uint32_t which)
{
    if (which == STORIES && drafters[STORIES].model.model == NULL) {
        sim_model_load(test_data("models/stories260K-f32.gguf"), 1, 256, &drafters[STORIES].model);
    }
    return &drafters[which].model;
}

static or_generate_request_t request_of(uint64_t seed, float temperature)
{
    or_generate_request_t request = sim_request(prompts[seed % PROMPTS], TOKENS);
    request.sampling.temperature = temperature;
    request.seed = seed;
    return request;
}

static sim_result_t generate(const sim_config_t *config, const or_generate_request_t *request)
{
    sim_result_t result;
    sim_t *sim = sim_create(config);
    sim_generate(sim, request, LIMIT_S, NULL, NULL, &result);
    sim_destroy(sim);
    return result;
}

// Are the result's bytes those that its tokens print?
static bool is_their_text(const sim_result_t *result)
{
    char expected[sizeof result->text];
    size_t length = 0;
    for (uint32_t i = 0; i < result->count; i++) {
        uint32_t bytes;
        const char *text = or_vocab_bytes(target.vocab, result->tokens[i], &bytes);
        memcpy(expected + length, text, bytes);
        length += bytes;
    }
    return length == result->text_bytes && memcmp(expected, result->text, length) == 0;
}

static void assert_plain(const char *drafter, const or_generate_request_t *request,
                         const plain_text_t *plain, const sim_result_t *result)
{
    if (result->count != plain->count ||
        memcmp(result->tokens, plain->tokens, plain->count * sizeof *plain->tokens) != 0) {
        fail_msg("%s, %s, seed %llu, temperature %g: the text differs from plain decoding (%s)",
                 drafter, or_vocab_method_name(request->vocab_method),
                 (unsigned long long)request->seed, (double)request->sampling.temperature,
                 result->error);
    }
    assert_true(is_their_text(result));
}

// Check that a drafter's text is plain decoding's with every way to meet, and that some of its
// guesses are accepted.
static void check_drafter(uint32_t which, uint64_t seed, float temperature)
{
    const sim_config_t config = {.seed = 1, .target = &target, .draft = model_of(which)};
    or_generate_request_t request = request_of(seed, temperature);
    plain_text_t plain = plain_text_of(&target, &request);
    for (size_t i = 0; i < VOCAB_METHODS; i++) {
        request.vocab_method = vocab_methods[i];
        request.draft_method = seed % 4 == 3 ? OR_DRAFT_CHAIN : OR_DRAFT_COUPLED;
        sim_result_t result = generate(&config, &request);
        assert_plain(drafters[which].name, &request, &plain, &result);
        assert_true(plain.count < TOKENS || result.stats.accepted > 0);
        assert_int_equal(result.stats.plain_rounds, 0); // no tree was refused
    }
}

static void temperature_0_is_plain_decoding(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < DRAFTERS; which++) {
        for (uint64_t seed = 0; seed < PROMPTS; seed++) {
            check_drafter(which, seed, 0);
        }
    }
}

static void coupled_text_is_plain_decodings_for_any_seed(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < DRAFTERS; which++) {
        for (uint64_t seed = 0; seed < test_runs(6); seed += test_share(SHARE)) {
            check_drafter(which, seed, 1);
        }
    }
}

static void assert_same_figures(uint32_t which, const or_generate_request_t *request,
                                const sim_result_t *same, const sim_result_t *result)
{
    const or_generate_stats_t *a = &same->stats;
    const or_generate_stats_t *b = &result->stats;
    if (a->target_calls != b->target_calls || a->drafted != b->drafted ||
        a->accepted != b->accepted) {
        fail_msg("%s, %s, seed %llu: %llu calls, %llu drafted, %llu accepted; with the same "
                 "vocabulary %llu, %llu, %llu",
                 drafters[which].name, or_vocab_method_name(request->vocab_method),
                 (unsigned long long)request->seed, (unsigned long long)b->target_calls,
                 (unsigned long long)b->drafted, (unsigned long long)b->accepted,
                 (unsigned long long)a->target_calls, (unsigned long long)a->drafted,
                 (unsigned long long)a->accepted);
    }
}

// Other ids, or more of them, do not cost a single guess.
static void other_ids_draft_exactly_as_well(void **state)
{
    static const uint32_t renamed[] = {PERMUTED, PADDED, BOTH};
    (void)state;
    for (uint64_t seed = 0; seed < test_runs(6); seed++) {
        const sim_config_t with_small = {.seed = 1, .target = &target, .draft = &small};
        or_generate_request_t request = request_of(seed, seed % 2 == 0 ? 1 : 0);
        sim_result_t same = generate(&with_small, &request);
        for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
            const sim_config_t config = {
                .seed = 1, .target = &target, .draft = model_of(renamed[i])};
            request.vocab_method = OR_VOCAB_AUTO;
            sim_result_t chosen = generate(&config, &request);
            assert_same_figures(renamed[i], &request, &same, &chosen);
            request.vocab_method = OR_VOCAB_TLI;
            sim_result_t restricted = generate(&config, &request);
            assert_same_figures(renamed[i], &request, &same, &restricted);
        }
    }
}

// ---- ratio rules ----

typedef struct {
    uint32_t which;
    or_vocab_method_t vocab_method;
    or_draft_method_t method;
    or_accept_rule_t rule;
    uint32_t levels;
    uint32_t shape[2];
} distribution_case_t;

static void check_dist(const text_distribution_t *dist, const distribution_case_t *of,
                       uint32_t seeds)
{
    const sim_config_t config = {.seed = 1, .target = &small, .draft = model_of(of->which)};
    char what[128];
    or_generate_request_t drafting = sim_request(DIST_PROMPT, TOKENS);
    drafting.has_draft_temperature = true;
    drafting.draft_temperature = FLAT;
    drafting.vocab_method = of->vocab_method;
    drafting.draft_method = of->method;
    drafting.accept_rule = of->rule;
    drafting.draft_shape = of->shape;
    drafting.draft_shape_count = of->levels;
    drafting.draft_nodes = drafting.draft_depth = 2;
    snprintf(what, sizeof what, "%s, %s, %s, %s", drafters[of->which].name,
             or_vocab_method_name(of->vocab_method), or_draft_method_name(of->method),
             or_accept_rule_name(of->rule));
    text_dist_check(dist, &config, &drafting, DIST_PROMPT, seeds, what);
}

static void ratio_rules_write_the_targets_distribution(void **state)
{
    (void)state;
    static const distribution_case_t cases[] = {
        {BPE, OR_VOCAB_TLI, OR_DRAFT_CHAIN, OR_ACCEPT_SPS, 0, {0}},
        {BPE, OR_VOCAB_TLI, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 1, {2}},
        {BPE, OR_VOCAB_TLI, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 1, {2}},
        {BPE, OR_VOCAB_TLI, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 1, {2}},
        {BPE, OR_VOCAB_UNION, OR_DRAFT_CHAIN, OR_ACCEPT_SPS, 0, {0}},
        {BPE, OR_VOCAB_UNION, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 1, {2}},
        {BPE, OR_VOCAB_UNION, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 1, {2}},
        {BPE, OR_VOCAB_SLEM, OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE, 2, {2, 1}},
        {BPE, OR_VOCAB_SLRS, OR_DRAFT_CHAIN, OR_ACCEPT_SLRS, 0, {0}},
        {PERMUTED, OR_VOCAB_TLI, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 1, {2}},
    };
    const text_distribution_t dist = text_dist_of(&small, DIST_PROMPT);
    uint32_t seeds = test_runs(1000 / test_share(SHARE));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_dist(&dist, &cases[i], seeds);
    }
}

// ---- a bad network ----

static const or_network_faults_t rough = {
    .lose = 0.1, .repeat = 0.1, .delay_min_ns = OR_NS_PER_MS, .delay_max_ns = 200 * OR_NS_PER_MS};

// The drafter is killed and comes back, at moments drawn from the seed.
typedef struct {
    uint64_t random;
    uint32_t left;
    int64_t next_ns;
    bool down;
} mischief_t;

static void make_mischief(sim_t *sim, void *context, const sim_result_t *so_far)
{
    mischief_t *m = context;
    (void)so_far;
    if (sim_now_ns(sim) < m->next_ns || (!m->down && m->left == 0)) {
        return;
    }
    if (m->down) {
        sim_start(sim, SIM_DRAFTER);
    } else {
        sim_crash(sim, SIM_DRAFTER);
        m->left--;
    }
    m->down = !m->down;
    m->next_ns = sim_now_ns(sim) + (int64_t)test_below(&m->random, 2000) * OR_NS_PER_MS;
}

static void a_rough_network_and_crashes_change_nothing(void **state)
{
    (void)state;
    uint64_t base = test_seed();
    for (uint64_t seed = base; seed < base + test_runs(20); seed++) {
        uint32_t which = (uint32_t)(seed / 4 % DRAFTERS);
        const sim_config_t config = {
            .seed = seed, .faults = rough, .target = &target, .draft = model_of(which)};
        mischief_t mischief = {.random = seed, .left = 4, .next_ns = 2 * OR_NS_PER_S};
        or_generate_request_t request = request_of(seed, seed % 3 == 0 ? 0 : 1);
        plain_text_t plain = plain_text_of(&target, &request);
        sim_result_t result;
        request.vocab_method = vocab_methods[seed % VOCAB_METHODS];
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, make_mischief, &mischief, &result);
        sim_destroy(sim);
        assert_plain(drafters[which].name, &request, &plain, &result);
    }
}

// A drafter that dies while the target waits for its answer takes the draw with it. Going on without
// it would be a bias. So the text ends there, with an error, and is correct up to that point.
static void assert_begins_plain(const plain_text_t *plain, const sim_result_t *result)
{
    assert_true(result->finish != OR_FINISH_NONE);
    assert_true(result->count == plain->count || result->finish == OR_FINISH_ERROR);
    assert_memory_equal(result->tokens, plain->tokens, result->count * sizeof *result->tokens);
    assert_true(is_their_text(result));
}

// slrs asks the drafter questions in the middle of a round. Without crashes nothing is lost by
// it.
static void questions_survive_a_rough_network(void **state)
{
    (void)state;
    uint64_t base = test_seed();
    for (uint64_t seed = base; seed < base + test_runs(8); seed++) {
        const sim_config_t config = {
            .seed = seed, .faults = rough, .target = &target, .draft = model_of(BPE)};
        mischief_t mischief = {.random = seed, .left = seed % 2 * 4, .next_ns = 2 * OR_NS_PER_S};
        or_generate_request_t request = request_of(seed, 0);
        plain_text_t plain = plain_text_of(&target, &request);
        sim_result_t result;
        request.vocab_method = OR_VOCAB_SLRS;
        request.accept_rule = OR_ACCEPT_SLRS;
        request.draft_method = OR_DRAFT_CHAIN;
        request.draft_depth = request.draft_nodes = 4;
        sim_t *sim = sim_create(&config);
        sim_generate(sim, &request, LIMIT_S, make_mischief, &mischief, &result);
        sim_destroy(sim);
        if (seed % 2 == 0) {
            assert_plain(drafters[BPE].name, &request, &plain, &result);
        } else {
            assert_begins_plain(&plain, &result);
        }
    }
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_is_plain_decoding),
        cmocka_unit_test(coupled_text_is_plain_decodings_for_any_seed),
        cmocka_unit_test(other_ids_draft_exactly_as_well),
        cmocka_unit_test(ratio_rules_write_the_targets_distribution),
        cmocka_unit_test(a_rough_network_and_crashes_change_nothing),
        cmocka_unit_test(questions_survive_a_rough_network),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
