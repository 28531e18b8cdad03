// Goal: bias, penalties, temperature and filters make of logits what transformers makes of them, and
// presence and frequency penalties what llama.cpp does; typical acceptance lets pass what
// transformers' eta sampling keeps.
// Method: logits, history, settings and the surviving tokens with their probabilities, by
// make_samplers.py in data/samplers.json. Which tokens survive must be equal. A probability may
// differ by its 1e-11th from transformers' (float64, 12 digits stored), by its 1e-5th from llama.cpp's
// (float32).
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/sampling/sampler.h"
#include "tests/support/test_support.h"
#include "verifier/accept/accept.h"

#define VOCAB_MAX 1024u
#define HISTORY_MAX 64u
#define BIASES_MAX 4u
#define TRANSFORMERS 1e-11
#define LLAMA 1e-5

static json_t *load_vectors(void)
{
    json_error_t error;
    json_t *root = json_load_file("tests/oracles/data/samplers.json", 0, &error);
    if (root == NULL) {
        fail_msg("samplers.json: %s", error.text);
    }
    return root;
}

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static uint32_t read_logits(const json_t *row, float *logits)
{
    uint32_t count = (uint32_t)json_array_size(row);
    assert_in_range(count, 1, VOCAB_MAX);
    for (uint32_t i = 0; i < count; i++) {
        logits[i] = (float)json_number_value(json_array_get(row, i));
    }
    return count;
}

static uint32_t read_history(const json_t *row, int32_t *history)
{
    uint32_t count = (uint32_t)json_array_size(row);
    assert_in_range(count, 1, HISTORY_MAX);
    for (uint32_t i = 0; i < count; i++) {
        history[i] = (int32_t)json_integer_value(json_array_get(row, i));
    }
    return count;
}

// A bias without a number bans.
static or_sampling_t read_setting(const json_t *setting, or_logit_bias_t *biases)
{
    const json_t *list = json_object_get(setting, "bias");
    uint32_t count = (uint32_t)json_array_size(list);
    assert_true(count <= BIASES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *bias = json_array_get(list, i);
        const json_t *by = json_array_get(bias, 1);
        biases[i] = (or_logit_bias_t){(int32_t)json_integer_value(json_array_get(bias, 0)),
                                      json_is_null(by) ? -INFINITY : (float)json_number_value(by)};
    }
    return (or_sampling_t){.temperature = (float)number(setting, "temperature"),
                           .top_k = (uint32_t)number(setting, "top_k"),
                           .top_p = (float)number(setting, "top_p"),
                           .min_p = (float)number(setting, "min_p"),
                           .repeat_penalty = (float)number(setting, "repeat_penalty"),
                           .presence_penalty = (float)number(setting, "presence_penalty"),
                           .frequency_penalty = (float)number(setting, "frequency_penalty"),
                           .repeat_last_n = (int32_t)number(setting, "repeat_last_n"),
                           .bias = biases,
                           .bias_count = count};
}

// out[id]: its probability, 0 for tokens that did not survive.
static uint32_t probabilities(or_sampler_t *sampler, or_distribution_t *dist, double *out)
{
    memset(out, 0, VOCAB_MAX * sizeof *out);
    or_sampler_weigh(sampler, dist);
    double total = 0;
    for (uint32_t i = 0; i < dist->count; i++) {
        total += dist->weights[i];
    }
    for (uint32_t i = 0; i < dist->count; i++) {
        out[dist->ids[i]] = dist->weights[i] / total;
    }
    return dist->count;
}

static void check_case(const json_t *entry, const json_t *logits_row, const json_t *history_row,
                       double tolerance)
{
    float logits[VOCAB_MAX];
    int32_t history[HISTORY_MAX];
    or_logit_bias_t biases[BIASES_MAX];
    double ours[VOCAB_MAX];
    uint32_t vocab_size = read_logits(logits_row, logits);
    uint32_t history_count = read_history(history_row, history);
    const json_t *setting = json_object_get(entry, "setting");
    const json_t *kept = json_object_get(entry, "kept");
    or_sampling_t sampling = read_setting(setting, biases);
    assert_int_equal(or_sampling_check(&sampling, vocab_size), OR_OK);
    or_sampler_t *sampler = NULL;
    assert_int_equal(or_sampler_create(vocab_size, &sampler), OR_OK);
    or_distribution_t dist =
        or_sampler_distribution(sampler, &sampling, logits, history, history_count);
    uint32_t count = probabilities(sampler, &dist, ours);
    char *text = json_dumps(setting, JSON_COMPACT);
    if (count != json_array_size(kept)) {
        fail_msg("%s: %u tokens survive, not %zu", text, count, json_array_size(kept));
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(kept, i);
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        double expected = json_number_value(json_array_get(pair, 1));
        assert_in_range(id, 0, vocab_size - 1);
        if (!(ours[id] > 0 && fabs(ours[id] - expected) <= tolerance * expected)) {
            fail_msg("%s: token %d has %.15g, not %.15g", text, (int)id, ours[id], expected);
        }
    }
    free(text);
    or_sampler_destroy(&sampler);
}

