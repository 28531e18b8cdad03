#include "tests/exactness/synthetic.h"

#include <math.h>
#include <stdlib.h>

#include "drafter/build/builder_internal.h"
#include "tests/exactness/tiny_vocab.h"
#include "tests/support/test_support.h"
#include "verifier/accept/accept.h"

#define VOCAB 1000u
#define CONTEXTS 200u
#define NODES_MAX 64u
#define DEPTH_MAX 24u
#define ENTRIES OR_DISTRIBUTION_ENTRIES_MAX

typedef struct {
    double log_q[VOCAB], q[VOCAB], log_p[VOCAB];
    double error[VOCAB]; // of the drafter, before its strength
    uint32_t dist_tokens[ENTRIES], dist_weights[ENTRIES], dist_count;
} context_t;

struct synthetic {
    uint64_t random;
    context_t contexts[CONTEXTS];
    int32_t ids[VOCAB];
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_builder_t *builder;
    or_token_tree_t *tree;
    or_residual_t *residual;
    or_traversal_t *traversal;
    or_belief_t belief;
    or_calibration_t calibration;
    double perturbed[VOCAB];
    uint32_t round; // decides which context follows which
};

static synthetic_t *drafting; // by the builder's source, which has no context of its own

static double uniform(synthetic_t *s)
{
    return or_rng_uniform(test_random(&s->random));
}

static double normal(synthetic_t *s)
{
    double radius = sqrt(-2 * log(uniform(s)));
    return radius * cos(2 * acos(-1) * uniform(s));
}

// Normalise log probabilities.
static void normalise(double *logs)
{
    double total = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        total += exp(logs[i]);
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        logs[i] -= log(total);
    }
}

static void make_target(synthetic_t *s, context_t *context)
{
    double exponent = 1 + 2.5 * uniform(s);
    double strength = exp(0.5 * normal(s));
    for (uint32_t i = 0; i < VOCAB; i++) {
        uint32_t other = (uint32_t)(uniform(s) * (i + 1));
        context->log_q[i] = context->log_q[other]; // a shuffle, inside out
        context->log_q[other] = -exponent * log(i + 1.0);
        context->error[i] = strength * normal(s);
    }
    normalise(context->log_q);
    for (uint32_t i = 0; i < VOCAB; i++) {
        context->q[i] = exp(context->log_q[i]);
    }
}

// Make drafters whose errors have the given strength; returns the mean acceptance of one guess.
static double make_drafters(synthetic_t *s, double strength)
{
    double accepted = 0;
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        context_t *context = &s->contexts[c];
        for (uint32_t i = 0; i < VOCAB; i++) {
            context->log_p[i] = context->log_q[i] + strength * context->error[i];
        }
        normalise(context->log_p);
        for (uint32_t i = 0; i < VOCAB; i++) {
            accepted += fmin(context->q[i], exp(context->log_p[i]));
        }
    }
    return accepted / CONTEXTS;
}

static void make_pairs(synthetic_t *s, double acceptance)
{
    double low = 0;
    double high = 8;
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        make_target(s, &s->contexts[c]);
    }
    for (int i = 0; i < 16; i++) {
        double middle = (low + high) / 2;
        if (make_drafters(s, middle) > acceptance) {
            low = middle;
        } else {
            high = middle;
        }
    }
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        context_t *context = &s->contexts[c];
        const or_distribution_t p = {.ids = s->ids, .scores = context->log_p, .count = VOCAB};
        context->dist_count =
            or_distribution_reduce(&p, ENTRIES, context->dist_tokens, context->dist_weights);
    }
}

static context_t *context_after(synthetic_t *s, const int32_t *text, uint32_t length)
{
    uint64_t place = s->round;
    for (uint32_t i = 0; i < length; i++) {
        place = or_rng_draw((or_rng_key_t){place}, OR_RNG_TEST, (uint32_t)text[i], i, 0);
    }
    return &s->contexts[or_rng_draw((or_rng_key_t){place}, OR_RNG_TEST, 0, 0, 1) % CONTEXTS];
}

// Set the list to the best 32 of the scores, with the drafter's estimate that they are the
// target's tokens.
static void set_list(or_build_list_t *list, const int32_t *ids, const double *scores, double tau)
{
    double total = 0;
    list->count = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        total += isfinite(scores[i]) ? exp(scores[i] / tau) : 0;
        if (list->count == OR_BUILD_CHILDREN && scores[i] <= list->scores[list->count - 1]) {
            continue;
        }
        uint32_t at = list->count < OR_BUILD_CHILDREN ? list->count++ : list->count - 1;
        for (; at > 0 && list->scores[at - 1] < scores[i]; at--) {
            list->scores[at] = list->scores[at - 1];
            list->ids[at] = list->ids[at - 1];
        }
        list->scores[at] = scores[i];
        list->ids[at] = ids[i];
    }
    for (uint32_t i = 0; i < list->count; i++) {
        list->weights[i] = list->scores[i] / tau - log(total);
    }
}