static void filters_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *root = load_vectors();
    const json_t *cases = json_object_get(root, "transformers");
    assert_true(json_array_size(cases) >= 90);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        const json_t *logits =
            json_array_get(json_object_get(root, "logits"), (size_t)number(entry, "logits"));
        check_case(entry, logits, json_object_get(root, "history"), TRANSFORMERS);
    }
    json_decref(root);
}

static void presence_and_frequency_are_those_of_llama_cpp(void **state)
{
    (void)state;
    json_t *root = load_vectors();
    const json_t *cases = json_object_get(root, "llama");
    assert_int_equal(json_array_size(cases), 6);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        check_case(entry, json_object_get(entry, "logits"), json_object_get(entry, "history"),
                   LLAMA);
    }
    json_decref(root);
}

// ---- typical acceptance ----

static or_status_t given_dist(void *context, uint32_t node, const int32_t *history,
                              uint32_t history_count, or_distribution_t *dist)
{
    (void)node;
    (void)history;
    (void)history_count;
    *dist = *(const or_distribution_t *)context;
    return OR_OK;
}

static int32_t first_token(or_chooser_t *chooser, const or_distribution_t *dist,
                           or_noise_place_t place)
{
    (void)chooser;
    (void)place;
    return dist->ids[0];
}

// Is a guess of `token` accepted?
static bool passes(or_accept_job_t *job, or_token_tree_t *tree, int32_t token)
{
    static or_acceptance_t acceptance;
    or_token_tree_reset(tree, 0);
    assert_int_equal(or_token_tree_add(tree, 0, token, NULL), OR_OK);
    job->tree = tree;
    assert_int_equal(or_accept(OR_ACCEPT_TYPICAL, job, &acceptance), OR_OK);
    return acceptance.accepted_count == 1;
}

static void check_eta(const json_t *entry, const json_t *logits_row)
{
    float logits[VOCAB_MAX];
    uint32_t widths[VOCAB_MAX];
    int32_t history[4] = {0};
    uint32_t vocab_size = read_logits(logits_row, logits);
    memset(widths, 0, sizeof widths);
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 1;
    or_sampler_t *sampler = NULL;
    or_token_tree_t *tree = NULL;
    assert_int_equal(or_sampler_create(vocab_size, &sampler), OR_OK);
    assert_int_equal(or_token_tree_create(2, &tree), OR_OK);
    or_distribution_t dist = or_sampler_distribution(sampler, &sampling, logits, NULL, 0);
    or_sampler_weigh(sampler, &dist);
    or_chooser_t chooser = {.token = first_token};
    double epsilon = number(entry, "epsilon");
    or_accept_job_t job = {.dist = given_dist,
                           .dist_context = &dist,
                           .chooser = &chooser,
                           .typical_epsilon = epsilon,
                           .typical_delta = sqrt(epsilon),
                           .history = history,
                           .history_count = 1,
                           .widths = widths};
    const json_t *kept = json_object_get(entry, "kept");
    size_t next = 0;
    for (uint32_t id = 0; id < vocab_size; id++) {
        bool expected = json_integer_value(json_array_get(kept, next)) == id;
        expected = expected && next < json_array_size(kept);
        next += expected;
        if (passes(&job, tree, (int32_t)id) != expected) {
            fail_msg("epsilon %g: token %u is %s by transformers", epsilon, id,
                     expected ? "kept" : "removed");
        }
    }
    assert_int_equal(next, json_array_size(kept));
    or_token_tree_destroy(&tree);
    or_sampler_destroy(&sampler);
}

static void typical_acceptance_keeps_what_eta_sampling_does(void **state)
{
    (void)state;
    json_t *root = load_vectors();
    const json_t *cases = json_object_get(root, "eta");
    assert_int_equal(json_array_size(cases), 30);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        check_eta(entry,
                  json_array_get(json_object_get(root, "logits"), (size_t)number(entry, "logits")));
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_are_those_of_transformers),
        cmocka_unit_test(presence_and_frequency_are_those_of_llama_cpp),
        cmocka_unit_test(typical_acceptance_keeps_what_eta_sampling_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