static void read_guess(or_builder_t *builder, uint32_t guess)
{
    synthetic_t *s = drafting;
    int32_t text[DEPTH_MAX + 1];
    or_build_guess_t *at = &builder->guesses[guess];
    for (uint32_t above = guess; above != OR_BUILD_ROOT; above = builder->guesses[above].parent) {
        text[builder->guesses[above].depth - 1] = builder->guesses[above].token;
    }
    const context_t *context = context_after(s, text, at->depth);
    at->expanded = true;
    if (builder->job->drawn) {
        or_build_distribution_t *dist = &builder->dists[guess];
        dist->count = context->dist_count;
        dist->left_total = OR_DISTRIBUTION_TOTAL;
        for (uint32_t i = 0; i < dist->count; i++) {
            dist->tokens[i] = context->dist_tokens[i];
            dist->left[i] = dist->weights[i] = context->dist_weights[i];
        }
        return;
    }
    const double *scores = context->log_p;
    if (builder->job->noisy) {
        or_noise_perturb(builder->job->noise_key, at->place, s->ids, context->log_p, VOCAB,
                         or_vocab_noise_keys(s->vocab), 8 * builder->tau, s->perturbed);
        scores = s->perturbed;
    }
    set_list(&builder->lists[guess], s->ids, scores, builder->tau);
}

static or_status_t start(or_builder_t *builder)
{
    read_guess(builder, OR_BUILD_ROOT);
    return OR_OK;
}

static or_status_t expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        read_guess(builder, guesses[i]);
    }
    return OR_OK;
}

synthetic_t *synthetic_create(uint64_t seed, double acceptance)
{
    synthetic_t *s = calloc(1, sizeof *s);
    const or_build_source_t source = {
        .vocab_size = VOCAB, .positions = 64, .start = start, .expand = expand};
    assert_non_null(s);
    s->random = seed;
    for (uint32_t i = 0; i < VOCAB; i++) {
        s->ids[i] = (int32_t)i;
    }
    tiny_vocab_open_sized(VOCAB, &s->gguf, &s->vocab);
    assert_int_equal(or_builder_create_over(&source, s->vocab, NODES_MAX, ENTRIES, &s->builder),
                     OR_OK);
    assert_int_equal(or_token_tree_create(NODES_MAX, &s->tree), OR_OK);
    assert_int_equal(or_residual_create(VOCAB, &s->residual), OR_OK);
    assert_int_equal(or_traversal_create(NODES_MAX, &s->traversal), OR_OK);
    make_pairs(s, acceptance);
    return s;
}

void synthetic_destroy(synthetic_t **synthetic_p)
{
    synthetic_t *s = *synthetic_p;
    or_traversal_destroy(&s->traversal);
    or_residual_destroy(&s->residual);
    or_token_tree_destroy(&s->tree);
    or_builder_destroy(&s->builder);
    or_vocab_destroy(&s->vocab);
    or_gguf_close(&s->gguf);
    free(s);
    *synthetic_p = NULL;
}

static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    synthetic_t *s = context;
    const context_t *at = context_after(s, history + 1, history_count - 1);
    (void)node;
    *dist =
        (or_distribution_t){.ids = s->ids, .scores = at->log_q, .weights = at->q, .count = VOCAB};
    return OR_OK;
}

static void draft(synthetic_t *s, const synthetic_plan_t *plan, or_chooser_t *chooser,
                  or_rng_key_t noise_key)
{
    const int32_t root = 0;
    or_build_job_t job = {.history = &root,
                          .history_count = 1,
                          .noise_key = noise_key,
                          .draft_temperature = 1,
                          .sampling = or_sampling_default(),
                          .chooser = chooser,
                          .shape = plan->shape,
                          .nodes_max = plan->nodes,
                          .depth_max = plan->nodes < DEPTH_MAX ? plan->nodes : DEPTH_MAX,
                          .calibrated = plan->calibrated,
                          .calibration = &s->calibration,
                          .belief = &s->belief};
    drafting = s;
    job.sampling.temperature = 1;
    or_build_job_suit(&job, plan->method, plan->rule);
    assert_int_equal(or_builder_build(s->builder, plan->method, &job, s->tree), OR_OK);
}

// Return the number of accepted tokens and the one after them.
static uint32_t run_round(synthetic_t *s, const synthetic_plan_t *plan)
{
    const or_rng_key_t noise_key = or_noise_key(s->round, 0);
    or_keyed_chooser_t drafter = or_keyed_chooser(or_rng_key(1, 1), s->round, noise_key, NULL);
    or_keyed_chooser_t verifier =
        or_keyed_chooser(or_rng_key(2, 2), s->round,
                         plan->rule == OR_ACCEPT_COUPLED ? noise_key : or_noise_key(s->round, 1),
                         or_vocab_noise_keys(s->vocab));
    int32_t history[DEPTH_MAX + 2] = {0};
    or_acceptance_t acceptance;
    draft(s, plan, &drafter.chooser, noise_key);
    const or_accept_job_t job = {.tree = s->tree,
                                 .draws = or_builder_draws(s->builder),
                                 .dist = target_dist,
                                 .dist_context = s,
                                 .chooser = &verifier.chooser,
                                 .residual = s->residual,
                                 .traversal = s->traversal,
                                 .history = history,
                                 .history_count = 1,
                                 .widths = or_vocab_widths(s->vocab)};
    assert_int_equal(or_accept(plan->rule, &job, &acceptance), OR_OK);
    or_builder_learn(s->builder, &s->belief, &s->calibration, acceptance.accepted,
                     acceptance.accepted_count, acceptance.next);
    return acceptance.accepted_count + 1;
}

double synthetic_tokens(synthetic_t *s, const synthetic_plan_t *plan, uint32_t rounds)
{
    uint32_t learning = rounds / 3;
    double tokens = 0;
    or_belief_init(&s->belief);
    s->calibration = (or_calibration_t){0};
    for (s->round = 0; s->round < learning + rounds; s->round++) {
        uint32_t written = run_round(s, plan);
        tokens += s->round >= learning ? written : 0;
    }
    return tokens / rounds;
}
